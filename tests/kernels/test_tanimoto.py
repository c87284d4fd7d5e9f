"""The Tanimoto kernel: values, zero rows, sparse rows, its series."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from dotsketch import Tanimoto
from dotsketch.kernels import DotProductKernel, ExpandedKernel


def fingerprints(n=12, d=9, binary=False, seed=0, density=0.4):
    rng = np.random.default_rng(seed)
    X = rng.poisson(2.0, (n, d)) * (rng.random((n, d)) < density)
    return (X > 0).astype(float) if binary else X.astype(float)


@pytest.fixture(params=[False, True], ids=["counts", "binary"])
def X(request):
    return fingerprints(binary=request.param)


def test_values_are_the_definition(X, library):
    Y = fingerprints(5, seed=1)
    K = library.numpy(Tanimoto(variance=2.0)(library.asarray(X), library.asarray(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            expected = x @ y / (x @ x + y @ y - x @ y)
            assert K[i, j] == pytest.approx(2 * expected, rel=1e-14)


def test_zero_rows(library):
    X = np.zeros((3, 4))
    X[0, 1] = 2
    K = library.numpy(Tanimoto()(library.asarray(X)))
    np.testing.assert_array_equal(K, [[1, 0, 0], [0, 1, 1], [0, 1, 1]])
    np.testing.assert_array_equal(Tanimoto().diag(X), 1)
    np.testing.assert_array_equal(Tanimoto()(sparse.csr_array(X)), K)


def test_sparse_rows_are_never_made_dense():
    A = sparse.random_array((400, 50_000), density=1e-3, format="csr", rng=0)
    tracemalloc.start()
    try:
        Tanimoto()(A)
        Tanimoto().diag(A)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400 * 50_000 * 8 / 4


def test_negative_entries_are_refused(X):
    X[2, 3] = -1
    for rows in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=r"nonnegative rows.*Do not centre or standardise X"):
            Tanimoto()(rows)
        with pytest.raises(ValueError, match="nonnegative rows"):
            Tanimoto().diag(rows)
    with pytest.raises(ValueError, match="X has 9 features and Y has 8"):
        Tanimoto()(sparse.csr_array(np.abs(X)), sparse.csr_array(np.abs(X[:, 1:])))
    with pytest.raises(ValueError, match="real and numeric"):
        Tanimoto()(sparse.csr_array(X.astype(complex)))
    with pytest.raises(ValueError, match="variance must be a positive number"):
        Tanimoto(variance=0)


def test_norms_that_overflow_are_refused():
    X = np.array([[1e200, 0.0], [1.0, 1.0]])
    for rows in (X, sparse.csr_array(X)):
        with np.errstate(over="ignore"), pytest.raises(ValueError, match="overflow float64"):
            Tanimoto()(rows)
    assert Tanimoto()(X / 1e200).max() == 1


@pytest.mark.parametrize("split", [0.0, 0.5])
def test_taylor_series(X, split):
    """f(t, N) = Σ_j c_j(s, N) (t − s)ʲ at s = 0 and elsewhere."""
    kernel = Tanimoto(variance=2.0)
    assert isinstance(kernel, ExpandedKernel)
    assert not isinstance(kernel, DotProductKernel)
    t, p = X @ X.T, kernel.trait(X)
    N = p[:, None] + p[None, :]
    terms = [kernel.taylor(j, split * t, N) * ((1 - split) * t) ** j for j in range(60)]
    np.testing.assert_allclose(2 * sum(terms), kernel(X), rtol=1e-10)
