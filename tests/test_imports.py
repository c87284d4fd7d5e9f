"""Imports go one way, as CONTRIBUTING.md draws them, and stand at the top of a module."""

import ast
import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import dotsketch

ROOT = Path(dotsketch.__file__).parent

# Modules of one group may import those of the groups before it.
LAYERS = [
    ("_support", "_typing"),
    ("_arrays",),
    ("_backends", "_versions"),
    ("rows",),
    ("kernels", "metrics", "pairs"),
    ("projections",),
    ("sketches",),
    ("features",),
    ("planning",),
    ("gp",),
    ("datasets", "persistence", "nn", "tables"),
    ("gpytorch",),
    ("cli",),
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
OUTSIDE = ("__init__", "__main__")  # the flat API sees everything
OPTIONAL = {"torch", "jax", "cupy", "cloudpickle", "dask", "distributed", "matplotlib", "rich"}
OPTIONAL |= {"pandas", "pyarrow"}
# Within a layer the order is fixed too
WITHIN = {("_versions", "_backends")}

FILES = sorted(ROOT.rglob("*.py"))


def layer(path):
    return path.relative_to(ROOT).with_suffix("").parts[0]


def imported_modules(tree, path):
    """(first name inside dotsketch, or None for other packages; top package; node)."""
    package = ("dotsketch", *path.relative_to(ROOT).parent.parts)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*base, *([node.module] if node.module else [])])
            is_package = module == "dotsketch"
            names = [f"{module}.{a.name}" for a in node.names] if is_package else [module]
        else:
            continue
        for name in names:
            top, *rest = name.split(".")
            yield (rest[0] if top == "dotsketch" and rest else None), top, node


def violations(source, path):
    """Imports that go up, sideways, or hide in a function."""
    tree = ast.parse(source)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for node in ast.walk(function)
    }
    here = layer(path)
    found = []
    for name, top, node in imported_modules(tree, path):
        if id(node) in inside and top not in OPTIONAL:
            found.append(f"{here}, line {node.lineno}: {top} is imported inside a function")
        if top == "dotsketch" and here not in OUTSIDE and name != here:
            allowed = RANK.get(name, 99) < RANK[here] or (here, name) in WITHIN
            if not allowed:
                found.append(f"{here}, line {node.lineno}: imports {name}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path):
    assert layer(path) in RANK or layer(path) in OUTSIDE, f"give {layer(path)} a place in LAYERS"
    assert violations(path.read_text(encoding="utf-8"), path) == []


@pytest.mark.parametrize(
    ("module", "source", "count"),
    [
        ("kernels/base.py", "from ..sketches import make_sketch", 1),
        ("sketches/base.py", "from ..features import PolynomialSketch", 1),
        ("pairs.py", "from . import features", 1),
        ("pairs.py", "import dotsketch.kernels", 1),
        ("_arrays.py", "def f():\n    import scipy.fft", 1),
        ("_arrays.py", "from ._backends import hadamard", 1),
        ("features/base.py", "from ..kernels import Polynomial\nfrom .polynomial import x", 0),
        ("_arrays.py", "def f():\n    import torch", 0),
        ("kernels/base.py", "import numpy\nfrom .._arrays import host", 0),
    ],
)
def test_wrong_imports_are_found_and_right_ones_pass(module, source, count):
    assert len(violations(source, ROOT / module)) == count


def modules():
    names = [m.name for m in pkgutil.walk_packages([str(ROOT)], "dotsketch.")]
    return ["dotsketch", *(name for name in names if ".cpp._kernels" not in name)]


@pytest.mark.parametrize("name", modules())
def test_examples_in_docstrings_are_right(name):
    for room, library in (("nn", "torch"), ("gpytorch", "gpytorch")):
        if f"dotsketch.{room}" in name:
            pytest.importorskip(library)
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_public_names_exist():
    """`__all__` is sorted, complete, and every name in it can be imported."""
    assert len(set(dotsketch.__all__)) == len(dotsketch.__all__)
    for name in dotsketch.__all__:
        assert getattr(dotsketch, name) is not None


def test_show_versions_names_the_libraries(capsys):
    dotsketch.show_versions()
    text = capsys.readouterr().out
    for name in ("python", "dotsketch", "numpy", "scipy", "scikit-learn", "fast kernels"):
        assert name in text
