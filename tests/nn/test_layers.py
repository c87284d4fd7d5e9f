"""Layers: the features of the estimators, in any shape and dtype, with weights as buffers."""

import copy

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

from dotsketch import (
    FourierFeatures,
    Gaussian,
    NystromFeatures,
)
from dotsketch.sketches import SKETCHES
from laws import subjects
from laws.subjects import CONFIGURATIONS, FEATURE_MAPS

torch = pytest.importorskip("torch")
nn = pytest.importorskip("dotsketch.nn")

X = np.random.default_rng(0).standard_normal((30, 6)) / 3
ROWS = torch.from_numpy(X)
INPUTS = torch.from_numpy(subjects.X)  # of feature maps that are fitted


def reference(layer, rows):
    """The features of a SketchLayer by its sketch and NumPy weights."""
    weights = layer.sketch.sample(layer._width, np.random.default_rng(0))
    inputs = np.sqrt(layer.gamma) * rows
    if layer.coef0:
        inputs = np.hstack([inputs, np.full((len(rows), 1), np.sqrt(layer.coef0))])
    return layer.sketch.apply(inputs, weights, output=layer.output)


@pytest.mark.parametrize("output", ["real", "complex", "complex_to_real"])
@pytest.mark.parametrize("sketch", SKETCHES)
def test_a_sketch_layer_is_its_sketch(sketch, output):
    layer = nn.SketchLayer(
        6, 10, degree=3, sketch=sketch, output=output, gamma=0.5, coef0=0.3, generator=0
    ).double()
    found = layer(ROWS.reshape(5, 3, 2, 6))
    assert found.shape == (5, 3, 2, 10)
    np.testing.assert_allclose(found.reshape(30, 10).numpy(), reference(layer, X), atol=1e-6)


@pytest.mark.filterwarnings("ignore:projection=.sorf. in:UserWarning")
@pytest.mark.parametrize("features", [*CONFIGURATIONS, FEATURE_MAPS["auto"]], ids=str)
def test_a_feature_layer_is_its_feature_map(features):
    features = clone(features).fit(subjects.X)
    layer = nn.FeatureLayer(features)
    expected = features.transform(subjects.X)
    np.testing.assert_allclose(layer(INPUTS).numpy(), expected, rtol=1e-9, atol=1e-12)
    found = layer(INPUTS.float().reshape(4, 20, 5))
    assert found.shape == (4, 20, expected.shape[1])
    np.testing.assert_allclose(found.reshape(80, -1).numpy(), expected, rtol=1e-4, atol=1e-5)
    rows = INPUTS.clone().requires_grad_()
    layer(rows).abs().sum().backward()
    assert torch.isfinite(rows.grad).all()
    assert rows.grad.abs().sum() > 0


def test_a_layer_of_sparse_landmarks_has_dense_ones():
    rows = np.zeros((30, 60))
    rows[np.arange(30), np.arange(30)] = 1 + np.arange(30) / 10
    features = NystromFeatures(Gaussian(), n_components=8, random_state=0)
    features.fit(scipy.sparse.csr_array(rows))
    layer = nn.FeatureLayer(features)
    assert any(value.shape == (16, 60) for value in layer.state_dict().values())
    found = layer(torch.as_tensor(rows)).numpy()
    np.testing.assert_allclose(found, features.transform(rows), atol=1e-12)


@pytest.mark.parametrize("name", FEATURE_MAPS)
def test_the_state_dict_holds_the_weights(name):
    """The layer of another draw becomes this one, and weights are drawn anew in place."""
    first, second = (
        nn.FeatureLayer(clone(FEATURE_MAPS[name]).set_params(random_state=seed).fit(subjects.X))
        for seed in (0, 1)
    )
    if name != "auto":  # which may choose others
        assert not torch.allclose(first(INPUTS), second(INPUTS))
        second.load_state_dict(first.state_dict())
        torch.testing.assert_close(first(INPUTS), second(INPUTS))
    before = first(INPUTS)
    names = sorted(first.state_dict())
    first.resample_(3, *([subjects.X] if name in ("auto", "nystrom") else []))
    assert not torch.allclose(first(INPUTS), before)
    assert sorted(first.state_dict()) == names


