"""Chunks of any library, gradients through them, and the helpers of `_arrays`."""

import numpy as np
import pytest
from scipy import sparse

from dotsketch import PolynomialSketch
from dotsketch._arrays import OUTPUTS, join
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


def scalar(model, X, weight, xp):
    """A real function of all features: Σ weight · Re z + 2 weight · Im z."""
    Z = model.transform(X)
    if model.output != "complex":
        return (weight * Z).sum()
    return (weight * xp.real(Z)).sum() + 2 * (weight * xp.imag(Z)).sum()


@every_output
@every_sketch
def test_gradients_through_chunks(name, output, X, rng, small_chunks):
    torch = pytest.importorskip("torch")
    model, weight = features(output, sketch=name), rng.standard_normal((5, 6))
    rows = torch.tensor(X[:5], requires_grad=True)
    assert torch.autograd.gradcheck(model.transform, (rows,))
    if compiles_quickly(model.get_params(), output):
        jax = pytest.importorskip("jax")
        scalar(model, rows, torch.tensor(weight), torch).backward()
        gradient = jax.jit(jax.grad(lambda A: scalar(model, A, weight, jax.numpy)))
        np.testing.assert_allclose(gradient(X[:5]), rows.grad, rtol=1e-6, atol=1e-7)


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


def test_largest_entry(library):
    assert largest_entry(library.asarray([[1.0, -3.0], [2.0, 0.0]])) == 3.0
    assert largest_entry(sparse.csr_array([[0.0, -3.0], [2.0, 0.0]])) == 3.0


def test_join_needs_an_imaginary_part(X):
    for output in ("complex", "complex_to_real"):
        with pytest.raises(ValueError, match=f'output="{output}" needs a complex sketch'):
            join((X, None), output)
