"""Plans rank by the error that is measured; bounds hold; tolerances are met."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

from dotsketch import (
    Exponential,
    Gaussian,
    MaclaurinFeatures,
    Polynomial,
    error_bound,
    plan,
    required_components,
)
from dotsketch.features import Study
from dotsketch.sketches import RademacherSketch


@pytest.fixture(scope="module")
def X():
    X = load_digits().data
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def test_plan_predicts_what_fitting_predicts(X):
    kernel = Polynomial(3, gamma=0.5, coef0=0.5)
    candidates = [
        MaclaurinFeatures(kernel),
        MaclaurinFeatures(
            kernel, sketch="balanced_tensor_sketch", output="complex_to_real", coefficients="fitted"
        ),
        MaclaurinFeatures(kernel, sketch="rademacher", output="complex_to_real", mean_split=True),
    ]
    table = plan(kernel, X, n_components=100, n_pairs_sample=2000, candidates=candidates)
    study = Study(kernel, X, n_pairs_sample=2000)  # of the same seed: the same halves of X
    for row in table:
        features = clone(row.candidate).fit(study.fitting)
        assert features.n_components == 100
        expected = features.expected_error_on(study.held, n_pairs_sample=2000)
        assert row.relative_error == pytest.approx(expected.relative_error, rel=1e-6)
        features.fit(X)  # to all rows, and judged on the same
        assert abs(row.relative_error / features.expected_relative_error_ - 1) < 0.1


def test_plan_is_a_readable_table(X):
    candidates = [
        MaclaurinFeatures(Gaussian()),
        MaclaurinFeatures(Gaussian(), sketch="gaussian"),
        MaclaurinFeatures(Gaussian(), allocation="random"),
    ]
    table = plan(Gaussian(), X, n_components=50, candidates=candidates, n_pairs_sample=200)
    assert len(table) == 3
    errors = [row.relative_error for row in table]
    assert errors == sorted(errors)
    assert table.best is table[0]
    text = repr(table)
    assert text.count("\n") == 4  # and the limit
    assert "random degrees" in text
    columns = table.to_dict()
    assert columns["relative_error"] == errors
    assert {"sketch", "output", "cost", "squared_bias", "variance"} <= set(columns)
    with pytest.raises(ValueError, match="candidates"):
        plan(Gaussian(), X, n_components=50, candidates="some")
    pairs = [MaclaurinFeatures(Gaussian(), output="complex_to_real")]
    with pytest.raises(ValueError, match="too few"):
        plan(Gaussian(), X, n_components=1, candidates=pairs)


def test_plan_plots(X):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = plan(Gaussian(), X, n_components=50, n_pairs_sample=100).plot(most=5)
    assert len(axes.get_yticklabels()) == 5


@pytest.mark.parametrize("output", ["real", "complex_to_real"])
def test_required_components_are_enough_and_least(X, output):
    kernel = Polynomial(3, gamma=0.5, coef0=0.5)
    found = required_components(kernel, X, tolerance=0.15, output=output)
    step = 2 if output == "complex_to_real" else 1

    def predicted(n):
        candidate = MaclaurinFeatures(kernel, output=output)
        return plan(kernel, X, n_components=n, n_pairs_sample=1000, candidates=candidate).best

    assert predicted(found).upper_error <= 0.15 < predicted(found - step).upper_error


def test_unreachable_tolerance_says_why(X):
    with pytest.raises(ValueError, match="max_degree=2"):
        required_components(
            Gaussian(lengthscale=0.3), X, tolerance=0.01, max_degree=2, max_components=1000
        )
    with pytest.raises(ValueError, match="positive"):
        required_components(Gaussian(), X, tolerance=0)


@pytest.mark.parametrize("field", ["real", "complex"])
def test_error_bound_holds(field):
    """The failure rate over many draws is within δ, and the paper's bound asks for more."""
    rng = np.random.default_rng(0)
    x, y = np.abs(rng.standard_normal((2, 4)))
    options = {"degree": 2, "epsilon": 0.15, "delta": 0.2, "field": field}
    D = error_bound(x, y, **options)
    assert error_bound(x, y, **options, scaling="paper") >= D
    sketch = RademacherSketch(2, D, field)
    limit = 0.15 * (np.abs(x).sum() * np.abs(y).sum()) ** 2
    failures = 0
    for _ in range(300):
        Z = sketch.apply(np.stack([x, y]), sketch.sample(4, rng))
        failures += abs(Z[0] @ Z[1].conj() - (x @ y) ** 2) > limit
    assert failures / 300 <= 0.2


