"""Results on disk: one file for each finished unit, written atomically.

A file appears under its name only when it is complete, so a run that is killed at any moment
goes on where it was. The name is a digest of experiment, configuration and seed: a changed
configuration is a new unit.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import threadpoolctl

from dotsketch._support.files import atomic_write
from dotsketch._support.versions import installed_versions

from .experiment import Row, Unit

LIBRARIES = ("dotsketch", "numpy", "scipy", "scikit-learn")


class Store:
    """The results below one folder."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)

    def path(self, unit: Unit) -> Path:
        text = json.dumps(unit.description, sort_keys=True, default=list)
        digest = hashlib.sha256(text.encode()).hexdigest()[:20]
        return self.folder / "results" / unit.experiment.name / f"{digest}.json"

    def save(self, unit: Unit, record: Row) -> None:
        write_atomically(self.path(unit), json.dumps(unit.description | record, default=plain))

    def load(self, unit: Unit) -> Row | None:
        """The record of a unit, or None if it has not been finished."""
        try:
            result: Row | None = json.loads(self.path(unit).read_text(encoding="utf-8"))
            return result
        except FileNotFoundError:
            return None

    def is_done(self, unit: Unit) -> bool:
        """Whether nothing is left to do; a unit that failed as a whole is tried again."""
        record = self.load(unit)
        return record is not None and record["error"] is None

    def rows(self, units: Iterable[Unit]) -> list[Row]:
        """Tidy rows of all finished units: configuration, seed, results, error."""
        found = []
        for unit in units:
            record = self.load(unit)
            if record is None:
                continue
            columns = record["config"] | {"seed": unit.seed}
            if record["error"] is not None:
                found.append(columns | {"error": record["error"]})
            found += [columns | row for row in record["rows"]]
        return found


def write_atomically(path: Path, text: str | bytes) -> None:
    """A complete file, in a folder that is made for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text.encode() if isinstance(text, str) else text)


def write_csv(path: Path, rows: list[Row]) -> None:
    """A tidy table: one line a row, columns in the order of their appearance."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines: list[str] = []

    class Lines:
        write = staticmethod(lines.append)

    writer = csv.DictWriter(Lines, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {
            key: ";".join(map(str, value)) if isinstance(value, (list, tuple)) else value
            for key, value in row.items()
        }
        for row in rows
    )
    write_atomically(path, "".join(lines))


def plain(value: Any) -> Any:
    """Numbers of NumPy as those of Python, for JSON."""
    return value.item() if hasattr(value, "item") else list(value)


@cache
def environment() -> Row:
    """What a result depends on besides configuration and seed."""
    blas = [
        f"{library['internal_api']} {library.get('version')}"
        for library in threadpoolctl.threadpool_info()
        if library.get("user_api") == "blas"
    ]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        **installed_versions(*LIBRARIES),
        "blas": sorted(set(blas)),
    }
