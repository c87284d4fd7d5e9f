"""Features of any data of any shape are finite and of the right shape, or refused clearly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dotsketch import PolynomialSketch
from dotsketch.sketches import SKETCHES


@st.composite
def data(draw):
    """Few rows and columns: zero rows, constant columns, huge and tiny norms among them."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 9)))
    width = 32 if dtype == np.float32 else 64
    entries = st.floats(-2, 2, width=width) | st.sampled_from([0.0, 1.0])
    X = draw(arrays(dtype, shape, elements=entries))
    scale = draw(st.sampled_from([0.0, 1e-30, 1e-6, 1.0, 1.0, 1e6, 1e30]))
    return (X * dtype(scale)).astype(dtype)


@st.composite
def models(draw):
    output = draw(st.sampled_from(["real", "complex", "complex_to_real"]))
    n_components = draw(st.integers(1, 9))
    return PolynomialSketch(
        draw(st.integers(1, 6)),
        sketch=draw(st.sampled_from(sorted(SKETCHES))),
        output=output,
        n_components=2 * n_components if output == "complex_to_real" else n_components,
        coef0=draw(st.sampled_from([0.0, 0.5])),
        compact=draw(st.sampled_from([None, None, 2])),
        random_state=draw(st.integers(0, 3)),
    )


@given(data(), models())
def test_features_are_finite_or_refused(X, model):
    refusal = ""
    try:
        Z = model.fit(X).transform(X)
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert "overflow" in refusal
        return
    assert Z.shape == (X.shape[0], model.n_components)
    assert Z.dtype == (
        np.result_type(X.dtype, np.complex64) if model.output == "complex" else X.dtype
    )
    assert np.all(np.isfinite(Z))


@given(data(), models())
def test_features_are_homogeneous(X, model):
    """z(2x) = 2ᵖ z(x) exactly for coef0 = 0: powers of two do not round."""
    X = np.clip(X.astype(np.float64), -2, 2)
    model.set_params(coef0=0.0).fit(X)
    np.testing.assert_allclose(
        model.transform(2 * X), 2**model.degree * model.transform(X), rtol=1e-9, atol=1e-300
    )


@given(data(), models())
def test_variance_is_finite_and_not_negative(X, model):
    X = np.clip(X, -2, 2)
    try:
        V = model.fit(X).variance(X)
    except NotImplementedError:
        assert model.compact is not None
        assert "tensor_sketch" in model.sketch
        return
    assert V.shape == (X.shape[0], X.shape[0])
    assert V.dtype == np.float64
    assert np.all(np.isfinite(V))
    assert np.all(V >= 0)
    np.testing.assert_allclose(V, V.T, rtol=1e-6, atol=1e-9 * (1 + V.max()))
