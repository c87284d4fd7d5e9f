"""Versions of Python and of installed libraries."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version


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
