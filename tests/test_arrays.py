"""Chunks of any library, gradients through them, and the helpers of `_arrays`."""

import numpy as np
import pytest
from scipy import sparse

from dotsketch import PolynomialSketch
from dotsketch._arrays import OUTPUTS, as_generator, host, join, plain
from dotsketch._backends import Prepared, largest_entry
from dotsketch._typing import Array
from dotsketch.sketches import SKETCHES

every_sketch = pytest.mark.parametrize("name", SKETCHES)
every_output = pytest.mark.parametrize("output", OUTPUTS)
VARIANTS = [*({"sketch": name} for name in SKETCHES), {"sketch": "tensor_srht", "compact": 2}]
every_variant = pytest.mark.parametrize(
    "variant", VARIANTS, ids=lambda variant: "-".join(map(str, variant.values()))
)


def compiles_quickly(variant, output):
    """JAX compiles every case anew: all sketches in one output, the quick ones in all of them."""
    return output == "complex" or variant["sketch"] in ("gaussian", "tensor_srht")


def features(output, d=5, **variant):
    """A fitted sketch of an inhomogeneous kernel of degree 3 (padding leaves and blocks)."""
    model = PolynomialSketch(
        3, gamma=0.9, coef0=0.3, n_components=6, output=output, random_state=3, **variant
    )
    return model.fit(np.zeros((1, d)))


@pytest.fixture
def small_chunks(monkeypatch):
    """Three rows at a time."""
    monkeypatch.setattr(Prepared, "chunk_rows", 3)


def test_every_library_has_what_annotations_promise(library):
    assert isinstance(library.asarray([[1.0, 2.0]]), Array)
    assert not any(isinstance(value, Array) for value in (1.0, [1.0, 2.0], "rows", None))


def test_numpy_scalars_as_parameters_keep_float32(X):
    """A grid over np.logspace gives np.float64 parameters; they must not widen the features."""
    model = PolynomialSketch(2, gamma=np.float64(2), coef0=np.float64(1), n_components=4)
    assert model.fit_transform(X.astype(np.float32)).dtype == np.float32


def test_jax_in_single_precision(X):
    """JAX's default, without 64-bit types, works without a warning."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(False):
        A = jax.numpy.asarray(X)
        assert A.dtype == np.float32
        for name in ("gaussian", "tensor_srht", "tensor_sketch"):
            model = features("complex_to_real", sketch=name)
            Z = model.transform(A)
            assert Z.dtype == np.float32
            np.testing.assert_allclose(np.asarray(Z), model.transform(X), rtol=1e-4, atol=1e-5)
            assert model.variance(A).dtype == np.float32


# -- gradients --------------------------------------------------------------------------------


def scalar(model, X, weight, xp):
    """A real function of all features: Σ weight · Re z + 2 weight · Im z."""
    Z = model.transform(X)
    if model.output != "complex":
        return (weight * Z).sum()
    return (weight * xp.real(Z)).sum() + 2 * (weight * xp.imag(Z)).sum()


def finite_differences(function, X, step=1e-6):
    gradient = np.zeros_like(X)
    for index in np.ndindex(*X.shape):
        E = np.zeros_like(X)
        E[index] = step
        gradient[index] = (function(X + E) - function(X - E)) / (2 * step)
    return gradient


def check_gradients(model, X, rng):
    weight = rng.standard_normal((len(X), 6))
    expected = finite_differences(lambda A: scalar(model, A, weight, np), X)
    torch = pytest.importorskip("torch")
    A = torch.tensor(X, requires_grad=True)
    scalar(model, A, torch.tensor(weight), torch).backward()
    np.testing.assert_allclose(A.grad.numpy(), expected, rtol=1e-6, atol=1e-7)
    if compiles_quickly(model.get_params(), model.output):
        jax = pytest.importorskip("jax")
        gradient = jax.jit(jax.grad(lambda A: scalar(model, A, weight, jax.numpy)))
        np.testing.assert_allclose(gradient(X), expected, rtol=1e-6, atol=1e-7)


@every_output
@every_sketch
def test_gradients_through_chunks(name, output, X, rng, small_chunks):
    check_gradients(features(output, sketch=name), X[:5], rng)


@pytest.mark.parametrize("parameter", ["gamma", "coef0"])
def test_gradients_reach_the_hyperparameters(parameter, X):
    torch, jax = pytest.importorskip("torch"), pytest.importorskip("jax")

    def total(value, A):
        params = {"gamma": 0.9, "coef0": 0.3, parameter: value}
        return PolynomialSketch(3, n_components=6, random_state=0, **params).fit_transform(A).sum()

    value = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    total(value, torch.tensor(X)).backward()
    expected = (total(0.7 + 1e-6, X) - total(0.7 - 1e-6, X)) / 2e-6
    assert float(value.grad) == pytest.approx(expected, rel=1e-6)
    A = jax.numpy.asarray(X)
    assert float(jax.jit(jax.grad(total))(0.7, A)) == pytest.approx(expected, rel=1e-6)


# -- chunks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 7, 12])
@every_output
@every_variant
def test_chunks_do_not_change_the_features(variant, output, n_rows, rng, request):
    """Whole chunks, a partial last one and a single one, on every library, dense and sparse."""
    X = rng.standard_normal((n_rows, 5))
    model = features(output, **variant)
    expected = model.transform(X)
    request.getfixturevalue("small_chunks")
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-13)
    np.testing.assert_allclose(model.transform(sparse.csr_array(X)), expected, atol=1e-13)


@every_output
@every_variant
def test_chunks_do_not_change_the_features_elsewhere(variant, output, foreign, X, small_chunks):
    model = features(output, **variant)
    transform = model.transform
    if foreign.name == "jax":
        import jax

        if not compiles_quickly(variant, output):
            pytest.skip("another output covers it")
        transform = jax.jit(transform)
    for n_rows in (3, 7):
        Z = foreign.numpy(transform(foreign.asarray(X[:n_rows])))
        np.testing.assert_allclose(Z, model.transform(X[:n_rows]), atol=1e-12)


# -- the helpers ------------------------------------------------------------------------------


def test_host_and_back(X, library):
    np.testing.assert_array_equal(host(library.asarray(X)), X)
    assert host("median") == "median"
    assert host(2.0) == 2.0


def test_largest_entry(library):
    assert largest_entry(library.asarray([[1.0, -3.0], [2.0, 0.0]])) == 3.0
    assert largest_entry(sparse.csr_array([[0.0, -3.0], [2.0, 0.0]])) == 3.0


def test_plain_leaves_arrays_alone(X):
    assert type(plain(np.float64(2))) is float
    assert type(plain(np.array(2))) is int
    assert plain(X) is X


def test_join_needs_an_imaginary_part(X):
    for output in ("complex", "complex_to_real"):
        with pytest.raises(ValueError, match=f'output="{output}" needs a complex sketch'):
            join((X, None), output)


def test_generators_from_every_kind_of_random_state():
    draws = [as_generator(seed).integers(2**62) for seed in (0, 1, np.random.RandomState(0))]
    assert len(set(draws)) == 3
    assert as_generator(0).integers(2**62) == draws[0]
    assert as_generator(np.random.RandomState(0)).integers(2**62) == draws[2]
    given = np.random.default_rng(5)
    assert as_generator(given) is given
    assert as_generator(None).integers(2**62) != as_generator(None).integers(2**62)
    with pytest.raises((TypeError, ValueError)):
        as_generator("seed")
