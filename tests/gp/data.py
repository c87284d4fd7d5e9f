"""Small data that the tests of Gaussian processes share."""

import numpy as np

from dotsketch import Gaussian, MaclaurinFeatures, PolynomialSketch


def regression_data(n=60, outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    Y = np.stack([np.sin(X[:, 0] + k) + 0.1 * rng.standard_normal(n) for k in range(outputs)], 1)
    return X, (Y[:, 0] if outputs == 1 else Y) + 5


def class_data(n=90, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return rng.standard_normal((n, 3)) + 1.5 * y[:, None] * [1, -1, 0.5], y


def polynomial_features(output="real", n_components=10):
    """A map that depends on the dimension and the seed only."""
    return PolynomialSketch(
        2, coef0=1.0, gamma=0.3, n_components=n_components, output=output, random_state=0
    )


def gaussian_features(output="real", n_components=30, **options):
    kernel = Gaussian(lengthscale=1.5)
    return MaclaurinFeatures(
        kernel, n_components=n_components, output=output, random_state=0, **options
    )


def condition(gp):
    """The condition number of the system that was solved for the weights, the largest of several.

    What rounding does to the sums comes out so many times larger in predictions.
    """
    return max(np.linalg.cond(factor.lower()) ** 2 for factor in gp.posterior_.factors)
