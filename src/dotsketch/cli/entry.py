"""The script `dotsketch`: it explains what to install where the extra `cli` is missing."""

from __future__ import annotations

import os
import sys

try:
    from .main import main as command
except ModuleNotFoundError as error:
    if error.name is None or error.name.split(".")[0] == "dotsketch":
        raise
    missing: str | None = error.name
else:
    missing = None


def main() -> None:
    # Streams that the caller closed are None; opened first, they also keep their file numbers
    # from the files that are read.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if missing is not None:
        message = f"{missing} is not installed: pip install 'dotsketch[cli]'"
        print(f"dotsketch: error: the command needs the extra cli; {message}", file=sys.stderr)
        sys.exit(2)
    command(prog_name="dotsketch")
