"""The script `dotsketch`: it explains what to install where the extra `cli` is missing."""

from __future__ import annotations

import sys


def main() -> None:
    try:
        from .main import main as command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "dotsketch":
            raise
        message = f"{error.name} is not installed: pip install 'dotsketch[cli]'"
        print(f"dotsketch: error: the command needs the extra cli; {message}", file=sys.stderr)
        sys.exit(2)
    command(prog_name="dotsketch")
