"""The compiled kernels behind the estimators: same features as the portable code, on any thread."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

from dotsketch import (
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    Matern,
    Polynomial,
    PolynomialSketch,
    SphericalFeatures,
)
from dotsketch._backends import cpp
from dotsketch.projections import PROJECTIONS
from dotsketch.sketches import SKETCHES
from rounding import assert_same_to_rounding

OUTPUTS = ["real", "complex", "complex_to_real"]
needs_kernels = pytest.mark.skipif(not cpp.AVAILABLE, reason="the extension is not built")


def estimators():
    for sketch in SKETCHES:
        for output in OUTPUTS:
            yield PolynomialSketch(
                3, coef0=0.3, sketch=sketch, n_components=38, output=output, random_state=0
            )
    for sketch in ("tensor_srht", "rademacher", "balanced_tensor_sketch"):
        for output in OUTPUTS:
            yield MaclaurinFeatures(
                Gaussian(), sketch=sketch, n_components=38, output=output, random_state=0
            )
    yield PolynomialSketch(2, sketch="tensor_srht", compact=3, n_components=20, random_state=0)
    for n_components in (127, 131, 2 * 131):  # 131 is too large a prime for compiled code
        options = {"sketch": "tensor_sketch", "n_components": n_components, "random_state": 0}
        yield PolynomialSketch(3, **options)
        yield PolynomialSketch(3, output="complex", **options)


def wave_estimators():
    """Cosines and sines of every projection, of whole and incomplete blocks."""
    per_column = Matern(1.5, lengthscale=np.linspace(0.5, 2, 11))
    on_sphere = Polynomial(3, gamma=0.5, coef0=0.5)
    for output in OUTPUTS:
        for n_components in (38, 39) if output != "complex_to_real" else (38,):
            shared = {"n_components": n_components, "output": output, "random_state": 0}
            for projection in PROJECTIONS:
                for kernel in (Gaussian(lengthscale=1.3, variance=0.7), per_column):
                    yield FourierFeatures(kernel, projection=projection, **shared)
            yield SphericalFeatures(on_sphere, projection="orthogonal", **shared)


def is_compiled(estimator):
    """Whether our own kernels compute the features, so that their bits are promised."""
    is_long_prime = estimator.n_components % 131 == 0
    return cpp.AVAILABLE and estimator.sketch != "gaussian" and not is_long_prime


@pytest.fixture
def X():
    return np.random.default_rng(5).standard_normal((150, 11)) / 3


@needs_kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("estimator", [*estimators(), *wave_estimators()], ids=str)
def test_compiled_and_portable_features_agree(estimator, dtype, X, monkeypatch):
    X = X.astype(dtype)
    compiled = estimator.fit(X).transform(X)
    monkeypatch.setattr(cpp, "AVAILABLE", False)
    portable = estimator.transform(X)
    assert compiled.dtype == portable.dtype
    tolerance = np.abs(portable).max() * (1e-12 if dtype == np.float64 else 2e-5)
    if hasattr(estimator, "projection"):  # angles of about 10 have errors of some last places
        tolerance = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(compiled, portable, rtol=0, atol=tolerance)


@pytest.mark.parametrize("estimator", list(estimators()), ids=str)
def test_rows_of_any_place_and_type(estimator, X):
    """Not aligned in memory, such as a field of a packed record array; of another byte order."""
    packed = np.zeros(len(X), dtype=[("flag", "i1"), ("row", "f8", X.shape[1])])
    packed["row"] = X
    assert not packed["row"].flags.aligned
    expected = estimator.fit(X).transform(X)
    for rows in (packed["row"], X.astype(">f8")):
        np.testing.assert_allclose(estimator.transform(rows), expected, atol=1e-14)
    whole = np.round(3 * X)
    expected = estimator.transform(whole)
    np.testing.assert_allclose(estimator.transform(whole.astype(int)), expected, atol=1e-14)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("value", "message"), [(np.nan, "contains NaN"), (-np.inf, "infinity")])
def test_what_is_not_finite_is_refused_in_the_words_of_scikit_learn(value, message, dtype, n_jobs):
    """Rows are checked chunk by chunk, not before."""
    X = np.random.default_rng(0).standard_normal((5000, 30)).astype(dtype)
    estimator = PolynomialSketch(2, n_components=64, n_jobs=n_jobs, random_state=0).fit(X)
    for place in ((0, 0), (4999, 29), (2500, 7)):
        Y = X.copy()
        Y[place] = value
        for given in (Y, np.asfortranarray(Y), Y[:, ::-1]):
            with pytest.raises(ValueError, match=message) as caught:
                estimator.transform(given)
        with pytest.raises(ValueError, match=message) as expected:
            estimator.fit(Y)
        assert str(caught.value) == str(expected.value)
        estimator.fit(X)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_assumed_finite_rows_are_not_checked_on_any_thread(n_jobs):
    """scikit-learn keeps its configuration by thread; every thread has chunks with NaN."""
    X = np.random.default_rng(0).standard_normal((20_000, 5))
    estimator = PolynomialSketch(2, n_components=64, n_jobs=n_jobs, random_state=0).fit(X)
    X[::100] = np.nan
    with sklearn.config_context(assume_finite=True):
        Z = estimator.transform(X)
    np.testing.assert_array_equal(np.isnan(Z).all(axis=1), np.isnan(X).all(axis=1))
    with pytest.raises(ValueError, match="NaN"):
        estimator.transform(X)


@pytest.mark.parametrize("estimator", list(estimators()), ids=str)
def test_threads_and_layout_do_not_change_a_bit(estimator, X):
    X = np.repeat(X, 100, axis=0)  # 570,000 features: several chunks for the threads
    expected = estimator.fit(X).transform(X)
    same = np.testing.assert_array_equal if is_compiled(estimator) else assert_same_to_rounding
    for n_jobs in (2, 3, -1):
        same(estimator.set_params(n_jobs=n_jobs).transform(X), expected)
    if cpp.AVAILABLE or "sketch" not in str(estimator.sketch):
        np.testing.assert_allclose(estimator.transform(np.asfortranarray(X)), expected, atol=1e-12)
        np.testing.assert_allclose(estimator.transform(X[::-1])[::-1], expected, atol=1e-12)
        wide = np.zeros((X.shape[0], 22))
        wide[:, ::2] = X
        np.testing.assert_allclose(estimator.transform(wide[:, ::2]), expected, atol=1e-12)


@needs_kernels
@pytest.mark.parametrize("estimator", list(estimators()), ids=str)
def test_tensors_share_memory_with_the_kernels(estimator, X):
    """A CPU tensor without gradient gets the bits of NumPy; with one, the same features."""
    torch = pytest.importorskip("torch")
    expected = estimator.fit(X).transform(X)
    found = estimator.transform(torch.from_numpy(X))
    same = np.testing.assert_array_equal if is_compiled(estimator) else assert_same_to_rounding
    same(found.numpy(), expected)
    tracked = estimator.transform(torch.tensor(X, requires_grad=True))
    assert tracked.requires_grad
    np.testing.assert_allclose(tracked.detach().numpy(), expected, atol=1e-12)


def differentiable_estimators():
    """Everything with a compiled gradient, real and complex, one block of columns and several."""
    for sketch in ("tensor_srht", "tree_srht", "tensor_sketch", "balanced_tensor_sketch"):
        for output in ("real", "complex_to_real"):
            for degree, n_components in ((1, 4), (3, 20), (2, 38)):  # 19 columns: a prime
                yield PolynomialSketch(
                    degree, sketch=sketch, n_components=n_components, output=output, random_state=0
                )
    for n_components in (6, 51):
        kernel = Gaussian(lengthscale=1.0)
        yield FourierFeatures(kernel, projection="sorf", n_components=n_components, random_state=0)


@needs_kernels
@pytest.mark.parametrize("estimator", list(differentiable_estimators()), ids=str)
def test_compiled_gradient_is_the_portable_one(estimator, X, monkeypatch):
    torch = pytest.importorskip("torch")
    estimator.fit(X)
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(estimator.n_components, dtype=torch.float64, generator=generator)

    def gradient():
        rows = torch.tensor(X[:20], requires_grad=True)
        (estimator.transform(rows) @ weights).sum().backward()
        return rows.grad

    compiled = gradient()
    monkeypatch.setattr(cpp, "AVAILABLE", False)
    torch.testing.assert_close(compiled, gradient())
    rows = torch.tensor(X[:2], requires_grad=True)
    monkeypatch.setattr(cpp, "AVAILABLE", True)
    assert torch.autograd.gradcheck(lambda r: estimator.transform(r)[:, :6], (rows,))
    assert torch.autograd.gradgradcheck(lambda r: estimator.transform(r)[:, :3], (rows[:1],))


@needs_kernels
def test_gradients_are_the_same_for_any_number_of_threads(X, monkeypatch):
    torch = pytest.importorskip("torch")
    X = np.repeat(X, 20, axis=0)  # several blocks
    estimator = PolynomialSketch(3, n_components=20, random_state=0).fit(X)

    def gradient():
        rows = torch.tensor(X, requires_grad=True)
        estimator.transform(rows).square().sum().backward()
        return rows.grad

    expected = gradient()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    assert torch.equal(gradient(), expected)
