"""Columns that fit into a time. A clock is replaced wherever a number of columns is asserted."""

from __future__ import annotations

import numpy as np
import pytest

from dotsketch import (
    AutoFeatures,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    Polynomial,
    load,
    plan,
    save,
)
from dotsketch.features import Study
from dotsketch.planning import TimedFeatures, select, timing
from dotsketch.planning.timing import Budget, kind_of

KERNEL = Gaussian(lengthscale=2.0)
CANDIDATES = [
    NystromFeatures(KERNEL, n_landmarks=1.0),
    FourierFeatures(KERNEL),
    MaclaurinFeatures(KERNEL, output="complex_to_real"),
]


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((200, 3))


@pytest.fixture
def clock(monkeypatch):
    """Features of 0.01 D µs per row (Nyström: and 0.001 D²), operations of 1 ns."""

    def timed(candidate, study):
        slope = 0.001 * (candidate.family == "nystrom")
        times = tuple(0.01 * n + slope * n * n for n in (32, 128))
        return TimedFeatures(label=candidate.label(), columns=(32, 128), microseconds=times)

    monkeypatch.setattr(timing, "timed_features", timed)
    monkeypatch.setattr(timing, "solver_times", lambda: (1e-9, 1e-9))


@pytest.mark.parametrize(
    ("times", "at", "expected"),
    [
        ((3.0, 8.0), 40, 24.0),  # 0.2 D + 0.01 D²
        ((2.0, 4.0), 40, 8.0),  # linear
        ((3.0, 4.0), 40, 8.0),  # an overhead: the second run counts
        ((1.0, 8.0), 40, 32.0),  # more than quadratic: b D² through the second
    ],
)
def test_times_go_through_both_runs_as_far_as_they_can(times, at, expected):
    run = TimedFeatures(label="", columns=(10, 20), microseconds=times)
    assert run.at(20) == pytest.approx(times[1])
    assert run.at(at) == pytest.approx(expected)


@pytest.mark.parametrize("given", [{"time_budget": 1e-3}, {"microseconds_per_row": 0.3}], ids=str)
def test_columns_are_the_most_that_fit(X, clock, given):
    budget = Budget(Study(KERNEL, X), CANDIDATES, most=150, **given)
    for candidate in CANDIDATES:
        n, step = budget.columns(candidate), candidate.columns_at_once
        assert n % step == 0
        assert 0 < n < 150
        assert budget.fits(candidate.for_kernel(KERNEL, n))
        assert not budget.fits(candidate.for_kernel(KERNEL, n + step))


def test_seconds_are_those_of_set_up_features_sums_and_solver(X, clock):
    budget = Budget(Study(KERNEL, X), CANDIDATES, time_budget=1.0, n_rows=10_000, most=50)
    candidate = NystromFeatures(KERNEL, n_components=20, n_landmarks=1.0)
    setup = candidate.setup(3).operations * 1e-9
    features = 10_000 * (0.01 * 20 + 0.001 * 20**2) * 1e-6
    solver = 10_000 * 20**2 * 1e-9 + 20**3 * 1e-9
    assert setup > 0
    assert budget.seconds(candidate) == pytest.approx(setup + features + solver)
    assert budget.columns(candidate) == 50


def test_candidates_of_a_kind_share_a_run(X):
    study = Study(Polynomial(3), X)
    kinds = {kind_of(one) for one in select("maclaurin", study).candidates}
    assert len(kinds) == 10  # five sketches, real and complex
    candidates = select("all", study).candidates
    budget = Budget(study, candidates, time_budget=1.0, most=20)
    assert len(budget.timed) == len({kind_of(one) for one in candidates}) < len(candidates) / 2
    for run in budget.cost.features:
        assert 0 < run.at(10) < run.at(1000)
        assert "random" not in run.label  # the kind with its defaults


def test_a_plan_by_time_gives_each_its_columns(X, clock, tmp_path):
    options = {"objective": "error_per_time", "microseconds_per_row": 0.5}
    table = plan(KERNEL, X, candidates=CANDIDATES, **options)
    columns = {row.family: row.n_components for row in table}
    assert columns == {"nystrom": 17, "fourier": 50, "maclaurin": 50}
    errors = [row.relative_error for row in table]
    assert errors == sorted(errors)
    assert all(0.45 < row.microseconds <= 0.5 for row in table)
    assert table.cost.microseconds_per_row == 0.5
    assert "0.5 µs per row for the features" in repr(table)
    assert table.unit == "relative error of the kernel at equal time per row"
    auto = AutoFeatures(KERNEL, candidates=CANDIDATES, random_state=0, **options).fit(X)
    assert auto.transform(X).shape == (200, auto.chosen_.n_components)
    assert f"{auto.chosen_.microseconds:.3g} µs per row" in auto.explain()
    save(auto, tmp_path / "model")
    copy = load(tmp_path / "model")
    assert copy.plan_.cost == auto.plan_.cost
    assert repr(copy) == repr(auto)


def test_a_time_budget_goes_with_every_objective(X, clock):
    y = np.sin(X[:, 0])
    options = {"candidates": CANDIDATES, "time_budget": 0.02, "n_rows": 10_000}
    by_error = plan(KERNEL, X, **options)
    by_posterior = plan(KERNEL, X, objective="posterior", y=y, **options)
    assert by_error.objective == "error"
    columns = {row.family: row.n_components for row in by_error}
    assert columns == {row.family: row.n_components for row in by_posterior}
    assert all(0.018 < row.seconds <= 0.02 for row in by_error)
    assert all(row.divergence >= 0 for row in by_posterior)
    fewer = plan(KERNEL, X, n_components=5, **options)
    assert {row.n_components for row in fewer} == {4, 5}
    ample = plan(KERNEL, X, candidates=CANDIDATES, time_budget=99)
    assert all(row.n_components == 200 for row in ample)  # never more than rows


def test_nothing_is_measured_without_a_budget(X, monkeypatch):
    monkeypatch.setattr(timing, "least_seconds", lambda work: 1 / 0)
    table = plan(KERNEL, X, n_components=10, candidates=CANDIDATES)
    assert table.cost is None
    assert "microseconds" not in table.to_dict()


def test_what_is_measured_is_recorded(X):
    auto = AutoFeatures(KERNEL, candidates=CANDIDATES, time_budget=30.0, random_state=0).fit(X)
    cost = auto.plan_.cost
    assert (cost.n_rows, cost.time_budget, cost.microseconds_per_row) == (200, 30.0, None)
    assert {run.label for run in cost.features} == {one.label() for one in CANDIDATES}
    assert cost.operation_seconds > 0
    assert cost.factor_seconds > 0
    assert auto.chosen_.n_components == 200  # one landmark per row: exact


def test_mistakes_are_named(X, clock):
    for options, message in (
        ({}, "Give n_components, or a budget"),
        ({"time_budget": 0}, "time_budget must be a positive number"),
        ({"time_budget": 1.0, "n_rows": 0}, "n_rows must be a positive integer"),
        ({"n_components": 5, "objective": "error_per_time"}, "belong together"),
        ({"microseconds_per_row": 1.0}, "belong together"),
        ({"time_budget": 1e-9}, "too few for every candidate.*takes more time than there is"),
    ):
        with pytest.raises(ValueError, match=message):
            plan(KERNEL, X, candidates=CANDIDATES, **options)
    with pytest.raises(ValueError, match="or time_budget"):
        AutoFeatures(KERNEL).fit(X)
    with pytest.raises(ValueError, match="tolerance limits the kernel's error"):
        AutoFeatures(KERNEL, tolerance=0.1, time_budget=1.0).fit(X)
