"""Compiled cosines and sines: two units in the last place, for any angle and any layout."""

from __future__ import annotations

import numpy as np
import pytest

from dotsketch import FourierFeatures, Gaussian
from dotsketch._backends import backend_of, cpp, portable

pytestmark = pytest.mark.skipif(not cpp.AVAILABLE, reason="the extension is not built")

DTYPES = [np.float32, np.float64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def exact_waves(t):
    """cos and sin of t quarter turns: the reduction is exact, the functions are long doubles."""
    t = np.fmod(t.astype(np.longdouble), 4)
    n = np.rint(t)
    half_pi = np.longdouble("1.57079632679489661923132169163975144")
    c, s = np.cos((t - n) * half_pi), np.sin((t - n) * half_pi)
    turns = n.astype(int) % 4
    return np.choose(turns, [c, -s, -c, s]), np.choose(turns, [s, c, -s, -c])


def compiled_waves(t, scale=1.0):
    out = np.empty((2, *t.shape), t.dtype)
    cpp.waves(t, scale, *out)
    return out


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="long doubles are doubles here")
@every_dtype
@pytest.mark.parametrize("scale", [1.0, 0.7, 0.0441941738])
def test_error_is_at_most_two_units_in_the_last_place(scale, dtype):
    """The exhaustive check of float32 is benchmarks/wave_errors.py."""
    rng = np.random.default_rng(0)
    sizes = [1e-30, 1e-3, 0.5, 1, 4, 100, 1e4, 1e6, 5e6, 1e9, 1e15]
    t = np.concatenate([rng.uniform(-size, size, 20_000) for size in sizes])
    near = np.arange(-200, 200) / 2  # multiples of π/4, and what is next to them
    t = np.concatenate([t, near, np.nextafter(near, 1e9), np.nextafter(near, -1e9)]).astype(dtype)
    for found, wave in zip(compiled_waves(t[None, :], scale), exact_waves(t), strict=True):
        exact = wave * np.longdouble(dtype(scale))
        unit = np.spacing(np.maximum(np.abs(exact), np.finfo(dtype).tiny).astype(dtype))
        assert np.max(np.abs(found[0] - exact) / unit) < 2


@every_dtype
def test_whole_quarter_turns_are_exact(dtype):
    t = np.array([[0, 1, 2, 3, 4, -1, 2.0**22, 2.0**23 + 1, 2.0**30, 2.0**60 + 2**52]], dtype)
    cosines, sines = compiled_waves(t, 0.3)
    np.testing.assert_array_equal(cosines / dtype(0.3), [[1, 0, -1, 0, 1, 0, 1, 0, 1, 1]])
    np.testing.assert_array_equal(sines / dtype(0.3), [[0, 1, 0, -1, 0, -1, 0, 1, 0, 0]])


@every_dtype
def test_angles_without_a_value_give_none_and_leave_the_others_alone(dtype):
    t = np.linspace(-3, 3, 40).astype(dtype)[None, :]
    expected = compiled_waves(t)
    t[0, [3, 17, 39]] = np.nan, np.inf, -np.inf
    found = compiled_waves(t)
    assert np.isnan(found[:, 0, [3, 17, 39]]).all()
    others = np.setdiff1d(np.arange(40), [3, 17, 39])
    assert np.array_equal(found[:, :, others], expected[:, :, others])


@pytest.mark.parametrize("n_columns", [1, 5, 16, 33])
@every_dtype
def test_products_with_frequencies_are_added_in_order(n_columns, dtype):
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((7, 6)).astype(dtype), rng.standard_normal((6, 48)).astype(dtype)
    angles = np.zeros((7, 48), dtype)
    for k in range(6):
        angles += X[:, k : k + 1] * W[k]
    blocks = W.reshape(6, 3, 16).swapaxes(0, 1)[: -(-n_columns // 16)].copy()
    found = np.empty((2, 7, n_columns), dtype)
    cpp.waves(X, 0.5, *found, blocks)
    assert np.array_equal(found, compiled_waves(angles, 0.5)[:, :, :n_columns])
    alone = np.empty((7, n_columns), dtype)
    cpp.waves(X, 0.5, alone, None, blocks)
    assert np.array_equal(alone, found[0])


@every_dtype
def test_phases_are_where_the_sums_begin(dtype):
    rng = np.random.default_rng(0)
    t, phases = rng.standard_normal((5, 20)).astype(dtype), rng.random((2, 16)).astype(dtype)
    found = np.empty((2, 5, 20), dtype)
    cpp.waves(t, 1.0, *found, None, phases)
    assert np.array_equal(found, compiled_waves(t + phases.ravel()[:20]))


def test_arguments_are_checked():
    X, out = np.zeros((3, 4)), np.zeros((3, 20))
    with pytest.raises(ValueError, match="the same shape without frequencies"):
        cpp.waves(X, 1.0, out)
    with pytest.raises(ValueError, match=r"frequencies must have shape \(2, 4, 16\)"):
        cpp.waves(X, 1.0, out, None, np.zeros((1, 4, 16)))
    with pytest.raises(ValueError, match=r"phases must have shape \(2, 16\)"):
        cpp.waves(X, 1.0, out, None, np.zeros((2, 4, 16)), np.zeros((1, 16)))
    with pytest.raises(TypeError, match="float64"):
        cpp.waves(X, 1.0, out, None, np.zeros((2, 4, 16), np.float32))
    with pytest.raises(ValueError, match="same shape"):
        cpp.waves(X, 1.0, out, np.zeros((3, 19)), np.zeros((2, 4, 16)))


@every_dtype
@pytest.mark.parametrize("d", [1, 9, 64])
def test_rows_have_the_same_bits_in_any_chunk_and_on_any_thread(d, dtype):
    X = np.random.default_rng(2).standard_normal((301, d)).astype(dtype)
    features = FourierFeatures(Gaussian(lengthscale=2.0), n_components=51, random_state=0).fit(X)
    expected = features.transform(X)
    assert np.array_equal(features.transform(X[:1]), expected[:1])
    assert np.array_equal(features.transform(X[5:8]), expected[5:8])
    assert np.array_equal(features.transform(np.asfortranarray(X)), expected)
    assert np.array_equal(features.set_params(n_jobs=2).transform(X), expected)


def test_where_the_frequencies_are_many_blas_multiplies():
    X = np.random.default_rng(3).standard_normal((40, 65))
    frequencies = (np.random.default_rng(4).standard_normal((5, X.shape[1])),)
    arguments = (frequencies, np.zeros(0), 2.0, 1.0, True, X)
    prepared = backend_of(X).waves(*arguments)
    assert prepared.depends_on_chunk
    expected = portable.waves(*arguments)(X)
    for found, wave in zip(prepared(X), expected, strict=True):
        np.testing.assert_allclose(found, wave, rtol=0, atol=1e-13)
    scale = np.arange(40.0)[:, None]
    np.testing.assert_allclose(prepared(X, row_scale=scale)[1], scale * expected[1], atol=1e-12)
