"""NystromFeatures: scikit-learn's Nystroem with these kernels."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.utils.estimator_checks import parametrize_with_checks

from dotsketch import ArcCosine, Exponential, Gaussian, Maclaurin, NystromFeatures, Polynomial

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
    np.testing.assert_allclose(model.set_params(n_jobs=2).transform(X), Z, atol=1e-9)
    np.testing.assert_array_equal(clone(model).fit(X[:50, :2]).fit(X).transform(X), Z)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), Z)


def test_refusals(X):
    with pytest.raises(ValueError, match=r"n_components=8 .* n_samples=7: use n_components=7 or"):
        NystromFeatures(Gaussian(), n_components=8).fit(X)
    with pytest.raises(TypeError, match="kernel must be a kernel of dotsketch"):
        NystromFeatures("rbf", n_components=4).fit(X)
    with pytest.raises(ValueError, match=r"largest k\(x, x\) of the drawn rows is 0.0: scale X"):
        NystromFeatures(Polynomial(3, coef0=0.0), n_components=4).fit(0 * X)
