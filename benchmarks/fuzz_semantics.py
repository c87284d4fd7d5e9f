"""Changed attributes in model files whose checksums are right: what is loaded is used, too.

    python -m benchmarks.fuzz_semantics [--count 100] [--seed 0] [--only StandardScaler …]

Every class that a file may hold is in one of the models below. A mutation takes one attribute of
one object in such a model and gives it another shape, dtype, range, type or value, swaps it with
another attribute, or removes it. The file is loaded and its estimator used (transform, predict),
many files in one subprocess that has limits of memory and time. A refusal or a Python exception is
fine; a signal, running out of time, or memory beyond the limit is a failure: exits with 1. The
mutation of a number follows from the seed, so that a failure can be repeated.
"""

from __future__ import annotations

import argparse
import copy
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

from attacks.forging import Encoder, bytes_of, known_classes
from attacks.harness import limit_memory
from dotsketch import PersistenceError
from dotsketch.persistence.files import load_bytes

from .fuzz_subjects import by_class, subjects

SECONDS = 20  # of CPU for one file
CLASSES = known_classes()
FAILURES = ("DIED", "MEMORY")
INTEGERS = (-1, 0, 1, 2, 7, 63, 1000, 2**16, 2**20, 2**31 - 1, 2**31, 2**53, 2**63, -(2**63), 2**70)
VALUES: tuple[Any, ...] = (
    None, True, "", "auto", "real", 0.0, -1.5, 1e308, float("nan"), float("inf"), [], (), {}, 1j,
)  # fmt: skip
ROWS = object()  # stands for the rows of a subject
USES: tuple[tuple[str, tuple, dict], ...] = (
    ("transform", (ROWS,), {}),
    ("predict", (ROWS,), {}),
    ("predict", (ROWS,), {"return_std": True}),
    ("predict_proba", (ROWS,), {}),
    ("__call__", (ROWS,), {}),
    ("get_feature_names_out", (), {}),
)
DTYPES = ("int8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex128", "bool")


def changed_array(value: np.ndarray, rng: np.random.Generator) -> Any:
    """The array with another shape, dtype or contents."""
    kind = int(rng.integers(7))
    if kind == 0 and value.size:
        return value.reshape(-1)[: int(rng.integers(value.size))]
    if kind == 1:
        return np.concatenate([value.reshape(-1)] * 2)
    if kind == 2:
        return value.T if value.ndim > 1 else value[None]
    if kind == 3 and value.dtype.kind in "biufc":
        return value.astype(DTYPES[int(rng.integers(len(DTYPES)))])
    if kind == 4:
        return np.array(value.tolist(), dtype=object)
    result = value.copy()
    if result.size:
        number = INTEGERS[int(rng.integers(len(INTEGERS)))]
        place = int(rng.integers(result.size))
        result.reshape(-1)[place] = number if kind == 5 else VALUES[int(rng.integers(8))]
    return result


def changed_value(value: Any, rng: np.random.Generator) -> Any:
    """Another value in place of this."""
    if isinstance(value, np.ndarray) and rng.random() < 0.7:
        return changed_array(value, rng)
    if isinstance(value, (list, tuple)) and value and rng.random() < 0.7:
        items = list(value)
        place = int(rng.integers(len(items)))
        kind = int(rng.integers(3))
        if kind == 0:
            del items[place]
        elif kind == 1:
            items.append(items[place])
        else:
            items[place] = changed_value(items[place], rng)
        return items if isinstance(value, list) else tuple(items)
    if rng.random() < 0.6:
        return INTEGERS[int(rng.integers(len(INTEGERS)))]
    return copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])


class Mutator(Encoder):
    """An encoder that changes one attribute of the objects of one class."""

    def __init__(self, target: str, rng: np.random.Generator):
        super().__init__(CLASSES)
        self.target, self.rng = target, rng

    def state_of(self, name: str, value: Any) -> dict[str, Any]:
        state = dict(super().state_of(name, value))
        if name != self.target:
            return state
        for _ in range(int(self.rng.integers(1, 3))):
            names = list(state)
            if names:
                first, second = (names[int(self.rng.integers(len(names)))] for _ in range(2))
                kind = self.rng.random()
                if kind < 0.05:
                    del state[first]
                elif kind < 0.15:
                    state[first], state[second] = state[second], state[first]
                else:
                    state[first] = changed_value(state[first], self.rng)
        return state


