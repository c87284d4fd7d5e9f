"""The error of every feature map is the one that is predicted before anything is drawn."""

import numpy as np
import pytest
from sklearn.base import clone

from dotsketch import (
    ArcCosine,
    Exponential,
    FourierFeatures,
    Gaussian,
    Maclaurin,
    MaclaurinFeatures,
    Matern,
    Polynomial,
    PositiveFeatures,
    RationalQuadratic,
    SphericalFeatures,
    Tanimoto,
)
from dotsketch.features import Study
from draws import redrawn
from laws.moments import assert_mean

from .subjects import CONFIGURATIONS, X

SHARED = {"n_components": 18, "random_state": 0}
ON_SPHERE = Polynomial(3, gamma=0.5, coef0=0.5)
MORE = [
    # fewer columns than inputs, whole and incomplete blocks, odd columns
    *(
        FourierFeatures(Gaussian(), projection=name, norms=norms, output=output, n_components=n)
        for name, norms in (("independent", "random"), ("orthogonal", "constant"))
        for output, n in (("real", 1), ("real", 24), ("complex", 7))
    ),
    *(FourierFeatures(Gaussian(), n_components=n) for n in (1, 20, 33)),
    *(
        FourierFeatures(kernel, projection="independent", output=output, **SHARED)
        for kernel in (Matern(0.5), Matern(2.5), RationalQuadratic(1.5))
        for output in ("real", "complex")
    ),
    *(
        PositiveFeatures(Exponential(), projection=name, hyperbolic=hyperbolic, n_components=n)
        for name, n in (("independent", 2), ("orthogonal", 6), ("orthogonal", 14))
        for hyperbolic in (False, True)
    ),
    *(SphericalFeatures(ON_SPHERE, projection="orthogonal", n_components=n) for n in (1, 7, 24)),
    SphericalFeatures(Exponential(), projection="independent", **SHARED),
    SphericalFeatures(ArcCosine(1), output="complex", projection="orthogonal", **SHARED),
    *(
        MaclaurinFeatures(kernel, allocation="sketched", max_degree=6, **SHARED)
        for kernel in (
            Maclaurin([0.5, 0, 1.0, 0.25]),
            ArcCosine(0),
            Polynomial(2) + Exponential(lengthscale=1.3),
            3.0 * (Polynomial(1) + Polynomial(2)) * Polynomial(1, coef0=0.0),
            Gaussian(lengthscale=2.0) * Polynomial(2, gamma=0.3),
        )
    ),
    MaclaurinFeatures(Tanimoto(), sketch="rademacher", output="complex", **SHARED),
    MaclaurinFeatures(
        Exponential(), mean_split=True, output="complex_to_real", coefficients="fitted", **SHARED
    ),
]
WITH_FORMULA = [
    f
    for f in (*CONFIGURATIONS, *MORE)
    if f.family != "nystrom" and getattr(f, "projection", None) != "sorf"
]


def drawn(features, n_draws):
    """k̂ between six rows over draws of the weights, with the kernel and the fitted features."""
    fitted = clone(features).fit(X)
    scale = 1.0 if features.family == "spherical" else 0.4  # tails of exp(ωᵀx) are heavy
    rows = scale * X[:6]
    draws = []
    for seed in range(n_draws):
        Z = redrawn(fitted, seed).transform(rows)
        draws.append(Z @ Z.conj().T)
    return np.stack(draws), rows, fitted


@pytest.mark.parametrize("features", WITH_FORMULA, ids=str)
def test_mean_and_squared_error_of_draws(features):
    """E k̂ = k + bias and E|k̂ − k|² = variance + bias² for every pair, diagonal included."""
    if not clone(features).fit(X).design_.has_formula:
        pytest.skip("no formula of its error is known")
    K_hat, rows, fitted = drawn(features, 400)
    K, bias = fitted.kernel_(rows), fitted.bias(rows)
    assert_mean(K_hat, K + bias, f"mean of {features}")
    predicted = fitted.variance(rows) + bias**2
    assert_mean(np.abs(K_hat - K) ** 2, predicted, f"squared error of {features}")
    predicted = fitted.variance(rows, part="real") + bias**2
    assert_mean((K_hat.real - K) ** 2, predicted, f"error of the real part of {features}")


@pytest.mark.parametrize("kernel", [Gaussian(), Matern(0.5), RationalQuadratic(0.7)], ids=str)
def test_features_are_unbiased_where_their_variance_is_not_known(kernel):
    features = FourierFeatures(kernel, projection="orthogonal", **SHARED)
    K_hat, rows, fitted = drawn(features, 400)
    assert not np.any(fitted.bias(rows))
    assert_mean(K_hat, fitted.kernel_(rows), f"mean of {features}")


WRONG = [
    FourierFeatures(Gaussian(), n_components=24),
    PositiveFeatures(Exponential(), n_components=24),
    SphericalFeatures(ON_SPHERE, projection="orthogonal", n_components=24),
    MaclaurinFeatures(Polynomial(2), allocation="sketched", n_components=40),
]


@pytest.mark.parametrize("features", WRONG, ids=str)
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_wrong_variance_would_be_seen(features, factor):
    K_hat, rows, fitted = drawn(features, 1500)
    errors, wrong = np.abs(K_hat - fitted.kernel_(rows)) ** 2, factor * fitted.variance(rows)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_mean(errors, wrong + fitted.bias(rows) ** 2, "squared error")


@pytest.mark.parametrize("features", [f for f in WITH_FORMULA if f.n_components > 5], ids=str)
def test_a_plan_averages_the_formula_over_pairs_of_fresh_rows(features):
    kernel = ON_SPHERE if features.family == "polynomial" else features.kernel
    study = Study(kernel, X, n_pairs_sample=20)
    design = features.for_kernel(kernel, features.n_components).design(study)
    row, rows = study.error_of(design), study.held
    off = ~np.eye(len(rows), dtype=bool)
    assert row.source == "formula"
    assert row.variance == pytest.approx(design.variance(rows, rows, design.part)[off].mean())
    squared_bias = (design.bias(rows, rows)[off] ** 2).mean()
    assert row.squared_bias == pytest.approx(squared_bias, rel=1e-9, abs=1e-15)
    total = row.relative_error**2 * (study.kernel(rows)[off] ** 2).mean()
    assert total == pytest.approx(row.squared_bias + row.variance, rel=1e-9, abs=1e-15)
