"""Naive versions, written from the formulas of the paper: slow, obvious, and the oracle.

Variances take vectors of Fractions (or floats) and one pair at a time; features take the same
random weights as the package and build every projection matrix in full.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import scipy.linalg


class Pair(NamedTuple):
    N: Fraction  # |x|²|y|²
    s: Fraction  # x·y
    S: Fraction  # Σ x²y²

    @classmethod
    def of(cls, x, y):
        return cls(
            sum(a * a for a in x) * sum(b * b for b in y),
            sum(a * b for a, b in zip(x, y, strict=True)),
            sum(a * a * b * b for a, b in zip(x, y, strict=True)),
        )

    @property
    def beta(self):
        return self.N - self.S

    @property
    def gamma(self):
        return self.s**2 - self.S


# -- variances and pseudo-variances, in exact arithmetic ------------------------------------------


def independent(x, y, n, D, *, m4, kappa2, pseudo=False):
    p = Pair.of(x, y)
    if pseudo:
        second = m4 * p.S + 2 * p.gamma + kappa2 * p.beta
    else:
        second = m4 * p.S + p.beta + (1 + kappa2) * p.gamma
    return (second**n - p.s ** (2 * n)) / Fraction(D)


def tensor_srht(x, y, n, D, *, kappa2, pseudo=False):
    p = Pair.of(x, y)
    d = 1
    while d < len(x):
        d *= 2
    V1 = p.gamma + kappa2 * p.beta if pseudo else p.beta + kappa2 * p.gamma
    V = independent(x, y, n, 1, m4=1, kappa2=kappa2, pseudo=pseudo)
    covariance = 0 if d == 1 else (p.s**2 - V1 / Fraction(d - 1)) ** n - p.s ** (2 * n)
    c = (D // d) * d * (d - 1) + (D % d) * (D % d - 1)
    return V / Fraction(D) + Fraction(c, D * D) * covariance


def balanced_tensor_sketch(x, y, n, D, *, kappa2=1, pseudo=False, collision=None, g=None):
    """Balanced hashes; `collision` = P(h(a) = h(b)) may be given, 1/D for uniform hashes."""
    p = Pair.of(x, y)
    d = len(x)
    beta, gamma = (p.gamma, kappa2 * p.beta) if pseudo else (p.beta, kappa2 * p.gamma)
    if collision is None:
        loads = [d // D + (bucket < d % D) for bucket in range(D)]
        collision = Fraction(sum(a * (a - 1) for a in loads), d * (d - 1)) if d > 1 else 0
    rho = (1 - collision * D) / Fraction(D - 1) if D > 1 else 0
    g = (2 if D % 2 == 0 else 1) if g is None else g
    e = p.s**2
    total = (
        g * (e + beta + gamma) ** n
        + (D - g) * ((e + beta - rho * gamma) ** n + (e - rho * beta + gamma) ** n)
        + (D * D - 2 * D + g) * (e - rho * (beta + gamma)) ** n
    )
    return total / Fraction(D * D) - e**n


def tensor_sketch(x, y, n, D, *, kappa2=1, pseudo=False, g=None):
    return balanced_tensor_sketch(
        x, y, n, D, kappa2=kappa2, pseudo=pseudo, collision=Fraction(1, D), g=g
    )


def tree(x, y, n, D, *, kappa2, pseudo=False):
    """Nodes with independent weights of modulus one (m4 = 1)."""
    p = Pair.of(x, y)
    leaf = (
        p.S + p.beta + (1 + kappa2) * p.gamma,  # P
        p.s**2,  # Q
        p.N,  # R
        kappa2 * p.s**2,  # T
        p.S + 2 * p.gamma + kappa2 * p.beta,  # P'
        p.s**2,  # Q'
        kappa2 * p.N,  # U
    )
    # T and U of a padding leaf: E of products of four weights of two rows is κ², not 1
    padding = (1, 1, 1, kappa2, 1, 1, kappa2)
    q = 1 << (n - 1).bit_length()
    level = [leaf] * n + [padding] * (q - n)
    D = Fraction(D)
    while True:
        level = [
            tuple(a * b for a, b in zip(level[i], level[i + 1], strict=True))
            if i + 1 < len(level)
            else level[i]
            for i in range(0, len(level), 2)
        ]
        if len(level) == 1:
            break
        level = [
            (
                (P + (D - 1) * (R + Q + kappa2 * T)) / D,
                (P + (D - 1) * Q) / D,
                (P + (D - 1) * R) / D,
                kappa2 * (P + (D - 1) * T) / D,
                (P2 + (D - 1) * (2 * Q2 + kappa2 * U)) / D,
                (P2 + (D - 1) * Q2) / D,
                kappa2 * (P2 + (D - 1) * U) / D,
            )
            for P, Q, R, T, P2, Q2, U in level
        ]
    P, Q, _, _, P2, Q2, _ = level[0]
    top, other = (P2, Q2) if pseudo else (P, Q)
    return top / D + (1 - 1 / D) * other - p.s ** (2 * n)


def compact(x, y, n, D, E, *, m4, kappa2):
    """Independent inner weights with E projections, one SRHT down to D."""
    p = Pair.of(x, y)
    block = 1
    while block < E:
        block *= 2
    c = (D // block) * block * (block - 1) + (D % block) * (D % block - 1)
    f = Fraction(1, D) - (Fraction(c, D * D * (block - 1)) if block > 1 else 0)
    inner = independent(x, y, n, E, m4=m4, kappa2=kappa2)
    return inner + f * (1 - Fraction(1, E)) * (p.N**n + kappa2 * p.s ** (2 * n))


# -- features from given weights ------------------------------------------------------------------


def phases(turns):
    return np.array([1, 1j, -1, -1j])[np.asarray(turns)]


def srht_matrix(turns, places, n_projections):  # (B, d), (B, d) -> (D, d)
    """Rows places[b] of H diag(iᵗ), block under block, the first D of them."""
    H = scipy.linalg.hadamard(turns.shape[1])
    blocks = [H[rows] * phases(t) for t, rows in zip(turns, places, strict=True)]
    return np.concatenate(blocks)[:n_projections]


def projection_matrices(weights, n_projections, width):
    """One (D, d) matrix for every degree."""
    kind = type(weights).__name__
    if kind == "TurnWeights":
        return [phases(turns) for turns in weights.turns]
    if kind == "AngleWeights":
        return [np.exp(1j * angles) for angles in weights.angles]
    if kind == "GaussianWeights":
        return [v[0] + 1j * v[1] if len(v) == 2 else v[0] for v in weights.values]
    assert kind == "SRHTWeights", f"features of {__name__} has no definition for {kind}"
    return [
        srht_matrix(turns, places, n_projections)[:, :width]
        for turns, places in zip(weights.turns, weights.places, strict=True)
    ]


def features(sketch, X, weights):  # (n, d) -> (n, D), complex
    """z(x) of every row, from the definition of the sketch."""
    kind = type(weights).__name__
    D = sketch.n_projections
    if kind == "HashWeights":
        return np.array([_convolved_count_sketches(x, weights, D) for x in X])
    if kind == "TreeWeights":
        return _tree_features(sketch, X, weights)
    if kind == "CompactWeights":
        up = features(sketch.inner, X, weights.up)
        (down,) = projection_matrices(weights.down, D, up.shape[1])
        return up @ down.T / math.sqrt(D)
    product = np.ones((len(X), D), dtype=complex)
    for W in projection_matrices(weights, D, X.shape[1]):
        product *= X @ W.T
    return product / math.sqrt(D)


def _convolved_count_sketches(x, weights, D):
    """Σ over all index tuples (k₁ … k_p) of Π sign·x, into bucket Σ h_i(k_i) mod D."""
    result = np.zeros(D, dtype=complex)
    z = phases(weights.turns)
    for indices in itertools.product(range(len(x)), repeat=len(z)):
        bucket = sum(int(h[k]) for h, k in zip(weights.buckets, indices, strict=True)) % D
        result[bucket] += math.prod(z[i][k] * x[k] for i, k in enumerate(indices))
    return result


def _tree_features(sketch, X, weights):
    D, n = sketch.n_projections, sketch.degree
    first = np.zeros_like(X)
    first[:, 0] = 1
    leaves = projection_matrices(weights.leaves, D, X.shape[1])
    nodes = iter(projection_matrices(weights.nodes, D, D) if weights.nodes is not None else [])
    level = [(X if i < n else first) @ W.T for i, W in enumerate(leaves)]
    while len(level) > 2:
        joined = [a * b for a, b in zip(level[::2], level[1::2], strict=True)]
        level = [product / math.sqrt(D) @ next(nodes).T for product in joined]
    return math.prod(level) / math.sqrt(D)
