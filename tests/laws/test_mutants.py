"""Wrong sketches and wrong formulas that the law suite must catch."""

import dataclasses

import numpy as np
import pytest

import reference
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


def test_wrong_fourth_moment():
    class Mutant(GaussianSketch):
        m4 = 2.0

    caught(Mutant(2, 1), 2, enumerate_weights(GaussianSketch(2, 1), 2), "variance")


def test_dropped_pseudo_variance():
    class Mutant(RademacherSketch):
        def pseudo_variance(self, pairs):
            return 0 * pairs.dot

    sketch = RademacherSketch(2, 1, "complex")
    caught(Mutant(2, 1, "complex"), 2, enumerate_weights(sketch, 2), "pseudo-variance")


@pytest.mark.parametrize("block", [1, 3], ids=["no covariance", "dimension not padded"])
def test_wrong_block_size(block):
    class Mutant(TensorSRHT):
        def block(self, dimension):
            return block

    caught(Mutant(1, 2), 3, enumerate_weights(TensorSRHT(1, 2), 3), "variance")


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


def test_tree_with_the_formula_of_a_plain_product():
    tree = RademacherTree(3, 2)
    plain = RademacherSketch(3, 2)

    class Mutant(RademacherTree):
        def variance(self, pairs):
            return plain.variance(pairs)

    caught(Mutant(3, 2), 1, enumerate_weights(tree, 1), "variance")


def test_lost_normalisation():
    class Mutant(RademacherSketch):
        scale = 1.0

    caught(Mutant(1, 2), 2, enumerate_weights(RademacherSketch(1, 2), 2), "mean")


def test_shared_weights_over_degrees_are_biased():
    """Independent weights for every degree: with one vector for all of them the mean is wrong."""
    sketch = RademacherSketch(2, 1)
    one = enumerate_weights(dataclasses.replace(sketch, degree=1), 2)

    def shared(values):
        weights = one.build(values)
        return type(weights)(np.repeat(weights.turns, 2, axis=0))

    caught(sketch, 2, Enumeration(one.factors, shared), "mean")
