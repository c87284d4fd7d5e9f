"""Names of members outside of the folder, or there twice.

Nothing is unpacked to a folder, and only the names of a model are accepted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

from .forging import forge, tree_of
from .harness import show


def files(path: Path) -> Iterator[str]:
    for name in ("../../evil", "/etc/evil", "model.json"):
        with warnings.catch_warnings(action="ignore"):  # of a name that is there twice
            forge(path, [("model.json", tree_of(1)), (name, tree_of(2))])
        yield name


if __name__ == "__main__":
    show("member_names")
