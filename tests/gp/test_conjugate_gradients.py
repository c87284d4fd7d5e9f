"""Conjugate gradients against the direct solver, and what they promise beside."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian
from dotsketch.gp import ConjugateGradients
from dotsketch.rows import Checkpoint
from gp.data import regression_data

X, y = regression_data(n=200)

FIXED = {"noise_variance": 0.05, "prior_variance": 1.5}


def waves(n_components=60, lengthscale=1.5):
    kernel = Gaussian(lengthscale=lengthscale)
    return FourierFeatures(kernel, n_components=n_components, random_state=0)


def pair(features, solver, **options):
    """The direct and the iterative process."""
    return (
        FeatureGPRegressor(features, solver="cholesky", **options),
        FeatureGPRegressor(features, solver=solver, **options),
    )


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("rank", [8, 60])
def test_means_are_those_of_the_direct_solver(outputs, rank):
    X, y = regression_data(n=200, outputs=outputs)
    solver = ConjugateGradients(tolerance=1e-9, rank=rank)
    direct, iterative = (gp.fit(X, y) for gp in pair(waves(), solver, **FIXED))
    np.testing.assert_allclose(iterative.predict(X), direct.predict(X), rtol=1e-6)
    assert iterative.solver_ == "cg"
    assert len(iterative.residuals_) == iterative.n_iterations_ + 1
    assert iterative.residuals_[-1] <= 1e-9
    if rank == 60:  # the subspace is everything: variances are exact
        for ours, theirs in zip(
            iterative.predict(X, return_std=True), direct.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4)
        covariance = iterative.predict(X[:5], return_cov=True)[1]
        np.testing.assert_allclose(covariance, direct.predict(X[:5], return_cov=True)[1], rtol=1e-3)


def test_variances_of_draws_have_their_standard_error():
    """Without an exact subspace: the mean ratio over many rows within 6 standard errors."""
    X, y = regression_data(n=300)
    solver = ConjugateGradients(rank=1, n_samples=400)
    direct, iterative = (gp.fit(X, y) for gp in pair(waves(lengthscale=1.0), solver, **FIXED))
    ratio = (iterative.predict(X, return_std=True)[1] / direct.predict(X, return_std=True)[1]) ** 2
    assert np.all(np.abs(ratio - 1) < 6 * np.sqrt(2 / 400))
    assert abs(np.mean(ratio) - 1) < 0.1
    draws = iterative.sample_y(X[:3], 300, random_state=0)
    std = iterative.predict(X[:3], return_std=True)[1]
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.25)


@pytest.mark.parametrize("kind", ["noise by row", "sample weight", "sparse", "stream", "float32"])
def test_rows_of_every_kind(kind, rng):
    X, y = regression_data(n=200)
    X = np.where(rng.uniform(size=X.shape) < 0.3, 0.0, X)
    rows, more = X, {}
    if kind == "noise by row":
        more["noise_variance"] = rng.uniform(0.02, 0.2, 200)
    elif kind == "sample weight":
        more["sample_weight"] = rng.integers(0, 4, 200)
    elif kind == "sparse":
        rows = csr_array(X)
    elif kind == "float32":
        rows = X.astype(np.float32)
    solver = ConjugateGradients(tolerance=1e-9, rank=16)
    direct, iterative = pair(waves(), solver, **FIXED)
    direct.fit(rows, y, **more)
    if kind == "stream":
        iterative.fit(lambda: iter([(X[:90], y[:90]), (X[90:], y[90:])]))
    else:
        iterative.fit(rows, y, **more)
    tolerance = 1e-3 if kind == "float32" else 1e-5
    np.testing.assert_allclose(iterative.predict(X), direct.predict(X), rtol=tolerance, atol=1e-6)


def test_features_are_kept_or_computed_again():
    kept, again = (
        FeatureGPRegressor(waves(), solver=ConjugateGradients(memory=memory), **FIXED).fit(X, y)
        for memory in (1 << 29, 1)
    )
    np.testing.assert_array_equal(kept.predict(X), again.predict(X))


def test_automatic_variances_are_near_those_of_all_rows():
    X, y = regression_data(n=500)
    direct, iterative = (gp.fit(X, y) for gp in pair(waves(), "cg"))
    assert iterative.noise_variance_ == pytest.approx(direct.noise_variance_, rel=1e-3)
    assert iterative.prior_variance_ == pytest.approx(direct.prior_variance_, rel=1e-2)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interrupted_solver_goes_on(tmp_path, monkeypatch):
    """From the state after the last iteration, to the same solution."""
    X, y = regression_data(n=400)
    path, written, write = tmp_path / "state.npz", [], Checkpoint.write

    def interrupted(self, state):
        write(self, state)
        written.append(state)
        if len(written) == 3:
            raise KeyboardInterrupt

    solver = ConjugateGradients(rank=2, tolerance=1e-8)
    options = {"solver": solver, "noise_variance": 1e-3, "prior_variance": 1.0}
    gp = FeatureGPRegressor(waves(lengthscale=0.5), **options)
    monkeypatch.setattr(Checkpoint, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gp.fit(X, y, checkpoint=path)
    whole, resumed = clone(gp).fit(X, y), clone(gp).fit(X, y, checkpoint=path)
    np.testing.assert_allclose(resumed.predict(X), whole.predict(X), rtol=1e-6)
    assert resumed.n_iterations_ == whole.n_iterations_
    assert len(written) == whole.n_iterations_ + 2  # no iteration was made again
    with pytest.raises(ValueError, match=r"other rows|another configuration"):
        clone(gp).fit(X + 1, y, checkpoint=path)


def test_an_early_end_is_announced():
    solver = ConjugateGradients(max_iterations=1, rank=1, tolerance=1e-10)
    with pytest.warns(ConvergenceWarning, match="stopped after 1 iterations"):
        FeatureGPRegressor(waves(lengthscale=0.5), solver=solver, **FIXED).fit(X, y)


def test_draws_end_at_a_residual_of_a_hundredth(tmp_path):
    """Variances come from draws: beyond that they are wrong by more than their standard error."""
    X, y = regression_data(n=300)
    for tolerance in (0.3, 1e-3):  # means that end before and after the draws
        path = tmp_path / f"{tolerance}.npz"
        solver = ConjugateGradients(tolerance=tolerance, rank=1)
        fixed = {"noise_variance": 0.01, "prior_variance": 1.0}
        gp = FeatureGPRegressor(waves(200, lengthscale=0.7), solver=solver, **fixed)
        gp.fit(X, y, checkpoint=path)
        with np.load(path) as state:
            assert state["norms"][:, 1:].max() <= max(tolerance, 0.01)
