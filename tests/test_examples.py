"""Every script in examples/ runs and prints something; it writes into the current folder only."""

import ast
import os
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
NEEDS = {
    "bilinear_pooling": "torch",
    "gp_gpytorch": "gpytorch",
    "linear_attention": "torch",
    "thompson_sampling": "torch",
    "torch_gradients": "torch",
}

# What is written in place of the constants of a script, to make it small.
SMALL = {
    "bilinear_pooling": {"DRAWS, COLUMNS": "1, (16, 64)"},
    "compare_sketches": {"COLUMNS": "(16, 32)", "N_ROWS": "30", "N_DRAWS": "2"},
    "error_against_time": {"COLUMNS": "(32, 64)", "N_TRAIN, REPEATS": "200, 1"},
    "gp_gpytorch": {"STEPS, COLUMNS": "2, 20"},
    "gp_streaming": {"ROWS, DIMENSION": "80_000, 4"},
    "linear_attention": {"EPOCHS, N_TRAIN": "1, 100"},
    "molecules": {"N_MOLECULES, ROUNDS, BATCH": "2_500, 1, 5", "COLUMNS": "64"},
    "predicted_and_measured": {"COLUMNS": "(40, 80)", "N_DRAWS": "1"},
    "thompson_sampling": {"ROUNDS, BATCH": "2, 10"},
    "which_features": {
        "COLUMNS, DRAWS, N_TEST, N_SAMPLE": "20, 2, 50, 50",
        "KERNELS": "{'(x·y + 1)²': Polynomial(2)}",
        "DATA": "{'uniform': np.random.default_rng(0).random((200, 5))}",
    },
}

pytestmark = pytest.mark.skipif(
    os.environ.get("DOTSKETCH_FAST") == "0", reason="run once, with the compiled kernels"
)


def with_constants(source, constants):
    """The script with other values for some of its constants, all of which it must have."""
    tree = ast.parse(source)
    missing = set(constants)
    for node in tree.body:
        name = ast.unparse(node.targets[0]).strip("()") if isinstance(node, ast.Assign) else ""
        if name in constants:
            node.value = ast.parse(constants[name], mode="eval").body
            missing.remove(name)
    assert not missing, f"the script has no constants {missing}"
    return ast.fix_missing_locations(tree)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_example_runs(script, tmp_path, monkeypatch, capsys):
    if script.stem in NEEDS:
        pytest.importorskip(NEEDS[script.stem])
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setenv("MPLBACKEND", "Agg")
    tree = with_constants(script.read_text(encoding="utf-8"), SMALL.get(script.stem, {}))
    exec(compile(tree, str(script), "exec"), {"__name__": "__main__"})
    assert len(capsys.readouterr().out.splitlines()) > 2
    from matplotlib import pyplot

    figures = pyplot.get_fignums()
    pyplot.close("all")
    assert figures  # the gallery shows them


def test_every_example_has_a_title_for_the_gallery():
    """sphinx-gallery takes the title of a page from the first lines of the docstring."""
    for script in SCRIPTS:
        docstring = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8")))
        title, underline, empty = docstring.splitlines()[:3]
        assert (underline, empty) == ("=" * len(title), ""), script.name
