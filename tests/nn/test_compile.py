"""The modules under torch.compile: the same numbers, in one graph where nothing is in the way."""

import os

import pytest

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


def test_attention_with_polynomial_features_is_one_graph():
    attention = nn.SketchAttention(
        12, 3, feature_map="polynomial", num_features=8, causal=True, chunk_size=4, generator=0
    )
    x = torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(with_gradient(compiled, x), with_gradient(attention, x))


def test_attention_with_softmax_features():
    """The features of an estimator are computed outside of the graph."""
    attention = nn.SketchAttention(12, 3, num_features=64, causal=True, chunk_size=4, generator=0)
    x = torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(0))
    compiled = torch.compile(attention, backend="aot_eager")
    torch.testing.assert_close(with_gradient(compiled, x), with_gradient(attention, x))


def test_pooling_is_one_graph():
    pool = nn.CompactBilinearPooling(6, 6, 8, generator=0)
    compiled = torch.compile(pool, fullgraph=True, backend="aot_eager")
    x = ROWS[:, :, None].expand(-1, -1, 3)
    torch.testing.assert_close(with_gradient(compiled, x), with_gradient(pool, x))
