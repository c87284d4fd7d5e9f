"""Wrong sketches and wrong formulas that the law suite must catch."""

import copy
import dataclasses

import numpy as np
import pytest

import reference
from dotsketch import Exponential, FourierFeatures, Gaussian, NystromFeatures
from dotsketch._backends import compiled, cpp, portable
from dotsketch.features import Study, study
from dotsketch.features.maclaurin import ExpansionMoments, evaluate, expand, moments, solve
from dotsketch.pairs import PairStatistics
from dotsketch.sketches import (
    BalancedTensorSketch,
    GaussianSketch,
    RademacherSketch,
    RademacherTree,
    TensorSketch,
    TensorSRHT,
)
from laws.enumerations import (
    Enumeration,
    enumerate_weights,
    srht_block,
    srht_weights,
    tensor_sketch,
)
from laws.moments import assert_exact_laws, exact_moments, rows


def caught(mutant, dimension, enumeration, law):
    with pytest.raises(AssertionError, match=f"^{law}"):
        assert_exact_laws(mutant, rows(dimension), enumeration)


def test_one_permutation_for_all_degrees():
    """Section 4.1 in words shares a permutation over degrees: the formula does not hold then."""
    sketch = TensorSRHT(2, 2)
    turns = sorted({t for _, (t, _) in srht_block("real", 3, 2)})
    places = sorted({p for _, (_, p) in srht_block("real", 3, 2)})

    def shared(values):
        first, second, place = values
        return srht_weights([(first, place), (second, place)], 2)

    factors = [[(1 / len(values), v) for v in values] for values in (turns, turns, places)]
    caught(sketch, 3, Enumeration(factors, shared), "variance")
    assert_exact_laws(sketch, rows(3), enumerate_weights(sketch, 3))


