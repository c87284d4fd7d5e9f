"""What a search asks of kernels: derivatives, ranges, one lengthscale per column, a factor."""

import numpy as np
import pytest

from dotsketch import (
    ArcCosine,
    Exponential,
    Gaussian,
    Linear,
    Maclaurin,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
)

LENGTHSCALES = np.array([0.7, 1.5, 3.0])
KERNELS = [
    Polynomial(3, gamma=0.4, coef0=0.7, variance=1.3),
    Polynomial(1, gamma=0.4),
    Polynomial(2, coef0=0.0),
    Exponential(lengthscale=1.7, variance=0.5),
    Exponential(lengthscale=LENGTHSCALES),
    Maclaurin([0.5, 0.0, 1.0, 0.3], gamma=0.6, variance=2.0),
    ArcCosine(1, variance=1.4),
    Gaussian(lengthscale=LENGTHSCALES, variance=1.3),
    Matern(1.5, lengthscale=1.2),
    Polynomial(2, gamma=0.3) + Gaussian(lengthscale=LENGTHSCALES),
    Matern(2.5, lengthscale=1.4) * Exponential(lengthscale=2.0),
    RationalQuadratic(0.7, lengthscale=LENGTHSCALES, variance=1.3),
    RationalQuadratic(20.0, lengthscale=1.5),
    Periodic(2.5, lengthscale=0.8, variance=1.3),
    Periodic(LENGTHSCALES, lengthscale=2 * LENGTHSCALES),
    Linear(gamma=0.5, coef0=0.4),
    Gaussian(lengthscale=LENGTHSCALES[:2]).on([2, 0]) * Periodic(1.7).on(1) + Linear().on(0),
]


@pytest.fixture
def X(rng):
    return rng.standard_normal((25, 3))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_derivatives_by_differences(kernel, X, rng):
    """Of Σ M_ij k(x_i, x_j) with respect to every logarithm, for a symmetric M."""
    M = rng.standard_normal((len(X), len(X)))
    M = M + M.T
    start, step = kernel.logarithms, 1e-5
    # between other rows M need not be symmetric
    for Y, weights in ((None, M), (X[3:10] + 0.1, M[:, :7] - 1)):
        K, pullback = kernel.with_pullback(X, Y)
        np.testing.assert_allclose(K, kernel(X, Y), rtol=1e-12, atol=1e-13)
        ends = [
            [kernel.with_logarithms(start + s * e)(X, Y) for s in (step, -step)]
            for e in np.eye(len(start))
        ]
        expected = [np.vdot(weights, up - down) / (2 * step) for up, down in ends]
        np.testing.assert_allclose(pullback(weights), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_one_lengthscale_per_column_is_the_same_kernel(kernel, X):
    spread = kernel.per_column(3)
    np.testing.assert_allclose(spread(X), kernel(X), atol=1e-13)
    assert len(spread.search_range(X)) == len(spread.logarithms)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_ranges_follow_the_scale_of_the_rows(kernel, X):
    """Kernels at their typical parameters are of order one, whatever the units of X are."""
    X = X + np.array([0.0, 0.0, 1.0])
    ranges = [kernel.search_range(scale * X) for scale in (1.0, 1e-3)]
    for scale, (low, typical, high) in zip((1.0, 1e-3), (r.T for r in ranges), strict=True):
        assert np.all(low < typical)
        assert np.all(typical < high)
        middle = kernel.with_logarithms(typical)
        assert 0.1 < np.mean(middle.diag(scale * X)) < 100


def test_constant_columns_have_a_range():
    X = np.stack([np.linspace(0, 1, 9), np.full(9, 3.0), np.zeros(9)], axis=1)
    for kernel in (Gaussian(lengthscale=LENGTHSCALES), Exponential(lengthscale=LENGTHSCALES)):
        assert np.all(np.isfinite(kernel.search_range(X)))
