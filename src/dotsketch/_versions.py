"""What a bug report should say of the installation."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from . import _fast

_LIBRARIES = (
    "dotsketch",
    "numpy",
    "scipy",
    "scikit-learn",
    "array-api-compat",
    "torch",
    "jax",
)


def show_versions() -> None:
    """Print the versions of Python, of the libraries in use, and whether fast kernels are there."""
    print(f"{'python':18s}{platform.python_version()} ({platform.platform()})")
    for name in _LIBRARIES:
        try:
            found = version(name)
        except PackageNotFoundError:
            found = "not installed"
        print(f"{name:18s}{found}")
    state = f"compiled, {_fast.ISA}" if _fast.AVAILABLE else "not available (portable code is used)"
    print(f"{'fast kernels':18s}{state}")
