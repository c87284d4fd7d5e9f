"""Packed matrices against dense linear algebra."""

import numpy as np
import pytest

from dotsketch.gp import packed as packed_room

PackedMatrix = packed_room.PackedMatrix
PackedFactor = packed_room.PackedFactor


@pytest.fixture(params=[1, 2, 3, 4, 7, 8])
def size(request):
    return request.param


@pytest.fixture(params=["real", "complex"])
def Z(request, rng, size):
    Z = rng.standard_normal((5, size))
    return Z if request.param == "real" else Z + 1j * rng.standard_normal((5, size))


@pytest.fixture
def dense(Z):
    """Σ z zᴴ + 2 I."""
    return Z.T @ Z.conj() + 2 * np.eye(Z.shape[1])


@pytest.fixture
def packed(Z, size):
    A = PackedMatrix.zeros(size, Z.dtype)
    A.add_outer_products(Z)
    A.add_to_diagonal(2)
    return A


def test_sums_and_diagonal(packed, dense, size, Z):
    np.testing.assert_allclose(packed.lower(), np.tril(dense), atol=1e-14)
    np.testing.assert_allclose(packed.full(), dense, atol=1e-14)
    np.testing.assert_allclose(packed.diagonal(), dense.diagonal().real, atol=1e-14)
    np.testing.assert_allclose(PackedMatrix.of(dense).values, packed.values, atol=1e-14)
    assert packed.size == size
    found = np.float64(3) * packed
    found.add_multiple(-3.0, packed / 2)
    np.testing.assert_allclose(found.full(), 1.5 * dense, atol=1e-13)
    found.add_multiple(3.0, packed)
    found.add_outer_products(Z, -4.5)
    np.testing.assert_allclose(found.full(), 9 * np.eye(size), atol=1e-12)


def test_only_triangles():
    with pytest.raises(ValueError, match="do not form the triangle"):
        PackedMatrix(np.zeros(4))
    with pytest.raises(ValueError, match="double precision"):
        PackedMatrix(np.zeros(3, dtype=np.float32))


def test_sizes_must_agree(packed, size):
    """Before LAPACK sees them."""
    with pytest.raises(ValueError, match=f"Rows of {size} columns"):
        packed.add_outer_products(np.ones((2, size + 1)))
    for solve in (packed.cholesky().solve, packed.cholesky().half_solve):
        with pytest.raises(ValueError, match=f"{size} rows are expected"):
            solve(np.ones((size + 1, 1)))


def test_factor_and_solves(packed, dense, rng, size):
    """The inputs are left alone."""
    L, before = np.linalg.cholesky(dense), packed.values.copy()
    factor = packed.cholesky()
    kept, b = factor.values.copy(), rng.standard_normal((size, 3))
    given = b.copy()
    np.testing.assert_allclose(factor.lower(), L, atol=1e-13)
    np.testing.assert_allclose(factor.solve(b), np.linalg.solve(dense, b), atol=1e-13)
    np.testing.assert_allclose(factor.half_solve(b), np.linalg.solve(L, b), atol=1e-13)
    np.testing.assert_allclose(
        factor.half_solve(b, adjoint=True), np.linalg.solve(L.conj().T, b), atol=1e-13
    )
    assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(dense)[1])
    for now, then in ((packed.values, before), (factor.values, kept), (b, given)):
        np.testing.assert_array_equal(now, then)


def test_indefinite_matrix_has_no_factor():
    assert PackedMatrix.of(np.diag([1.0, -1.0, 1.0])).cholesky() is None
    assert PackedMatrix.of(np.diag([1.0, np.nan])).cholesky() is None


@pytest.mark.parametrize("field", [np.float32, np.complex64])
@pytest.mark.parametrize("scale", [1.0, 1e32])
def test_squares_of_rows_in_single_precision(field, scale):
    """Solved in single precision, unless the factor does not fit into it."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(80, 30)).astype(field)
    if field is np.complex64:
        Z += 1j * rng.normal(size=Z.shape).astype(np.float32)
    wide = Z.astype(np.result_type(field, np.float64))
    B = PackedMatrix.of(scale * wide.T @ wide.conj())
    B.add_to_diagonal(1.0)
    factor = B.cholesky()
    exact, squares = factor.half_squares(wide), factor.half_squares(Z)
    assert squares.dtype == np.float64
    np.testing.assert_allclose(squares, exact, rtol=1e-4)
    assert np.array_equal(squares, factor.half_squares(Z.astype(wide.dtype))) == (scale > 1)
    np.testing.assert_allclose(factor.inverse() @ factor.lower(), np.eye(30), atol=1e-6)
