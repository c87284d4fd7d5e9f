"""Mean, variance and pseudo-variance of k̂ = z(x)·conj z(y), exactly or by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np

from dotsketch.pairs import PairStatistics

Z_SCORE = 6  # chance of a false alarm below 1e-8 a comparison


def rows(dimension, seed=0):
    """Three rows with entries of both signs, of squared norm about one and a half."""
    rng = np.random.default_rng([dimension, seed])
    X = rng.uniform(0.5, 1.5, (3, dimension)) * rng.choice([-1, 1, 1], (3, dimension))
    return X * math.sqrt(1.2 / dimension)


def approximate_kernel(sketch, X, weights):
    Z = sketch.apply(X, weights)
    return Z @ Z.conj().T


def exact_moments(sketch, X, enumeration):
    """E k̂, E|k̂ − k|² and E(k̂ − k)² over all outcomes of the weights."""
    kernel = (X @ X.T) ** sketch.degree
    total, mean, variance, pseudo = 0.0, 0.0, 0.0, 0.0
    for combination in itertools.product(*enumeration.factors):
        probability = math.prod(p for p, _ in combination)
        K = approximate_kernel(sketch, X, enumeration.build([v for _, v in combination]))
        total += probability
        mean = mean + probability * K
        variance = variance + probability * abs(K - kernel) ** 2
        pseudo = pseudo + probability * (K - kernel) ** 2
    assert math.isclose(total, 1, rel_tol=1e-9), "the probabilities of all outcomes add up to one"
    return mean, variance, pseudo


def assert_exact_laws(sketch, X, enumeration):
    """E k̂ = k, Var k̂ = `variance`, E(k̂ − k)² = `pseudo_variance`, to rounding."""
    mean, variance, pseudo = exact_moments(sketch, X, enumeration)
    pairs = PairStatistics.between(X)
    size = np.sqrt(pairs.norms) ** sketch.degree

    def close(actual, expected, scale, what):
        error = np.max(abs(actual - expected) / scale)
        assert error < 1e-11, f"{what} of {sketch} is off by {error:.1e} of |x|ⁿ|y|ⁿ"

    close(mean, pairs.dot**sketch.degree, size, "mean")
    close(sketch.variance(pairs), variance, size**2, "variance")
    close(sketch.pseudo_variance(pairs), pseudo, size**2, "pseudo-variance")
    real_part = (variance + pseudo.real) / 2
    close(sketch.real_part_variance(pairs), real_part, size**2, "variance of the real part")


def simulated_kernels(sketch, X, n_draws, seed=0):  # -> (n_draws, n, n)
    rng = np.random.default_rng(seed)
    draws = (sketch.sample(X.shape[1], rng) for _ in range(n_draws))
    return np.stack([approximate_kernel(sketch, X, weights) for weights in draws])


def assert_mean(samples, expected, what):
    """The mean of samples is within z standard errors, computed from the samples themselves."""
    for part in ("real", "imag"):
        values = getattr(samples, part)
        standard_error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
        # The deviation of a constant is rounding: allow for it
        slack = Z_SCORE * standard_error + 1e-11 * (1 + abs(expected))
        error = abs(values.mean(axis=0) - getattr(np.asarray(expected), part))
        worst = np.max(error / slack)
        assert worst < 1, (
            f"{what} ({part} part) is off by {Z_SCORE * worst:.1f} standard errors of "
            f"{len(values)} draws: with more draws an error grows, and an effect of heavy tails "
            "does not"
        )


def assert_simulated_laws(sketch, X, n_draws, seed=0):
    """The laws of `assert_exact_laws`, by simulation."""
    pairs = PairStatistics.between(X)
    kernel = pairs.dot**sketch.degree
    K = simulated_kernels(sketch, X, n_draws, seed)
    assert_mean(K, kernel, f"mean of {sketch}")
    try:
        variance, pseudo = sketch.variance(pairs), sketch.pseudo_variance(pairs)
    except NotImplementedError:  # no formula is known: unbiasedness is all there is to check
        return
    assert_mean(abs(K - kernel) ** 2, variance, f"variance of {sketch}")
    assert_mean((K - kernel) ** 2, pseudo, f"pseudo-variance of {sketch}")
