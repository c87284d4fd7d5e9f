"""Scores of chunks add up to those of scikit-learn on all rows."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.metrics import accuracy_score, log_loss, r2_score, root_mean_squared_error

from dotsketch.cli.scoring import ClassPrediction, NumberPrediction, Score, describe_figures


@pytest.mark.parametrize("step", [1, 7, 50])
def test_regression(rng, step):
    y = rng.normal(1e6, 1, 50)
    mean, deviation = y + rng.normal(size=50) / 2, rng.uniform(0.3, 1, 50)
    total = Score("regression")
    for start in range(0, 50, step):
        part = slice(start, start + step)
        total.add(NumberPrediction(mean[part], deviation[part]), y[part])
    figures = total.figures()
    assert figures["r2"] == pytest.approx(r2_score(y, mean), rel=1e-9)
    assert figures["rmse"] == pytest.approx(root_mean_squared_error(y, mean), rel=1e-12)
    assert figures["mnll"] == pytest.approx(-norm.logpdf(y, mean, deviation).mean(), rel=1e-12)


@pytest.mark.parametrize(("distance", "covered"), [(1.9, 1.0), (2.0, 0.0)])
def test_intervals_of_95_percent_end_at_1_96_deviations(distance, covered):
    deviation = np.array([0.5, 2.0])
    prediction = NumberPrediction(np.zeros(2), deviation)
    figures = Score("regression").add(prediction, distance * deviation * [1, -1]).figures()
    assert figures["coverage"] == covered


def test_classification(rng):
    classes = np.array(["a", "b", "c"])
    y = rng.choice(classes, 40)
    probabilities = rng.dirichlet([1, 1, 1], 40)
    total = Score("classification")
    for part in (slice(0, 25), slice(25, 40)):
        total.add(ClassPrediction(probabilities[part], classes), y[part])
    figures = total.figures()
    hits = accuracy_score(y, classes[probabilities.argmax(axis=1)])
    assert figures == pytest.approx({"accuracy": hits, "mnll": log_loss(y, probabilities)})
    assert describe_figures(figures).startswith(f"accuracy {hits:.4g}, MNLL ")


def test_an_unknown_class_is_infinitely_surprising():
    prediction = ClassPrediction(np.array([[0.5, 0.5]]), np.array([0, 1]))
    assert prediction.losses(np.array([2])) == [np.inf]


def test_a_constant_target_has_no_r2():
    total = Score("regression")
    total.add(NumberPrediction(np.zeros(2), np.ones(2)), np.ones(2))
    assert total.figures()["r2"] is None
