"""Kernels of some inputs, kernels of a user and kernels of others."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dotsketch
from dotsketch import (
    AutoFeatures,
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
    Matern,
    NystromFeatures,
    Periodic,
    load,
    plan,
    save,
)
from dotsketch.kernels import DistanceKernel, Kernel

pd = pytest.importorskip("pandas")
KERNEL = Matern(lengthscale=[1.0, 2.0]).on(["x", "y"]) + Periodic(24.0).on("hour")
NUMBERED = Matern(lengthscale=[1.0, 2.0]).on([0, 2]) + Periodic(24.0).on([1])


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    values = np.stack([rng.normal(size=80), rng.uniform(0, 240, 80), rng.normal(size=80)], axis=1)
    return pd.DataFrame(values, columns=["x", "hour", "y"])


@pytest.fixture
def y(rows):
    return np.sin(rows.x.to_numpy()) + np.cos(2 * np.pi * rows.hour.to_numpy() / 24)


def test_values_are_those_of_the_columns(rows):
    X, inner = rows.to_numpy(), Gaussian(lengthscale=[1.0, 2.0])
    expected = inner(X[:, [2, 0]], X[:3, [2, 0]])
    np.testing.assert_allclose(inner.on([2, 0])(X, X[:3]), expected)
    np.testing.assert_allclose(KERNEL(rows), NUMBERED(X))


@pytest.mark.parametrize(
    "model",
    [
        NystromFeatures(KERNEL, n_components=20, random_state=0),
        AutoFeatures(KERNEL, n_components=20, random_state=0),
        FeatureGPRegressor(KERNEL),
        FeatureGPRegressor(KERNEL, optimize=True),
        FeatureGPRegressor(
            make_pipeline(StandardScaler(), NystromFeatures(KERNEL, n_components=9))
        ),
        ExactGPRegressor(KERNEL),
        ExactGPRegressor(KERNEL, optimize=True),
        FeatureGPClassifier(KERNEL),
        DirichletGPClassifier(KERNEL),
        ExactGPClassifier(KERNEL),
    ],
    ids=lambda model: f"{type(model).__name__}-{getattr(model, 'optimize', '')}",
)
def test_names_of_a_frame_are_found_by_every_estimator(model, rows, y, tmp_path):
    labels = "Classifier" in type(model).__name__
    model.fit(rows, y > 0 if labels else y)
    (left, right) = model.kernel_.parts
    assert (list(left.inputs), list(right.inputs)) == ([0, 2], [1])
    save(model, tmp_path / "model")
    again, method = (
        load(tmp_path / "model"),
        "predict" if hasattr(model, "predict") else "transform",
    )
    assert again.kernel_ == model.kernel_
    np.testing.assert_array_equal(getattr(again, method)(rows), getattr(model, method)(rows))
    with pytest.raises(ValueError, match=r"asks for the inputs \['x', 'y'\], and the rows have no"):
        model.fit(rows.to_numpy(), y > 0 if labels else y)


def test_names_that_are_not_there_are_told(rows, y):
    with pytest.raises(ValueError, match=r"the inputs \['z'\], and the rows have \['x', 'hour'"):
        ExactGPRegressor(Matern().on(["x", "z"])).fit(rows, y)
    with pytest.raises(ValueError, match="asks for input 3 of 3"):
        NystromFeatures(Matern().on(3), n_components=3).fit(rows)
    columns = make_pipeline(PCA(3), NystromFeatures(KERNEL, n_components=9))
    with pytest.raises(ValueError, match="and the rows have no names"):  # PCA has made others
        FeatureGPRegressor(columns).fit(rows, y)
    for inputs in ([], ["x", "x"], -1, [True, False], [0.0], None, [0, "x", 0]):
        with pytest.raises(ValueError, match="the number of an input"):
            Matern().on(inputs)
    with pytest.raises(TypeError, match="use NystromFeatures"):
        MaclaurinFeatures(Gaussian().on(0)).fit(rows)
    assert plan(KERNEL, rows, n_components=9).best.family == "nystrom"


def test_parameters_are_reached_by_name():
    kernel = (Matern() + Periodic()).on([0, 1])
    kernel.set_params(kernel__left__nu=2.5, inputs=[1])
    assert kernel == (Matern(2.5) + Periodic()).on([1])
    assert kernel != (Matern(2.5) + Periodic()).on([0])
    assert repr(kernel) == "(Matern(nu=2.5) + Periodic()).on([1])"
    assert 2.0 * Matern().on("x") == Matern(variance=2.0).on("x")
    assert kernel.shift_invariant
    assert dotsketch.Tanimoto().on([0]).nonnegative


class Laplacian(Kernel):
    """A general kernel: what `__call__` and `diag` give, and no parameters."""

    def __call__(self, X, Y=None):
        return np.exp(-np.abs(X[:, None] - (X if Y is None else Y)[None]).sum(axis=2))

    def diag(self, X):
        return np.ones(len(X))


def test_a_kernel_needs_its_values_and_diagonal(X):
    y = np.sin(X[:, 0])
    for kernel in (Laplacian(), 2.0 * Laplacian(), Laplacian().on([0, 1]) + Laplacian()):
        for optimize in (False, True):
            for model in (FeatureGPRegressor, ExactGPRegressor):
                gp = model(kernel, optimize=optimize, noise_variance=1e-3).fit(X, y)
                assert gp.score(X, y) > 0.9
    np.testing.assert_allclose((2.0 * Laplacian())(X), 2 * Laplacian()(X))


def test_what_is_missing_is_said_by_name(X):
    class Nothing(Kernel):
        pass

    class NoSlope(DistanceKernel):
        def profile_of_halves(self, halves):
            return 1 / (1 + halves)

    class NoRange(Laplacian):
        searched = ("scale", "variance")
        scale = 1.0

    for call, name in (
        (lambda: Nothing()(X), r"Nothing needs a method __call__\(X, Y=None\)"),
        (lambda: Nothing().diag(X), r"Nothing needs a method diag\(X\)"),
        (lambda: DistanceKernel(lengthscale=1.0)(X), r"needs a method profile_of_halves"),
        (lambda: ExactGPRegressor(NoSlope(), optimize=True).fit(X, X[:, 0]), "slope_of_halves"),
        (lambda: NoRange().search_range(X), "NoRange needs a method range_of"),
        (lambda: NoRange().with_pullback(X), "NoRange needs a method with_pullback"),
    ):
        with pytest.raises(NotImplementedError, match=name):
            call()
    assert ExactGPRegressor(NoSlope()).fit(X, X[:, 0]).score(X, X[:, 0]) > 0.9


@pytest.mark.parametrize("kernel", [1.5 * RBF(1.3), laplacian_kernel], ids=["kernel", "function"])
def test_kernels_of_scikit_learn_in_nystrom_features(kernel, rng):
    X = rng.standard_normal((100, 3))
    features = NystromFeatures(kernel, n_components=100, random_state=0)
    Z = features.fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-6)
    np.testing.assert_allclose(features.kernel_.diag(X), np.diag(kernel(X)))
    gp = FeatureGPRegressor(features).fit(X, X[:, 0])
    assert gp.score(X, X[:, 0]) > 0.9
    with pytest.raises(ValueError, match="searches the parameters of one kernel of this library"):
        FeatureGPRegressor(features, optimize=True).fit(X, X[:, 0])


def test_functions_that_are_no_kernel_are_refused(X):
    with pytest.raises(ValueError, match=r"must return the Gram matrix \(n, m\)"):
        NystromFeatures(lambda A, B: A @ B.T[:, :1], n_components=3).fit(X)
    rows = pytest.importorskip("torch").tensor(X, requires_grad=True)
    with pytest.raises(TypeError, match="computes with NumPy only"):
        NystromFeatures(RBF(), n_components=3, random_state=0).fit(X).transform(rows)
