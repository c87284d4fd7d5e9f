"""The compiled kernels equal naive NumPy references, for every type, shape and output layout.

A row's result has the same bits in every batch and for every instruction set, and wrong arguments
are refused.
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


# Weights that are prepared and used once.


def tensor_srht(X, turns, places, scale, out_re, out_im=None, row_scale=None):
    form = (out_re.shape[1], out_im is not None, X.dtype == np.float32)
    cpp.prepare_tensor_srht(turns, places, *form)(X, scale, out_re, out_im, row_scale)


def sign_projection(X, turns, scale, out_re, out_im=None, row_scale=None):
    form = (out_im is not None, X.dtype == np.float32)
    cpp.prepare_sign_projection(turns, *form)(X, scale, out_re, out_im, row_scale)


def tensor_sketch(X, buckets, turns, scale, out_re, out_im=None, row_scale=None):
    form = (out_re.shape[1], out_im is not None, X.dtype == np.float32)
    cpp.prepare_tensor_sketch(buckets, turns, *form)(X, scale, out_re, out_im, row_scale)


# Naive references, in double precision.


def naive_tensor_srht(X, turns, places, scale, n_columns, row_scale=None):
    degree, blocks, d = turns.shape
    padded = np.zeros((len(X), d))
    padded[:, : X.shape[1]] = X
    weights = 1j ** turns.astype(float)
    features = np.ones((len(X), blocks, d), dtype=complex)
    H = scipy.linalg.hadamard(d, dtype=float)
    for j in range(degree):
        for b in range(blocks):
            transformed = (padded * weights[j, b]) @ H
            features[:, b] *= transformed[:, places[j, b]]
    return scaled(features.reshape(len(X), blocks * d)[:, :n_columns], scale, row_scale)


def naive_sign_projection(X, turns, scale, row_scale=None):
    weights = 1j ** turns.astype(float)
    return scaled(np.prod(np.einsum("nk,jlk->jnl", X, weights), axis=0), scale, row_scale)


def naive_count_sketch(X, buckets, turns, n_columns):
    out = np.zeros((len(X), n_columns), dtype=complex)
    for k in range(X.shape[1]):
        out[:, buckets[k]] += 1j ** float(turns[k]) * X[:, k]
    return out


def naive_sorf(X, signs, n_columns):
    _blocks, _, d = signs.shape
    padded = np.zeros((len(X), d))
    padded[:, : X.shape[1]] = X
    H = scipy.linalg.hadamard(d)
    out = [(((padded * s[0]) @ H * s[1]) @ H * s[2]) @ H for s in signs]
    return np.concatenate(out, axis=1)[:, :n_columns]


def scaled(features, scale, row_scale):
    return features * scale * (1 if row_scale is None else row_scale[:, None].astype(float))


# Data, and outputs with all kinds of strides. Elements around an output must stay as they are.

GUARD = -12345.0


def random_turns(rng, shape, is_complex):
    turns = rng.integers(0, 4, shape) if is_complex else 2 * rng.integers(0, 2, shape)
    return turns.astype(np.int8)


def random_places(rng, degree, blocks, d):
    return np.stack(
        [np.stack([rng.permutation(d) for _ in range(blocks)]) for _ in range(degree)]
    ).astype(np.int32)


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


def assert_near(actual, expected, dtype, size):
    """Errors are relative to the size of a row's features before cancellation."""
    bound = 64 * np.finfo(dtype).eps * np.maximum(size, np.finfo(dtype).tiny)
    assert actual.shape == expected.shape
    assert np.all(np.abs(actual - expected) <= bound)


