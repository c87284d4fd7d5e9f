"""Gradients to the parameters of a kernel are those of the features, fit included."""

import numpy as np
import pytest

from dotsketch import (
    Exponential,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    PolynomialSketch,
    PositiveFeatures,
)

X = np.random.default_rng(0).standard_normal((40, 3))
SHARED = {"n_components": 12, "random_state": 0}
# Of Nyström features with more landmarks than columns the choice of combinations has no gradient
FAMILIES = {
    "fourier": lambda v: FourierFeatures(Gaussian(lengthscale=v), **SHARED),
    "maclaurin": lambda v: MaclaurinFeatures(Gaussian(lengthscale=v), **SHARED),
    "nystrom": lambda v: NystromFeatures(Gaussian(lengthscale=v), n_landmarks=1.0, **SHARED),
    "polynomial": lambda v: PolynomialSketch(3, gamma=v, coef0=1.0, **SHARED),
    "polynomial, coef0": lambda v: PolynomialSketch(3, gamma=0.9, coef0=v, **SHARED),
    "positive": lambda v: PositiveFeatures(Exponential(lengthscale=v), **SHARED),
    "positive, gaussian": lambda v: PositiveFeatures(Gaussian(lengthscale=v), **SHARED),
}
for _name, _make in (
    ("fourier", FourierFeatures),
    ("maclaurin", MaclaurinFeatures),
    ("positive", PositiveFeatures),
):
    FAMILIES[f"{_name}, variance"] = lambda v, make=_make: make(
        Gaussian(lengthscale=2.0, variance=v), **SHARED
    )
LOOKS_AT_DATA = (*(n for n in FAMILIES if "maclaurin" in n or "positive, " in n), "nystrom")


def loss(make, value, rows):
    """A sum that no rotation of the columns changes: k̂(x, y) of some pairs."""
    Z = make(value).fit(rows).transform(rows[:4])
    return (Z[0] * Z[1]).sum() + 2 * (Z[2] * Z[3]).sum()


def numeric(make, value=2.0, step=1e-5):
    return (loss(make, value + step, X) - loss(make, value - step, X)) / (2 * step)


@pytest.mark.parametrize("name", FAMILIES)
def test_torch(name):
    torch = pytest.importorskip("torch")
    make, rows = FAMILIES[name], torch.from_numpy(X)
    value = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    loss(make, value, rows).backward()
    assert float(value.grad) == pytest.approx(numeric(make), rel=1e-5, abs=1e-8)
    functional = torch.func.grad(lambda v: loss(make, v, rows))(value.detach())
    assert float(functional) == pytest.approx(float(value.grad), rel=1e-9)


@pytest.mark.parametrize("name", FAMILIES)
def test_jax(name):
    jax = pytest.importorskip("jax")
    make = FAMILIES[name]
    with jax.enable_x64(True):
        gradient = jax.grad(lambda v: loss(make, v, jax.numpy.asarray(X)))
        assert float(gradient(2.0)) == pytest.approx(numeric(make), rel=1e-5, abs=1e-8)
        if name in LOOKS_AT_DATA:  # inside of jit nobody knows the lengthscale
            with pytest.raises(ValueError, match=r"inside of jax\.jit.*fitted outside"):
                jax.jit(gradient)(2.0)
        else:
            assert float(jax.jit(gradient)(2.0)) == pytest.approx(float(gradient(2.0)), rel=1e-9)


def test_nystrom_features_follow_a_parameter_that_changes_after_the_fit():
    """They whiten again: the Gram matrix is that of a new fit with the same landmarks."""
    torch = pytest.importorskip("torch")
    value = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    rows = torch.from_numpy(X)
    make = FAMILIES["nystrom"]
    features = make(value).fit(rows)
    with torch.no_grad():
        value.mul_(1.3)
        Z = features.transform(rows).numpy()
    expected = make(2.6).fit(X).transform(X)
    np.testing.assert_allclose(Z @ Z.T, expected @ expected.T, rtol=0, atol=1e-9)
