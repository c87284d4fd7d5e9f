"""The compiled kernels equal naive NumPy references, for every type, shape and output layout.

`KERNELS` are those that map rows to columns, and every law below holds for each of them: a row's
result has the same bits in every batch and for every instruction set, nothing is written beside the
output, and wrong arguments are refused.
"""

import functools
import os
import platform
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

from dotsketch._backends import cpp

pytestmark = pytest.mark.skipif(not cpp.AVAILABLE, reason="the extension is not built")

DTYPES = [np.float32, np.float64]
ROWS = [0, 1, 3, 7, 8, 9, 100]
LAYOUTS = ["planar", "complex", "side_by_side", "fortran", "strided"]
PREPARED = ("tensor_srht", "sign_projection", "tensor_sketch")  # whose weights are laid out once
KERNELS = (*PREPARED, "count_sketch", "sorf", "fwht")
REAL = ("sorf", "fwht")
HADAMARD = ("tensor_srht", "sorf")  # whose blocks may be longer than the rows
LENGTHS = [  # of TensorSketch: passes for the radices 2, 3, 4 and 5 and for all primes up to 127
    *range(1, 41),
    *(49, 60, 64, 77, 100, 121, 125, 127, 128, 169, 210, 243, 254, 256, 320, 381, 512, 635),
    *(1000, 1024, 2187, 3 * 113 * 4, 127 * 127),
]


def power_of_two(n):
    return 1 << max(0, (n - 1).bit_length())


def random_turns(rng, shape, is_complex):
    turns = rng.integers(0, 4, shape) if is_complex else 2 * rng.integers(0, 2, shape)
    return turns.astype(np.int8)


