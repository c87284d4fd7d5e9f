"""Packed matrices against dense linear algebra."""

import numpy as np
import pytest

from dotsketch import _packed


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
    A = _packed.zeros(size, Z.dtype)
    _packed.add_outer_products(A, Z)
    A[_packed.diagonal(size)] += 2
    return A


def test_rank_k_update_and_diagonal(packed, dense, size):
    np.testing.assert_allclose(_packed.unpack(packed), np.tril(dense), atol=1e-14)
    np.testing.assert_allclose(_packed.pack(dense), packed, atol=1e-14)
    assert _packed.size_of(packed) == size


def test_multiples_in_place(packed, dense, Z):
    total = packed.copy()
    _packed.add_multiple(total, 3.0, packed)
    _packed.add_outer_products(total, Z, -4.0)
    np.testing.assert_allclose(_packed.unpack(total), 8 * np.eye(len(dense)), atol=1e-12)


def test_factor_and_solves(packed, dense, rng, size):
    L = np.linalg.cholesky(dense)
    factor = _packed.cholesky(packed)
    b = rng.standard_normal((size, 3))
    np.testing.assert_allclose(_packed.unpack(factor), L, atol=1e-13)
    np.testing.assert_allclose(_packed.solve(factor, b), np.linalg.solve(dense, b), atol=1e-13)
    np.testing.assert_allclose(_packed.half_solve(factor, b), np.linalg.solve(L, b), atol=1e-13)
    np.testing.assert_allclose(
        _packed.half_solve(factor, b, adjoint=True), np.linalg.solve(L.conj().T, b), atol=1e-13
    )
    assert _packed.log_determinant(factor) == pytest.approx(np.linalg.slogdet(dense)[1])


def test_inputs_are_left_alone(packed, rng, size):
    before = packed.copy()
    factor = _packed.cholesky(packed)
    kept, b = factor.copy(), rng.standard_normal((size, 2))
    given = b.copy()
    _packed.solve(factor, b)
    _packed.half_solve(factor, b)
    for now, then in ((packed, before), (factor, kept), (b, given)):
        np.testing.assert_array_equal(now, then)


def test_indefinite_matrix_has_no_factor():
    assert _packed.cholesky(_packed.pack(np.diag([1.0, -1.0, 1.0]))) is None
    assert _packed.cholesky(_packed.pack(np.diag([1.0, np.nan]))) is None
