"""The compiled TensorSketch equals products of spectra in double precision, at any length.

Its Fourier transform has passes for the radices 2, 3, 4 and 5 and one for all primes up to 127,
real and complex ones, forward and back: the lengths here meet all of them, alone and combined.
"""

import numpy as np
import pytest

from _backends.test_kernels import (
    DTYPES,
    LAYOUTS,
    ROWS,
    Outputs,
    naive_count_sketch,
    random_turns,
    run_with_environment,
    scaled,
    tensor_sketch,
)
from dotsketch._backends import cpp

pytestmark = pytest.mark.skipif(not cpp.AVAILABLE, reason="the extension is not built")

LENGTHS = [
    *range(1, 41),
    *(49, 60, 64, 77, 100, 121, 125, 127, 128, 169, 210, 243, 254, 256, 320, 381, 512, 635),
    *(1000, 1024, 2187, 3 * 113 * 4, 127 * 127),
]
TOLERANCE = {np.float32: 1e-6, np.float64: 1e-14}  # of the largest feature


def naive_tensor_sketch(X, buckets, turns, n_columns):
    spectrum = 1
    for places, weights in zip(buckets, turns, strict=True):
        counts = naive_count_sketch(X.astype(float), places, weights, n_columns)
        spectrum = spectrum * np.fft.fft(counts, axis=1)
    return np.fft.ifft(spectrum, axis=1)


def random_hashes(rng, degree, d, D, is_complex):
    buckets = rng.integers(0, D, (degree, d), dtype=np.int32)
    return buckets, random_turns(rng, (degree, d), is_complex)


def assert_close(actual, expected, dtype):
    assert actual.shape == expected.shape
    largest = np.abs(expected).max(initial=np.finfo(dtype).tiny)
    assert np.abs(actual - expected).max(initial=0) <= TOLERANCE[dtype] * largest


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("D", LENGTHS)
def test_every_kind_of_length(D, is_complex, dtype):
    rng = np.random.default_rng(D)
    for n, degree, d in ((9, 3, 11), (3, 1, 1), (2, 5, 40)):
        X = rng.standard_normal((n, d)).astype(dtype)
        hashes = random_hashes(rng, degree, d, D, is_complex)
        out = Outputs("complex" if is_complex else "planar", n, D, dtype, is_complex)
        tensor_sketch(X, *hashes, 1.0, out.re, out.im)
        assert_close(out.value(), naive_tensor_sketch(X, *hashes, D), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", ROWS)
def test_every_layout_of_outputs_and_scales(n, layout, is_complex, dtype):
    rng = np.random.default_rng(n)
    D = 42
    X = rng.standard_normal((n, 10)).astype(dtype)
    hashes = random_hashes(rng, 2, 10, D, is_complex)
    row_scale = rng.standard_normal(2 * n).astype(dtype)[::2]
    out = Outputs(layout, n, D, dtype, is_complex)
    tensor_sketch(X, *hashes, -0.7, out.re, out.im, row_scale)
    assert_close(out.value(), scaled(naive_tensor_sketch(X, *hashes, D), -0.7, row_scale), dtype)


def test_degree_one_of_small_integers_is_almost_the_count_sketch():
    rng = np.random.default_rng(0)
    X = rng.integers(-3, 4, (8, 50)).astype(np.float32)
    buckets, turns = random_hashes(rng, 1, 50, 320, False)
    counts, features = np.empty((8, 320), np.float32), np.empty((8, 320), np.float32)
    cpp.count_sketch(X, buckets[0], turns[0], counts)
    tensor_sketch(X, buckets, turns, 1.0, features)
    np.testing.assert_array_equal(np.round(features), counts)


def test_which_lengths_it_takes():
    def largest_prime(n):
        primes = [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]
        return max(primes, default=1)

    for n in (*range(1, 600), 127 * 131, 127 * 113, 1 << 20):
        assert cpp.has_small_factors(n) == (largest_prime(n) <= 127 if n < 1 << 20 else True)
    for n in (-1, 0, 1 << 21, 997, 3**13):
        assert not cpp.has_small_factors(n)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"out_re": np.zeros((3, 131))}, "prime factors above 127"),
        ({"out_re": np.zeros((3, 0))}, "1 to 2\\^20 columns"),
        ({"out_re": np.zeros((2, 6))}, "2 rows, X has 3"),
        ({"buckets": np.full((2, 4), 6, np.int32)}, "buckets must lie in 0, ..., 5"),
        ({"buckets": np.full((2, 4), -1, np.int32)}, "buckets must lie"),
        ({"buckets": np.zeros((2, 3), np.int32)}, "their shapes are \\(2, 3\\) and \\(2, 4\\)"),
        ({"buckets": np.zeros((1, 4), np.int32)}, "their shapes are \\(1, 4\\) and \\(2, 4\\)"),
        ({"turns": np.ones((2, 4), np.int8)}, "0 or 2"),
        ({"turns": np.full((2, 4), 4, np.int8)}, "0, 1, 2 or 3"),
        ({"row_scale": np.zeros(2)}, "row_scale"),
        (
            {"buckets": np.zeros((0, 4), np.int32), "turns": np.zeros((0, 4), np.int8)},
            "at least one degree",
        ),
    ],
)
def test_wrong_arguments_are_refused(changes, message):
    arguments = {
        "X": np.zeros((3, 4)),
        "buckets": np.zeros((2, 4), np.int32),
        "turns": np.zeros((2, 4), np.int8),
        "scale": 1.0,
        "out_re": np.zeros((3, 6)),
    }
    tensor_sketch(**arguments)
    with pytest.raises(ValueError, match=message):
        tensor_sketch(**{**arguments, **changes})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 31), (7, 32), (5, 100), (2, 1000)])
