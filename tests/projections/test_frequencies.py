"""Frequencies: their law (norms, orthogonality, isotropy), exactly where it can be enumerated."""

import itertools

import numpy as np
import pytest
from scipy import sparse, stats
from scipy.special import hyp1f1

from dotsketch.projections import Frequencies
from dotsketch.projections.frequencies import (
    PROJECTIONS,
    StructuredFrequencies,
    orthogonal_covariance,
)

every_projection = pytest.mark.parametrize("projection", PROJECTIONS)
SHAPES = [(1, 1), (1, 5), (3, 5), (5, 5), (8, 5), (13, 5), (16, 8), (3, 1), (7, 3)]


def matrix(frequencies, weights, dimension):
    """The rows ω, by applying them to the unit vectors."""
    return frequencies.apply(np.eye(dimension), weights).T


@every_projection
@pytest.mark.parametrize(("D", "d"), [(1, 1), (3, 5), (13, 5), (16, 8)])
def test_products_are_those_of_one_matrix(projection, D, d, rng, library):
    frequencies = Frequencies(D, projection)
    weights = frequencies.sample(d, rng)
    X = rng.standard_normal((4, d))
    expected = X @ matrix(frequencies, weights, d).T
    assert expected.shape == (4, D)
    P = library.numpy(frequencies.apply(library.asarray(X), weights))
    np.testing.assert_allclose(P, expected, atol=1e-12)
    single = library.numpy(frequencies.apply(library.asarray(X.astype(np.float32)), weights))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-5)
    np.testing.assert_allclose(frequencies.apply(sparse.csr_array(X), weights), expected)


@pytest.mark.parametrize("projection", ["orthogonal", "sorf"])
@pytest.mark.parametrize(("D", "d"), SHAPES)
def test_rows_of_a_block_are_orthogonal_with_the_given_norms(projection, D, d, rng):
    frequencies = Frequencies(D, projection)
    p = frequencies.ambient_dimension(d)
    assert p == (d if projection == "orthogonal" else 1 << (d - 1).bit_length())
    radii = rng.random(D) + 0.5
    W = matrix(frequencies, frequencies.sample(p, rng, radii), p)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), radii)
    start = 0
    for size in frequencies.block_sizes(d):
        block = W[start : start + size]
        np.testing.assert_allclose(
            block @ block.T, np.diag(radii[start : start + size] ** 2), atol=1e-12
        )
        start += size
    assert start == D


def test_independent_rows_take_given_norms(rng):
    frequencies = Frequencies(6, "independent")
    radii = np.arange(1.0, 7.0)
    W = frequencies.sample(4, rng, radii).matrix
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), radii)
    with pytest.raises(ValueError, match=r"radii must be .* shape \(6,\); got \(5,\)"):
        frequencies.sample(4, rng, radii[:5])


@pytest.mark.parametrize("projection", ["independent", "orthogonal"])
def test_every_entry_is_standard_normal(projection):
    """Kolmogorov–Smirnov on one entry of the last row, over draws; a mutant with norms √d fails."""
    d, draws = 3, 2000
    frequencies = Frequencies(5, projection)
    rng = np.random.default_rng(0)
    entries = [frequencies.sample(d, rng).matrix[-1, 1] for _ in range(draws)]
    assert stats.kstest(entries, "norm").pvalue > 1e-6
    fixed = np.full(5, np.sqrt(d))
    mutant = [frequencies.sample(d, rng, fixed).matrix[-1, 1] for _ in range(draws)]
    assert stats.kstest(mutant, "norm").pvalue < 1e-6


def all_structured(p):
    """Every matrix (p, p) of unit rows that "sorf" may give."""
    frequencies = Frequencies(p, "sorf")
    for bits in itertools.product([1, -1], repeat=3 * p):
        signs = np.array(bits, dtype=np.int8).reshape(1, 3, p)
        yield matrix(frequencies, StructuredFrequencies(signs, np.full(p, p**-1.5)), p)


