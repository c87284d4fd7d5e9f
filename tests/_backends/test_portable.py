"""The transforms inside the sketches, against dense matrices, on every library."""

import numpy as np
import pytest
import scipy.linalg

from dotsketch import _backends
from dotsketch._backends import cpp


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
