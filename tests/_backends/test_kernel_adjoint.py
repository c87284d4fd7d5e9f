"""Sums RᵀZ with few columns: the kernel, and who calls it."""

import numpy as np
import pytest

from dotsketch._backends import add_adjoint, compiled, cpp, portable

needs_kernels = pytest.mark.skipif(not cpp.AVAILABLE, reason="the extension is not built")

SHAPES = [
    (0, 5, 3),
    (1, 1, 1),
    (3, 127, 31),
    (128, 128, 8),  # whole tiles
    (129, 130, 9),  # and one more of each
    (300, 257, 33),
    (256, 64, 70),
]


def matrices(n, D, c, seed=0):
    rng = np.random.default_rng(seed)
    Z, R = (rng.standard_normal((n, size)).astype(np.float32) for size in (D, c))
    return Z, R, rng.standard_normal((c, D)).astype(np.float32)


def assert_sums(found, Z, R, before):
    """Within the rounding of n + 1 sums: |error| ≤ (n + 1) ε (|total| + |R|ᵀ|Z|)."""
    Z, R, before = (np.asarray(M, dtype=np.float64) for M in (Z, R, before))
    bound = (len(Z) + 1) * np.finfo(np.float32).eps * (np.abs(before) + np.abs(R).T @ np.abs(Z))
    assert np.all(np.abs(found - (before + R.T @ Z)) <= bound)


@needs_kernels
@pytest.mark.parametrize(("n", "D", "c"), SHAPES)
def test_sums_of_products(n, D, c):
    Z, R, total = matrices(n, D, c)
    before = total.copy()
    cpp.add_adjoint(Z, R, total)
    assert_sums(total, Z, R, before)


@needs_kernels
def test_rows_may_be_apart():
    Z, R, total = matrices(200, 100, 20)
    before = total.copy()
    cpp.add_adjoint(Z[::-2, 3:90], R[1::2, :11], total[:11, 5:92])
    assert_sums(total[:11, 5:92], Z[::-2, 3:90], R[1::2, :11], before[:11, 5:92])
    total[:11, 5:92] = before[:11, 5:92]
    np.testing.assert_array_equal(total, before)  # nothing beside it has changed


@needs_kernels
def test_wrong_arguments():
    Z, R, total = matrices(6, 10, 4)
    for arguments, error, message in (
        ((Z.astype(float), R, total), TypeError, "Z must be of type float32"),
        ((Z, R.astype(float), total), TypeError, "R must be of type float32"),
        ((Z, R, total.astype(float)), TypeError, "total must be of type float32"),
        ((Z, R[:5], total), ValueError, "same number of rows; they have 6 and 5"),
        ((Z, R, total[:3]), ValueError, r"total must have shape \(4, 10\)"),
        ((Z, R, total.T), ValueError, "must have shape"),
        ((Z, R, np.zeros((10, 4), np.float32).T), ValueError, "rows of total must be contiguous"),
        ((Z, R, total[::-1]), ValueError, "apart"),
        ((Z[:, ::2], R, total), ValueError, "rows of Z must be contiguous"),
        ((Z, R, Z[:4]), ValueError, "shares memory"),
    ):
        with pytest.raises(error, match=message):
            cpp.add_adjoint(*arguments)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("c", [1, 32, 200])
def test_any_backend(c, dtype):
    Z, R, before = matrices(64, 50, c)
    Z = Z.astype(dtype)
    for function in (add_adjoint, compiled.add_adjoint, portable.add_adjoint):
        for right in (R.astype(dtype), np.asfortranarray(R.astype(dtype))):
            total = before.astype(dtype)
            function(Z, right, total)
            assert_sums(total, Z, R, before)
