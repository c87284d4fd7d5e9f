"""Sphinx configuration: Markdown pages by MyST, a page per public name, examples with their output.

Build it by `make docs`. Nothing is fetched, neither at build time nor when a page is viewed:
MathJax comes from a package, and other projects are not asked for their inventories.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # for figures that benchmarks draw

project = "dotsketch"
author = "The dotsketch developers"
copyright = author
version = release = installed_version("dotsketch")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "matplotlib.sphinxext.plot_directive",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates", "gallery/*.ipynb", "gallery/*.py"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["_templates"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

plot_formats = ["svg"]
plot_include_source = False
plot_html_show_formats = False
plot_html_show_source_link = False

default_role = "py:obj"  # `name` in a docstring is a link wherever the name is known
autosummary_generate = True
# A module that was imported with a mock stays so, and an example that uses it would fail
autodoc_mock_imports = [name for name in ("gpytorch", "linear_operator") if not find_spec(name)]
autodoc_typehints = "none"  # docstrings state types and shapes
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template of a class lists them
numpydoc_xref_param_type = False
pygments_style = "friendly"
pygments_dark_style = "monokai"

html_theme = "furo"
html_title = "dotsketch"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide_tables.css"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # all of them are run
    # what needs a library that is not installed is left out
    "ignore_pattern": r"__init__\.py" if find_spec("gpytorch") else r"gp_gpytorch\.py",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": (),
}

CODE = re.compile(r"(``.+?``|`[^`\n]+`)")


def escape_formulas(
    app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings hold formulas as text: bars are norms, and a trailing underscore is a name's."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...", "..", ":")):
            continue
        pieces = CODE.split(line)
        for k in range(0, len(pieces), 2):
            text = re.sub(r"(?<!\\)\|", r"\\|", pieces[k])
            pieces[k] = re.sub(r"(?<=\w)(?<!\\)_(?![\w`])", r"\\_", text)
        lines[i] = "".join(pieces)


def skip_inherited(
    app: Any, what: str, name: str, value: Any, skip: bool, options: Any
) -> bool | None:
    """What scikit-learn's base classes bring is documented there."""
    member = getattr(value, "fget", None) or value
    module = getattr(member, "__module__", None) or "dotsketch"
    return True if not module.startswith("dotsketch") else None


def setup(app: Any) -> None:
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("autodoc-process-docstring", escape_formulas, priority=700)  # after numpydoc
