"""What a bug report should say about the installation."""

from __future__ import annotations

import platform

from . import _backends
from ._support.versions import installed_versions

_LIBRARIES = (
    "dotsketch",
    "numpy",
    "scipy",
    "scikit-learn",
    "array-api-compat",
    "torch",
    "jax",
    "dask",
    "distributed",
    "pandas",
    "pyarrow",
    "matplotlib",
)


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries in use, and whether compiled kernels are in use."""
    found = installed_versions(*_LIBRARIES)
    found["python"] += f" ({platform.platform()})"
    found["fast kernels"] = _backends.description()
    return found


def show_versions() -> None:
    """Print the versions of Python and of the libraries, and whether compiled kernels are used."""
    for name, text in versions().items():
        print(f"{name:18s}{text}")
