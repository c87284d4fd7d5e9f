"""The error of the compiled cosines and sines, for every float32 angle of a range.

    python -m benchmarks.wave_errors [--first -30] [--last 22] [--scale 1.0]

All float32 angles t with 2^first ≤ t < 2^last, in quarter turns (cosines are even and sines odd, to
the bit), against NumPy's float64 functions of t π/2 after an exact reduction. Prints the largest
error in units in the last place (ulp) of the exact value for every power of two. Asserts nothing.
The range of the reduction by rounding ends at 2^22; beyond, whole turns are taken off first.
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.progress import track

from dotsketch._backends import cpp

PIECE = 1 << 20


def largest_errors(t: np.ndarray, scale: float) -> tuple[float, float]:
    """Of cosine and sine, in ulp."""
    found = np.empty((2, 1, len(t)), np.float32)
    cpp.waves(t[None, :], scale, *found)
    reduced = np.fmod(t.astype(np.float64), 4)
    n = np.rint(reduced)
    f = (reduced - n) * (np.pi / 2)
    c, s, turns = np.cos(f), np.sin(f), n.astype(np.int8) & 3
    exact = np.choose(turns, [c, -s, -c, s]), np.choose(turns, [s, c, -s, -c])

    def error(values: np.ndarray, wave: np.ndarray) -> float:
        wave = wave * float(np.float32(scale))
        tiny = np.finfo(np.float32).tiny
        unit = np.spacing(np.maximum(np.abs(wave), tiny).astype(np.float32))
        return float(np.max(np.abs(values[0] - wave) / unit))

    return error(found[0], exact[0]), error(found[1], exact[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=-30)
    parser.add_argument("--last", type=int, default=22)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    lines = ["| angles from | cosine, ulp | sine, ulp |", "| --- | --- | --- |"]
    worst = np.zeros(2)
    for exponent in track(range(options.first, options.last), description="powers of two"):
        start = int(np.float32(2.0**exponent).view(np.int32))
        errors = np.zeros(2)
        for first in range(start, start + (1 << 23), PIECE):
            t = np.arange(first, first + PIECE, dtype=np.int32).view(np.float32)
            errors = np.maximum(errors, largest_errors(t, options.scale))
        worst = np.maximum(worst, errors)
        lines.append(f"| 2^{exponent} | {errors[0]:.3f} | {errors[1]:.3f} |")
    lines.append(f"| all | {worst[0]:.3f} | {worst[1]:.3f} |")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
