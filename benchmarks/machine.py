"""The limits of the machine, measured in the same run, and how much of them a case needs."""

from __future__ import annotations

import ctypes
import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from .cases import Case

SOURCE = Path(__file__).with_name("peak_adds.c")


def measure_limits(threads: int) -> dict[str, float | None]:
    """Additions, sgemm operations and copied bytes (read and written) a second."""
    return {
        "adds": add_rate(threads),
        "sgemm_flops": sgemm_rate(),
        "copy_bytes": copy_rate(threads),
    }


def best_rate(
    work: Callable[[], float],
    repeats: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """The greatest amount of work a second."""
    rates = []
    for _ in range(repeats):
        start = clock()
        amount = work()
        rates.append(amount / (clock() - start))
    return max(rates)


def add_rate(threads: int, clock: Callable[[], float] = time.perf_counter) -> float | None:
    """Float32 additions a second in registers; None where no C compiler is found."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "peak_adds.so"
        flags = ("-O3", "-march=native", "-shared", "-fPIC")
        try:
            command = ["cc", *flags, str(SOURCE), "-o", str(library)]
            subprocess.run(command, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return None
        function = ctypes.CDLL(str(library)).peak_adds
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_long, ctypes.c_float, ctypes.c_void_p]

    def add(_: int) -> float:
        out = np.empty(16, dtype=np.float32)
        return function(20_000_000, 1.0, out.ctypes.data)

    with ThreadPoolExecutor(threads) as pool:
        return best_rate(lambda: sum(pool.map(add, range(threads))), clock=clock)


def sgemm_rate(size: int = 2048) -> float:
    """Floating point operations a second of a large float32 matrix product."""
    A = np.ones((size, size), dtype=np.float32)

    def multiply() -> float:
        A @ A
        return 2.0 * size**3

    return best_rate(multiply)


def copy_rate(threads: int, size: int = 1 << 28) -> float:
    """Bytes read and written a second by copies that exceed every cache."""
    source = np.ones((threads, size // threads), dtype=np.uint8)
    target = np.zeros_like(source)

    def copy() -> float:
        list(pool.map(np.copyto, target, source))
        return 2.0 * source.nbytes

    with ThreadPoolExecutor(threads) as pool:
        return best_rate(copy)


def least_seconds(method: str, output: str, case: Case, limits: dict) -> float | None:
    """The time that the method's operations would take at the limits; None if not counted.

    Counted are the additions of the Hadamard transforms (log₂ d levels of a padded row, for
    every block and degree), the operations of the matrix products, or those of the Fourier
    transforms (2.5 D log₂ D for a real row); and the bytes of input and output.
    """
    d, D, p = case.dimension, case.n_components, case.degree
    fields = 2 if output == "complex" else 1
    if method == "hadamard" and limits["adds"] is not None:
        padded = 1 << (d - 1).bit_length()
        operations = fields * p * -(-D // padded) * padded * math.log2(padded)
        seconds = operations / limits["adds"]
    elif method == "count sketch" and limits["adds"] is not None:
        operations = fields * (p * d + (p + 1) * 2.5 * D * math.log2(D))
        seconds = operations / limits["adds"]
    elif method == "dense":
        seconds = fields * p * 2 * d * D / limits["sgemm_flops"]
    elif method == "fourier":
        seconds = 2 * d * D / limits["sgemm_flops"]
    elif method == "landmarks":
        seconds = (2 * d * D + 2 * D * D) / limits["sgemm_flops"]
    else:
        return None
    memory = 4 * (d + fields * D) / limits["copy_bytes"]
    return case.n_rows * max(seconds, memory)
