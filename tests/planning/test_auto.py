"""AutoFeatures takes what its plan ranks first, and the plan is right."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits

from dotsketch import (
    AutoFeatures,
    Exponential,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
    PolynomialSketch,
    plan,
)
from dotsketch.features import FAMILIES, Study
from dotsketch.features.study import off_diagonal_mean
from dotsketch.planning import compare, select, variants
from rounding import assert_same_to_rounding, nystrom_condition

POLYNOMIAL = Polynomial(3, gamma=0.5, coef0=0.5, variance=1.5)


@pytest.fixture(scope="module")
def X():
    X = load_digits().data[:400]
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def measured_error(features, kernel, X, fitting_rows, n_draws=200):
    """Root mean square over draws of the relative error over pairs, with its standard error."""
    K = kernel(X)
    squares = []
    for seed in range(n_draws):
        Z = clone(features).set_params(random_state=seed).fit(fitting_rows).transform(X)
        squares.append(off_diagonal_mean((Z @ Z.T - K) ** 2) / off_diagonal_mean(K**2))
    mean = np.mean(squares)
    return np.sqrt(mean), np.std(squares, ddof=1) / np.sqrt(n_draws) / (2 * np.sqrt(mean))


def test_families_serve_their_kernels(X):
    def families(kernel, rows=X):
        return {candidate.family for candidate in variants(Study(kernel, rows))}

    assert families(POLYNOMIAL) == {"maclaurin", "polynomial", "spherical", "nystrom"}
    assert families(POLYNOMIAL, 2 * X) == {"maclaurin", "polynomial", "nystrom"}
    assert {"maclaurin", "fourier", "nystrom"} <= families(Gaussian())
    assert {"maclaurin", "positive", "nystrom"} <= families(Exponential())
    assert set(FAMILIES) >= families(Gaussian()) | families(POLYNOMIAL) | families(Exponential())


def test_what_is_measured_is_marked_and_right(X):
    """Nyström features of the plan's own kind, on rows that the plan has not seen."""
    kernel = POLYNOMIAL
    table = plan(kernel, X[:300], n_components=20, candidates=["nystrom"], n_pairs_sample=100)
    row = table.best
    assert row.source == "measured"
    assert np.isnan(row.variance)
    assert row.n_measured is None
    assert row.upper_error == row.relative_error + 2 * row.standard_error
    found, error = measured_error(row.candidate, kernel, X[300:], X[:300], 50)
    assert found / 1.5 < row.relative_error < found * 1.5
    assert error / 3 < row.standard_error < 10 * error  # rows differ as well as draws


def test_heavy_tails_between_draws_are_seen():
    """One row in ten is of a cluster of its own: a landmark of the other leaves it out."""
    X = np.zeros((2000, 3))
    X[::10] = 30.0
    kernel = Exponential(lengthscale=20.0)
    plain = NystromFeatures(kernel, n_landmarks=1.0)
    row = plan(kernel, X, n_components=1, candidates=plain, n_pairs_sample=200).best
    K = kernel(
        X[[1, 0]]
    )  # of one row per cluster; with landmark l, k̂(x, y) = k(x, l) k(l, y) / k(l, l)
    pairs = np.outer([0.9, 0.1], [0.9, 0.1])
    squares = [np.sum(pairs * (np.outer(k, k) / k[i] - K) ** 2) for i, k in enumerate(K)]
    exact = np.sqrt(np.dot([0.9, 0.1], squares) / np.sum(pairs * K**2))
    assert abs(row.relative_error - exact) < 4 * row.standard_error < 0.5 * exact


def test_spherical_features_of_a_plan_refuse_other_norms(X):
    auto = AutoFeatures(POLYNOMIAL, n_components=40, candidates="spherical", random_state=0).fit(X)
    assert auto.transform(X).shape == (400, 40)
    with pytest.raises(ValueError, match=r"unit norm; one has norm 1\.5"):
        auto.transform(1.5 * X)


def test_one_row_off_the_sphere_leaves_out_spherical_features(X):
    """Wherever it stands: the sample of ten rows is too small to have it."""
    for i in range(0, 400, 40):
        rows = X.copy()
        rows[i] *= 1.5
        study = Study(POLYNOMIAL, rows, n_pairs_sample=10)
        assert "spherical" not in {candidate.family for candidate in variants(study)}


