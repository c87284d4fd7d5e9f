"""Maclaurin features of the Tanimoto kernel: the expansion, its error, sparse rows, far norms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import sparse

from dotsketch import MaclaurinFeatures, NystromFeatures, Tanimoto
from dotsketch.features.maclaurin import EigenExpansion

BOTH = pytest.mark.parametrize("mean_split", [False, True])


def fingerprints(n=60, d=30, binary=True, seed=0):
    """Rows of very different norms: columns and rows are common or rare."""
    rng = np.random.default_rng(seed)
    common = rng.beta(0.5, 1.5, d) * rng.uniform(0.5, 1.5, n)[:, None]
    X = (rng.random((n, d)) < common) * (1.0 + (0 if binary else rng.poisson(1.0, (n, d))))
    X[:, 0] = 1.0  # no row is empty
    return X


def exact_terms(kernel, inputs, degree):
    """c_j(αα', p + p') (x_⊥·y_⊥)ʲ between all rows."""
    alpha = 0 * inputs.radius if inputs.offset is None else inputs.offset
    tau = np.outer(inputs.radius, inputs.radius) * (inputs.unit @ inputs.unit.T)
    traits = inputs.trait[:, None] + inputs.trait[None, :]
    return kernel.variance * kernel.taylor(degree, np.outer(alpha, alpha), traits) * tau**degree


def expanded_terms(found, inputs, degree):
    """Σ ω_b(x) ω_b(y) ⟨u(x), u(y)⟩ʲ over the blocks of a degree."""
    weights = inputs.weights[:, np.array(found.degrees) == degree]
    return (weights @ weights.T) * (inputs.unit @ inputs.unit.T) ** degree


@BOTH
@pytest.mark.parametrize("binary", [True, False])
def test_the_terms_of_the_expansion_are_those_of_the_series(binary, mean_split):
    X = fingerprints(binary=binary)
    kernel = Tanimoto(variance=1.5)
    found = EigenExpansion.fit(kernel, 6, X, mean_split=mean_split, share=1e-9)
    inputs = found.inputs(X)
    distinct = ~np.eye(len(X), dtype=bool)
    degrees = range(0 if mean_split else 1, 5)
    for degree in degrees:
        mine, exact = expanded_terms(found, inputs, degree), exact_terms(kernel, inputs, degree)
        np.testing.assert_allclose(mine[distinct], exact[distinct], atol=2e-3)
    rest = kernel(X) - sum(exact_terms(kernel, inputs, degree) for degree in range(30))
    assert np.max(np.abs(rest[distinct])) < 1e-3
    assert (found.direction is None) != mean_split


@BOTH
def test_coefficients_are_never_above_those_of_the_kernel(mean_split):
    """A projection of c_j, whatever the norm: so is what the features hold of k(x, x)."""
    X = fingerprints(80, seed=1)
    far = np.vstack([X, 3 * X, 0.2 * X])  # norms beyond those of the sample as well
    found = EigenExpansion.fit(Tanimoto(), 6, X, mean_split=mean_split)
    inputs = found.inputs(far)
    for degree in set(found.degrees):
        mine = np.diag(expanded_terms(found, inputs, degree))
        assert np.all(mine <= np.diag(exact_terms(found.kernel, inputs, degree)) * (1 + 1e-5))


@pytest.mark.parametrize("factor", [0.35, 0.7, 1.0, 1.4, 2.0, 4.0])
def test_norms_beyond_those_of_the_training_rows(factor):
    """The error that the extension causes in degrees 1 and 2: at most 0.015, where k(x, x) = 1."""
    X = fingerprints(200, seed=2)
    found = EigenExpansion.fit(Tanimoto(), 2, X)
    norms = np.sqrt(found.kernel.trait(X))
    edge = np.zeros_like(X[:1])  # a row of the largest norm, or of the least, times the factor
    edge[0, 0] = factor * (norms.max() if factor >= 1 else norms.min())
    ours, theirs = found.inputs(edge).weights[0], found.inputs(X).weights
    for degree in (1, 2):
        blocks = np.array(found.degrees) == degree
        exact = (norms * edge[0, 0] / (norms**2 + edge[0, 0] ** 2)) ** degree
        error = np.max(np.abs(theirs[:, blocks] @ ours[blocks] - exact))
        assert error < (0.003 if factor == 1 else 0.015)


def test_the_mean_is_the_expansion_by_enumeration():
    """One projection, all 2³ weights: their mean is ω(x) ω(y) ⟨u(x), u(y)⟩ without rest."""
    X = np.array([[1.0, 0, 2], [1, 1, 0], [0, 3, 1], [2, 2, 2]])
    features = MaclaurinFeatures(Tanimoto(), sketch="rademacher", n_components=1, random_state=0)
    features.fit(X)
    [number], [weights] = features.design_.numbers, features.weights_
    total = np.zeros((4, 4))
    for signs in itertools.product((0, 2), repeat=3):
        turns = np.array(signs, dtype=weights.turns.dtype).reshape(1, 1, 3)
        features.weights_ = (type(weights)(turns),)
        Z = features.transform(X)
        total += Z @ Z.T / 8
    inputs = features.design_.expansion.inputs(X)
    w = inputs.weights[:, number]
    expected = (
        features.allocation_.coefficients[number] * np.outer(w, w) * (inputs.unit @ inputs.unit.T)
    )
    np.testing.assert_allclose(total, expected, rtol=1e-12)


def test_zero_rows_get_the_variance_of_the_prior():
    X = fingerprints(40)
    X[3] = 0
    features = MaclaurinFeatures(Tanimoto(), n_components=60, random_state=0).fit(X)
    Z = features.transform(X)
    np.testing.assert_array_equal(Z[3], 0)
    assert features.expected_diagonal(X, Z)[3] == 0
    with pytest.raises(ValueError, match="All rows that the expansion looks at are zero"):
        MaclaurinFeatures(Tanimoto()).fit(np.zeros((5, 3)))


def test_negative_rows_are_refused_in_fit_and_transform():
    X = fingerprints(20)
    features = MaclaurinFeatures(Tanimoto(), n_components=24, random_state=0).fit(X)
    landmarks = NystromFeatures(Tanimoto(), n_components=5)
    for rows in (-X, sparse.csr_array(-X)):
        for call in (features.transform, features.fit, landmarks.fit):
            with pytest.raises(ValueError, match="nonnegative rows"):
                call(rows)


def test_rows_without_a_common_entry():
    """Their products are all zero, and no block of the expansion is more than that."""
    X = np.eye(6)
    Z = MaclaurinFeatures(Tanimoto(), n_components=500, random_state=0).fit_transform(X)
    np.testing.assert_allclose(Z @ Z.T, X, atol=0.3)
