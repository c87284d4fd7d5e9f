"""The modules under torch.compile: the same numbers, in one graph where nothing is in the way."""

import os

import pytest

from dotsketch import FourierFeatures, Gaussian, NystromFeatures

torch = pytest.importorskip("torch")
nn = pytest.importorskip("dotsketch.nn")

# array-api-compat caches the answer to "whose array is this?", which Dynamo mentions and traces
# and it looks at .grad of tensors between two graphs
pytestmark = [
    pytest.mark.skipif(
        os.environ.get("DOTSKETCH_FAST") == "0", reason="it is portable code anyway"
    ),
    pytest.mark.filterwarnings("ignore:Dynamo detected a call to a `functools.lru_cache`"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf"),
]
ROWS = torch.randn(20, 6, generator=torch.Generator().manual_seed(0)) / 2


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def with_gradient(module, x):
    x = x.clone().requires_grad_()
    output = module(x)
    output = output[0] if isinstance(output, tuple) else output
    output.square().sum().backward()
    return output, x.grad


@pytest.mark.parametrize("options", [{}, {"sketch": "tensor_sketch", "trainable": True}], ids=str)
def test_a_sketch_layer_is_one_graph(options):
    layer = nn.SketchLayer(6, 8, degree=2, coef0=0.5, generator=0, **options)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(with_gradient(compiled, ROWS), with_gradient(layer, ROWS))


@pytest.mark.parametrize("feature_map", ["softmax", "polynomial"])
def test_attention_is_one_graph(feature_map):
    attention = nn.SketchAttention(
        12, 3, feature_map=feature_map, num_features=16, causal=True, chunk_size=8, generator=0
    )
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    for length in (9, 12):  # the second time lengths are symbols
        x = torch.randn(2, length, 12, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(with_gradient(compiled, x), with_gradient(attention, x))


@pytest.mark.parametrize(
    ("features", "trainable"),
    [
        (FourierFeatures(Gaussian(), n_components=8), True),
        (NystromFeatures(Gaussian(), n_components=8), False),
    ],
    ids=str,
)
def test_a_feature_layer_is_one_graph(features, trainable):
    rows = ROWS.double()
    layer = nn.FeatureLayer(features.fit(rows), trainable=trainable)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(with_gradient(compiled, rows), with_gradient(layer, rows))
    weights = [p for p in layer.parameters() if p.numel()]
    assert bool(weights) == trainable
    first, second = (
        torch.autograd.grad(run(rows).square().sum(), weights) if weights else ()
        for run in (compiled, layer)
    )
    torch.testing.assert_close(first, second)


def test_pooling_is_one_graph():
    pool = nn.CompactBilinearPooling(6, 6, 8, generator=0)
    compiled = torch.compile(pool, fullgraph=True, backend="aot_eager")
    x = ROWS[:, :, None].expand(-1, -1, 3)
    torch.testing.assert_close(with_gradient(compiled, x), with_gradient(pool, x))