def use(model: Any, rows: np.ndarray) -> None:
    """What a user does with a loaded model; any Python exception but MemoryError is fine."""
    for name, arguments, options in USES:
        if hasattr(model, name):
            try:
                getattr(model, name)(*(rows if a is ROWS else a for a in arguments), **options)
            except MemoryError:
                raise
            except Exception:
                pass


def one(target: str, number: int, seed: int, found: list) -> str:
    """What became of one mutation."""
    key = [seed, number, *target.encode()]
    rng = np.random.default_rng(key)
    model, rows = found[number % len(found)]
    encoder = Mutator(target, rng)
    try:
        data = bytes_of(model, encoder)
    except Exception:  # the change has no plain form
        return "not made"
    try:
        loaded = load_bytes(data, "the file")
    except PersistenceError as error:
        return "MEMORY" if isinstance(error.__cause__, MemoryError) else "refused"
    try:
        use(loaded, rows)
    except MemoryError:
        return "MEMORY"
    return "used"


def work(targets: list[str], first: int, count: int, seed: int) -> None:
    """The child: class and number before a file is made, the outcome after it was used."""
    warnings.simplefilter("ignore")
    found = by_class(subjects())
    limit_memory()
    with np.errstate(all="ignore"):
        for target in targets:
            for number in range(first, count):
                print(f"{target} {number}", end=" ", flush=True)
                signal.setitimer(signal.ITIMER_PROF, SECONDS)  # ends the process, native code too
                print(one(target, number, seed, found[target]), flush=True)
                signal.setitimer(signal.ITIMER_PROF, 0)
            first = 0


def run(targets: list[str], count: int, seed: int) -> dict[str, dict[str, int]]:
    """Outcomes by class, {class: {outcome: how many}}; after a death a new child goes on."""
    counts: dict[str, dict[str, int]] = {target: {} for target in targets}
    first = 0
    while targets:
        arguments = ["--worker", "--first", str(first), "--count", str(count), "--seed", str(seed)]
        command = [sys.executable, "-m", "benchmarks.fuzz_semantics", *arguments, "--only"]
        child = subprocess.run([*command, *targets], capture_output=True, text=True, check=False)
        found = [line.split(maxsplit=2) for line in child.stdout.splitlines()]
        lines = [line for line in found if len(line) > 1 and line[0] in counts]  # verbose=… prints
        if not lines:
            raise RuntimeError(child.stderr)
        for target, number, *rest in lines:
            outcome = rest[0] if rest else f"DIED {child.returncode}"
            counts[target][outcome] = counts[target].get(outcome, 0) + 1
            if outcome.startswith(FAILURES):
                print(f"{target} number {number}: {outcome} {child.stderr[-200:]}", flush=True)
        if child.returncode == 0:
            break
        targets = targets[targets.index(lines[-1][0]) :]
        first = int(lines[-1][1]) + 1
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the attributes in model files.")
    parser.add_argument("--count", type=int, default=100, help="files per class")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", help="names of classes, such as sklearn.PCA")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    targets = options.only or sorted(by_class(subjects()))
    if options.worker:
        work(targets, options.first, options.count, options.seed)
        return 0
    start = time.perf_counter()
    counts = run(targets, options.count, options.seed)
    for target, found in counts.items():
        print(f"{target:32s}", "  ".join(f"{k}: {n}" for k, n in sorted(found.items())))
    bad = sum(n for f in counts.values() for k, n in f.items() if k.startswith(FAILURES))
    total = sum(n for found in counts.values() for n in found.values())
    print(f"{total} files in {time.perf_counter() - start:.0f} s; {bad} failures.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
