"""A thousand damaged model files: each has to be refused with the one error, or read right.

    python -m benchmarks.fuzz_models [--count 1000] [--seed 0]

Damage is a flipped bit, several bytes overwritten, a truncation, a removed or a doubled stretch,
bytes behind the end, or nothing but random bytes. In a quarter of the files one member is damaged
and every checksum made right again, so that the parsers behind meet the damage: what they read may
then be another model (a changed weight), and exceptions other than PersistenceError are crashes.
Pickles are watched for: none may be opened. Exits with 1 if a file was misread or crashed.
"""

from __future__ import annotations

import argparse
import collections
import io
import pickle
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from attacks.forging import archive_of
from dotsketch import Gaussian, MaclaurinFeatures, PersistenceError, PolynomialSketch, load, save


def flip(data: bytearray, rng: np.random.Generator) -> None:
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))


def overwrite(data: bytearray, rng: np.random.Generator) -> None:
    for place in rng.integers(len(data), size=rng.integers(1, 20)):
        data[place] = int(rng.integers(256))


def truncate(data: bytearray, rng: np.random.Generator) -> None:
    del data[int(rng.integers(len(data))) :]


def remove(data: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(data)))
    del data[start : start + int(rng.integers(1, 200))]


def double(data: bytearray, rng: np.random.Generator) -> None:
    start = int(rng.integers(len(data)))
    stretch = data[start : start + int(rng.integers(1, 200))]
    data[start:start] = stretch


def append(data: bytearray, rng: np.random.Generator) -> None:
    data += rng.bytes(int(rng.integers(1, 100)))


def replace(data: bytearray, rng: np.random.Generator) -> None:
    data[:] = rng.bytes(int(rng.integers(0, 2000)))


Damage = Callable[[bytearray, np.random.Generator], None]
DAMAGES: tuple[Damage, ...] = (flip, overwrite, truncate, remove, double, append, replace)


def forge(data: bytes, damage: Damage, rng: np.random.Generator) -> bytes:
    """The file with one member damaged, and every checksum right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: bytearray(archive.read(name)) for name in archive.namelist()}
    names = list(members)
    # Half of the damage goes to the tree of values, which is one member of many
    damage(members[names[0] if rng.random() < 0.5 else names[rng.integers(len(names))]], rng)
    return archive_of([(name, bytes(content)) for name, content in members.items()])


def models(X: np.ndarray, y: np.ndarray) -> list:
    return [
        PolynomialSketch(3, n_components=16, output="complex", random_state=0).fit(X),
        MaclaurinFeatures(Gaussian(), n_components=32, random_state=0).fit(X),
        make_pipeline(
            StandardScaler(),
            MaclaurinFeatures(Gaussian(), n_components=16, random_state=np.random.RandomState(1)),
        ).fit(X, y),
    ]


def answer(model: object, X: np.ndarray) -> np.ndarray:
    return model.predict(X) if hasattr(model, "predict") else model.transform(X)  # type: ignore


def outcome(path: Path, X: np.ndarray, expected: np.ndarray, sealed: bool) -> str:
    """What became of one file."""
    try:
        model = load(path)
    except PersistenceError:
        return "refused"
    except Exception as error:
        return f"CRASHED with {type(error).__name__}"
    try:
        equal = np.array_equal(answer(model, X), expected)
    except Exception:
        equal = False
    if equal:
        return "read right"
    return "read as another (sealed again)" if sealed else "MISREAD"


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz model files.")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    X = np.random.default_rng(1).random((20, 5))

    def forbidden(*_arguments: object, **_options: object) -> None:
        raise RuntimeError("a pickle was opened")

    pickle.load = pickle.loads = forbidden  # type: ignore[assignment]
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        cases = []
        for model in models(X, X.sum(axis=1)):
            save(model, path)
            cases.append((path.read_bytes(), answer(model, X)))
        for number in range(arguments.count):
            original, expected = cases[number % len(cases)]
            damage = DAMAGES[number % len(DAMAGES)]
            sealed = number % 4 == 0
            data = bytearray(original)
            damage(data, rng)
            path.write_bytes(forge(original, damage, rng) if sealed else data)
            row = f"{damage.__name__}{', sealed again' if sealed else ''}"
            counts[row, outcome(path, X, expected, sealed)] += 1
    for (row, found), count in sorted(counts.items()):
        print(f"{row:28s} {found:32s} {count:6d}")
    bad = sum(n for (_, found), n in counts.items() if found.startswith(("CRASHED", "MISREAD")))
    seconds = time.perf_counter() - start
    print(f"{arguments.count} files in {seconds:.1f} s; {bad} misread or crashed.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