PLAIN = RademacherSketch(3, 2)
WRONG = {
    "fourth moment": (GaussianSketch(2, 1), {"m4": 2.0}, 2, "variance"),
    "no pseudo-variance": (
        RademacherSketch(2, 1, "complex"),
        {"pseudo_variance": lambda self, pairs: 0 * pairs.dot},
        2,
        "pseudo-variance",
    ),
    "no covariance": (TensorSRHT(1, 2), {"block": lambda self, d: 1}, 3, "variance"),
    "dimension not padded": (TensorSRHT(1, 2), {"block": lambda self, d: 3}, 3, "variance"),
    "a plain product": (
        RademacherTree(3, 2),
        {"variance": lambda self, pairs: PLAIN.variance(pairs)},
        1,
        "variance",
    ),
    "no normalisation": (RademacherSketch(1, 2), {"scale": 1.0}, 2, "mean"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_formulas(name):
    sketch, changes, dimension, law = WRONG[name]
    mutant = copy.copy(sketch)
    object.__setattr__(mutant, "__class__", type("Mutant", (type(sketch),), changes))
    caught(mutant, dimension, enumerate_weights(sketch, dimension), law)


def test_balanced_hash_without_relabelling():
    """Two coordinates always in neighbouring buckets, instead of any two."""
    sketch = BalancedTensorSketch(2, 4)
    neighbours = tensor_sketch(sketch, 2, hash_outcomes=[(0, 1), (1, 0)])
    caught(sketch, 2, neighbours, "variance")


def test_uniform_hash_in_place_of_a_balanced_one():
    enumeration = enumerate_weights(TensorSketch(1, 3), 2)
    caught(BalancedTensorSketch(1, 3), 2, enumeration, "variance")


def test_tensor_sketch_with_an_even_number_of_buckets():
    """g = 2 for even D: with g = 1 the formula is off by more than one percent."""
    sketch, X = TensorSketch(2, 2), rows(2)
    _, variance, _ = exact_moments(sketch, X, enumerate_weights(sketch, 2))
    x, y = X[0].tolist(), X[1].tolist()
    right, wrong = (float(reference.tensor_sketch(x, y, 2, 2, g=g)) for g in (2, 1))
    assert right == pytest.approx(variance[0, 1], rel=1e-12)
    assert wrong != pytest.approx(variance[0, 1], rel=1e-2)


def test_shared_weights_over_degrees_are_biased():
    """Independent weights for every degree: with one vector for all of them the mean is wrong."""
    sketch = RademacherSketch(2, 1)
    one = enumerate_weights(dataclasses.replace(sketch, degree=1), 2)

    def shared(values):
        weights = one.build(values)
        return type(weights)(np.repeat(weights.turns, 2, axis=0))

    caught(sketch, 2, Enumeration(one.factors, shared), "mean")


# -- allocations, prepared weights and plans -------------------------------------------------------


SOME = np.random.default_rng(3).standard_normal((20, 4)) / 2 + 0.3


def exponential_moments(X):
    expansion = expand(Exponential(), 3, X, None)
    arguments = (expansion.inputs(X), expansion.degrees, Exponential(), GaussianSketch(1, 1))
    return ExpansionMoments.of(*arguments, "real", 13, block_size=7)


def test_rectangles_of_pairs_that_count_once(monkeypatch):
    """Every pair i ≠ j counts twice, in a square on the diagonal as in a rectangle beside it."""
    dot = PairStatistics.between(SOME).dot[~np.eye(20, dtype=bool)]
    expected = np.mean(dot**2)  # of degree 1
    assert exponential_moments(SOME).gram[1, 1] == pytest.approx(expected, rel=1e-12)
    of_pairs = moments._pair_blocks
    once = lambda m, size: ((*block[:2], 1.0, block[3]) for block in of_pairs(m, size))  # noqa: E731
    monkeypatch.setattr(moments, "_pair_blocks", once)
    assert exponential_moments(SOME).gram[1, 1] != pytest.approx(expected, rel=1e-2)


def test_a_budget_spent_on_the_least_gains():
    every, none, theta = np.ones(4, dtype=bool), np.zeros(4, dtype=bool), np.ones(4)
    table = exponential_moments(SOME)
    counts = [c for c in np.ndindex(13, 13, 13) if sum(c) == 12 and min(c) > 0]
    least = min(evaluate(table, np.array([1, *c]), none).variance for c in counts)
    wrong = dataclasses.replace(table, gains=-table.gains)
    spent = [evaluate(table, solve(t, every, none, theta), none).variance for t in (table, wrong)]
    assert spent[0] == pytest.approx(least, rel=1e-12)
    assert spent[1] > 1.1 * least


@pytest.mark.parametrize("backend", [portable, compiled] if cpp.AVAILABLE else [portable])
def test_columns_that_are_not_scaled_in_place(backend, monkeypatch):
    """Waves have k̂(x, x) = 1."""
    X = SOME[:5]
    features = FourierFeatures(Gaussian(lengthscale=1.0), n_components=8, random_state=0).fit(X)
    waves = (*features.weights_, 1.0, 0.5, False, X)
    scale = np.full((5, 1), 3.0)
    out = np.empty((5, 8))
    backend.waves(*waves)(X, row_scale=scale, out=(out, None))
    np.testing.assert_allclose(np.sum(out**2, axis=1), 9.0)
    monkeypatch.setattr(backend, "scale_in_place", lambda *arguments: None)
    backend.waves(*waves)(X, row_scale=scale, out=(out, None))
    assert np.all(np.abs(np.sum(out**2, axis=1) - 9.0) > 1)


def test_errors_measured_on_the_rows_of_the_fit(monkeypatch):
    """Half of the rows as landmarks: exact between them, and not on fresh rows."""
    rng = np.random.default_rng(0)
    X, fresh = rng.standard_normal((200, 4)), rng.standard_normal((300, 4))
    kernel = Gaussian(lengthscale=1.0)
    features = NystromFeatures(kernel, n_components=180, n_landmarks=1.0, random_state=0)
    Z, K = features.fit(X).transform(fresh), kernel(fresh)
    off = ~np.eye(300, dtype=bool)
    measured = np.sqrt(np.sum((Z @ Z.T - K)[off] ** 2) / np.sum(K[off] ** 2))
    predicted = features.expected_error(Study(kernel, X)).relative_error
    assert predicted == pytest.approx(measured, rel=0.25)
    monkeypatch.setattr(study, "take_or_keep", lambda X, numbers: X[: len(numbers)])
    assert features.expected_error(Study(kernel, X)).relative_error < 0.1 * measured
