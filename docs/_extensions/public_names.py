"""The API reference, made from `dotsketch.__all__` and `ROOMS`, so that no name can be missing.

`.. public-names:: kernels pairs` documents the public names that live in these modules of the
package, with a table of them first; `.. public-names::` without an argument, those of all modules
that no other page asks for. Docstrings are plain text with formulas: what reStructuredText would
take for markup in them is escaped.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import dotsketch

API = Path(__file__).parent.parent / "api"
# What users reach for beyond the front door, by the room that has it
ROOMS = {
    "datasets": "Dataset DatasetError fetch_dataset list_datasets load_dataset train_test_split",
    "features": "Allocation FourierMap PositiveMap RadialDensity SphericalMap",
    "gp": "Posterior log_marginal_likelihood",
    "kernels": "DistanceKernel DotProductKernel DotProductProduct DotProductSum Kernel Product Sum",
    "metrics": "error_rate expected_calibration_error normalized_mean_squared_error",
    "pairs": "PairStatistics",
    "planning": "Plan complex_advantage",
    "projections": "Frequencies",
    "rows": "parquet_batches",
    "sketches": "SKETCHES BalancedTensorSketch CompactSketch GaussianSketch MonomialSketch "
    "RademacherSketch RademacherTree SRHTTree Sketch TensorSRHT TensorSketch make_sketch",
}
PUBLIC: dict[str, Any] = {name: getattr(dotsketch, name) for name in dotsketch.__all__}
for room, names in ROOMS.items():
    module = import_module(f"dotsketch.{room}")
    PUBLIC.update({f"{room}.{name}": getattr(module, name) for name in names.split()})
DIRECTIVE = re.compile(r"^\.\. public-names:: *(.*)$", re.MULTILINE)


def homes_with_a_page() -> set[str]:
    """The modules that pages of the reference ask for."""
    texts = (path.read_text(encoding="utf-8") for path in API.glob("*.rst"))
    return {home for text in texts for line in DIRECTIVE.findall(text) for home in line.split()}


def home(name: str) -> str:
    """The room of a public name: the first module below `dotsketch` that defines it."""
    if "." in name:
        return name.split(".")[0]
    return [*PUBLIC[name].__module__.split("."), ""][1]


def names_of(homes: tuple[str, ...]) -> list[str]:
    """The public names that live in these modules; without any, those no page asks for."""
    known = homes_with_a_page()
    return [name for name in PUBLIC if (home(name) in homes if homes else home(name) not in known)]


def public_bases(cls: type) -> list[type]:
    """Bases that have an entry of their own."""
    public = {value for name, value in PUBLIC.items() if not is_value(name)}
    return [base for base in cls.__mro__[1:] if base in public]


def own_members(cls: type) -> list[str]:
    """Methods and properties explained here: those for which this package has a docstring, and
    that are not explained with a public base already."""
    ours = [base for base in cls.__mro__ if base.__module__.startswith("dotsketch")]
    elsewhere = {ancestor for base in public_bases(cls) for ancestor in base.__mro__}
    explained = {name for base in ours if base in elsewhere for name in vars(base)}
    here = [base for base in ours if base not in elsewhere]
    names = dict.fromkeys(name for base in here for name in vars(base) if name[0] != "_")

    def has_docstring(name: str) -> bool:
        return any(docstring(base, name) for base in ([cls] if name in explained else ours))

    return [name for name in names if has_docstring(name)]


def docstring(cls: type, name: str) -> str | None:
    """What the class itself says about a method or property."""
    value = vars(cls).get(name)
    if isinstance(value, property):
        value = value.fget
    elif isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    return value.__doc__ if isinstance(value, FunctionType) else None


def documentation(name: str) -> list[str]:
    value = PUBLIC[name]
    if inspect.isclass(value):
        members, bases = own_members(value), public_bases(value)
        lines = [f".. autoclass:: dotsketch.{name}"]
        lines += [f"   :members: {', '.join(members)}"] if members else []
        if bases:
            lines += ["", f"   Has what `{bases[0].__name__}` has{', and:' if members else '.'}"]
        return lines
    if inspect.isroutine(value):
        return [f".. autofunction:: dotsketch.{name}"]
    keys = ", ".join(f"``{key}``" for key in value)
    return [f".. data:: dotsketch.{name}", "", f"   A {type(value).__name__} of {keys}."]


def is_value(name: str) -> bool:
    """Whether a public name is plain data, which has no docstring of its own."""
    value = PUBLIC[name]
    return not (inspect.isclass(value) or inspect.isroutine(value))


class PublicNames(SphinxDirective):
    optional_arguments = 100
    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        names = names_of(tuple(self.arguments))
        lines = [".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   dotsketch.{name}" for name in names if not is_value(name)] + [""]
        for name in names:
            lines += [*documentation(name), ""]
        container = nodes.container()
        self.state.nested_parse(StringList(lines, self.get_source_info()[0]), 0, container)
        return container.children


SECTION = re.compile(r"^-{3,}$")
ENTRY = re.compile(r"^([\w*, ]+?) : (.+)$")
CODE = re.compile(r"(``.+?``|`[^`\n]+`)")


def plain_docstring(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """Turn a docstring of this package into reStructuredText that says the same."""
    lines[:] = restructured(lines)


def plain_property(
    app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]
) -> None:
    """The same for a property, after napoleon, which takes what is before a colon for a type."""
    if what == "property" and isinstance(value, property) and value.fget.__doc__:
        lines[:] = restructured(inspect.cleandoc(value.fget.__doc__).splitlines())


def restructured(lines: list[str]) -> list[str]:
    underlines = (i - 1 for i, line in enumerate(lines) if SECTION.match(line.strip()))
    first_section = next(underlines, len(lines))
    text = literal_blocks(lines[:first_section]) + described_entries(lines[first_section:])
    return [line if is_code(line) else escaped(line) for line in text]


def is_code(line: str) -> bool:
    return line.lstrip().startswith((">>>", "..."))


def escaped(line: str) -> str:
    """Bars are norms, a star is a star, and a trailing underscore belongs to the name."""
    if line.startswith("\0"):
        return line[1:]
    pieces = CODE.split(line)
    for i in range(0, len(pieces), 2):
        text = pieces[i].replace("\\", "\\\\").replace("|", "\\|")
        text = re.sub(r"(?<!\*)\*(?!\*)", r"\\*", text)
        pieces[i] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", text)
    return "".join(pieces)


def literal_blocks(lines: list[str]) -> list[str]:
    """Indented lines after an empty one are a formula: they keep their lines and spaces."""
    result: list[str] = []
    inside = False
    for i, line in enumerate(lines):
        indented = line.startswith("    ")
        starts = indented and not inside and (i == 0 or not lines[i - 1].strip())
        if starts and not is_code(line):
            result += ["::", ""]
            inside = True
        elif line.strip() and not indented:
            inside = False
        result.append("\0" + line if inside else line)
    return result


def described_entries(lines: list[str]) -> list[str]:
    """Entries of Parameters and Attributes as napoleon wants them.

    `name : meaning` on one line, or with a meaning that runs on, is no type: the meaning becomes
    the description. Text that follows the entries becomes a section of its own.
    """
    result: list[str] = []
    section = ""
    for i, line in enumerate(lines):
        following = lines[i + 1] if i + 1 < len(lines) else ""
        if SECTION.match(following.strip()):
            section = line.strip()
        entry = ENTRY.match(line) if section in ("Parameters", "Attributes") else None
        if entry and (not following.startswith(" ") or is_prose(entry[2])):
            result += [entry[1], f"    {entry[2]}"]
            continue
        starts_text = line and not line.startswith(" ") and i > 0 and not lines[i - 1].strip()
        if section == "Parameters" and not entry and starts_text and line != section:
            result += ["Notes", "-----"]
            section = "Notes"
        result.append(line)
    return result


def is_prose(text: str) -> bool:
    """Whether what stands after a name tells more than a type and a default."""
    return len(text) > 60 and "default" not in text


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", plain_docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-docstring", plain_property, priority=600)
    return {"parallel_read_safe": True}
