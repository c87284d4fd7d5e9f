"""NystromFeatures: scikit-learn's Nystroem with these kernels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from dotsketch import (
    ArcCosine,
    Exponential,
    Gaussian,
    Maclaurin,
    Matern,
    NystromFeatures,
    Polynomial,
    Tanimoto,
    load,
    save,
)
from dotsketch.features import Study

KERNELS = [
    Gaussian(variance=2.0),
    Gaussian(lengthscale=np.arange(1.0, 6.0)),
    Exponential(lengthscale=1.1),
    Polynomial(3),
    Maclaurin([1.0, 0.0, 0.5]),
    ArcCosine(1),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)


@every_kernel
def test_kernel_is_that_of_scikit_learn(kernel, rng):
    """Z Zᵀ = K_XB K_BB⁻¹ K_BX: the columns may stand in another order."""
    X = rng.standard_normal((30, 5)) / 2
    model = NystromFeatures(kernel, n_components=8, n_landmarks=8, random_state=0)
    Z = model.fit_transform(X)
    assert Z.shape == (30, 8)
    theirs = Nystroem(
        lambda x, y: model.kernel_(x[None], y[None])[0, 0], n_components=8, random_state=0
    ).fit(X[model.component_indices_])
    expected = theirs.transform(X)
    np.testing.assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-9)
    np.testing.assert_array_equal(model.components_, X[model.component_indices_])


@pytest.mark.parametrize("variance", [1e-20, 1e20])
def test_the_size_of_the_kernel_does_not_matter(variance, X):
    unit, other = (
        NystromFeatures(
            Polynomial(2, variance=v), n_components=4, n_landmarks=4, random_state=0
        ).fit(X)
        for v in (1.0, variance)
    )
    np.testing.assert_allclose(other.transform(X), unit.transform(X) * variance**0.5)
    small = NystromFeatures(Polynomial(2, coef0=0.0), n_components=4, n_landmarks=4, random_state=0)
    Z = small.fit_transform(1e-8 * X)
    rows = small.component_indices_
    K = small.kernel_(1e-8 * X[rows])
    np.testing.assert_allclose((Z @ Z.T)[np.ix_(rows, rows)], K, rtol=1e-6)


def test_landmarks_as_many_as_columns_are_whitened_by_cholesky(rng):
    """The features of the landmarks are L, and W = L⁻ᵀ is triangular."""
    X = rng.standard_normal((12, 3))
    kernel = Gaussian(lengthscale=1.0)
    model = NystromFeatures(kernel, n_components=12, landmarks=X).fit(X)
    L = np.linalg.cholesky(kernel(X) + 12e-13 * np.eye(12))
    np.testing.assert_allclose(model.transform(X), L, atol=1e-9)
    assert np.array_equal(model.normalization_, np.triu(model.normalization_))


def top_eigenvectors(kernel, X, n_components):
    """Features of rank n_components with the least Σ (k − k̂)² over the rows X themselves."""
    w, V = np.linalg.eigh(kernel(X))
    return V[:, -n_components:] * np.sqrt(w[-n_components:])


@pytest.mark.parametrize("kernel", [*KERNELS, Matern(0.5)], ids=str)
def test_all_rows_as_landmarks_are_the_best_of_their_rank(kernel, rng):
    """Eckart and Young: with every row a landmark, K̂ is the best of rank 6, columns in order."""
    X = rng.standard_normal((40, 5)) / 2
    model = NystromFeatures(kernel, n_components=6, n_landmarks=40, random_state=0)
    Z = model.fit_transform(X)
    assert Z.shape == (40, 6)
    assert model.components_.shape == (40, 5)
    best = top_eigenvectors(model.kernel_, X, 6)
    np.testing.assert_allclose(Z @ Z.T, best @ best.T, atol=1e-7)
    squares = np.sum(Z * Z, axis=0)
    assert np.all(np.diff(squares) < 0)
    np.testing.assert_allclose(Z.T @ Z, np.diag(squares), atol=1e-7)


@every_kernel
def test_no_combination_of_the_landmarks_is_better(kernel, rng):
    """On the training rows, among D columns of the m whitened ones; and never above k(x, x)."""
    X = rng.standard_normal((60, 5)) / 2
    landmarks = {"landmarks": X[:20]}
    model = NystromFeatures(kernel, n_components=5, **landmarks).fit(X)
    wide = NystromFeatures(kernel, n_components=20, **landmarks).fit(X)
    K = model.kernel_(X)
    Z, A = model.transform(X), wide.transform(X)
    error = np.linalg.norm(Z @ Z.T - A @ A.T)
    for _ in range(20):
        Q = np.linalg.qr(rng.standard_normal((20, 5)))[0]
        other = A @ Q
        assert error <= np.linalg.norm(other @ other.T - A @ A.T)
    best = np.sqrt(np.sum(np.linalg.eigvalsh(A.T @ A)[:-5] ** 2))
    np.testing.assert_allclose(error, best, rtol=1e-6)
    unseen = rng.standard_normal((50, 5))
    carried = np.sum(model.transform(unseen) ** 2, axis=1)
    assert np.all(carried <= model.kernel_.diag(unseen) * (1 + 1e-12))
    assert np.all(np.linalg.eigvalsh(K - Z @ Z.T) > -1e-9 * np.trace(K))


@pytest.mark.parametrize("n_landmarks", [1.0, 2.0])
@pytest.mark.parametrize("noise", [0.0, 1e-8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearly_dependent_landmarks(n_landmarks, noise, dtype, rng):
    """Every row is there ten times, equal or with a noise of 1e-8: nothing is enlarged."""
    distinct = rng.standard_normal((20, 3))
    X = np.repeat(distinct, 10, axis=0)
    X = (X + noise * rng.standard_normal(X.shape)).astype(dtype)
    kernel = Gaussian(lengthscale=1.5)
    model = NystromFeatures(kernel, n_components=90, n_landmarks=n_landmarks, random_state=0)
    Z = model.fit_transform(X).astype(float)
    assert np.all(np.isfinite(Z))
    unseen = rng.standard_normal((40, 3)).astype(dtype)
    found = model.transform(unseen).astype(float)
    K = kernel(distinct.astype(dtype).astype(float))
    cross = kernel(unseen.astype(float), distinct.astype(dtype).astype(float))
    expected = cross @ np.linalg.solve(K, cross.T)  # all 20 rows are among the landmarks
    # A noise of 1e-8 moves K by as much, and the solution by a hundred times that; in float32 it is
    # rounded to 1e-7 here and there
    atol = (1e-5 if dtype is np.float64 else 1e-4) if noise else 1e-6
    np.testing.assert_allclose(Z @ Z.T, kernel(X.astype(float)), atol=1e-5 if noise else 1e-6)
    np.testing.assert_allclose(found @ found.T, expected, atol=atol)
    if n_landmarks == 1.0:  # what all 90 landmarks say, as they are
        B = model.components_
        cross = kernel(unseen.astype(float), B)
        expected = cross @ np.linalg.solve(kernel(B) + 90e-13 * np.eye(90), cross.T)
        np.testing.assert_allclose(found @ found.T, expected, atol=1e-6)


def test_a_kernel_of_low_rank_needs_no_more_columns(rng):
    """A kernel of rank 3: no rounding is enlarged in the columns that have nothing left."""
    X = rng.standard_normal((60, 3))
    for n_landmarks in (1.0, 1.5):
        model = NystromFeatures(
            Polynomial(1, coef0=0.0), n_components=40, n_landmarks=n_landmarks, random_state=0
        )
        Z = model.fit_transform(X)
        np.testing.assert_allclose(Z @ Z.T, X @ X.T, rtol=1e-8, atol=1e-8)
    assert np.max(np.abs(Z[:, 3:])) < 1e-6


def test_values_of_the_kernel_may_differ_by_orders_of_magnitude(rng):
    """The jitter is relative to every landmark: small rows keep their digits beside large ones."""
    X = rng.standard_normal((30, 4)) * np.logspace(-4, 4, 30)[:, None]
    model = NystromFeatures(Polynomial(2, coef0=0.0), n_components=30, random_state=0).fit(X)
    Z = model.transform(X)
    sizes = np.sqrt(model.kernel_.diag(X))
    K = model.kernel_(X)
    np.testing.assert_allclose(
        Z @ Z.T / np.outer(sizes, sizes), K / np.outer(sizes, sizes), atol=1e-7
    )


@pytest.mark.parametrize(
    ("n_landmarks", "count"),
    [("auto", 20), (1.0, 10), (2.5, 25), (17, 17), (np.int64(12), 12), (100, 30), (4.0, 30)],
)
def test_number_of_landmarks(n_landmarks, count, rng):
    X = rng.standard_normal((30, 2))
    model = NystromFeatures(Gaussian(), n_components=10, n_landmarks=n_landmarks, random_state=0)
    assert model.fit(X).transform(X).shape == (30, 10)
    assert model.components_.shape == (count, 2)
    np.testing.assert_array_equal(model.components_, X[model.component_indices_])


@pytest.mark.parametrize(("columns", "count"), [(3, 6), (1024, 2048), (1500, 2048), (3000, 3000)])
def test_the_default_number_of_landmarks_ends_at_2048(columns, count):
    study = Study(Gaussian(lengthscale=1.0), np.zeros((4000, 1)))
    design = NystromFeatures(Gaussian(lengthscale=1.0), n_components=columns).design(study)
    assert design.n_landmarks == count


@pytest.mark.parametrize("lengthscale", [0.5, 3.0, 30.0])
def test_float32_has_the_error_of_float64(lengthscale, rng):
    """Whether its whitening is well conditioned (computed in float32) or not (in float64)."""
    X = rng.standard_normal((200, 3)).astype(np.float32)
    model = NystromFeatures(Gaussian(lengthscale=lengthscale), n_components=60, random_state=0)
    Z, wide = model.fit(X).transform(X), model.transform(X.astype(np.float64))
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z.astype(float) @ Z.T.astype(float), wide @ wide.T, atol=1e-5)


def test_jax_without_float64_does_not_enlarge_rounding(rng):
    """The eigenvalues of this kernel fall below 1e-16: the jitter bounds what enlarges them."""
    jax = pytest.importorskip("jax")
    X = rng.standard_normal((200, 3)).astype(np.float32)
    model = NystromFeatures(Gaussian(lengthscale=10.0), n_components=100, random_state=0).fit(X)
    with jax.enable_x64(False):
        Z = np.asarray(model.transform(jax.numpy.asarray(X)), dtype=float)
    np.testing.assert_allclose(Z @ Z.T, model.kernel_(X.astype(float)), atol=1e-4)


def test_second_derivatives_at_a_landmark(rng):
    """They are those of k(x, B) times the whitening: ∂²k(x, b) at x = b is −1/lengthscale² I."""
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    X = rng.standard_normal((20, 3))
    model = NystromFeatures(Gaussian(lengthscale=1.5), n_components=6, random_state=0).fit(X)
    B, b = model.components_, model.components_[2]
    D = b - B
    curvature = D[:, :, None] * D[:, None, :] / 1.5**4 - np.eye(3) / 1.5**2
    curvature = np.exp(-np.sum(D * D, axis=1) / 4.5)[:, None, None] * curvature
    expected = np.einsum("bij,bc->ij", curvature, model.normalization_)
    found = torch.autograd.functional.hessian(
        lambda x: model.transform(x[None, :]).sum(), torch.tensor(b)
    )
    np.testing.assert_allclose(found, expected, atol=1e-9)
    with jax.enable_x64(True):
        found = jax.hessian(lambda x: model.transform(x[None, :]).sum())(jax.numpy.asarray(b))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_refusals(X):
    with pytest.raises(ValueError, match=r"n_components=8 is more than n_samples=7; use"):
        NystromFeatures(Gaussian(), n_components=8).fit(X)
    with pytest.raises(ValueError, match=r"largest k\(x, x\) of the drawn rows is 0.0: scale X"):
        NystromFeatures(Polynomial(3, coef0=0.0), n_components=4).fit(0 * X)


def sparse_rows(n, d, density, dtype=np.float64):
    return sparse.random_array(
        (n, d), density=density, format="csr", rng=np.random.default_rng(0), dtype=dtype
    )


@pytest.mark.parametrize("rule", ["uniform", "rpcholesky"])
@pytest.mark.parametrize(
    "kernel", [*KERNELS, Matern(0.5), Tanimoto(), Gaussian() + Polynomial(2)], ids=str
)
def test_sparse_landmarks_stay_sparse(kernel, rule, tmp_path):
    """And the features are those of dense rows."""
    X = sparse_rows(80, 300, 0.04)
    X.data[:5] *= -1 if not kernel.nonnegative else 1
    if np.ndim(getattr(kernel, "lengthscale", 1.0)):
        kernel = clone(kernel).set_params(lengthscale=np.linspace(1.0, 3.0, 300))
    options = {"n_components": 10, "landmarks": rule, "random_state": 0}
    features = NystromFeatures(kernel, **options).fit(X)
    expected = NystromFeatures(kernel, **options).fit(X.toarray())
    assert sparse.issparse(features.components_)
    np.testing.assert_array_equal(features.components_.toarray(), expected.components_)
    Z = expected.transform(X.toarray())
    atol = 1e-9 * np.max(np.abs(Z))
    np.testing.assert_allclose(features.transform(X), Z, atol=atol)
    np.testing.assert_allclose(features.transform(X.toarray()), Z, atol=atol)
    save(features, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").transform(X), features.transform(X))
    given = NystromFeatures(kernel, n_components=20, landmarks=features.components_).fit(X)
    assert sparse.issparse(given.components_)


def test_rows_with_many_entries_become_dense():
    X = sparse_rows(40, 30, 0.5)
    features = NystromFeatures(Gaussian(), n_components=5, random_state=0).fit(X)
    assert isinstance(features.components_, np.ndarray)
