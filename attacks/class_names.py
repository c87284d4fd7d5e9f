"""Classes and functions that a file names, to have them imported or called.

Names are looked up in a list; nothing is imported.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .forging import obj, write_tree
from .harness import show


def files(path: Path) -> Iterator[str]:
    for name in ("os.system", "builtins.eval", "subprocess.Popen", "sklearn.FunctionTransformer"):
        write_tree(path, obj(name, args="true"))
        yield name


if __name__ == "__main__":
    show("class_names")
