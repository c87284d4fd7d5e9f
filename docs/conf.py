"""Sphinx configuration: Markdown pages by MyST, the API reference from `dotsketch.__all__`.

Build it by `make docs`. Nothing is fetched, neither at build time nor when a page is viewed:
formulas are plain Unicode text, as in the docstrings.
"""

from __future__ import annotations

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "dotsketch"
author = "The dotsketch developers"
copyright = author
version = release = installed_version("dotsketch")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "public_names",
]
exclude_patterns = ["_build"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

default_role = "py:obj"  # `name` in a docstring is a link wherever the name is known
autosummary_generate = False
autodoc_typehints = "none"  # docstrings tell types and shapes
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_attr_annotations = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a list, not one entry each
pygments_style = "friendly"
pygments_dark_style = "monokai"

html_theme = "furo"
html_title = "dotsketch"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide_tables.css"]
