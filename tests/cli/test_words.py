"""Kernels from words, and estimators to source code."""

import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import (
    Exponential,
    Gaussian,
    MaclaurinFeatures,
    Matern,
    Polynomial,
    PolynomialSketch,
    Tanimoto,
)
from dotsketch.cli.output import UserMistake
from dotsketch.cli.words import describe_kernel, imports_of, parse_kernel, source_of


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("gaussian", (Gaussian(), True)),
        ("gaussian:median", (Gaussian(), False)),
        ("Gaussian:0.5", (Gaussian(lengthscale=0.5), False)),
        ("gaussian:0.5,2,3,4", (Gaussian(lengthscale=[0.5, 2.0, 3.0, 4.0]), False)),
        ("matern:2.5,1,2,3,4", (Matern(2.5, lengthscale=[1.0, 2.0, 3.0, 4.0]), False)),
        ("matern", (Matern(), True)),
        ("matern:2.5", (Matern(2.5), True)),
        ("matern:0.5,median", (Matern(0.5), False)),
        ("Matern:1.5,0.7", (Matern(lengthscale=0.7), False)),
        ("poly:3", (Polynomial(3, gamma=0.25), False)),
        ("polynomial:2,0.5", (Polynomial(2, gamma=0.5), False)),
        ("poly:2, 0.5, 0", (Polynomial(2, gamma=0.5, coef0=0.0), False)),
        ("exponential", (Exponential(lengthscale=2.0), False)),
        ("exponential:3", (Exponential(lengthscale=3.0), False)),
        ("tanimoto", (Tanimoto(), False)),
        ("rbf:2", (Gaussian(lengthscale=2.0), False)),
        ("exp", (Exponential(lengthscale=2.0), False)),
        ("softmax:2", (Exponential(lengthscale=2.0), False)),
    ],
)
def test_kernels_are_read(text, kernel):
    assert parse_kernel(text, 4) == kernel


@pytest.mark.parametrize(
    "text",
    [
        "",
        "laplace",
        "matern:2",
        "matern:1.5,1,1",
        "gaussian:1,2,3",
        "poly",
        "poly:",
        "poly:x",
        "poly:2,1,1,1",
        "poly:0",
        "gaussian:-1",
        "gaussian:1,2",
        "exponential:median",
    ],
)
def test_unknown_kernels_are_refused(text):
    with pytest.raises(UserMistake, match="the kernel"):
        parse_kernel(text, 4)


@pytest.mark.parametrize(
    "estimator",
    [
        Gaussian(lengthscale=[1.0, 2.0]),
        MaclaurinFeatures(Polynomial(4, gamma=0.1), sketch="rademacher", output="complex"),
        PolynomialSketch(5, coef0=1 / 3, random_state=7),
        make_pipeline(StandardScaler(with_mean=False), MaclaurinFeatures(Gaussian())),
    ],
)
def test_source_builds_an_equal_estimator(estimator):
    built = {}
    exec(f"{imports_of(estimator)}\nvalue = {source_of(estimator)}", built)
    assert repr(built["value"]) == repr(estimator)
    assert source_of(built["value"]) == source_of(estimator)


def test_kernels_in_short():
    assert describe_kernel(Gaussian(lengthscale=2.0)) == "Gaussian(lengthscale=2.0)"
    short = describe_kernel(Matern(2.5, lengthscale=[1.0, 30.0, 2.0]))
    assert short == "Matern(nu=2.5), one lengthscale per input (1 to 30)"
