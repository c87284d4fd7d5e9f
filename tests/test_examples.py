"""Every script in examples/ runs and prints something; it writes into the current folder only."""

import importlib.util
import os
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from dotsketch import Polynomial

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NEEDS = {
    "compare_sketches": "matplotlib",
    "gp_torch_lbfgs": "torch",
    "linear_attention": "torch",
    "torch_gradients": "torch",
}

# Scripts that take long have a `main` and constants to make them small.
SMALL = {
    "compare_sketches": {"COLUMNS": (16, 32), "N_ROWS": 30, "N_DRAWS": 2},
    "which_features": {
        "COLUMNS": 20,
        "DRAWS": 2,
        "N_TEST": 50,
        "KERNELS": {"(x·y + 1)²": Polynomial(2)},
        "DATA": {"uniform": np.random.default_rng(0).random((200, 5))},
    },
}

pytestmark = pytest.mark.skipif(
    os.environ.get("DOTSKETCH_FAST") == "0", reason="run once, with the compiled kernels"
)


def run_small(script, constants):
    """The script as a module, with its constants replaced, and its main function called."""
    specification = importlib.util.spec_from_file_location(script.stem, script)
    module = importlib.util.module_from_spec(specification)
    sys.modules[script.stem] = module  # dataclasses look their module up
    try:
        specification.loader.exec_module(module)
        for name, value in constants.items():
            assert hasattr(module, name), f"{script.name} has no constant {name}"
            setattr(module, name, value)
        module.main()
    finally:
        del sys.modules[script.stem]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs(script, tmp_path, monkeypatch, capsys):
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem])
    monkeypatch.chdir(tmp_path)
    if script.stem in SMALL:
        run_small(script, SMALL[script.stem])
    else:
        runpy.run_path(str(script), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) > 2


def test_all_examples_are_in_the_gallery():
    gallery = (FOLDER.parent / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert [s.name for s in SCRIPTS if f"../examples/{s.name}" not in gallery] == []