def test_error_bound_formula_and_shapes():
    x = np.array([1.0, 2.0, 2.0]) / 3
    sigma2 = (1 + 2 * (1 - np.sum(x**4))) ** 2 - 1
    expected = 2 * (2 / 0.3 + sigma2 / 0.01) * np.log(2 / 0.05)
    assert error_bound(x, x, degree=2, epsilon=0.1, scaling="paper") == np.ceil(expected)
    assert error_bound(np.eye(3), np.eye(3)[:2], degree=3, epsilon=0.1).shape == (3, 2)
    assert np.all(error_bound(1e200 * np.eye(3) * 1e-50, degree=3, epsilon=0.1) > 0)
    for bad in ({"epsilon": 0}, {"epsilon": 0.1, "delta": 1}, {"epsilon": 0.1, "scaling": "l3"}):
        with pytest.raises(ValueError, match="must be"):
            error_bound(x, x, degree=2, **bad)


@pytest.mark.parametrize(
    "data",
    [[[1.0, np.nan], [0.0, 1.0]], [1.0, 2.0], [["a", "b"], ["c", "d"]], np.eye(2) * 1j],
    ids=["nan", "one dimension", "text", "complex"],
)
def test_bad_data_are_refused(data):
    with pytest.raises(ValueError, match=r".+"):
        plan(Gaussian(), data, n_components=5)
    with pytest.raises(ValueError, match=r".+"):
        required_components(Gaussian(), data, tolerance=0.1)


def test_lists_frames_sparse_rows_and_tensors_are_accepted(X):
    pandas = pytest.importorskip("pandas")
    torch = pytest.importorskip("torch")
    rows = X[:40, 10:20]
    options = {"n_components": 12, "candidates": [MaclaurinFeatures(Polynomial(2))]}
    expected = plan(Polynomial(2), rows, **options).best.relative_error
    for data in (
        rows.tolist(),
        pandas.DataFrame(rows),
        scipy.sparse.coo_matrix(rows),
        torch.tensor(rows),
    ):
        found = plan(Polynomial(2), data, **options).best.relative_error
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_candidates_are_validated(X):
    for bad in (
        {"output": "cplx"},
        {"allocation": "rnd"},
        {"sketch": "tree_srht"},
        {"allocation": "random", "mean_split": True},
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - the message depends on the parameter
            plan(Polynomial(2), X, n_components=5, candidates=[MaclaurinFeatures(None, **bad)])
    with pytest.raises(ValueError, match="empty"):
        plan(Gaussian(), X, n_components=5, candidates=[])
    for kernel, rows in (("rbf", X), (np.ones((20, 3)), Gaussian())):
        with pytest.raises(TypeError, match="kernel must be a kernel of dotsketch"):
            plan(kernel, rows, n_components=8)


def test_a_series_that_begins_beyond_max_degree_leaves_the_other_families():
    X = np.random.default_rng(0).random((30, 3))
    kernel = Polynomial(12, coef0=0.0)
    table = plan(kernel, X, n_components=20)
    assert {row.family for row in table} == {"polynomial", "nystrom"}
    with pytest.raises(ValueError, match="No candidate of 'maclaurin'"):
        plan(kernel, X, n_components=20, candidates="maclaurin")
    assert plan(kernel, X, n_components=20, candidates=MaclaurinFeatures(kernel, max_degree=12))


def test_positive_features_that_leave_the_range_come_last():
    """A kernel that underflows times a variance that overflows is no number."""
    X = np.array([[60.0, 0.0], [-20.0, 0.0], [0.0, 1.0]])
    table = plan(Exponential(), X, n_components=4)
    assert {row.family for row in table} == {"maclaurin", "positive"}
    assert [row.family for row in table[-2:]] == ["positive"] * 2
    for row in table[-2:]:
        assert row.relative_error == np.inf
        assert row.candidate.fit(X).expected_error_on(X).relative_error == np.inf


def test_odd_columns_count_pairs_in_full(X):
    candidates = [MaclaurinFeatures(Gaussian(), output="complex_to_real")]
    table = plan(Polynomial(2), X, n_components=21, candidates=candidates, n_pairs_sample=100)
    assert table.best.n_components == 20


def test_huge_bounds_are_refused():
    x = np.ones(3)
    with pytest.raises(ValueError, match="projections"):
        error_bound(x, x, degree=2, epsilon=1e-12, scaling="paper")
    with pytest.raises(ValueError, match="coordinates"):
        error_bound(x, np.ones(4), degree=2, epsilon=0.1)
    with pytest.raises(ValueError, match="NaN"):
        error_bound(x * np.nan, x, degree=2, epsilon=0.1)