def test_largest_entry(shape, dtype):
    X = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    assert cpp.largest_entry(X) == np.abs(X).max(initial=0)
    assert cpp.largest_entry(X[::-2]) == np.abs(X[::-2]).max(initial=0)
    for place in range(0, X.size, 7):
        for value in (-7e30, np.inf, -np.inf, np.nan, -np.nan):
            Y = X.copy()
            Y.flat[place] = value
            np.testing.assert_equal(cpp.largest_entry(Y), float(np.abs(dtype(value))))


BITS_SCRIPT = """
import sys, hashlib, numpy as np
sys.path[:0] = sys.argv[1:]
from _backends.test_kernel_tensor_sketch import random_hashes, tensor_sketch
from dotsketch._backends import cpp
digest = hashlib.sha256()
rng = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    for D in (2, 35, 120, 127, 320, 1024, 3 * 49):
        for is_complex in (False, True):
            X = rng.standard_normal((11, 20)).astype(dtype)
            re, im = np.empty((2, 11, D), dtype)
            hashes = random_hashes(rng, 3, 20, D, is_complex)
            tensor_sketch(X, *hashes, 1.0, re, im if is_complex else None)
            one = np.empty((2, 11, D), dtype)
            for r in range(11):
                planes = [plane[r : r + 1] for plane in one]
                tensor_sketch(X[r : r + 1], *hashes, 1.0, *planes[: 1 + is_complex])
            assert np.array_equal(re, one[0]) and (not is_complex or np.array_equal(im, one[1]))
            digest.update(re.tobytes() + (im.tobytes() if is_complex else b""))
print(cpp.ISA, digest.hexdigest())
"""


def test_bits_depend_neither_on_the_batch_nor_on_the_instruction_set():
    digests = set()
    for isa in ("baseline", "v3", "v4"):
        run = run_with_environment(BITS_SCRIPT, DOTSKETCH_ISA=isa)
        if run.returncode == 0:
            digests.add(run.stdout.split()[1])
        else:
            assert isa != "baseline", run.stderr
            assert "this CPU lacks it" in run.stderr
    assert len(digests) == 1