@pytest.mark.parametrize("p", [1, 2, 4])
def test_sorf_is_isotropic_to_second_order(p):
    """E[q] = 0, E[qqᵀ] = I/p for every row, by enumeration of all signs."""
    rows = np.array(list(all_structured(p)))
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-14)
    second = np.einsum("nij,nik->ijk", rows, rows) / len(rows)
    np.testing.assert_allclose(second, np.broadcast_to(np.eye(p) / p, (p, p, p)), atol=1e-14)


def sorf_mean_cosine(x, radius_distribution):
    """E[cos(R qᵀx)] over all signs; the rows of one block average together."""
    values = np.abs(np.concatenate([rows @ x for rows in all_structured(len(x))]))
    values, counts = np.unique(values.round(12), return_counts=True)
    means = [radius_distribution(value) for value in values]
    return np.average(means, weights=counts)


def chi_mean_cosine(p):
    """E[cos(R v)] with R ~ χ_p is ₁F₁(p/2; 1/2; −v²/2)."""
    return lambda v: hyp1f1(p / 2, 0.5, -(v**2) / 2)


# docs/fourier.md quotes these: bias of "sorf" and of constant norms √p, |x| = 1, along an axis
@pytest.mark.parametrize(
    ("p", "bias", "constant_bias"), [(2, -0.0310, -0.0662), (4, -0.0142, -0.0398)]
)
def test_bias_of_sorf_by_enumeration(p, bias, constant_bias):
    x = np.eye(p)[0]
    exact = np.exp(-1 / 2)
    measured = sorf_mean_cosine(x, chi_mean_cosine(p)) - exact
    assert abs(measured - bias) < 6e-5
    constant = sorf_mean_cosine(x, lambda v: np.cos(np.sqrt(p) * v)) - exact
    assert abs(constant - constant_bias) < 6e-5


@pytest.mark.parametrize("d", [2, 3, 5, 64, 1000])
@pytest.mark.parametrize("t", [1e-7, 1e-3, 0.3, 2.0, 9.0, 60.0])
def test_covariance_is_a_kummer_function(d, t):
    expected = hyp1f1(d, d / 2, -t) - np.exp(-2 * t)
    assert abs(orthogonal_covariance(t, d, sign=-1) - expected) < 1e-14
    expected = hyp1f1(d, d / 2, t) * np.exp(-2 * t) - 1
    assert abs(orthogonal_covariance(t, d, sign=1) - expected) < 1e-12


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("d", [2, 7, 300])
def test_covariance_at_small_distance(d, sign):
    """−2t²/(d + 2) to leading order, to full relative precision."""
    t = 1e-8
    np.testing.assert_allclose(
        orthogonal_covariance(t, d, sign=sign), -2 * t**2 / (d + 2), rtol=1e-6
    )


def test_huge_distances_stay_finite():
    values = orthogonal_covariance(np.array([0.0, 800.0, 1e300, np.inf]), 4, sign=-1)
    np.testing.assert_allclose(values, 0, atol=1e-12)


def test_pair_sums_count_pairs_within_blocks(rng):
    weights = rng.random(7)
    blocks = [weights[:3], weights[3:6], weights[6:]]
    pairs = sum(b.sum() ** 2 - (b**2).sum() for b in blocks)
    found = Frequencies(7, "orthogonal").pair_sums(weights, 3)
    np.testing.assert_allclose(found, [(weights**2).sum(), pairs])
    assert abs(Frequencies(7, "independent").pair_sums(weights, 3)[1]) < 1e-15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, "sorf"), "n_frequencies must be a positive integer; got 0"),
        ((2.0, "sorf"), "n_frequencies must be a positive integer; got 2.0"),
        ((True, "sorf"), "n_frequencies must be a positive integer; got True"),
        ((3, "srht"), "projection must be one of 'independent', .*; got 'srht'"),
    ],
)
def test_what_has_no_meaning_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Frequencies(*arguments)


def test_cost_of_sorf_is_less_for_wide_rows():
    assert Frequencies(1024, "sorf").cost(1024) < Frequencies(1024, "orthogonal").cost(1024) / 10
