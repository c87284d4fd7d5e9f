"""Coverage-guided fuzzing of model files with atheris: what is loaded is used, too.

    pip install atheris
    python -m benchmarks.fuzz_bytes [--seconds 600] [--corpus out/fuzz] [--seed 1]

The corpus starts with small models of every class that a file may hold, and grows in its folder. A
mutation changes a node of the tree of values, the bytes of one member, or bytes anywhere; checksums
are made right again, so that the parsers behind meet it. Loading may raise PersistenceError and
nothing else. What was loaded is used (transform, predict) and may raise any exception but
MemoryError. A finding (another exception, a signal, more than 20 seconds for one file, memory
beyond 1 GiB) ends the run and leaves the file, which `dotsketch.load` reproduces. Without atheris
the same mutations are drawn without guidance.

Coverage is that of the Python code of dotsketch, zipfile and json; compiled code is not
instrumented.
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import io
import json
import random
import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

try:
    import atheris
except ImportError:
    atheris = None

import numpy as np

import dotsketch
from attacks.forging import archive_of, sealed, write
from attacks.harness import limit_memory
from dotsketch.persistence.files import load_bytes

from .fuzz_semantics import INTEGERS, SECONDS, use
from .fuzz_subjects import X, subjects

MAX_BYTES = 1 << 16
VALUES: tuple[Any, ...] = (None, True, "", "auto", 0.5, -1.0, 1e308, [], *INTEGERS)

Change = Callable[[bytes, random.Random], bytes]


def one_file(data: bytes) -> str:
    """Load and use a file; raises for a finding."""
    try:
        model = load_bytes(data, "the file")
    except dotsketch.PersistenceError as error:
        if isinstance(error.__cause__, MemoryError):
            raise
        return "refused"
    use(model, X)
    return "used"


def mutated(data: bytes, rng: random.Random, change: Change) -> bytes:
    """The file with a node, a member or any bytes changed, and every checksum right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [(name, archive.read(name)) for name in archive.namelist()]
        kind = rng.random()
        if kind < 0.1 or not members:
            return sealed(change(data, rng))
        place = 0 if kind < 0.7 else rng.randrange(len(members))
        name, content = members[place]
        if kind < 0.6:
            tree = json.loads(content)
            change_node(tree, rng)
            content = json.dumps(tree).encode()
        else:
            content = change(content, rng)
        members[place] = (name, content)
        return archive_of(members)
    except Exception:  # no archive any more
        return sealed(change(data, rng))


def change_node(tree: Any, rng: random.Random) -> None:
    """Replace, double or remove one value of a tree of lists and dictionaries."""
    places: list[tuple[Any, Any]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                stack.append(node[key])
    for _ in range(rng.randint(1, 3)):
        node, key = rng.choice(places)
        if key not in node if isinstance(node, dict) else key >= len(node):
            continue  # it was removed
        kind = rng.random()
        if kind < 0.5:
            node[key] = rng.choice(VALUES)
        elif kind < 0.8:  # a value of another place
            other, name = rng.choice(places)
            with contextlib.suppress(KeyError, IndexError):
                node[key] = json.loads(json.dumps(other[name]))
        elif kind < 0.9:
            del node[key]
        elif isinstance(node, list):
            node.append(node[key])


def changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed without guidance: some overwritten, a stretch removed or doubled."""
    result = bytearray(data or b"x")
    start = rng.randrange(len(result))
    stop = start + rng.randint(1, 50)
    kind = rng.randrange(3)
    if kind == 0:
        for _ in range(rng.randint(1, 8)):
            result[rng.randrange(len(result))] = rng.randrange(256)
    elif kind == 1:
        del result[start:stop]
    else:
        result[start:start] = result[start:stop]
    return bytes(result)


def write_corpus(folder: Path) -> list[Path]:
    """Small models of every class; those that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (model, _) in enumerate(subjects()):
        write(folder / f"model-{number:03d}", model)
    return sorted(path for path in folder.iterdir() if path.stat().st_size <= MAX_BYTES)


def instrument() -> None:
    """Count the branches of Python functions; hooks of imports miss packages installed in place."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in ("dotsketch", "json", "zipfile"):
            continue
        owners = [module, *(v for v in vars(module).values() if inspect.isclass(v))]
        for value in [v for owner in owners for v in list(vars(owner).values())]:
            if inspect.isfunction(value) and value.__module__ == name:
                atheris.instrument_func(value)


def guided(folder: Path, seconds: int, seed: int) -> None:
    """Fuzz with atheris, which ends the process."""

    def mutate(data: bytes, max_size: int, number: int) -> bytes:
        found = mutated(data, random.Random(number), lambda d, _: atheris.Mutate(d, max_size))
        return found if len(found) <= max_size else data

    instrument()
    options = [f"-max_total_time={seconds}", f"-seed={seed}", f"-timeout={SECONDS}"]
    options += [f"-max_len={MAX_BYTES}", "-rss_limit_mb=4096", f"-artifact_prefix={folder}-"]
    atheris.Setup([sys.argv[0], *options, str(folder)], one_file_for_atheris, custom_mutator=mutate)
    atheris.Fuzz()


def one_file_for_atheris(data: bytes) -> None:
    one_file(data)


def unguided(paths: list[Path], seconds: int, seed: int) -> None:
    """The same mutations, several on top of each other, drawn at random."""
    rng, counts, start = random.Random(seed), {"refused": 0, "used": 0}, time.monotonic()
    while time.monotonic() - start < seconds:
        path = rng.choice(paths)
        data = path.read_bytes()
        for _ in range(rng.randint(1, 3)):
            data = mutated(data, rng, changed_bytes)
        last = path.parent.with_name(f"{path.parent.name}-last")
        last.write_bytes(data)
        counts[one_file(data)] += 1
        last.unlink()
    print(f"{sum(counts.values())} files in {seconds} s without atheris: {counts}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz the bytes of model files.")
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path, default=Path("out/fuzz"))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    paths = write_corpus(options.corpus)
    limit_memory()
    with np.errstate(all="ignore"):
        run = (options.corpus, guided) if atheris is not None else (paths, unguided)
        run[1](run[0], options.seconds, options.seed)


if __name__ == "__main__":
    main()
