"""NystromFeatures: scikit-learn's Nystroem with these kernels."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.utils.estimator_checks import parametrize_with_checks

from dotsketch import ArcCosine, Exponential, Gaussian, Maclaurin, NystromFeatures, Polynomial
from rounding import assert_same_to_rounding, nystrom_condition

KERNELS = [
    Gaussian(variance=2.0),
    Gaussian(lengthscale=np.arange(1.0, 6.0)),
    Exponential(lengthscale=1.1),
    Polynomial(3),
    Maclaurin([1.0, 0.0, 0.5]),
    ArcCosine(1),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=str)


@parametrize_with_checks(
    [
        NystromFeatures(Gaussian(), n_components=6, random_state=0),
        NystromFeatures(Polynomial(2), n_components=6, random_state=0),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@every_kernel
def test_kernel_is_that_of_scikit_learn(kernel, rng):
    """Z Zᵀ = K_XB K_BB⁻¹ K_BX: the columns may stand in another order."""
    X = rng.standard_normal((30, 5)) / 2
    model = NystromFeatures(kernel, n_components=8, random_state=0)
    Z = model.fit_transform(X)
    assert Z.shape == (30, 8)
    theirs = Nystroem(
        lambda x, y: model.kernel_(x[None], y[None])[0, 0], n_components=8, random_state=0
    ).fit(X[model.component_indices_])
    expected = theirs.transform(X)
    np.testing.assert_allclose(Z @ Z.T, expected @ expected.T, atol=1e-9)
    np.testing.assert_array_equal(model.components_, X[model.component_indices_])


@every_kernel
def test_exact_with_all_rows(kernel, X):
    model = NystromFeatures(kernel, n_components=7, random_state=0).fit(X)
    Z = model.transform(X)
    np.testing.assert_allclose(Z @ Z.T, model.kernel_(X), atol=1e-8)


@pytest.mark.parametrize("variance", [1e-20, 1e20])
def test_the_size_of_the_kernel_does_not_matter(variance, X):
    unit, other = (
        NystromFeatures(Polynomial(2, variance=v), n_components=4, random_state=0).fit(X)
        for v in (1.0, variance)
    )
    np.testing.assert_allclose(other.transform(X), unit.transform(X) * variance**0.5)
    small = NystromFeatures(Polynomial(2, coef0=0.0), n_components=4, random_state=0)
    Z = small.fit_transform(1e-8 * X)
    rows = small.component_indices_
    K = small.kernel_(1e-8 * X[rows])
    np.testing.assert_allclose((Z @ Z.T)[np.ix_(rows, rows)], K, rtol=1e-6)


@every_kernel
def test_same_features_on_every_library(kernel, X, foreign):
    model = NystromFeatures(kernel, n_components=4, random_state=0).fit(X)
    Z = model.transform(X)
    np.testing.assert_allclose(foreign.numpy(model.transform(foreign.asarray(X))), Z, atol=1e-9)
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Z, atol=1e-4)
    np.testing.assert_allclose(
        foreign.numpy(model.transform(foreign.asarray(X.astype(np.float32)))), single, atol=1e-5
    )
    np.testing.assert_allclose(model.transform(sparse.csr_array(X)), Z, atol=1e-9)
    for other in (foreign.asarray(X), sparse.csr_array(X)):
        np.testing.assert_allclose(clone(model).fit(other).transform(X), Z, atol=1e-9)


def test_gradients_flow_to_inputs(X):
    torch = pytest.importorskip("torch")
    model = NystromFeatures(Gaussian(), n_components=4, random_state=0).fit(X)
    rows = torch.tensor(X[:3], requires_grad=True)
    assert torch.autograd.gradcheck(model.transform, (rows,))


def test_jit_of_jax(X):
    jax = pytest.importorskip("jax")
    model = NystromFeatures(Gaussian(), n_components=4, random_state=0).fit(X)
    Z = jax.jit(model.transform)(jax.numpy.asarray(X))
    np.testing.assert_allclose(Z, model.transform(X), atol=1e-9)


def test_duplicate_rows_are_no_trouble(X):
    X = np.vstack([X[:2], X[:2], X[:2]])
    model = NystromFeatures(Gaussian(lengthscale=1.0), n_components=6, random_state=0)
    Z = model.fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, model.kernel_(X), atol=1e-6)


def test_threads_refit_clone_and_pickle(rng):
    X = rng.standard_normal((40_000, 5))
    model = NystromFeatures(Gaussian(), n_components=30, random_state=0)
    Z = model.fit_transform(X)
    fitted, refitted = nystrom_condition(model), nystrom_condition(model, refitted=True)
    assert_same_to_rounding(model.set_params(n_jobs=2).transform(X), Z, condition=fitted)
    copy = clone(model).fit(X[:50, :2]).fit(X)
    assert_same_to_rounding(copy.transform(X), Z, condition=refitted)
    assert_same_to_rounding(pickle.loads(pickle.dumps(model)).transform(X), Z, condition=fitted)


def test_columns_are_principal_components(rng):
    """Zᵀ Z of the rows B is diag(w), the largest first: an exact whitening by eigenvectors."""
    X = rng.standard_normal((12, 3))
    model = NystromFeatures(Gaussian(lengthscale=1.0), n_components=12, random_state=0)
    Z = model.fit_transform(X)
    w = np.linalg.eigvalsh(model.kernel_(X))[::-1]
    np.testing.assert_allclose(Z.T @ Z, np.diag(w), atol=1e-12)


def test_eigenvalues_that_are_rounding_are_cut(rng):
    """A kernel of rank 3 has 3 columns; the others are zero, and no rounding is enlarged."""
    X = rng.standard_normal((60, 3))
    model = NystromFeatures(Polynomial(1, coef0=0.0), n_components=40, random_state=0)
    Z = model.fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, X @ X.T, rtol=1e-9, atol=1e-9)
    shares = model.basis_.relative_eigenvalues
    assert np.count_nonzero(shares > 1e-14) == 3
    assert np.all(Z[:, shares == 0] == 0)
    assert np.count_nonzero(shares) < 40


@pytest.mark.parametrize("lengthscale", [0.5, 3.0, 30.0])
def test_float32_has_the_error_of_float64(lengthscale, rng):
    """Whether its whitening is well conditioned (computed in float32) or not (in float64)."""
    X = rng.standard_normal((200, 3)).astype(np.float32)
    model = NystromFeatures(Gaussian(lengthscale=lengthscale), n_components=60, random_state=0)
    Z, wide = model.fit(X).transform(X), model.transform(X.astype(np.float64))
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z.astype(float) @ Z.T.astype(float), wide @ wide.T, atol=1e-5)


def test_jax_without_float64_does_not_enlarge_rounding(rng):
    """The eigenvalues of this kernel fall below 1e-16: float32 uses those above 1e-10."""
    jax = pytest.importorskip("jax")
    X = rng.standard_normal((200, 3)).astype(np.float32)
    model = NystromFeatures(Gaussian(lengthscale=10.0), n_components=100, random_state=0).fit(X)
    with jax.enable_x64(False):
        Z = np.asarray(model.transform(jax.numpy.asarray(X)), dtype=float)
    np.testing.assert_allclose(Z @ Z.T, model.kernel_(X.astype(float)), atol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_overflow_is_refused(dtype, X):
    X = X.astype(dtype)
    model = NystromFeatures(Polynomial(3), n_components=4, random_state=0).fit(X)
    factor = {np.float32: 1e15, np.float64: 1e120}[dtype]
    with pytest.raises(ValueError, match=r"The features overflow float.*scale X down"):
        model.transform((factor * X).astype(dtype))


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
    with pytest.raises(TypeError, match="kernel must be a kernel of dotsketch"):
        NystromFeatures("rbf", n_components=4).fit(X)
    with pytest.raises(ValueError, match=r"largest k\(x, x\) of the drawn rows is 0.0: scale X"):
        NystromFeatures(Polynomial(3, coef0=0.0), n_components=4).fit(0 * X)
