"""The transforms inside the sketches, against dense matrices, on every library."""

import numpy as np
import pytest
import scipy.linalg

import reference
from dotsketch import _backends
from dotsketch._arrays import like
from dotsketch._backends import cpp, transforms


@pytest.mark.parametrize("bits", [0, 1, 2, 5, 6, 10, 11])
def test_hadamard_is_sylvesters_matrix(bits, rng, library):
    """One, two and three factors of at most 2⁵."""
    d = 2**bits
    X = rng.standard_normal((3, d))
    H = scipy.linalg.hadamard(d)
    T = _backends.hadamard(library.asarray(X))
    np.testing.assert_allclose(library.numpy(T), X @ H, rtol=1e-10, atol=1e-10)
    twice = library.numpy(_backends.hadamard(T))
    np.testing.assert_allclose(twice, d * X, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("d", [4, 128])
def test_hadamard_of_no_rows(d, library):
    assert tuple(_backends.hadamard(library.asarray(np.zeros((0, d)))).shape) == (0, d)


def test_hadamard_needs_a_power_of_two():
    with pytest.raises(ValueError, match="X has 6 columns: pad it with zeros to 8"):
        _backends.hadamard(np.ones((2, 6)))


@pytest.mark.parametrize(
    ("dimension", "padded"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (1025, 2048)]
)
def test_power_of_two(dimension, padded):
    assert _backends.power_of_two(dimension) == padded


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("d", [1, 2, 8, 64])
def test_srht_is_a_signed_hadamard_matrix(d, is_complex, rng, library):
    turns = rng.integers(0, 4, (2, d)) if is_complex else 2 * rng.integers(0, 2, (2, d))
    places = np.stack([rng.permutation(d) for _ in range(2)])
    W = reference.srht_matrix(turns, places, 2 * d)
    X = rng.standard_normal((3, d))
    A = library.asarray(X.T)
    flat = np.concatenate([places[0], d + places[1]])
    real, imaginary = transforms.srht(A, like(turns, A), like(flat, A), is_complex)
    expected = W @ X.T
    np.testing.assert_allclose(library.numpy(real), expected.real, atol=1e-12)
    assert (imaginary is not None) == is_complex
    if is_complex:
        np.testing.assert_allclose(library.numpy(imaginary), expected.imag, atol=1e-12)


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize(("d", "D"), [(1, 1), (5, 3), (3, 5), (20, 4)])
def test_count_sketch_adds_signed_coordinates(d, D, is_complex, rng, library):
    """Empty and crowded buckets among them."""
    buckets = rng.integers(0, D, d).astype(np.int32)
    turns = rng.integers(0, 4, d) if is_complex else 2 * rng.integers(0, 2, d)
    X = rng.standard_normal((3, d))
    expected = np.zeros((D, 3), dtype=complex)
    for k in range(d):
        expected[buckets[k]] += reference.phases(turns[k]) * X[:, k]
    A = library.asarray(X)
    table = transforms.CountTable(buckets, turns.astype(np.int8), D, A)
    real, imaginary = transforms.count_sketch(A, table, is_complex)
    np.testing.assert_allclose(library.numpy(real), expected.real, atol=1e-12)
    if is_complex:
        np.testing.assert_allclose(library.numpy(imaginary), expected.imag, atol=1e-12)
    else:
        assert imaginary is None


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("D", [1, 2, 5, 8])
def test_inverse_fourier_undoes_fourier(D, is_complex, rng, library):
    real, imaginary = rng.standard_normal((2, D, 3))
    parts = library.asarray(real), library.asarray(imaginary) if is_complex else None
    back = transforms.inverse_fourier(transforms.fourier(parts), D, is_complex)
    np.testing.assert_allclose(library.numpy(back[0]), real, atol=1e-13)
    if is_complex:
        np.testing.assert_allclose(library.numpy(back[1]), imaginary, atol=1e-13)


def test_columns_pads_with_zeros(X, library):
    A = library.numpy(transforms.columns(library.asarray(X), 8))
    np.testing.assert_array_equal(A, np.vstack([X.T, np.zeros((3, 7))]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("width", "blocks", "D"), [(1, 1, 1), (5, 2, 13), (8, 3, 24), (30, 1, 7)])
def test_structured_orthogonal_projections(width, blocks, D, dtype, rng, monkeypatch):
    """Three rounds of signs and Hadamard matrices, compiled and portable, as dense products."""
    d = _backends.power_of_two(width)
    X = rng.standard_normal((9, width)).astype(dtype)
    signs = rng.choice([-1, 1], (blocks, 3, d)).astype(np.int8)
    H = scipy.linalg.hadamard(d)
    padded = np.pad(X.astype(float), ((0, 0), (0, d - width)))
    expected = np.hstack([padded * s[0] @ H * s[1] @ H * s[2] @ H for s in signs])[:, :D]
    tolerance = (1e-5 if dtype == np.float32 else 1e-12) * d**1.5
    for available in (cpp.AVAILABLE, False):
        monkeypatch.setattr(cpp, "AVAILABLE", available)
        prepared = _backends.backend_of(X).sorf(signs, np.arange(D) + 1.0, X)
        P, imaginary = prepared(X)
        assert imaginary is None
        np.testing.assert_allclose(P / (np.arange(D) + 1), expected, atol=tolerance)
        scaled = np.zeros_like(P)
        prepared(X, row_scale=X[:, :1], out=(scaled, None))
        np.testing.assert_array_equal(scaled, P * X[:, :1])
