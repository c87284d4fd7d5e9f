"""Attributes that would take the place of a method, a property or the class of an instance.

An attribute may not have the name of anything that the class computes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .forging import obj, write_tree
from .harness import show


def files(path: Path) -> Iterator[str]:
    for name in ("resolve", "is_differentiable", "__class__", "__dict__"):
        write_tree(path, obj("dotsketch.Gaussian", lengthscale=1.0, variance=1.0, **{name: 1}))
        yield f"Gaussian.{name}"


if __name__ == "__main__":
    show("hidden_methods")
