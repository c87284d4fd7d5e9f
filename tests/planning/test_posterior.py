"""Plans by the distance to the exact posterior."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import (
    AutoFeatures,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    gaussian_kl,
    load,
    plan,
    save,
)
from dotsketch.features import Study
from dotsketch.features.errors import Beaten
from dotsketch.planning.posterior import (
    PosteriorReference,
    exact_posterior,
    posterior_of_features,
)

KERNEL = Gaussian(lengthscale=2.0)
CANDIDATES = [
    NystromFeatures(KERNEL, n_landmarks=1.0),
    NystromFeatures(KERNEL, n_landmarks=2.0),
    FourierFeatures(KERNEL),
    MaclaurinFeatures(KERNEL, output="complex_to_real"),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    return X, np.sin(X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.standard_normal(150)


@pytest.mark.parametrize("n_columns", [5, 40])
def test_both_systems_have_the_posterior_of_the_gram_matrix(rng, n_columns):
    """Fewer columns than rows, and more."""
    Z, held, Y = (
        rng.standard_normal(shape) for shape in ((20, n_columns), (7, n_columns), (20, 2))
    )
    found = posterior_of_features(Z, held, Y, 0.3)
    expected = exact_posterior(Z @ Z.T, Z @ held.T, np.sum(held**2, axis=1), Y, 0.3)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("features", CANDIDATES, ids=lambda one: one.label())
@pytest.mark.parametrize("noise_variance", [None, 0.05])
def test_it_is_the_divergence_of_the_gaussian_processes(data, features, noise_variance):
    """With the variance that Nyström features lack, and the noise that the evidence chooses."""
    X, y = data
    reference = PosteriorReference(Study(KERNEL, X), 3 * y + 5, 12, noise_variance)
    setting = reference.setting
    assert (setting.n_fitted, setting.n_held) == (120, 30)
    places = [np.flatnonzero((row == X).all(axis=1))[0] for row in reference.fitted]
    given = {"noise_variance": setting.noise_variance, "prior_variance": setting.prior_variance}
    exact = ExactGPRegressor(KERNEL, **given).fit(reference.fitted, y[places])
    fitted = features.for_kernel(KERNEL, 12, random_state=0).fit(reference.fitted)
    gp = FeatureGPRegressor(fitted, **given).fit(reference.fitted, y[places])
    predicted = []
    for model in (gp, exact):
        mean, std = model.predict(reference.held, return_std=True, include_noise=True)
        predicted += [mean, std**2]
    expected = gaussian_kl(*predicted) / 30
    assert reference.divergence(fitted) == pytest.approx(expected, rel=1e-6)
    if noise_variance is None:
        free = ExactGPRegressor(KERNEL).fit(reference.fitted, y[places])
        assert setting.noise_variance == pytest.approx(free.noise_variance_, rel=1e-4)
        assert setting.prior_variance == pytest.approx(free.prior_variance_, rel=1e-4)


def test_the_least_divergence_is_first_and_its_unit_is_known(data, tmp_path):
    pytest.importorskip("pandas")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    X, y = data
    options = {"n_components": 12, "objective": "posterior", "candidates": CANDIDATES}
    table = plan(KERNEL, X, y=y, **options)
    divergences = [row.divergence for row in table]
    assert divergences == sorted(divergences)
    assert divergences[0] > 0
    assert max(row.divergence_error for row in table) > 0
    assert "nats per row held out (30 rows; 120 are learnt from" in repr(table)
    frame = table.to_pandas()
    assert frame["divergence"].tolist() == divergences
    assert frame.attrs["objective"] == "posterior"
    assert "nats" in frame.attrs["unit"]
    axes = table.plot()
    assert "nats" in axes.get_xlabel()
    pyplot.close(axes.figure)
    auto = AutoFeatures(KERNEL, random_state=0, **options).fit(X, y)
    assert f"nats per row held out: {auto.chosen_.divergence:.3g}" in auto.explain()
    save(auto, tmp_path / "model")
    copy = load(tmp_path / "model")
    assert repr(copy.plan_) == repr(auto.plan_)
    assert copy.plan_.posterior == auto.plan_.posterior
    assert copy.explain() == auto.explain()


def test_the_error_of_the_kernel_stays_the_default(data):
    X, y = data
    table = plan(KERNEL, X, n_components=12, candidates=CANDIDATES)
    assert table.objective == "error"
    assert table.posterior is None
    assert "divergence" not in table.to_dict()
    with_targets = plan(KERNEL, X, n_components=12, candidates=CANDIDATES, y=y)
    assert repr(with_targets) == repr(table)


def test_what_is_beaten_is_dropped_early(data):
    X, y = data
    auto = AutoFeatures(KERNEL, n_components=12, objective="posterior", random_state=0).fit(X, y)
    rng = np.random.default_rng(0).spawn(2)[0]
    everything = plan(KERNEL, X, n_components=12, objective="posterior", y=y, random_state=rng)
    assert auto.chosen_.label == everything.best.label
    assert auto.chosen_.divergence == pytest.approx(everything.best.divergence)
    assert len(auto.plan_) + len(auto.plan_.dropped) == len(everything)
    assert auto.plan_.dropped
    reference = PosteriorReference(Study(KERNEL, X), y, 12)
    fourier = FourierFeatures(KERNEL, n_components=12)
    full = reference.measure(fourier)
    assert reference.measure(fourier, 2 * full.mean) == full
    with pytest.raises(Beaten):
        reference.measure(fourier, 0.01 * full.mean)


@pytest.mark.parametrize("model", ["plain", "pipeline", "classes", "text"])
def test_gaussian_processes_pass_their_targets_on(data, model):
    X, y = data
    features = AutoFeatures(
        KERNEL, n_components=12, objective="posterior", candidates=CANDIDATES, random_state=0
    )
    classes = np.digitize(y, [0.5, 1.5])
    if model == "classes":
        gp = FeatureGPClassifier(features).fit(X, classes)
    elif model == "text":
        assert features.fit(X, np.array(["a", "b", "c"])[classes]).chosen_.divergence > 0
        return
    elif model == "pipeline":
        gp = FeatureGPRegressor(make_pipeline(StandardScaler(), features)).fit(X, y)
    else:
        gp = FeatureGPRegressor(features).fit(X, y, optimize=True)
    fitted = gp.features_[-1] if model == "pipeline" else gp.features_
    chosen = getattr(fitted, "chosen_", None)
    assert chosen is None or chosen.divergence > 0
    assert np.all(np.isfinite(gp.predict(X)))


def test_what_is_missing_or_wrong_is_said(data):
    X, y = data
    features = AutoFeatures(KERNEL, n_components=12, objective="posterior")
    for call in (
        lambda: plan(KERNEL, X, n_components=12, objective="posterior"),
        lambda: features.fit(X),
    ):
        with pytest.raises(ValueError, match=r"depend on y: give plan\(\.\.\., y=y\)"):
            call()
    options = {"n_components": 12, "objective": "posterior", "y": y}
    for changed, message in (
        ({"objective": "kl"}, "objective must be one of 'error', 'error_per_time'"),
        ({"y": y[:-1]}, "y has 149 values for 150 rows"),
        ({"y": np.where(y > 1, np.nan, y)}, "y contains NaN"),
        ({"noise_variance": 0.0}, "noise_variance must be a positive number"),
    ):
        with pytest.raises(ValueError, match=message):
            plan(KERNEL, X, **options | changed)
    with pytest.raises(ValueError, match="at least 10"):
        plan(KERNEL, X[:9], **options | {"y": y[:9]})
    with pytest.raises(ValueError, match="tolerance limits the kernel's error"):
        AutoFeatures(KERNEL, tolerance=0.1, objective="posterior").fit(X, y)


def test_a_sample_that_is_too_small_for_the_columns_is_refused(rng):
    X = rng.standard_normal((6000, 2))
    study = Study(KERNEL, X)
    with pytest.raises(ValueError, match="4096 rows, which says little about 2100 columns"):
        PosteriorReference(study, X[:, 0], 2100)


def test_a_constant_target_has_variances(data):
    X, _ = data
    options = {"n_components": 12, "objective": "posterior", "candidates": CANDIDATES}
    table = plan(KERNEL, X, y=np.ones(150), **options)
    assert table.posterior.noise_variance == 1.0
    assert np.isfinite(table.best.divergence)
