"""One attack after the other, each file in a process of its own with limits of memory and time."""

from __future__ import annotations

import importlib
import multiprocessing
import pkgutil
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import dotsketch

MEMORY = 1 << 30  # bytes of address space beyond what the imports take
SECONDS = 60
WIDTH = 110  # characters of a message in the table
TOOLS = ("__main__", "forging", "harness")
FAILURES = ("DIED", "HUNG", "RAISED", "RAN CODE")  # how the text of a failure begins


class Outcome(NamedTuple):
    attack: str
    variant: str
    text: str  # what happened: "refused: …", "loaded", or one of FAILURES
    megabytes: float  # that the process took beyond what it had before
    seconds: float

    @property
    def failed(self) -> bool:
        return self.text.startswith(FAILURES)


def names() -> list[str]:
    """All attacks."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in found if name not in TOOLS)


def attack(name: str) -> ModuleType:
    if name not in names():
        raise ValueError(f"There is no attack {name!r}. There are: {', '.join(names())}.")
    return importlib.import_module(f"attacks.{name}")


def attempt(name: str, path: Path) -> str:
    """What happens when the file is used: a refusal in its own words, or what became of it."""
    module = attack(name)
    try:
        with warnings.catch_warnings(action="ignore"):
            if hasattr(module, "attempt"):
                return str(module.attempt(path))
            dotsketch.load(path)
            return "loaded"
    except Exception as error:
        if isinstance(error, MemoryError) or isinstance(error.__cause__, MemoryError):
            return "RAISED MemoryError"
        if isinstance(error, ValueError):  # PersistenceError is one
            return f"refused: {error}"
        return f"RAISED {type(error).__name__}: {error}"


def run(name: str) -> Iterator[Outcome]:
    """The outcomes of all files of an attack."""
    # A server that has imported everything and starts processes by a fork: milliseconds each
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["attacks.harness"])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        for variant in attack(name).files(path):
            receive, send = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(name, path, send))
            process.start()
            send.close()
            text, megabytes, seconds = "HUNG", float("nan"), float(SECONDS)
            try:
                if receive.poll(SECONDS):
                    text, megabytes, seconds = receive.recv()
            except EOFError:  # it ended without a word
                process.join()
                text, seconds = f"DIED: exit code {process.exitcode}", float("nan")
            process.kill()
            process.join()
            # Messages begin with the name of the file
            text = text.replace(f"{path} cannot be loaded. ", "").replace(str(path), path.name)
            yield Outcome(name, variant, text, megabytes, seconds)


def _child(name: str, path: Path, send: Connection) -> None:
    attack(name)
    limit_memory()
    before, start = _peak(), time.perf_counter()
    text = attempt(name, path)
    send.send((text, _peak() - before, time.perf_counter() - start))


def limit_memory() -> None:
    """Let this process have MEMORY bytes more than it has; elsewhere than on Linux, any number."""
    size = Path("/proc/self/statm")
    if size.exists():
        limit = int(size.read_text().split()[0]) * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _peak() -> float:
    """The most memory that this process has had, in MB."""
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def show(*chosen: str) -> int:
    """Print a table of the outcomes of these attacks; 1 if one of them succeeded, otherwise 0."""
    print("| attack | file | what happens | MB | s |\n| --- | --- | --- | --- | --- |")
    found = []
    for name in chosen:
        for outcome in run(name):
            text = " ".join(outcome.text.split()).replace("|", "\\|")
            text = text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
            numbers = f"{outcome.megabytes:.0f} | {outcome.seconds:.2f}"
            print(f"| {name} | {outcome.variant} | {text} | {numbers} |", flush=True)
            found.append(outcome)
    failed = sum(outcome.failed for outcome in found)
    print(f"\n{len(found)} files, {failed} failures.")
    return 1 if failed else 0