def norm_power(X, degree, scale=1.0):
    return abs(scale) * np.abs(X.astype(float)).sum(axis=1, keepdims=True) ** degree


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
def test_fwht(d, dtype):
    rng = np.random.default_rng(d)
    H = scipy.linalg.hadamard(d, dtype=float)
    for n in ROWS:
        X = rng.standard_normal((n, d)).astype(dtype)
        expected = X.astype(float) @ H
        for layout in LAYOUTS:
            out = Outputs(layout, n, d, dtype, False)
            cpp.fwht(X, out.re)
            assert_near(out.value(), expected, dtype, norm_power(X, 1))
        in_place = X.copy()
        cpp.fwht(in_place, in_place)
        assert_near(in_place, expected, dtype, norm_power(X, 1))


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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("d", [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096])
def test_tensor_srht(d, is_complex, dtype):
    rng = np.random.default_rng(d)
    for degree, blocks, D, d_in, n in [
        (1, 1, d, d, 9),
        (3, 2, max(1, 2 * d - d // 3), d - d // 3, 3),
        (4, 2, d + 1, d, 1),
        (2, 3, 2 * d, d // 2 + 1, 8),  # a block that is not used
        (2, 1, max(1, d // 64), d, 2),  # a small part of a block
        (3, 2, d + max(1, d // 8), d, 2),
    ]:
        if d_in > d or blocks * d < D or d * D > 2**22:
            continue
        X = rng.standard_normal((n, d_in)).astype(dtype)
        turns, places = (
            random_turns(rng, (degree, blocks, d), is_complex),
            random_places(rng, degree, blocks, d),
        )
        row_scale = rng.standard_normal(n).astype(dtype)
        out = Outputs("complex" if is_complex else "planar", n, D, dtype, is_complex)
        tensor_srht(X, turns, places, 0.5, out.re, out.im, row_scale)
        expected = naive_tensor_srht(X, turns, places, 0.5, D, row_scale)
        assert_near(
            out.value(), expected, dtype, norm_power(X, degree, 0.5) * np.abs(row_scale)[:, None]
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", ROWS)
def test_every_layout_of_outputs(n, layout, is_complex, dtype):
    rng = np.random.default_rng(n)
    d, d_in, D, degree = 16, 13, 43, 2
    X = rng.standard_normal((n, d_in)).astype(dtype)
    row_scale = rng.standard_normal(2 * n).astype(dtype)[::2]

    turns, places = random_turns(rng, (degree, 3, d), is_complex), random_places(rng, degree, 3, d)
    out = Outputs(layout, n, D, dtype, is_complex)
    tensor_srht(X, turns, places, 2.0, out.re, out.im, row_scale)
    size = norm_power(X, degree, 2.0) * np.abs(row_scale)[:, None]
    assert_near(out.value(), naive_tensor_srht(X, turns, places, 2.0, D, row_scale), dtype, size)

    turns = random_turns(rng, (degree, D, d_in), is_complex)
    out = Outputs(layout, n, D, dtype, is_complex)
    sign_projection(X, turns, 2.0, out.re, out.im, row_scale)
    assert_near(out.value(), naive_sign_projection(X, turns, 2.0, row_scale), dtype, size)

    turns, buckets = random_turns(rng, d_in, is_complex), rng.integers(0, D, d_in).astype(np.int32)
    out = Outputs(layout, n, D, dtype, is_complex)
    cpp.count_sketch(X, buckets, turns, out.re, out.im)
    assert_near(out.value(), naive_count_sketch(X, buckets, turns, D), dtype, norm_power(X, 1))

    if not is_complex:
        signs = rng.choice(np.array([-1, 1], np.int8), (3, 3, d))
        out = Outputs(layout, n, D, dtype, is_complex)
        cpp.sorf(X, signs, out.re)
        assert_near(out.value(), naive_sorf(X, signs, D), dtype, d * norm_power(X, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("d_in", [1, 2, 5, 6, 7, 8, 9, 23, 24, 25, 64, 100, 257])
def test_sign_projection(d_in, is_complex, dtype):
    rng = np.random.default_rng(d_in)
    for degree, D, n in [(1, 1, 3), (3, 700, 17), (7, 64, 33), (2, 1500, 5)]:
        X = rng.standard_normal((n, d_in)).astype(dtype)
        turns = random_turns(rng, (degree, D, d_in), is_complex)
        out = Outputs("planar", n, D, dtype, is_complex)
        sign_projection(X, turns, 1.0, out.re, out.im)
        assert_near(out.value(), naive_sign_projection(X, turns, 1.0), dtype, norm_power(X, degree))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(
    ("d_in", "D"), [(1, 1), (1, 9), (100, 3), (100, 64), (3, 1000), (1024, 1024)]
)
def test_count_sketch(d_in, D, is_complex, dtype):
    rng = np.random.default_rng(d_in)
    X = rng.standard_normal((13, d_in)).astype(dtype)
    turns, buckets = random_turns(rng, d_in, is_complex), rng.integers(0, D, d_in).astype(np.int32)
    out = Outputs("complex" if is_complex else "planar", 13, D, dtype, is_complex)
    cpp.count_sketch(X, buckets, turns, out.re, out.im)
    assert_near(out.value(), naive_count_sketch(X, buckets, turns, D), dtype, norm_power(X, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [1, 2, 4, 8, 64, 128, 1024, 2048])
def test_sorf(d, dtype):
    rng = np.random.default_rng(d)
    for d_in in {d, d // 2 + 1}:
        X = rng.standard_normal((5, d_in)).astype(dtype)
        signs = rng.choice(np.array([-1, 1], np.int8), (2, 3, d))
        D = 2 * d - d // 3
        out = Outputs("planar", 5, D, dtype, False)
        cpp.sorf(X, signs, out.re)
        assert_near(out.value(), naive_sorf(X, signs, D), dtype, d * norm_power(X, 1))


# One row, one result: bits do not depend on the batch, the layout or the instruction set.


@functools.cache
def weights_of_all(d_in, is_complex):
    rng = np.random.default_rng(d_in)
    d = 1 << max(0, (d_in - 1).bit_length())
    D = d + d // 2
    return {
        "srht": (random_turns(rng, (3, 2, d), is_complex), random_places(rng, 3, 2, d)),
        # dense weights take D d_in entries to unpack: a few blocks of columns are enough
        "signs": random_turns(rng, (2, min(D, 400), d_in), is_complex),
        "count": (rng.integers(0, D, d_in).astype(np.int32), random_turns(rng, d_in, is_complex)),
        "convolution": (
            rng.integers(0, D, (2, d_in)).astype(np.int32),
            random_turns(rng, (2, d_in), is_complex),
        ),
        "sorf": rng.choice(np.array([-1, 1], np.int8), (2, 3, d)),
        "frequencies": rng.standard_normal((3, d_in, 16)),
    }


def all_features(X, planar=True):
    """Every kernel on X, side by side; weights depend on the dimension alone."""
    n, d_in = X.shape
    d = 1 << max(0, (d_in - 1).bit_length())
    D = d + d // 2
    results = []
    for is_complex in (False, True):
        weights = weights_of_all(d_in, is_complex)
        for kernel in ("srht", "signs", "count", "convolution"):
            shape = (n, min(D, 400) if kernel == "signs" else D)
            if planar:
                re, im = np.empty(shape, X.dtype), np.empty(shape, X.dtype)
            else:
                whole = np.empty(shape, np.result_type(X.dtype, np.complex64))
                re, im = whole.real, whole.imag
            planes = (re, im) if is_complex else (re, None)
            if kernel == "srht":
                tensor_srht(X, *weights["srht"], 0.3, *planes, (X[:, 0] * X[:, 0]).copy())
            elif kernel == "signs":
                sign_projection(X, weights["signs"], 0.3, *planes)
            elif kernel == "convolution":
                tensor_sketch(X, *weights["convolution"], 0.3, *planes)
            else:
                cpp.count_sketch(X, *weights["count"], *planes)
            results += [plane for plane in planes if plane is not None]
    sorf = np.empty((n, D), X.dtype)
    cpp.sorf(X, weights["sorf"], sorf)
    fwht = np.zeros((n, d), X.dtype)
    fwht[:, :d_in] = X
    cpp.fwht(fwht, fwht)
    waves = np.empty((2, n, D), X.dtype)
    cpp.waves(sorf, 0.3, *waves)
    if planar:
        products = np.empty((2, n, 37), X.dtype)
    else:
        products = np.empty((n, 37), np.result_type(X.dtype, np.complex64))
        products = products.real, products.imag
    cpp.waves(X, 0.3, *products, weights["frequencies"].astype(X.dtype))
    return np.concatenate([*results, sorf, fwht, *waves, *products], axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d_in", [1, 5, 16, 100, 128, 1000, 2048])
def test_bits_do_not_depend_on_batch_or_layout(d_in, dtype):
    n = 37
    X = np.random.default_rng(0).standard_normal((n, d_in)).astype(dtype)
    expected = all_features(X)
    assert np.array_equal(all_features(X, planar=False), expected)
    for size in [1, 3, 8, 20]:
        pieces = [all_features(X[i : i + size]) for i in range(0, n, size)]
        assert np.array_equal(np.concatenate(pieces), expected)
    order = np.random.default_rng(1).permutation(n)
    assert np.array_equal(all_features(X[order]), expected[order])


ISA_SCRIPT = """
import sys, hashlib, numpy as np
sys.path[:0] = sys.argv[1:]
from _backends.test_kernels import all_features
from dotsketch._backends import cpp
digest = hashlib.sha256()
for dtype in (np.float32, np.float64):
    for d_in in (3, 64, 100, 1000):
        X = np.random.default_rng(0).standard_normal((19, d_in)).astype(dtype)
        digest.update(all_features(X).tobytes())
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
        run = run_with_environment(ISA_SCRIPT, DOTSKETCH_ISA=isa)
        if run.returncode == 0:
            name, digest = run.stdout.split()
            assert name == isa
            digests[isa] = digest
        else:
            assert isa != "baseline", run.stderr
            assert "this CPU lacks it" in run.stderr
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
    rng = np.random.default_rng(0)
    whole = rng.standard_normal((40, 30))
    whole.flags.writeable = False
    for X in [
        whole[::3, 2:21],
        whole[::-1, 5:],
        np.broadcast_to(whole[0], (9, 30)),
        whole[:1].T[:1],
    ]:
        assert np.array_equal(all_features(X), all_features(X.copy()))


# Wrong arguments raise with a remedy and never crash.


def srht_arguments(**changes):
    arguments = {
        "X": np.zeros((3, 6)),
        "turns": np.zeros((2, 2, 8), np.int8),
        "places": np.tile(np.arange(8, dtype=np.int32), (2, 2, 1)),
        "scale": 1.0,
        "out_re": np.zeros((3, 12)),
        "out_im": None,
        "row_scale": None,
    }
    return {**arguments, **changes}


READ_ONLY = np.zeros((3, 12))
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"X": np.zeros((3, 6), np.int32)}, TypeError, "float64, as these weights"),
        ({"X": np.zeros((3, 6), np.complex128)}, TypeError, "float64, as these weights"),
        ({"X": np.zeros((3, 6), np.float32)}, TypeError, "float32, as X"),
        ({"X": np.zeros(6)}, ValueError, "2 axes"),
        ({"X": np.zeros((6, 3)).T}, ValueError, "contiguous"),
        ({"X": np.zeros((3, 9))}, ValueError, "1 to 8"),
        ({"X": np.zeros((3, 0))}, ValueError, "1 to 8"),
        ({"X": np.zeros((4, 6))}, ValueError, "rows"),
        ({"turns": np.zeros((2, 2, 8), np.int32)}, TypeError, "int8"),
        ({"turns": np.zeros((2, 8), np.int8)}, ValueError, "3 axes"),
        ({"turns": np.ones((2, 2, 8), np.int8)}, ValueError, "0 or 2"),
        (
            {"turns": np.full((2, 2, 8), 4, np.int8), "out_im": np.zeros((3, 12))},
            ValueError,
            "0, 1, 2 or 3",
        ),
        (
            {"turns": np.full((2, 2, 8), -1, np.int8), "out_im": np.zeros((3, 12))},
            ValueError,
            "0, 1, 2 or 3",
        ),
        ({"turns": np.zeros((2, 2, 16), np.int8)[:, :, ::2]}, ValueError, "C-contiguous"),
        ({"turns": np.zeros((1, 2, 8), np.int8)}, ValueError, "same shape"),
        ({"places": np.zeros((2, 2, 8), np.int32)}, ValueError, "permutation"),
        (
            {"places": np.tile(np.arange(1, 9, dtype=np.int32), (2, 2, 1))},
            ValueError,
            "permutation",
        ),
        (
            {"places": np.tile(np.arange(-1, 7, dtype=np.int32), (2, 2, 1))},
            ValueError,
            "permutation",
        ),
        ({"out_re": np.zeros((3, 17))}, ValueError, "more blocks"),
        ({"out_re": READ_ONLY}, TypeError, "incompatible function arguments"),
        ({"out_im": np.zeros((3, 11))}, ValueError, "same shape"),
        ({"row_scale": np.zeros(2)}, ValueError, "row_scale"),
        ({"row_scale": np.zeros(3, np.float32)}, TypeError, "row_scale"),
        (
            {
                "turns": np.zeros((1, 1, 6), np.int8),
                "places": np.arange(6, dtype=np.int32).reshape(1, 1, 6),
            },
            ValueError,
            "power of two",
        ),
        (
            {"turns": np.zeros((0, 2, 8), np.int8), "places": np.zeros((0, 2, 8), np.int32)},
            ValueError,
            "degree",
        ),
    ],
)
def test_tensor_srht_refuses(changes, error, message):
    tensor_srht(**srht_arguments())
    with pytest.raises(error, match=message):
        tensor_srht(**srht_arguments(**changes))


def test_other_kernels_refuse():
    X, int8, int32 = np.zeros((3, 4)), np.int8, np.int32
    cases = [
        (cpp.fwht, (np.zeros((3, 6)), np.zeros((3, 6))), "power of two"),
        (cpp.fwht, (np.zeros((3, 0)), np.zeros((3, 0))), "power of two"),
        (cpp.fwht, (X, np.zeros((3, 8))), "same shape"),
        (
            sign_projection,
            (X, np.zeros((2, 5, 3), int8), 1.0, np.zeros((3, 5))),
            "X has 4 columns; these weights are for 3",
        ),
        (
            sign_projection,
            (X, np.zeros((2, 4, 4), int8), 1.0, np.zeros((3, 5))),
            "has 4 columns, not 5",
        ),
        (sign_projection, (X, np.ones((2, 5, 4), int8), 1.0, np.zeros((3, 5))), "0 or 2"),
        (sign_projection, (X, np.zeros((0, 5, 4), int8), 1.0, np.zeros((3, 5))), "degree"),
        (
            cpp.count_sketch,
            (X, np.full(4, 5, int32), np.zeros(4, int8), np.zeros((3, 5))),
            "buckets must lie",
        ),
        (
            cpp.count_sketch,
            (X, np.full(4, -1, int32), np.zeros(4, int8), np.zeros((3, 5))),
            "buckets must lie",
        ),
        (
            cpp.count_sketch,
            (X, np.zeros(3, int32), np.zeros(4, int8), np.zeros((3, 5))),
            "buckets and turns",
        ),
        (cpp.sorf, (X, np.zeros((1, 3, 4), int8), np.zeros((3, 4))), "1 or -1"),
        (cpp.sorf, (X, np.ones((1, 2, 4), int8), np.zeros((3, 4))), "shape"),
        (cpp.sorf, (X, np.ones((1, 3, 2), int8), np.zeros((3, 2))), "1 to 2"),
        (cpp.sorf, (X, np.ones((1, 3, 4), int8), np.zeros((3, 5))), "more blocks"),
    ]
    for function, arguments, message in cases:
        with pytest.raises(ValueError, match=message):
            function(*arguments)
    misaligned = np.zeros(8 * 12 + 1, np.uint8)[1:].view(np.float64).reshape(3, 4)
    with pytest.raises(ValueError, match="aligned"):
        cpp.fwht(misaligned, np.zeros((3, 4)))
    with pytest.raises(TypeError):
        cpp.fwht([[1.0, 2.0]], X)
    with pytest.raises(TypeError, match="float64, as X"):
        cpp.fwht(X, X.astype(np.float32))
    for dtype in (np.int32, np.complex128):
        with pytest.raises(TypeError, match="float32 or float64"):
            cpp.fwht(X.astype(dtype), X)


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_fuzzed_shapes_and_strides(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), label="seed"))
    dtype = data.draw(st.sampled_from(DTYPES))
    is_complex = data.draw(st.booleans())
    layout = data.draw(st.sampled_from(LAYOUTS))
    n, degree, blocks = (data.draw(st.integers(*limits)) for limits in [(0, 20), (1, 4), (1, 3)])
    d = 2 ** data.draw(st.integers(0, 8))
    d_in = data.draw(st.integers(1, d))
    D = data.draw(st.integers(0, blocks * d))
    step, offset = data.draw(st.sampled_from([-2, -1, 1, 3])), data.draw(st.integers(0, 3))
    X = rng.standard_normal((max(1, n) * abs(step), d_in + offset)).astype(dtype)[::step, offset:][
        :n
    ]
    kernel = data.draw(
        st.sampled_from(["tensor_srht", "sign_projection", "count_sketch", "tensor_sketch", "sorf"])
    )
    is_complex &= kernel != "sorf"
    out = Outputs(layout, n, D, dtype, is_complex)
    size = norm_power(X, degree)
    if kernel == "tensor_srht":
        turns, places = (
            random_turns(rng, (degree, blocks, d), is_complex),
            random_places(rng, degree, blocks, d),
        )
        tensor_srht(X, turns, places, 1.0, out.re, out.im)
        expected = naive_tensor_srht(X, turns, places, 1.0, D)
    elif kernel == "sign_projection":
        turns = random_turns(rng, (degree, D, d_in), is_complex)
        sign_projection(X, turns, 1.0, out.re, out.im)
        expected = naive_sign_projection(X, turns, 1.0)
    elif kernel == "count_sketch":
        D = max(D, 1)
        out, size = Outputs(layout, n, D, dtype, is_complex), norm_power(X, 1)
        turns, buckets = (
            random_turns(rng, d_in, is_complex),
            rng.integers(0, D, d_in).astype(np.int32),
        )
        cpp.count_sketch(X, buckets, turns, out.re, out.im)
        expected = naive_count_sketch(X, buckets, turns, D)
    elif kernel == "tensor_sketch":
        D = max(D, 1)
        out = Outputs(layout, n, D, dtype, is_complex)
        shape = (degree, d_in)
        turns, buckets = random_turns(rng, shape, is_complex), rng.integers(0, D, shape)
        arguments = (X, buckets.astype(np.int32), turns, 1.0, out.re, out.im)
        if not cpp.has_small_factors(D):
            with pytest.raises(ValueError, match="prime factors"):
                tensor_sketch(*arguments)
            return
        tensor_sketch(*arguments)
        counts = [naive_count_sketch(X, b, t, D) for b, t in zip(buckets, turns, strict=True)]
        expected = np.fft.ifft(np.prod(np.fft.fft(counts, axis=2), axis=0), axis=1)
    else:
        signs = rng.choice(np.array([-1, 1], np.int8), (blocks, 3, d))
        cpp.sorf(X, signs, out.re)
        expected, size = naive_sorf(X, signs, D), d * norm_power(X, 1)
    assert_near(out.value(), expected, dtype, size)


def test_input_and_output_may_not_share_memory():
    memory = np.random.default_rng(0).standard_normal(400)
    X = memory[:64].reshape(8, 8)
    turns, places = np.zeros((1, 1, 8), np.int8), np.arange(8, dtype=np.int32).reshape(1, 1, 8)
    overlapping = [X, memory[4:68].reshape(8, 8), memory[63:127].reshape(8, 8), X[::-1]]
    for out in overlapping:
        with pytest.raises(ValueError, match="share memory"):
            tensor_srht(X, turns, places, 1.0, out)
        with pytest.raises(ValueError, match="share memory"):
            tensor_srht(X, turns, places, 1.0, np.empty((8, 8)), out)
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
def test_prepared_weights_are_copies_that_any_call_may_use(dtype, is_complex):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((11, 6)).astype(dtype)
    turns, places = random_turns(rng, (2, 2, 8), is_complex), random_places(rng, 2, 2, 8)
    signs = random_turns(rng, (2, 12, 6), is_complex)
    buckets, hashed = (
        rng.integers(0, 12, (2, 6)).astype(np.int32),
        random_turns(rng, (2, 6), is_complex),
    )
    kind = (is_complex, dtype is np.float32)
    prepared = [
        cpp.prepare_tensor_srht(turns, places, 12, *kind),
        cpp.prepare_sign_projection(signs, *kind),
        cpp.prepare_tensor_sketch(buckets, hashed, 12, *kind),
    ]
    once = [
        (tensor_srht, (turns.copy(), places.copy())),
        (sign_projection, (signs.copy(),)),
        (tensor_sketch, (buckets.copy(), hashed.copy())),
    ]
    for weights in (turns, places, signs, buckets, hashed):
        weights[:] = 100  # far outside: what was prepared must not look
    for apply, (function, copies) in zip(prepared, once, strict=True):
        expected, found = (np.zeros((11, 12), np.result_type(dtype, np.complex64)) for _ in "ab")
        both = [(z.real, z.imag if is_complex else None) for z in (expected, found)]
        function(X, *copies, 0.5, *both[0])
        for _ in range(2):
            apply(X, 0.5, *both[1])
            assert np.array_equal(found, expected)
        with pytest.raises(ValueError, match="columns"):
            apply(np.zeros((3, 9), dtype), 0.5, *(None if z is None else z[:3] for z in both[1]))
        with pytest.raises(ValueError, match="12 columns, not 11"):
            apply(X, 0.5, *(None if z is None else z[:, 1:] for z in both[1]))
        with pytest.raises(TypeError):
            apply(X.astype(np.float32 if dtype is np.float64 else np.float64), 0.5, *both[1])
