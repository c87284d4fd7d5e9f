"""Gaussian processes in model files: the same predictions, and they go on after loading."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import is_classifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import (
    DirichletGPClassifier,
    ExactGPClassifier,
    ExactGPRegressor,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    MaclaurinFeatures,
    load,
    save,
)
from gp.data import condition
from rounding import assert_same_to_rounding

RNG = np.random.default_rng(0)
X = RNG.random((60, 5)) / 5**0.5
Y = X.sum(axis=1) + 0.1 * RNG.normal(size=60)
LABELS = np.arange(60) % 3


def features(**options):
    return MaclaurinFeatures(Gaussian(), n_components=8, random_state=0, **options)


PROCESSES = [
    FeatureGPRegressor(features(), optimize=False),
    FeatureGPRegressor(features(), optimize=True),
    FeatureGPRegressor(features(), optimize=False, solver="cg"),
    FeatureGPRegressor(features(output="complex"), optimize=False, posterior="complex"),
    FeatureGPClassifier(features()),
    DirichletGPClassifier(features()),
    ExactGPRegressor(Gaussian()),
    ExactGPClassifier(Gaussian()),
    make_pipeline(StandardScaler(), FeatureGPRegressor(features(), optimize=False)),
]


@pytest.mark.parametrize("process", PROCESSES, ids=lambda p: str(p)[:60].replace("\n", ""))
def test_processes_round_trip(process, tmp_path):
    process.fit(X, LABELS if is_classifier(process) else Y)
    save(process, tmp_path / "model")
    again = load(tmp_path / "model")
    if is_classifier(process):
        np.testing.assert_allclose(again.predict_proba(X), process.predict_proba(X), rtol=1e-9)
        return
    for mine, other in zip(
        again.predict(X, return_std=True), process.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-9)


@pytest.mark.parametrize("labels", [["a", "b", "c"], [False, True], [1.0, 3.0], [2**40, -3]])
@pytest.mark.parametrize("kind", [FeatureGPClassifier, DirichletGPClassifier, ExactGPClassifier])
def test_labels_of_every_kind_round_trip(labels, kind, tmp_path):
    y = np.array(labels)[np.arange(len(X)) % len(labels)]
    model = kind(Gaussian() if kind is ExactGPClassifier else features()).fit(X, y)
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").classes_, model.classes_)


def test_a_loaded_process_goes_on(tmp_path):
    """What the parts of a merge are made of."""
    gp = FeatureGPRegressor(
        FrozenEstimator(features().fit(X)), noise_variance=0.1, optimize=False
    ).fit(X, Y)
    save(gp, tmp_path / "model")
    again = load(tmp_path / "model")
    more = X[::-1] / 2, Y
    merged, expected = (first.merge(gp).partial_fit(*more) for first in (again, gp))
    assert_same_to_rounding(merged.predict(X), expected.predict(X), condition=condition(expected))


@pytest.mark.parametrize("make", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_sparse_rows_round_trip(make, tmp_path):
    """An exact process keeps its training rows as they were."""
    gp = ExactGPRegressor(Gaussian(), noise_variance=0.1).fit(make(X), Y)
    save(gp, tmp_path / "model")
    again = load(tmp_path / "model")
    assert type(again.columns_.rows) is make
    np.testing.assert_array_equal(again.columns_.rows.toarray(), X)
    assert_same_to_rounding(again.predict(X), gp.predict(X))
