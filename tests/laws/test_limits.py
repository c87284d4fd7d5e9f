"""Limiting cases and inequalities that theorems promise."""

import numpy as np
import pytest

from dotsketch.pairs import PairStatistics
from dotsketch.sketches import (
    SKETCHES,
    BalancedTensorSketch,
    RademacherSketch,
    TensorSRHT,
    make_sketch,
)
from laws.moments import approximate_kernel, rows, simulated_kernels
from rounding import assert_same_to_rounding

FIELDS = ("real", "complex")


def nonnegative(dimension, seed=1):
    return abs(rows(dimension, seed))


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize(
    ("make", "D", "d"),
    [
        *((TensorSRHT, D, d) for D, d in [(4, 3), (8, 4), (16, 8)]),
        *((BalancedTensorSketch, D, d) for D, d in [(3, 3), (5, 3), (8, 7)]),
    ],
)
def test_degree_one_is_exact_on_whole_blocks_and_in_enough_buckets(make, D, d, field, rng):
    sketch, X = make(1, D, field), rows(d)
    K = approximate_kernel(sketch, X, sketch.sample(d, rng))
    np.testing.assert_allclose(K, X @ X.T, atol=1e-14)
    np.testing.assert_allclose(sketch.variance(PairStatistics.between(X)), 0, atol=1e-15)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", ["rademacher", "tensor_srht"])
@pytest.mark.parametrize(("degree", "D"), [(1, 1), (2, 3), (7, 4), (30, 2)])
def test_one_dimension_is_exact_with_weights_of_modulus_one(name, field, degree, D, rng):
    sketch, X = make_sketch(name, degree, D, field), np.array([[0.9], [-1.1], [0.0]])
    K = approximate_kernel(sketch, X, sketch.sample(1, rng))
    np.testing.assert_allclose(K, (X @ X.T) ** degree, rtol=1e-12, atol=1e-15)
    assert np.all(sketch.variance(PairStatistics.between(X)) == 0)


@pytest.mark.parametrize("field", FIELDS)
def test_tensor_srht_beats_rademacher_for_odd_degrees(field):
    """The theorem for odd degrees, for every pair; an even degree shows it is not always so."""
    lost = 0
    for d, seed in [(2, 0), (3, 1), (5, 2), (8, 3)]:
        pairs = PairStatistics.between(rows(d, seed))
        for D in (1, 2, 3, 8, 20):
            for degree in (1, 3, 5, 9):
                srht, plain = TensorSRHT(degree, D, field), RademacherSketch(degree, D, field)
                assert np.all(srht.variance(pairs) <= plain.variance(pairs) * (1 + 1e-12))
            srht, plain = TensorSRHT(2, D, field), RademacherSketch(2, D, field)
            lost += np.sum(srht.variance(pairs) > plain.variance(pairs) * (1 + 1e-9))
    assert lost > 0


@pytest.mark.parametrize("name", ["gaussian", "rademacher", "tensor_sketch"])
def test_complex_weights_have_less_variance_on_nonnegative_data(name):
    """Where γ ≥ 0, as for nonnegative data, κ²γ can only add."""
    for d in (2, 5, 9):
        pairs = PairStatistics.between(nonnegative(d))
        for degree in (1, 2, 3, 10):
            for D in (1, 4, 7):
                real, complex_ = (make_sketch(name, degree, D, f).variance(pairs) for f in FIELDS)
                assert np.all(complex_ <= real * (1 + 1e-12))


def test_complex_weights_can_lose_where_gamma_is_negative():
    pairs = PairStatistics.between(np.array([[1.0, 1.0]]), np.array([[1.0, -1.0]]))
    assert pairs.gamma[0, 0] < 0
    real, complex_ = (make_sketch("rademacher", 2, 4, field) for field in FIELDS)
    assert complex_.variance(pairs)[0, 0] > real.variance(pairs)[0, 0]


def test_complex_to_real_ties_real_rademacher_at_degree_one():
    """2D real columns against [Re, Im] of D complex ones: equal at n = 1, less for n = 2, γ ≥ 0."""
    pairs = PairStatistics.between(nonnegative(5))
    for D in (1, 3):
        real = [RademacherSketch(n, 2 * D).variance(pairs) for n in (1, 2)]
        both = [RademacherSketch(n, D, "complex").real_part_variance(pairs) for n in (1, 2)]
        np.testing.assert_allclose(both[0], real[0], rtol=1e-12)
        assert np.all(both[1] < real[1])


@pytest.mark.parametrize("compact", [None, 2])
@pytest.mark.parametrize("name", SKETCHES)
def test_gram_of_complex_to_real_is_the_real_part(name, compact, rng):
    sketch, X = make_sketch(name, 3, 5, "complex", compact=compact), rows(3)
    weights = sketch.sample(3, rng)
    Z, R = (sketch.apply(X, weights, output=o) for o in ("complex", "complex_to_real"))
    assert R.shape == (3, 10)
    assert not np.iscomplexobj(R)
    np.testing.assert_allclose(R @ R.T, (Z @ Z.conj().T).real, rtol=1e-12)


def test_balanced_hashes_are_uniform_over_equal_loads(rng):
    """`hash` draws every hash with equal loads equally often (z = 6 of the binomial)."""
    for D, d, n_hashes in [(3, 2, 6), (2, 3, 6), (3, 4, 36)]:
        sketch, n_draws = BalancedTensorSketch(1, D), 4000
        draws = [tuple(sketch.hash(d, rng).tolist()) for _ in range(n_draws)]
        counts = np.array([draws.count(h) for h in set(draws)])
        p = 1 / n_hashes
        assert len(counts) == n_hashes
        assert np.all(abs(counts - n_draws * p) < 6 * np.sqrt(n_draws * p * (1 - p)))


def test_tensor_srht_draws_a_permutation_for_every_degree_and_block(rng):
    places = TensorSRHT(3, 64).sample(16, rng).places
    assert places.shape == (3, 4, 16)
    np.testing.assert_array_equal(np.sort(places, axis=2), np.tile(np.arange(16), (3, 4, 1)))
    assert len(np.unique(places.reshape(12, 16), axis=0)) == 12


def test_q_is_the_probability_of_a_real_weight(rng):
    turns = RademacherSketch(1, 100, "complex", 0.2).sample(100, rng).turns
    real = np.mean(turns % 2 == 0)
    assert abs(real - 0.2) < 6 * np.sqrt(0.2 * 0.8 / turns.size)
    assert set(np.unique(turns)) == {0, 1, 2, 3}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", SKETCHES)
def test_sampling_is_determined_by_the_generator(name, field):
    """One seed, one sketch; another seed, another one."""
    sketch, X = make_sketch(name, 3, 4, field), rows(3)
    same, again, other = (simulated_kernels(sketch, X, 1, seed) for seed in (0, 0, 1))
    assert_same_to_rounding(same, again)
    assert np.max(abs(same - other)) > 1e-6