@pytest.mark.parametrize("sketch", SKETCHES)
def test_a_sketch_layer_survives_state_dict_and_is_deterministic(sketch):
    def make(seed):
        generator = torch.Generator().manual_seed(seed)
        return nn.SketchLayer(6, 10, degree=2, sketch=sketch, generator=generator)

    x = ROWS.float()
    first, same, other = make(0), make(0), make(1)
    assert torch.equal(first(x), same(x))
    assert not torch.allclose(first(x), other(x))
    other.load_state_dict(first.state_dict())
    assert torch.equal(first(x), other(x))
    assert torch.equal(copy.deepcopy(first)(x), first(x))
    first.resample_(torch.Generator().manual_seed(1))
    assert torch.equal(first(x), make(1)(x))
    torch.manual_seed(5)
    one = nn.SketchLayer(6, 10)(x)
    torch.manual_seed(5)
    assert torch.equal(one, nn.SketchLayer(6, 10)(x))


@pytest.mark.parametrize("sketch", ["tensor_srht", "tensor_sketch", "gaussian", "tree_srht"])
def test_gradients_in_double_precision(sketch):
    layer = nn.SketchLayer(4, 6, degree=3, sketch=sketch, coef0=0.5, generator=0).double()
    rows = ROWS[:2, :4].clone().requires_grad_()
    assert torch.autograd.gradcheck(layer, (rows,))
    trained = nn.SketchLayer(4, 6, degree=2, sketch=sketch, trainable=True, generator=0).double()
    plain = nn.SketchLayer(4, 6, degree=2, sketch=sketch, generator=0).double()
    torch.testing.assert_close(trained(rows), plain(rows))
    names = [name for name, _ in trained.named_parameters()]
    assert names

    def function(rows, *parameters):
        named = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(trained, named, (rows,))

    values = tuple(p.detach().clone().requires_grad_() for p in trained.parameters())
    assert torch.autograd.gradcheck(function, (rows, *values))


def test_trained_features_learn():
    features = FourierFeatures(Gaussian(lengthscale=1.0), n_components=8, random_state=0).fit(X)
    layer = nn.FeatureLayer(features, trainable=True)
    target = torch.sin(4 * ROWS[:, :1])
    head = torch.nn.Linear(8, 1).double()
    optimiser = torch.optim.Adam([*layer.parameters(), *head.parameters()], lr=0.05)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = torch.mean((head(layer(ROWS)) - target) ** 2)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_worked_on_in_single(dtype):
    layer = nn.SketchLayer(6, 16, degree=3, generator=0)
    x = ROWS.to(dtype)
    found = layer(x)
    assert found.dtype == dtype
    assert torch.equal(found, layer(x.float()).to(dtype))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer(x.float()), layer(x.float()))
        assert layer(x.float()).dtype == torch.float32
        portable = nn.SketchLayer(6, 16, degree=3, trainable=True, generator=0)
        torch.testing.assert_close(portable(x.float()), layer(x.float()))


def test_transforms_of_functions():
    """vmap over rows and over draws, and a Jacobian, agree with loops."""
    layer = nn.SketchLayer(6, 8, degree=3, sketch="tensor_sketch", generator=0).double()
    torch.testing.assert_close(torch.func.vmap(layer)(ROWS), layer(ROWS))
    jacobian = torch.func.vmap(torch.func.jacrev(layer))(ROWS[:3])
    expected = torch.autograd.functional.jacobian(layer, ROWS[0])
    torch.testing.assert_close(jacobian[0], expected)
    layers = [nn.SketchLayer(6, 8, degree=2, generator=seed).double() for seed in range(3)]
    stacked = {
        name: torch.stack([layer.state_dict()[name] for layer in layers])
        for name in layers[0].state_dict()
    }
    found = torch.func.vmap(
        lambda buffers: torch.func.functional_call(layers[0], buffers, (ROWS,))
    )(stacked)
    torch.testing.assert_close(found, torch.stack([layer(ROWS) for layer in layers]))


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="must have 6 entries"):
        nn.SketchLayer(6, 4)(torch.ones(2, 5))
    for options, message in (
        ({"output": "complex_to_real"}, "use 4"),
        ({"output": "other"}, "output must be"),
        ({"gamma": 0.0}, "gamma must be"),
        ({"output": "complex", "trainable": True}, "real weights"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.SketchLayer(6, 3, **options)
    with pytest.raises(TypeError, match="feature map"):
        nn.FeatureLayer(torch.nn.Linear(2, 3))