def test_what_costs_far_more_is_left_out_unless_named(X):
    rows = np.repeat(X, 1 + 6000 // len(X), axis=0)[:, 20:30]
    options = {"n_components": 6000, "n_pairs_sample": 20}
    table = plan(Gaussian(), rows, candidates="all", **options)
    assert "nystrom" not in {row.family for row in table}
    assert len(table.left_out) == 3
    assert all("operations per row" in text for text in table.left_out)
    assert 'candidates=["all", "nystrom"]' in table.left_out[0]
    assert table.left_out[0] in repr(table)
    named = plan(
        Polynomial(20),
        rows[:200],
        n_components=300_000,
        candidates=[PolynomialSketch(sketch="gaussian")],
    )
    assert named.best.cost > 5e7
    few = [FourierFeatures(None), NystromFeatures(None, landmarks="uniform", n_landmarks=1.0)]
    assert len(select(["all", *few], Study(Gaussian(), rows, n_pairs_sample=20))) == 8


def test_a_tolerance_is_met_with_the_standard_error(X):
    options = {"candidates": "nystrom", "random_state": 0, "n_pairs_sample": 100}
    auto = AutoFeatures(Gaussian(), tolerance=0.03, **options).fit(X)
    assert auto.chosen_.standard_error > 0
    assert auto.chosen_.upper_error <= 0.03
    assert "±" in auto.explain()


def test_a_tolerance_takes_the_fewest_columns(X):
    options = {"candidates": ["maclaurin", "polynomial"], "random_state": 0, "n_pairs_sample": 400}
    X = X[:120]  # all pairs: no sampling
    auto = AutoFeatures(POLYNOMIAL, tolerance=0.05, **options).fit(X)
    assert auto.chosen_.relative_error <= 0.05
    assert auto.transform(X).shape[1] == auto.chosen_.n_components
    assert all(row.n_components >= auto.chosen_.n_components for row in auto.plan_)
    stream = np.random.default_rng(0).spawn(1)[0]  # of the fit: the same halves of the rows
    study = Study(POLYNOMIAL, X, n_pairs_sample=400, random_state=stream)
    fewer = compare(study, options["candidates"], auto.chosen_.n_components - 1)
    assert fewer.best.upper_error > 0.05
    tighter = AutoFeatures(POLYNOMIAL, tolerance=0.02, **options).fit(X)
    assert tighter.chosen_.n_components > auto.chosen_.n_components


def test_a_tolerance_out_of_reach_is_said(X):
    options = {"candidates": "maclaurin", "random_state": 0}
    with pytest.warns(UserWarning, match="not reached with 10 columns"):
        auto = AutoFeatures(POLYNOMIAL, tolerance=1e-6, n_components=10, **options).fit(X[:50])
    assert auto.transform(X).shape == (400, 10)
    with pytest.raises(ValueError, match="Raise max_components"):
        AutoFeatures(Gaussian(), tolerance=1e-9, max_components=64, **options).fit(X[:50])


def test_candidates_can_be_restricted(X):
    auto = AutoFeatures(POLYNOMIAL, n_components=40, candidates="polynomial", random_state=0)
    assert {row.family for row in auto.fit(X).plan_} == {"polynomial"}
    chosen = [MaclaurinFeatures(None, sketch="rademacher"), NystromFeatures(None)]
    auto.set_params(candidates=chosen).fit(X)
    assert {row.label for row in auto.plan_} == {one.label() for one in chosen}
    assert all(row.candidate.kernel == POLYNOMIAL for row in auto.plan_)
    for bad, message in (
        ("fourier", "No candidate"),
        (["nonsense"], "candidates must be"),
        ([], "empty"),
    ):
        with pytest.raises(ValueError, match=message):
            AutoFeatures(POLYNOMIAL, n_components=40, candidates=bad).fit(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs n_components"),
        ({"n_components": 0}, "n_components"),
        ({"n_components": 2.5}, "n_components"),
        ({"tolerance": -0.1}, "tolerance"),
        ({"tolerance": np.nan}, "tolerance"),
    ],
    ids=str,
)
def test_bad_parameters_are_refused(options, message, X):
    with pytest.raises(ValueError, match=message):
        AutoFeatures(POLYNOMIAL, **options).fit(X)
    with pytest.raises(TypeError, match="kernel"):
        AutoFeatures("rbf", n_components=5).fit(X)


def lines(plan):
    """The printed rows of a plan; candidates with equal errors are in the order of rounding."""
    return sorted(repr(plan).splitlines())


def test_one_seed_gives_one_choice(X):
    fits = [AutoFeatures(Gaussian(), n_components=30, random_state=3).fit(X) for _ in range(2)]
    assert lines(fits[0].plan_) == lines(fits[1].plan_)
    refitted = nystrom_condition(fits[0].features_, refitted=True)
    assert_same_to_rounding(fits[1].transform(X), fits[0].transform(X), condition=refitted)
    # the order in which candidates are asked does not matter
    names = ["nystrom", "maclaurin", "fourier"]
    plans = [
        plan(Gaussian(), X, n_components=30, candidates=order) for order in (names, names[::-1])
    ]
    assert lines(plans[0]) == lines(plans[1])


def test_one_large_row_does_not_cancel_the_others():
    values = np.full((4, 4), 1e-3)
    values[0, 0] = 1e20
    np.testing.assert_allclose(off_diagonal_mean(values), 1e-3)


def test_what_was_planned_is_what_is_fitted(X):
    """The chosen Maclaurin features keep to the degrees that the plan had."""
    candidates = [MaclaurinFeatures(Exponential(), max_degree=2)]
    options = {"candidates": candidates, "random_state": 0}
    auto = AutoFeatures(Exponential(), n_components=40, **options).fit(X)
    assert auto.features_.allocation_.max_degree <= 2
    assert auto.features_.n_components == 40


def test_verbose_shows_a_bar(X, capsys):
    pytest.importorskip("rich")
    options = {"candidates": ["nystrom", "fourier"], "random_state": 0}
    quiet = AutoFeatures(Gaussian(), n_components=20, **options).fit(X)
    assert capsys.readouterr().out == ""
    loud = AutoFeatures(Gaussian(), n_components=20, verbose=True, **options).fit(X)
    assert "candidates, 20 columns" in capsys.readouterr().out
    assert lines(loud.plan_) == lines(quiet.plan_)
