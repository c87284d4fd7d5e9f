"""ARFF files: a header that names and types the attributes, then lines like those of a CSV file.

SciPy's reader settles the quotes by the first line and has no texts, so the few rules of the
format are here: names and values in single or double quotes, `%` before a comment, `?` for a
missing value, types numeric (real, integer), nominal `{a, b}`, string and date.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

NUMERIC = re.compile(r"(numeric|real|integer)\b", re.I)
ATTRIBUTE = re.compile(
    r"""@attribute\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[^\s{]+)\s*(.+)""", re.I
)


class Relation(NamedTuple):
    """Names of the attributes, those that are not numeric, and the values of each as text."""

    names: tuple[str, ...]
    categorical: frozenset[str]
    columns: list[list[str]]


def read_arff(lines: Iterable[str]) -> Relation:
    """The attributes and all values; ValueError on what is no (dense) ARFF file."""
    rest = iter(lines)
    types = read_header(rest)
    columns: list[list[str]] = [[] for _ in types]
    for number, values in enumerate(read_rows(rest), start=1):
        if len(values) != len(types):
            raise ValueError(f"row {number} has {len(values)} values, and not {len(types)}")
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    categorical = frozenset(name for name, kind in types if not NUMERIC.match(kind))
    return Relation(tuple(name for name, _ in types), categorical, columns)


def read_header(lines: Iterator[str]) -> list[tuple[str, str]]:
    """Names and types up to the line @data."""
    types: list[tuple[str, str]] = []
    for line in lines:
        line = line.strip()
        if line.lower().startswith("@data"):
            if not types:
                raise ValueError("there is no @attribute before @data")
            return types
        if line.lower().startswith("@attribute"):
            found = ATTRIBUTE.match(line)
            if found is None:
                raise ValueError(f"{line!r} has no name and type")
            types.append((unquoted(found[1]), found[2].strip()))
        elif line and not line.lower().startswith(("%", "@relation")):
            raise ValueError(f"{line[:40]!r} stands before @data")
    raise ValueError("there is no line @data")


def read_rows(lines: Iterator[str]) -> Iterator[list[str]]:
    """The values of every line; a line is quoted in the way that its own quotes tell."""
    for line in lines:
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        if line.startswith("{"):
            raise ValueError("its rows are sparse, {index value, …}: write them out")
        quote = re.search(r"(?:^|,)\s*(['\"])", line)
        options = {"quotechar": quote[1]} if quote else {"quoting": csv.QUOTE_NONE}
        delimiter = "," if "," in line else "\t"
        yield next(
            csv.reader(
                [line], delimiter=delimiter, escapechar="\\", skipinitialspace=True, **options
            )
        )


def unquoted(name: str) -> str:
    if name[0] in "'\"" and name[-1] == name[0]:
        return re.sub(r"\\(.)", r"\1", name[1:-1])
    return name
