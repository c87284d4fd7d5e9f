"""What a bug report should say about the installation."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from . import _backends

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


def installed_versions(*names: str) -> dict[str, str]:
    """The version of Python and of each library, or "not installed".

    >>> installed_versions("a library that nobody wrote")["a library that nobody wrote"]
    'not installed'
    """
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return versions


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
