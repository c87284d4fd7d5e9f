"""A file with the steps of a search, so that one that was interrupted goes on after the last."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..._support.files import atomic_write

STOPPED = "stopped"  # in the place of a step: the time budget was used up here


class Journal:
    """Lines of JSON: what the search depends on, then one line for every step.

    A search is a function of this and of the time that it has. A later one with the same file takes
    the results of all steps from there, and those that are stopped by time stop at the same place.
    """

    def __init__(self, path: Any, digest: bytes):
        self.path, self.digest = Path(path), digest.hex()
        self.lines: list[Any] = []

    def read(self) -> list[Any]:
        """The steps in the file; none if there is no file, or one of another search."""
        try:
            digest, *lines = map(json.loads, self.path.read_text().splitlines())
        except (FileNotFoundError, ValueError):
            return []
        self.lines = lines if digest == self.digest else []
        return list(self.lines)

    def write(self, line: Any) -> None:
        """Add a step."""
        self.lines.append(line)
        text = "\n".join(map(json.dumps, [self.digest, *self.lines]))
        with atomic_write(self.path) as file:
            file.write(text.encode())
