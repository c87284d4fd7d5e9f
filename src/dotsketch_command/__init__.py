"""The script `dotsketch`, outside of the package so that it runs before anything is imported.

Importing dotsketch takes a second, in which an interrupt would end in a traceback. Where the extra
`cli` is missing, a message explains what to install.
"""

from __future__ import annotations

import importlib
import os
import sys


def main() -> None:
    # Streams that the caller closed are None; opened first, they also keep their file numbers
    # from the files that are read.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - open until the end
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    try:
        command = importlib.import_module("dotsketch.cli.main").main
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "dotsketch":
            raise
        message = f"{error.name} is not installed: pip install 'dotsketch[cli]'"
        print(f"dotsketch: error: the command needs the extra cli; {message}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("dotsketch: interrupted", file=sys.stderr)
        sys.exit(130)
    command(prog_name="dotsketch")
