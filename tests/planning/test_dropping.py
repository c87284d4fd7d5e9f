"""AutoFeatures skips what cannot be the best, and chooses as the plan of all candidates does."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_digits

from dotsketch import (
    ArcCosine,
    AutoFeatures,
    Exponential,
    Gaussian,
    MaclaurinFeatures,
    Matern,
    NystromFeatures,
    Polynomial,
    Tanimoto,
    load,
    plan,
    save,
)
from dotsketch.features import Study
from dotsketch.features.errors import Beaten
from dotsketch.planning import Dropped, variants


def rows(name: str) -> np.ndarray:
    if name == "diabetes":
        return 20 * load_diabetes().data[:220, :6]
    if name == "wide":
        return 20 * load_diabetes().data[:300]
    if name == "clusters":
        rng = np.random.default_rng(0)
        return np.concatenate([rng.normal(0, 0.1, (300, 3)), rng.normal(0, 3, (20, 3))])
    X = load_digits().data[:160, 18:34]
    return X / np.linalg.norm(X, axis=1, keepdims=True) if name == "sphere" else X / 8


CASES = [
    (Gaussian(), "diabetes", 12, 0.0),
    (Gaussian(), "diabetes", 40, 0.0),
    (Gaussian(), "digits", 24, 0.0),
    (Gaussian(lengthscale=20.0), "diabetes", 30, 0.0),  # Maclaurin features and Nyström are near
    (Gaussian(lengthscale=0.3), "digits", 30, 0.0),
    (Gaussian(), "digits", 24, 0.5),
    (Polynomial(2), "diabetes", 30, 0.0),  # 28 monomials: exact, with all sketches
    (Polynomial(3, gamma=0.5, coef0=0.5), "sphere", 20, 0.0),
    (Polynomial(3, gamma=0.5, coef0=0.5), "sphere", 20, 1.0),
    (Exponential(lengthscale=2.0), "sphere", 30, 0.0),
    (ArcCosine(1), "sphere", 10, 0.0),
    (Matern(1.5), "diabetes", 20, 0.0),
    (Gaussian(), "diabetes", 150, 0.0),  # 2 D and 4 D landmarks are all rows
    (Gaussian(), "clusters", 40, 0.0),  # 4 D landmarks are worse than 2 D
]


@pytest.mark.parametrize(
    ("kernel", "name", "n_components", "cost_weight"), CASES, ids=lambda value: str(value)[:24]
)
def test_the_choice_is_that_of_the_plan_of_all(kernel, name, n_components, cost_weight):
    options = {"n_components": n_components, "cost_weight": cost_weight}
    options |= {"max_degree": 5, "n_pairs_sample": 80}
    X = rows(name)
    auto = AutoFeatures(kernel, random_state=0, **options).fit(X)
    study_rng, _ = np.random.default_rng(0).spawn(2)  # as in fit
    everything = plan(kernel, X, random_state=study_rng, **options)
    by_label = {row.label: row for row in everything}
    assert not everything.dropped
    assert auto.chosen_.label == everything.best.label
    for row in auto.plan_:  # the numbers are those of the plan
        same = by_label.pop(row.label)
        for field in ("relative_error", "standard_error", "cost", "variance"):
            np.testing.assert_allclose(
                getattr(row, field), getattr(same, field), rtol=1e-6, atol=1e-14, err_msg=row.label
            )
    assert {one.candidate.label() for one in auto.plan_.dropped} == set(by_label)
    weight = max(everything.best.cost, 1.0) ** cost_weight
    for row in by_label.values():
        least = everything.best.relative_error * weight
        assert row.relative_error * max(row.cost, 1.0) ** cost_weight >= least, row.label


def test_most_candidates_are_dropped_and_listed(tmp_path):
    auto = AutoFeatures(Gaussian(), n_components=40, random_state=0).fit(rows("diabetes"))
    dropped = auto.plan_.dropped
    assert len(dropped) > len(auto.plan_)
    assert all(isinstance(one, Dropped) for one in dropped)
    assert dropped[0].least_error >= auto.chosen_.relative_error
    assert f"{len(dropped)} others" in repr(auto.plan_)
    assert f"the best of {len(dropped) + len(auto.plan_)} candidates" in auto.explain()
    assert "or more" in auto.explain()  # the next family was not computed
    save(auto, tmp_path / "model")
    for copy in (load(tmp_path / "model"), pickle.loads(pickle.dumps(auto))):
        assert repr(copy.plan_) == repr(auto.plan_)
        assert copy.explain() == auto.explain()


@pytest.mark.parametrize("kernel", [Gaussian(), Polynomial(4), Exponential()], ids=str)
@pytest.mark.parametrize("n_components", [2, 9, 40])
def test_floors_are_below_the_errors(kernel, n_components):
    study = Study(kernel, rows("diabetes"), max_degree=5, n_pairs_sample=60)
    for candidate in variants(study):
        if candidate.family == "nystrom":
            continue  # below
        described = candidate.for_kernel(study.kernel, n_components)
        try:
            floor, found = described.floor(study), described.expected_error(study)
        except ValueError:
            continue  # too few columns
        assert floor.relative_error <= found.relative_error * (1 + 1e-12), described.label()
        assert floor.cost <= found.cost
        if candidate.family == "polynomial" or found.squared_bias > 1e-6:
            assert floor.relative_error > 0, described.label()  # a bound, not nothing


@pytest.mark.parametrize("kernel", [Gaussian(), Polynomial(4), Exponential()], ids=str)
def test_a_part_of_the_pairs_is_a_floor_until_all_are_averaged(kernel):
    study = Study(kernel, rows("diabetes"), max_degree=5, n_pairs_sample=180)
    assert len(study.outermost) < len(study.sample)
    for family in ("maclaurin", "positive"):
        described = [one.for_kernel(study.kernel, 24) for one in variants(study, family)]
        before = [one.floor(study).relative_error for one in described]
        for one in described[:1]:
            one.prepare(study, described)
        after = [one.floor(study).relative_error for one in described]
        errors = [one.expected_error(study).relative_error for one in described]
        assert np.all(np.array(before) <= np.array(after) * (1 + 1e-9))
        assert np.all(np.array(after) <= np.array(errors) * (1 + 1e-9))
        assert np.all(np.array(before) >= 0.3 * np.array(after))  # a bound, not nothing


def test_rows_of_a_kernel_that_takes_none_below_zero():
    X = load_digits().data[:200]  # more than the outermost rows
    auto = AutoFeatures(Tanimoto(), n_components=12, max_degree=4, random_state=0).fit(X)
    assert auto.chosen_.relative_error < 0.2


def test_the_whole_sample_is_averaged_over_only_where_that_may_win(monkeypatch):
    prepared = []
    prepare = MaclaurinFeatures.prepare.__func__

    def spy(cls, study, chosen):
        prepared.extend(chosen)
        prepare(cls, study, chosen)

    monkeypatch.setattr(MaclaurinFeatures, "prepare", classmethod(spy))
    X = rows("diabetes")
    auto = AutoFeatures(Gaussian(), n_components=40, random_state=0).fit(X)
    assert auto.chosen_.family == "nystrom"
    assert not prepared
    AutoFeatures(Polynomial(2), n_components=30, random_state=0).fit(X)  # 28 monomials
    assert prepared


def test_a_measurement_ends_early_only_where_it_is_beaten():
    study = Study(Gaussian(), rows("diabetes"), n_pairs_sample=80)
    drawn = []

    def approximate(fitting, held, rng):
        drawn.append(len(fitting))
        return study.kernel(held) * (1 + 0.1 * rng.standard_normal())

    full = study.measure(approximate, 10, 1e6)
    n_draws = len(drawn)
    study.to_beat = 2 * full.relative_error
    assert study.measure(approximate, 10, 1e6) == full
    for factor, fewest, most in ((1e-3, 2, 2), (0.3, 2, n_draws - 1)):
        study.to_beat = factor * full.relative_error
        drawn.clear()
        with pytest.raises(Beaten):
            study.measure(approximate, 10, 1e6)
        assert fewest <= len(drawn) <= most


@pytest.mark.parametrize(
    ("kernel", "name", "n_components"),
    [
        (Polynomial(4), "wide", 60),
        (Exponential(lengthscale=1.5), "wide", 40),
        (Gaussian(), "clusters", 20),
    ],
    ids=str,
)
def test_other_landmarks_are_no_floor(kernel, name, n_components):
    """On rows held out, more of them may be worse than fewer, and all rows worse than some."""
    study = Study(kernel, rows(name))
    uniform = [NystromFeatures(None, n_landmarks=m, landmarks="uniform") for m in (4.0, 2.0)]
    candidates = [*uniform, *variants(study, "nystrom")]
    described = [one.for_kernel(study.kernel, n_components) for one in candidates]
    errors = [one.expected_error(study).relative_error for one in described]
    assert errors[0] > min(errors)
    for one, error in zip(described, errors, strict=True):
        assert one.floor(study).relative_error <= error, one.label()
