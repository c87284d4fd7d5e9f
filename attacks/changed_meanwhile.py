"""A file that is replaced between its check and its use.

It is read once: what was checked is what is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dotsketch import Gaussian, load, save
from dotsketch.persistence import container

from .harness import show


def files(path: Path) -> Iterator[str]:
    save(Gaussian(lengthscale=2.0), path)
    yield "replaced after its checksum was compared"


def attempt(path: Path) -> str:
    check = container._check_seal

    def replace(data: bytes) -> None:
        check(data)
        save(Gaussian(lengthscale=3.0), path)

    container._check_seal = replace
    try:
        return f"loaded; the lengthscale is {load(path).lengthscale}, which was checked"
    finally:
        container._check_seal = check


if __name__ == "__main__":
    show("changed_meanwhile")
