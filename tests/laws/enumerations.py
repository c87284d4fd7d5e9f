"""All outcomes of the random weights of a sketch, with their probabilities.

The weights of every sketch are made of independent factors (a row of signs, a signed block, a
hash); an enumeration is the list of outcomes of every factor, and how to build weights from one
choice of each. Continuous weights are replaced by discrete ones with the same moments, as far as
these enter mean and variance of k̂: in every weight up to the fourth.

Outcomes that give the same k̂ are counted once (`reduced`):
- a common phase of one projection, of a block or of a hash drops out of z(x) conj z(y), or is
  taken up by the uniform weights of the next level;
- H diag(z ∘ h_j) permutes the rows of H diag(z) by l → l xor j, so that the first place is 0;
- adding a constant to a hash rotates the features.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dotsketch._backends import power_of_two
from dotsketch.projections.gaussian import GaussianWeights
from dotsketch.projections.hadamard import SRHTWeights
from dotsketch.projections.rademacher import AngleWeights, TurnWeights
from dotsketch.sketches import BalancedTensorSketch, SRHTTree
from dotsketch.sketches.compact import CompactWeights
from dotsketch.sketches.tensor_sketch import HashWeights
from dotsketch.sketches.tree import TreeWeights


class Enumeration(NamedTuple):
    factors: list[list[tuple[float, Any]]]  # outcomes (probability, value) of every factor
    build: Callable[[list], Any]  # weights from one value of every factor

    @property
    def count(self) -> int:
        return math.prod(map(len, self.factors))


def uniform(values):
    values = list(values)
    return [(1 / len(values), value) for value in values]


def vectors(law, length, first=None):
    """Vectors of independent entries with the law [(probability, value)], the first by its own."""
    entries = [first or law] + [law] * (length - 1)
    return [
        (math.prod(p for p, _ in combination), tuple(v for _, v in combination))
        for combination in itertools.product(*entries)
    ]


@cache
def turn_vectors(field, length, reduced=True):
    turns = (0, 2) if field == "real" else (0, 1, 2, 3)
    return vectors(uniform(turns), length, uniform([0]) if reduced else None)


# -- independent projections ----------------------------------------------------------------------


def _rows(sketch, d, row, weights):
    shape = (sketch.degree, sketch.n_projections, d)
    return Enumeration(
        [row] * (sketch.degree * sketch.n_projections),
        lambda values: weights(np.array(values).reshape(shape)),
    )


def rademacher(sketch, d, reduced=True):
    if isinstance(sketch.weights, float):
        q = sketch.weights
        law = [(q / 2, 0), (q / 2, 2), ((1 - q) / 2, 1), ((1 - q) / 2, 3)]
        row = vectors(law, d, [(q, 0), (1 - q, 1)])  # the sign of a row drops out, a turn does not
    else:
        row = turn_vectors(sketch.field, d, reduced)
    return _rows(sketch, d, row, lambda turns: TurnWeights(turns.astype(np.int8)))


def circle(sketch, d, reduced=True):
    """Five equispaced angles: E zᵃ conj(z)ᵇ as on the circle for |a − b| < 5."""
    angles = uniform(2 * np.pi * np.arange(5) / 5)
    return _rows(sketch, d, vectors(angles, d, uniform([0.0])), AngleWeights)


def gaussian(sketch, d, reduced=True):
    """Gauss–Hermite quadrature, exact for moments up to five; complex: as far as two and two."""
    if not sketch.is_complex:
        law = [(1 / 6, -math.sqrt(3)), (2 / 3, 0.0), (1 / 6, math.sqrt(3))]
        return _rows(sketch, d, vectors(law, d), lambda v: GaussianWeights(v[:, None]))
    # E|z|² = 1, E|z|⁴ = 2 and E zᵃ conj(z)ᵇ = 0 for a ≠ b, both at most 2
    roots = [math.sqrt(2) * np.exp(2j * np.pi * k / 3) for k in range(3)]
    law = [(1 / 2, 0j)] + [(1 / 6, z) for z in roots]
    return _rows(
        sketch, d, vectors(law, d), lambda z: GaussianWeights(np.stack([z.real, z.imag], axis=1))
    )


# -- signed Hadamard blocks -----------------------------------------------------------------------


@cache
def srht_block(field, dimension, kept, reduced=True):
    """Signs and places of one block that keeps `kept` of its rows."""
    d = power_of_two(dimension)
    turns = turn_vectors(field, dimension, reduced)
    starts = [(0,)] if reduced else [(i,) for i in range(d)]
    places = [
        start + rest
        for start in starts
        for rest in itertools.permutations([i for i in range(d) if i != start[0]], kept - 1)
    ]
    return [
        # turns of padding meet zeros, rows that are not kept may stand in any order
        (p * q, (t + (0,) * (d - dimension), place + tuple(set(range(d)) - set(place))))
        for p, t in turns
        for q, place in uniform(places)
    ]


def srht_factors(field, dimension, n_projections, reduced=True):
    """The blocks of one projection."""
    d = power_of_two(dimension)
    sizes = [min(d, n_projections - start) for start in range(0, n_projections, d)]
    return [srht_block(field, dimension, kept, reduced) for kept in sizes]


def srht_weights(values, count):
    turns = np.array([turns for turns, _ in values], dtype=np.int8)
    places = np.array([places for _, places in values], dtype=np.int32)
    shape = (count, len(values) // count, turns.shape[1])
    return SRHTWeights(turns.reshape(shape), places.reshape(shape))


def tensor_srht(sketch, d, reduced=True):
    factors = srht_factors(sketch.field, d, sketch.n_projections, reduced) * sketch.degree
    return Enumeration(factors, lambda values: srht_weights(values, sketch.degree))


# -- hashes ---------------------------------------------------------------------------------------


@cache
def hashes(n_buckets, d, is_balanced):
    """All hashes with their set of loads: any for TensorSketch, equal up to one if balanced."""
    candidates = list(itertools.product(range(n_buckets), repeat=d))
    if not is_balanced:
        return candidates
    expected = sorted(d // n_buckets + (bucket < d % n_buckets) for bucket in range(n_buckets))
    return [h for h in candidates if sorted(map(h.count, range(n_buckets))) == expected]


def tensor_sketch(sketch, d, reduced=True, hash_outcomes=None):
    if hash_outcomes is None:
        is_balanced = isinstance(sketch, BalancedTensorSketch)
        everything = hashes(sketch.n_projections, d, is_balanced)
        hash_outcomes = [h for h in everything if h[0] == 0 or not reduced]
    n = sketch.degree
    return Enumeration(
        [uniform(hash_outcomes)] * n + [turn_vectors(sketch.field, d, reduced)] * n,
        lambda values: HashWeights(
            np.array(values[:n], dtype=np.int32), np.array(values[n:], dtype=np.int8)
        ),
    )


# -- compositions ---------------------------------------------------------------------------------


def tree(sketch, d, reduced=True):
    D, n = sketch.n_projections, sketch.degree
    q = power_of_two(n)

    def one_projection(dimension):
        if isinstance(sketch, SRHTTree):
            return srht_factors(sketch.field, dimension, D)
        return [turn_vectors(sketch.field, dimension)] * D

    def weights(values, count):
        if isinstance(sketch, SRHTTree):
            return srht_weights(values, count)
        return TurnWeights(np.array(values, dtype=np.int8).reshape(count, D, -1))

    leaf = one_projection(d)
    padding = [outcomes[:1] for outcomes in leaf]  # only the first turn matters, and it is fixed
    padding = [[(1.0, value)] for ((_, value),) in padding]
    leaves = leaf * n + padding * (q - n)
    nodes = one_projection(D) * max(q - 2, 0)

    def build(values):
        inner = weights(values[len(leaves) :], q - 2) if nodes else None
        return TreeWeights(weights(values[: len(leaves)], q), inner)

    return Enumeration(leaves + nodes, build)


def compact(sketch, d, reduced=True):
    inner = enumerate_weights(sketch.inner, d)
    down = srht_factors(sketch.field, sketch.inner.n_projections, sketch.n_projections)
    split = len(inner.factors)
    return Enumeration(
        inner.factors + down,
        lambda values: CompactWeights(inner.build(values[:split]), srht_weights(values[split:], 1)),
    )


OUTCOMES = {  # a new family adds one line
    "GaussianSketch": gaussian,
    "RademacherSketch": rademacher,
    "TensorSRHT": tensor_srht,
    "TensorSketch": tensor_sketch,
    "BalancedTensorSketch": tensor_sketch,
    "RademacherTree": tree,
    "SRHTTree": tree,
    "CompactSketch": compact,
}


def enumerate_weights(sketch, dimension, reduced=True) -> Enumeration:
    if getattr(sketch, "weights", None) == "circle":
        return circle(sketch, dimension)
    name = type(sketch).__name__
    assert name in OUTCOMES, f"OUTCOMES of {__name__} lacks {name}: what values have its weights?"
    return OUTCOMES[name](sketch, dimension, reduced)