def random_weights(kernel, rng, d_in, D, degree, is_complex, blocks=None, d=None):
    """Weights for D columns of rows with d_in coordinates; blocks are of d."""
    d = d or power_of_two(d_in)
    blocks = blocks or -(-D // d)
    if kernel == "tensor_srht":
        order = [[rng.permutation(d) for _ in range(blocks)] for _ in range(degree)]
        places = np.array(order, np.int32).reshape(degree, blocks, d)
        return random_turns(rng, places.shape, is_complex), places
    if kernel == "sign_projection":
        return (random_turns(rng, (degree, D, d_in), is_complex),)
    if kernel in ("count_sketch", "tensor_sketch"):
        shape = (degree, d_in) if kernel == "tensor_sketch" else d_in
        buckets = rng.integers(0, D, shape).astype(np.int32)
        return buckets, random_turns(rng, shape, is_complex)
    return (rng.choice(np.array([-1, 1], np.int8), (blocks, 3, d)),) if kernel == "sorf" else ()


def run(kernel, X, weights, out_re, out_im=None, scale=1.0, row_scale=None):
    """Call a kernel once; weights are prepared where it wants that."""
    if kernel not in PREPARED:
        getattr(cpp, kernel)(X, *weights, out_re, *([] if out_im is None else [out_im]))
        return
    columns = () if kernel == "sign_projection" else (out_re.shape[1],)
    form = (*columns, out_im is not None, X.dtype == np.float32)
    prepare = getattr(cpp, f"prepare_{kernel}")
    prepare(*weights, *form)(X, scale, out_re, out_im, row_scale)


def naive(kernel, X, weights, D):
    """The columns in double precision, formula by formula."""
    X = X.astype(float)
    n, d = len(X), weights[0].shape[-1] if kernel in HADAMARD else X.shape[1]
    padded = np.pad(X, ((0, 0), (0, d - X.shape[1])))
    if kernel == "sign_projection":
        return np.prod(np.einsum("nk,jlk->jnl", X, 1j ** weights[0].astype(float)), axis=0)
    if kernel == "count_sketch":
        out = np.zeros((n, D), dtype=complex)
        for k, (bucket, turn) in enumerate(zip(*weights, strict=True)):
            out[:, bucket] += 1j ** float(turn) * X[:, k]
        return out
    if kernel == "tensor_sketch":
        counts = [naive("count_sketch", X, pair, D) for pair in zip(*weights, strict=True)]
        return np.fft.ifft(np.prod(np.fft.fft(counts, axis=2), axis=0), axis=1)
    H = scipy.linalg.hadamard(d, dtype=float)
    if kernel == "fwht":
        return X @ H
    if kernel == "sorf":
        blocks = [(((padded * s[0]) @ H * s[1]) @ H * s[2]) @ H for s in weights[0]]
        return np.concatenate(blocks, axis=1)[:, :D]
    turns, places = weights
    features = np.ones((n, *turns.shape[1:]), dtype=complex)
    for factor, order in zip(1j ** turns.astype(float), places, strict=True):
        for b in range(len(factor)):
            features[:, b] *= ((padded * factor[b]) @ H)[:, order[b]]
    return features.reshape(n, turns[0].size)[:, :D]


GUARD = -12345.0


class Outputs:
    """Planes to write into, cut out of a guarded array."""

    def __init__(self, layout, n, D, dtype, is_complex):
        planes = 2 if is_complex else 1
        if layout == "planar":
            self.base = np.full((planes, n + 2, D + 3), GUARD, dtype)
            views = [plane[1 : n + 1, 2 : D + 2] for plane in self.base]
        elif layout == "complex":
            self.base = np.full((n + 2, D + 3, 2), GUARD, dtype)
            views = [self.base[1 : n + 1, 2 : D + 2, i] for i in range(planes)]
        elif layout == "side_by_side":
            self.base = np.full((n + 2, planes * D + 3), GUARD, dtype)
            views = [self.base[1 : n + 1, 2 + i * D : 2 + (i + 1) * D] for i in range(planes)]
        elif layout == "fortran":
            self.base = np.full((planes, D + 2, n + 3), GUARD, dtype)
            views = [plane[1 : D + 1, 1 : n + 1].T for plane in self.base]
        else:
            self.base = np.full((planes, 2 * n + 2, 3 * D + 3), GUARD, dtype)
            views = [plane[1 : 2 * n + 1 : 2, 3 * D : 0 : -3] for plane in self.base]
        self.re, self.im = views[0], views[1] if is_complex else None

    def value(self):
        value = self.re.astype(complex)
        if self.im is not None:
            value += 1j * self.im
        for view in (self.re, self.im):
            if view is not None:
                view[...] = GUARD
        assert (self.base == GUARD).all(), "wrote outside of the output"
        return value


def check(kernel, X, weights, D, degree, is_complex, layouts, scale=1.0, row_scale=None):
    """A kernel equals its formula; errors are relative to a row's size before cancellation."""
    dtype = X.dtype.type
    factor = 1.0
    if kernel in PREPARED:
        factor = scale * (1.0 if row_scale is None else row_scale[:, None].astype(float))
    expected = factor * naive(kernel, X, weights, D)
    size = np.abs(X.astype(float)).sum(axis=1, keepdims=True)
    size = size**degree if kernel in PREPARED else size
    size = size * (weights[0].shape[-1] if kernel == "sorf" else np.abs(factor))
    bound = 64 * np.finfo(dtype).eps * np.maximum(size, np.finfo(dtype).tiny)
    if kernel == "tensor_sketch":  # the largest feature is a scale of its own
        largest = np.abs(expected).max(initial=np.finfo(dtype).tiny)
        bound = np.minimum(bound, {np.float32: 1e-6, np.float64: 1e-14}[dtype] * largest)
    for layout in layouts:
        out = Outputs(layout, len(X), D, dtype, is_complex)
        run(kernel, X, weights, out.re, out.im, scale, row_scale)
        actual = out.value()
        assert actual.shape == expected.shape
        assert np.all(np.abs(actual - expected) <= bound)


def sizes(kernel, d):
    """(d_in, columns, degree, rows, blocks): all special cases of a size d."""
    if kernel == "fwht":
        return [(d, d, 1, n, None) for n in ROWS]
    if kernel == "tensor_srht":
        return [
            (d, d, 1, 9, 1),
            (d - d // 3, max(1, 2 * d - d // 3), 3, 3, 2),
            (d, d + 1, 4, 1, 2),
            (d // 2 + 1, 2 * d, 2, 8, 3),  # a block that is not used
            (d, max(1, d // 64), 2, 2, 1),  # a small part of a block
            (d, d + max(1, d // 8), 3, 2, 2),
        ]
    if kernel == "sorf":
        return [(d_in, 2 * d - d // 3, 1, 5, 2) for d_in in {d, d // 2 + 1}]
    if kernel == "sign_projection":
        shapes = [(1, 1, 3), (3, 700, 17), (7, 64, 33), (2, 1500, 5)]
        return [(d, D, degree, n, None) for degree, D, n in shapes]
    if kernel == "count_sketch":
        return [(d, D, 1, 13, None) for D in (1, 3, 9, 64, 1000)]
    return [(11, d, 3, 9, None), (1, d, 1, 3, None), (40, d, 5, 2, None)]


POWERS = [2**k for k in range(13)]
SIZES = {
    "fwht": POWERS,
    "tensor_srht": POWERS,
    "sorf": [1, 2, 4, 8, 64, 128, 1024, 2048],
    "sign_projection": [1, 2, 5, 6, 7, 8, 9, 23, 24, 25, 64, 100, 257],
    "count_sketch": [1, 3, 100, 1024],
    "tensor_sketch": LENGTHS,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("kernel", "d", "is_complex"),
    [(k, d, c) for k in KERNELS for d in SIZES[k] for c in (False, True) if not (c and k in REAL)],
)
def test_every_size(kernel, d, is_complex, dtype):
    rng = np.random.default_rng(d)
    for d_in, D, degree, n, blocks in sizes(kernel, d):
        if d * D > 2**22 and kernel == "tensor_srht":
            continue
        X = rng.standard_normal((n, d_in)).astype(dtype)
        weights = random_weights(kernel, rng, d_in, D, degree, is_complex, blocks)
        row_scale = rng.standard_normal(n).astype(dtype)
        layouts = LAYOUTS if kernel == "fwht" else ["complex" if is_complex else "planar"]
        check(kernel, X, weights, D, degree, is_complex, layouts, 0.5, row_scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", ROWS)
def test_every_layout_of_outputs(n, dtype):
    rng = np.random.default_rng(n)
    row_scale = rng.standard_normal(2 * n).astype(dtype)[::2]
    for kernel in set(KERNELS) - {"fwht"}:
        for is_complex in {False, kernel not in REAL}:
            X, D = rng.standard_normal((n, 13)).astype(dtype), 42
            weights = random_weights(kernel, rng, 13, D, 2, is_complex)
            check(kernel, X, weights, D, 2, is_complex, LAYOUTS, -0.7, row_scale)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_fuzzed_shapes_and_strides(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))
    dtype = data.draw(st.sampled_from(DTYPES))
    kernel, layout = (data.draw(st.sampled_from(names)) for names in (KERNELS[:-1], LAYOUTS))
    is_complex = data.draw(st.booleans()) and kernel not in REAL
    n, degree, blocks = (data.draw(st.integers(*limits)) for limits in [(0, 20), (1, 4), (1, 3)])
    d = 2 ** data.draw(st.integers(0, 8))
    d_in = data.draw(st.integers(1, d))
    D = data.draw(st.integers(1 if "sketch" in kernel else 0, blocks * d))
    step, offset = data.draw(st.sampled_from([-2, -1, 1, 3])), data.draw(st.integers(0, 3))
    whole = rng.standard_normal((max(1, n) * abs(step), d_in + offset)).astype(dtype)
    X = whole[::step, offset:][:n]
    weights = random_weights(kernel, rng, d_in, D, degree, is_complex, blocks, d)
    if kernel == "tensor_sketch" and not cpp.has_small_factors(D):
        with pytest.raises(ValueError, match="prime factors"):
            check(kernel, X, weights, D, degree, is_complex, [layout])
        return
    check(kernel, X, weights, D, degree, is_complex, [layout])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("log2_d", range(13, 21))
def test_large_fwht_by_its_inverse_and_a_sampled_column(log2_d, dtype):
    d = 2**log2_d
    X = np.random.default_rng(d).integers(-8, 9, (3, d)).astype(dtype)  # sums below 2^24: exact
    out = np.empty_like(X)
    cpp.fwht(X, out)
    for column in [0, 1, d // 2 + 5, d - 1]:
        parity = np.bitwise_count(np.arange(d) & column) % 2
        assert np.array_equal(out[:, column], X @ (1.0 - 2 * parity))
    cpp.fwht(out, out)
    assert np.array_equal(out, X * d)


def test_which_lengths_a_tensor_sketch_takes():
    def largest_prime(n):
        primes = [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]
        return max(primes, default=1)

    for n in (*range(1, 600), 127 * 131, 127 * 113, 1 << 20):
        assert cpp.has_small_factors(n) == (largest_prime(n) <= 127 if n < 1 << 20 else True)
    for n in (-1, 0, 1 << 21, 997, 3**13):
        assert not cpp.has_small_factors(n)


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


# One row, one result: bits do not depend on the batch, the layout or the instruction set.


@functools.cache
def weights_of_all(kernel, d_in, is_complex):
    # dense weights take D d_in entries to unpack: a few blocks of columns are enough
    D = power_of_two(d_in) * 3 // 2
    D = min(D, 400) if kernel == "sign_projection" else D
    rng = np.random.default_rng(d_in)
    return max(D, 1), random_weights(kernel, rng, d_in, max(D, 1), 2, is_complex)


def all_features(X, layout="planar"):
    """Every kernel on X, side by side; weights depend on the dimension alone."""
    n, d_in = X.shape
    results = []
    for kernel in KERNELS[:-1]:
        for is_complex in {False, kernel not in REAL}:
            D, weights = weights_of_all(kernel, d_in, is_complex)
            out = Outputs(layout, n, D, X.dtype, is_complex)
            run(kernel, X, weights, out.re, out.im, 0.3, (X[:, 0] * X[:, 0]).copy())
            results += [plane for plane in (out.re, out.im) if plane is not None]
    fwht = np.pad(X, ((0, 0), (0, power_of_two(d_in) - d_in)))
    cpp.fwht(fwht, fwht)
    waves, products = (Outputs(layout, n, D, X.dtype, True) for D in (fwht.shape[1], 37))
    cpp.waves(fwht, 0.3, waves.re, waves.im)
    frequencies = np.random.default_rng(d_in).standard_normal((3, d_in, 16)).astype(X.dtype)
    cpp.waves(X, 0.3, products.re, products.im, frequencies)
    results += [fwht, waves.re, waves.im, products.re, products.im]
    return np.concatenate(results, axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d_in", [1, 5, 16, 100, 128, 1000, 2048])
def test_bits_do_not_depend_on_batch_or_layout(d_in, dtype):
    n = 37
    X = np.random.default_rng(0).standard_normal((n, d_in)).astype(dtype)
    expected = all_features(X)
    assert np.array_equal(all_features(X, "complex"), expected)
    for size in [1, 3, 8, 20]:
        pieces = [all_features(X[i : i + size]) for i in range(0, n, size)]
        assert np.array_equal(np.concatenate(pieces), expected)
    order = np.random.default_rng(1).permutation(n)
    assert np.array_equal(all_features(X[order]), expected[order])


ISA_SCRIPT = """
import sys, hashlib, numpy as np
sys.path[:0] = sys.argv[1:]
from _backends.test_kernels import all_features, random_weights, run
from dotsketch._backends import cpp
digest, rng = hashlib.sha256(), np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    for d_in in (3, 64, 100, 1000):
        X = rng.standard_normal((19, d_in)).astype(dtype)
        digest.update(all_features(X).tobytes())
    for D in (2, 35, 120, 127, 320, 1024, 3 * 49):
        X = rng.standard_normal((3, 20)).astype(dtype)
        for is_complex in (False, True):
            out = np.zeros((2, 3, D), dtype)
            weights = random_weights("tensor_sketch", rng, 20, D, 3, is_complex)
            run("tensor_sketch", X, weights, out[0], out[1] if is_complex else None)
            digest.update(out.tobytes())
print(cpp.ISA, digest.hexdigest())
"""


def run_with_environment(script, **environment):
    paths = [os.path.dirname(__file__), *(p for p in sys.path if p)]
    return subprocess.run(
        [sys.executable, "-c", script, *paths],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def test_bits_do_not_depend_on_the_instruction_set():
    digests = {}
    for isa in ("baseline", "v3", "v4"):
        done = run_with_environment(ISA_SCRIPT, DOTSKETCH_ISA=isa)
        if done.returncode == 0:
            name, digest = done.stdout.split()
            assert name == isa
            digests[isa] = digest
        else:
            assert isa != "baseline", done.stderr
            assert "this CPU lacks it" in done.stderr
    assert len(set(digests.values())) == 1, digests


LEVELS = {  # what x86-64-v3 and x86-64-v4 name, in the words of /proc/cpuinfo
    "v3": "pni ssse3 fma cx16 sse4_1 sse4_2 movbe popcnt avx f16c bmi1 avx2 bmi2 lahf_lm abm",
    "v4": "avx512f avx512dq avx512cd avx512bw avx512vl",
}


@pytest.mark.skipif("DOTSKETCH_ISA" in os.environ, reason="DOTSKETCH_ISA chooses.")
@pytest.mark.skipif(
    platform.system() != "Linux" or platform.machine() != "x86_64", reason="Reads /proc/cpuinfo."
)
def test_chosen_instruction_set_is_the_highest_level_of_the_cpu():
    with open("/proc/cpuinfo") as lines:
        flags = next(line for line in lines if line.startswith("flags")).split()
    expected = "baseline"
    for level, names in LEVELS.items():
        if not set(names.split()) <= set(flags):
            break
        expected = level
    assert expected == cpp.ISA


def test_environment_turns_the_extension_off():
    script = (
        "import sys; sys.path[:0] = sys.argv[1:]; from dotsketch._backends import cpp; "
        "print(cpp.AVAILABLE, cpp.ISA)"
    )
    assert run_with_environment(script, DOTSKETCH_FAST="0").stdout.split() == ["False", "none"]


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_nonfinite_values_stay_in_their_row(poison):
    X = np.random.default_rng(0).standard_normal((21, 64)).astype(np.float32)
    expected = all_features(X)
    bad = [2, 9, 20]
    X[bad, 5] = poison
    actual = all_features(X)
    good = np.setdiff1d(np.arange(len(X)), bad)
    assert np.array_equal(actual[good], expected[good])
    assert not np.isfinite(actual[bad]).all(axis=1).any()


def test_rows_may_have_any_stride_and_be_read_only():
    whole = np.random.default_rng(0).standard_normal((40, 30))
    whole.flags.writeable = False
    repeated = np.broadcast_to(whole[0], (9, 30))
    for X in (whole[::3, 2:21], whole[::-1, 5:], repeated, whole[:1].T[:1]):
        assert np.array_equal(all_features(X), all_features(X.copy()))


# Wrong arguments raise with a remedy and never crash.

READ_ONLY = np.zeros((3, 12))
READ_ONLY.flags.writeable = False
I8, I32 = np.int8, np.int32
PERMUTATIONS = np.tile(np.arange(8, dtype=I32), (2, 2, 1))
ARGUMENTS = {
    "tensor_srht": {
        "X": np.zeros((3, 6)), "weights": (np.zeros((2, 2, 8), I8), PERMUTATIONS),
        "out_re": np.zeros((3, 12)),
    },
    "sign_projection": {
        "X": np.zeros((3, 4)), "weights": (np.zeros((2, 5, 4), I8),), "out_re": np.zeros((3, 5))
    },
    "tensor_sketch": {
        "X": np.zeros((3, 4)), "weights": (np.zeros((2, 4), I32), np.zeros((2, 4), I8)),
        "out_re": np.zeros((3, 6)),
    },
    "count_sketch": {
        "X": np.zeros((3, 4)), "weights": (np.zeros(4, I32), np.zeros(4, I8)),
        "out_re": np.zeros((3, 5)),
    },
    "sorf": {
        "X": np.zeros((3, 4)), "weights": (np.ones((1, 3, 4), I8),), "out_re": np.zeros((3, 4))
    },
    "fwht": {"X": np.zeros((3, 4)), "weights": (), "out_re": np.zeros((3, 4))},
}  # fmt: skip


def turns(values):
    return {"weights": (values, PERMUTATIONS)}


def places(values):
    return {"weights": (np.zeros((2, 2, 8), I8), values)}


COMPLEX = {"out_im": np.zeros((3, 12))}
SRHT_WRONG = [
    ({"X": np.zeros((3, 6), I32)}, TypeError, "float64, as these weights"),
    ({"X": np.zeros((3, 6), np.complex128)}, TypeError, "float64, as these weights"),
    ({"X": np.zeros((3, 6), np.float32)}, TypeError, "float32, as X"),
    ({"X": np.zeros(6)}, ValueError, "2 axes"),
    ({"X": np.zeros((6, 3)).T}, ValueError, "contiguous"),
    ({"X": np.zeros((3, 9))}, ValueError, "1 to 8"),
    ({"X": np.zeros((3, 0))}, ValueError, "1 to 8"),
    ({"X": np.zeros((4, 6))}, ValueError, "rows"),
    (turns(np.zeros((2, 2, 8), I32)), TypeError, "int8"),
    (turns(np.zeros((2, 8), I8)), ValueError, "3 axes"),
    (turns(np.ones((2, 2, 8), I8)), ValueError, "0 or 2"),
    (turns(np.full((2, 2, 8), 4, I8)) | COMPLEX, ValueError, "0, 1, 2 or 3"),
    (turns(np.full((2, 2, 8), -1, I8)) | COMPLEX, ValueError, "0, 1, 2 or 3"),
    (turns(np.zeros((2, 2, 16), I8)[:, :, ::2]), ValueError, "C-contiguous"),
    (turns(np.zeros((1, 2, 8), I8)), ValueError, "same shape"),
    (places(np.zeros((2, 2, 8), I32)), ValueError, "permutation"),
    (places(PERMUTATIONS + I32(1)), ValueError, "permutation"),
    (places(PERMUTATIONS - I32(1)), ValueError, "permutation"),
    ({"out_re": np.zeros((3, 17))}, ValueError, "more blocks"),
    ({"out_re": READ_ONLY}, TypeError, "incompatible function arguments"),
    ({"out_im": np.zeros((3, 11))}, ValueError, "same shape"),
    ({"row_scale": np.zeros(2)}, ValueError, "row_scale"),
    ({"row_scale": np.zeros(3, np.float32)}, TypeError, "row_scale"),
    ({"weights": (np.zeros((1, 1, 6), I8), PERMUTATIONS[:1, :1, :6])}, ValueError, "power of two"),
    ({"weights": (np.zeros((0, 2, 8), I8), PERMUTATIONS[:0])}, ValueError, "degree"),
]
HASHES = np.zeros((2, 4), I32), np.zeros((2, 4), I8)
MISALIGNED = np.zeros(8 * 12 + 1, np.uint8)[1:].view(np.float64).reshape(3, 4)
OTHERS_WRONG = [
    ("sign_projection", {"weights": (np.zeros((2, 5, 3), I8),)}, "X has 4 columns; .* are for 3"),
    ("sign_projection", {"weights": (np.zeros((2, 4, 4), I8),)}, "has 4 columns, not 5"),
    ("sign_projection", {"weights": (np.ones((2, 5, 4), I8),)}, "0 or 2"),
    ("sign_projection", {"weights": (np.zeros((0, 5, 4), I8),)}, "degree"),
    ("tensor_sketch", {"out_re": np.zeros((3, 131))}, "prime factors above 127"),
    ("tensor_sketch", {"out_re": np.zeros((3, 0))}, "1 to 2\\^20 columns"),
    ("tensor_sketch", {"out_re": np.zeros((2, 6))}, "2 rows, X has 3"),
    (
        "tensor_sketch",
        {"weights": (HASHES[0] + I32(6), HASHES[1])},
        "buckets must lie in 0, ..., 5",
    ),
    ("tensor_sketch", {"weights": (HASHES[0] - I32(1), HASHES[1])}, "buckets must lie"),
    (
        "tensor_sketch",
        {"weights": (HASHES[0][:, :3].copy(), HASHES[1])},
        r"are \(2, 3\) and \(2, 4",
    ),
    ("tensor_sketch", {"weights": (HASHES[0][:1], HASHES[1])}, r"are \(1, 4\) and \(2, 4\)"),
    ("tensor_sketch", {"weights": (HASHES[0], HASHES[1] + I8(1))}, "0 or 2"),
    ("tensor_sketch", {"weights": (HASHES[0], HASHES[1] + I8(4))}, "0, 1, 2 or 3"),
    ("tensor_sketch", {"row_scale": np.zeros(2)}, "row_scale"),
    ("tensor_sketch", {"weights": (HASHES[0][:0], HASHES[1][:0])}, "at least one degree"),
    ("count_sketch", {"weights": (np.full(4, 5, I32), np.zeros(4, I8))}, "buckets must lie"),
    ("count_sketch", {"weights": (np.full(4, -1, I32), np.zeros(4, I8))}, "buckets must lie"),
    ("count_sketch", {"weights": (np.zeros(3, I32), np.zeros(4, I8))}, "buckets and turns"),
    ("sorf", {"weights": (np.zeros((1, 3, 4), I8),)}, "1 or -1"),
    ("sorf", {"weights": (np.ones((1, 2, 4), I8),)}, "shape"),
    ("sorf", {"weights": (np.ones((1, 3, 2), I8),), "out_re": np.zeros((3, 2))}, "1 to 2"),
    ("sorf", {"out_re": np.zeros((3, 5))}, "more blocks"),
    ("fwht", {"X": np.zeros((3, 6)), "out_re": np.zeros((3, 6))}, "power of two"),
    ("fwht", {"X": np.zeros((3, 0)), "out_re": np.zeros((3, 0))}, "power of two"),
    ("fwht", {"out_re": np.zeros((3, 8))}, "same shape"),
    ("fwht", {"X": MISALIGNED}, "aligned"),
]
TYPES_WRONG = [
    ({"X": [[1.0, 2.0]]}, "incompatible"),
    ({"out_re": np.zeros((3, 4), np.float32)}, "float64, as X"),
    ({"X": np.zeros((3, 4), I32)}, "float32 or float64"),
    ({"X": np.zeros((3, 4), np.complex128)}, "float32 or float64"),
]


@pytest.mark.parametrize(
    ("kernel", "changes", "error", "message"),
    [
        *(("tensor_srht", *wrong) for wrong in SRHT_WRONG),
        *((kernel, changes, ValueError, message) for kernel, changes, message in OTHERS_WRONG),
        *(("fwht", changes, TypeError, message) for changes, message in TYPES_WRONG),
    ],
)
def test_wrong_arguments_are_refused(kernel, changes, error, message):
    run(kernel, **ARGUMENTS[kernel])
    with pytest.raises(error, match=message):
        run(kernel, **ARGUMENTS[kernel] | changes)


def test_input_and_output_may_not_share_memory():
    memory = np.random.default_rng(0).standard_normal(400)
    X = memory[:64].reshape(8, 8)
    weights = np.zeros((1, 1, 8), I8), np.arange(8, dtype=I32).reshape(1, 1, 8)
    overlapping = [X, memory[4:68].reshape(8, 8), memory[63:127].reshape(8, 8), X[::-1]]
    for out in overlapping:
        for planes in ((out,), (np.empty((8, 8)), out)):
            with pytest.raises(ValueError, match="share memory"):
                run("tensor_srht", X, weights, *planes)
        with pytest.raises(ValueError, match="share memory"):
            cpp.waves(X, 1.0, out)
    for out in overlapping[1:]:  # out may be X itself, but no part of it
        with pytest.raises(ValueError, match="share memory"):
            cpp.fwht(X, out)
    beside = memory[:160].reshape(8, 20)  # two matrices in the rows of one array share none
    for inputs, out in [(beside[:, :8], beside[:, 8:16]), (beside[:, 12:], beside[:, 4:12])]:
        expected = np.empty((8, 8))
        cpp.fwht(inputs.copy(), expected)
        cpp.fwht(inputs, out)
        assert np.array_equal(out, expected)
    with pytest.raises(ValueError, match="share memory"):
        cpp.fwht(beside[:, :8], beside[:, 7:15])


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", PREPARED)
def test_prepared_weights_are_copies_that_any_call_may_use(kernel, dtype, is_complex):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((11, 6)).astype(dtype)
    weights = random_weights(kernel, rng, 6, 12, 2, is_complex)
    expected, actual = (np.zeros((11, 12), np.result_type(dtype, np.complex64)) for _ in "ab")
    both = [(z.real, z.imag if is_complex else None) for z in (expected, actual)]
    run(kernel, X, weights, *both[0], 0.5)
    columns = () if kernel == "sign_projection" else (12,)
    prepare = getattr(cpp, f"prepare_{kernel}")
    apply = prepare(*weights, *columns, is_complex, dtype is np.float32)
    for array in weights:
        array[:] = 100  # far outside: what was prepared must not look
    for _ in range(2):
        apply(X, 0.5, *both[1])
        assert np.array_equal(actual, expected)
    with pytest.raises(ValueError, match="columns"):
        apply(np.zeros((3, 9), dtype), 0.5, *(None if z is None else z[:3] for z in both[1]))
    with pytest.raises(ValueError, match="12 columns, not 11"):
        apply(X, 0.5, *(None if z is None else z[:, 1:] for z in both[1]))
    with pytest.raises(TypeError):
        apply(X.astype(np.float32 if dtype is np.float64 else np.float64), 0.5, *both[1])
