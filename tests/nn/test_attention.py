"""Linear attention is attention with the weights of its feature map, however it is computed."""

import functools
import math

import pytest

torch = pytest.importorskip("torch")
nn = pytest.importorskip("dotsketch.nn")
functional = nn.functional

B, H, D, C = 2, 3, 6, 5  # batch, heads, size of keys, size of values
MAPS = {
    "polynomial": lambda: nn.PolynomialMap(D, 7, degree=4, coef0=0.5, generator=0),
    "maclaurin": lambda: nn.SoftmaxMap(D, 60, generator=0),
    "positive": lambda: nn.SoftmaxMap(D, 20, method="positive", generator=0),
    "function": lambda: lambda x: torch.nn.functional.elu(x) + 1,
}


@functools.cache
def make_map(name):
    return MAPS[name]()


def data(length, dtype=torch.float32, keys=None):
    generator = torch.Generator().manual_seed(length)
    shapes = [(B, length, H, D), (B, keys or length, H, D), (B, keys or length, H, C)]
    values = (torch.randn(s, generator=generator, dtype=dtype) for s in shapes)
    # small enough that no sum of weights with signs is near zero, where rounding would grow
    return [(x / 2).requires_grad_() for x in values]


def naive(q, k, v, feature_map, *, causal, mask=None, normalize=True, chunk_size=256):
    """The definition: a matrix of weights, exact ones among the positions of a chunk."""
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    power = getattr(feature_map, "power", 1)
    weights = torch.einsum("bhqf,bhkf->bhqk", feature_map(q), feature_map(k)) ** power
    if hasattr(feature_map, "kernel"):
        same = torch.tensor(k.shape[2] <= chunk_size)
        if causal:
            block = torch.arange(q.shape[2]) // chunk_size
            same = block[:, None] == block[None, :]
        weights = torch.where(same, feature_map.kernel(q, k), weights)
    if causal:
        rows, columns = weights.shape[-2:]
        weights = weights * torch.ones(rows, columns, dtype=torch.bool).tril()
    if mask is not None:
        weights = weights * ~mask[:, None, None, :]
    output = weights @ v
    if normalize:
        sums = weights.sum(-1, keepdim=True)
        seen = torch.arange(1, v.shape[2] + 1) if causal else torch.tensor([v.shape[2]])
        if mask is not None:
            seen = (~mask).cumsum(1) if causal else (~mask).sum(1, keepdim=True)
        least = getattr(feature_map, "least_weight", 0.0)
        sums = torch.maximum(sums, least * seen.to(sums.dtype).reshape(-1, 1, seen.shape[-1], 1))
        output = output / torch.where(sums == 0, torch.ones_like(sums), sums)
    return output.transpose(1, 2)


def with_gradients(function, inputs):
    """The output, and the gradients of a fixed function of it."""
    output = function(*inputs)
    weights = torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)
    return [output, *torch.autograd.grad((output * weights).sum(), inputs)]


def assert_same(found, expected, tolerance=1e-5):
    for a, b in zip(found, expected, strict=True):
        assert (a - b).norm() <= tolerance * max(b.norm(), 1)


@pytest.mark.parametrize("chunk_size", [1, 4, 256])
@pytest.mark.parametrize("length", [1, 13])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", MAPS)
def test_chunks_are_the_definition(name, causal, length, chunk_size):
    mask = torch.zeros(B, length, dtype=torch.bool)
    mask[1, length // 2 :] = True
    mask[0, :1] = length > 1
    inputs, feature_map = data(length), make_map(name)

    for padding, normalize in ((None, True), (mask, True), (mask, False)):
        options = {"causal": causal, "chunk_size": chunk_size, "normalize": normalize}
        run = functools.partial(
            functional.linear_attention, feature_map=feature_map, key_padding_mask=padding
        )
        found = with_gradients(functools.partial(run, **options), inputs)
        definition = functools.partial(naive, feature_map=feature_map, mask=padding, **options)
        assert_same(found, with_gradients(definition, inputs))


@pytest.mark.parametrize("name", ["polynomial", "maclaurin", "function"])
@pytest.mark.parametrize("cuts", [[1] * 13, [5, 3, 5], [4, 8, 1]])
def test_step_by_step_is_one_pass(name, cuts):
    inputs = data(13)
    options = {
        "feature_map": make_map(name), "causal": True, "chunk_size": 4,
        "output_final_state": True,
    }  # fmt: skip
    mask = torch.zeros(B, 13, dtype=torch.bool)
    mask[0, 2:5] = True
    whole, last = functional.linear_attention(*inputs, key_padding_mask=mask, **options)
    state, outputs = None, []
    for part in zip(*(torch.split(x, cuts, dim=1) for x in (*inputs, mask)), strict=True):
        found, state = functional.linear_attention(
            *part[:3], key_padding_mask=part[3], initial_state=state, **options
        )
        outputs.append(found)
    assert_same([torch.cat(outputs, dim=1)], [whole])
    for a, b in zip(state, last, strict=True):
        assert (a is None) == (b is None)
        assert a is None or torch.allclose(a, b, atol=1e-5)
    if name != "function":
        assert last.keys.shape[2] == 1  # 13 = 3 · 4 + 1


def test_a_state_without_order_is_one_pass():
    inputs = data(13)
    options = {"feature_map": make_map("function"), "output_final_state": True}
    whole = functional.linear_attention(*inputs, feature_map=make_map("function"))
    _, state = functional.linear_attention(*(x[:, :6] for x in inputs), **options)
    rest = (x[:, 6:] for x in inputs[1:])
    found, _ = functional.linear_attention(inputs[0], *rest, initial_state=state, **options)
    assert_same([found], [whole])


def test_queries_and_keys_of_other_lengths():
    inputs = data(4, keys=11)
    softmax = make_map("maclaurin")
    found = functional.linear_attention(*inputs, feature_map=softmax, causal=False, chunk_size=3)
    assert_same([found], [naive(*inputs, softmax, causal=False, chunk_size=3)])


def test_few_keys_are_exact_beside_what_came_before():
    q, k, v = data(13)
    softmax = make_map("maclaurin")
    options = {"feature_map": softmax, "normalize": False}
    _, state = functional.linear_attention(q, k, v, output_final_state=True, **options)
    both, last = functional.linear_attention(
        q, k[:, :4], v[:, :4], initial_state=state, output_final_state=True, **options
    )
    before = functional.linear_attention(q, k, v, chunk_size=3, **options)  # through features
    exact = softmax.kernel(q.transpose(1, 2), k[:, :4].transpose(1, 2))
    exact = (exact @ v[:, :4].transpose(1, 2)).transpose(1, 2)
    assert_same([both], [before + exact])
    longer = torch.cat([k, k[:, :4]], dim=1), torch.cat([v, v[:, :4]], dim=1)
    _, once = functional.linear_attention(q, *longer, output_final_state=True, **options)
    assert_same([last.sums], [once.sums])


def test_large_queries_and_keys_stay_finite():
    q, k, v = (100 * x for x in data(13))
    for causal in (False, True):
        output = functional.linear_attention(
            q, k, v, feature_map=make_map("maclaurin"), causal=causal
        )
        assert output.isfinite().all()


@pytest.mark.parametrize("name", ["polynomial", "function"])
def test_gradients_in_double_precision(name):
    inputs = [x[:1, :, :1].detach().double().requires_grad_() for x in data(3)]
    run = functools.partial(functional.linear_attention, feature_map=make_map(name))
    assert torch.autograd.gradcheck(lambda *x: run(*x, causal=True, chunk_size=2), inputs)


class Signed(torch.nn.Module):
    """Features whose weights may be negative, of a kernel that is at least 0.1."""

    least_weight = 0.1

    def forward(self, x):
        return x


@pytest.mark.parametrize("causal", [False, True])
def test_sums_of_weights_have_a_lower_bound(causal):
    q, k, v = data(13)
    mask = torch.zeros(k.shape[:2], dtype=torch.bool)
    mask[0, [0, 3, 7]] = True
    options = {"feature_map": Signed(), "causal": causal}
    unbound = naive(q, k, v, lambda x: x, causal=causal)
    for padding in (None, mask):
        found = functional.linear_attention(
            q, k, v, **options, chunk_size=4, key_padding_mask=padding
        )
        assert_same([found], [naive(q, k, v, Signed(), causal=causal, mask=padding)])
        assert found.abs().max() < unbound.abs().max() / 3  # sums near zero made it large
    state, parts = None, []
    for part in (slice(0, 5), slice(5, 6), slice(6, 13)):
        queries = q[:, part] if causal else q
        found, state = functional.linear_attention(
            queries, k[:, part], v[:, part], **options, initial_state=state, output_final_state=True
        )
        parts.append(found)
    whole = functional.linear_attention(q, k, v, **options)
    assert_same([torch.cat(parts, dim=1) if causal else found], [whole])


def test_softmax_map_knows_the_least_weight():
    feature_map = nn.SoftmaxMap(8, 32, norm=1.5, generator=0)
    x = torch.randn(50, 8, dtype=torch.float64)
    x = 1.5 * x / x.norm(dim=1, keepdim=True)
    least = feature_map.kernel(x, -x).diagonal()  # opposite directions
    torch.testing.assert_close(least, torch.full_like(least, feature_map.least_weight))


def test_many_features_are_softmax_attention():
    q, k, v = (x.detach() for x in data(40))
    q, k = q / 2, k / 2
    exact = torch.nn.functional.scaled_dot_product_attention(
        *(x.transpose(1, 2) for x in (q, k, v)), is_causal=True
    ).transpose(1, 2)
    many = nn.SoftmaxMap(D, 4000, norm=math.sqrt(D) / 2, generator=0)
    found = functional.linear_attention(q, k, v, feature_map=many, causal=True, chunk_size=1)
    assert (found - exact).norm() < 0.02 * exact.norm()
    assert_same([functional.linear_attention(q, k, v, feature_map=many, causal=True)], [exact])


def test_half_precision_is_worked_on_in_single():
    inputs = [x.detach().bfloat16() for x in data(13)]
    feature_map = make_map("polynomial")
    found = functional.linear_attention(*inputs, feature_map=feature_map, causal=True)
    assert found.dtype == torch.bfloat16
    wide = [x.float() for x in inputs]
    expected = functional.linear_attention(*wide, feature_map=feature_map, causal=True)
    assert torch.equal(found, expected.bfloat16())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = functional.linear_attention(*wide, feature_map=feature_map, causal=True)
    assert torch.equal(found, expected)


def test_predicted_errors_are_of_the_norms_in_use():
    softmax = nn.SoftmaxMap(16, 128, generator=0)
    rows = torch.randn(200, 16, generator=torch.Generator().manual_seed(0))
    rows = rows / rows.norm(dim=1, keepdim=True)
    small, usual, large = (softmax.predicted_error(s * softmax.norm * rows) for s in (0.5, 1, 2))
    assert small < usual < large
    assert usual == pytest.approx(softmax.expected_error, rel=0.2)
    k = torch.exp(rows @ rows.T * softmax.norm**2 / 4)
    errors = []
    for seed in range(20):
        Z = softmax.resample_(seed)(softmax.norm * rows)
        off = ~torch.eye(200, dtype=torch.bool)
        errors.append(((Z @ Z.T - k)[off] ** 2).mean() / (k[off] ** 2).mean())
    measured = torch.stack(errors)
    spread = measured.std() / math.sqrt(len(errors))
    assert abs(measured.mean() - usual**2) < 6 * spread + 0.1 * usual**2


@pytest.mark.parametrize("feature_map", ["softmax", "polynomial"])
@pytest.mark.parametrize("qk_norm", [False, True])
def test_multi_head_attention(feature_map, qk_norm):
    torch.manual_seed(0)
    options = {"feature_map": feature_map, "num_features": 64, "causal": True, "qk_norm": qk_norm}
    attention, other = (nn.SketchAttention(12, 3, generator=k, **options) for k in (0, 1))
    x = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(0))
    output, state = attention(x, x, x)
    assert output.shape == x.shape
    assert state is None
    assert not torch.allclose(other(x)[0], output)
    other.load_state_dict(attention.state_dict())
    assert torch.equal(other(x)[0], output)
    # what comes later is not seen, nor is padding
    changed = x.clone()
    changed[:, 5:] = 0
    assert torch.allclose(attention(changed)[0][:, :5], output[:, :5], atol=1e-6)
    mask = torch.zeros(2, 9, dtype=torch.bool)
    mask[:, :3] = True
    padded, noise = x.clone(), torch.randn(2, 3, 12)
    padded[:, :3] = noise
    first, second = (attention(y, key_padding_mask=mask)[0][:, 3:] for y in (x, padded))
    assert torch.allclose(first, second, atol=1e-6)
    # decoding
    steps, state = [], None
    for t in range(9):
        out, state = attention(x[:, t : t + 1], initial_state=state, output_final_state=True)
        steps.append(out)
    assert_same([torch.cat(steps, dim=1)], [output], 1e-4)  # the weights have signs
    attention(x)[0].sum().backward()
    assert all(p.grad is not None for p in attention.parameters())


def test_normalised_queries_have_the_norm_of_the_map():
    attention = nn.SketchAttention(16, 2, num_features=32, qk_norm=True, generator=0)
    for module in (attention.q_norm, attention.k_norm):
        norms = module(torch.randn(50, 8)).norm(dim=-1)
        torch.testing.assert_close(norms, torch.full_like(norms, attention.feature_map.norm))


def test_wrong_arguments_are_named():
    q, k, v = data(4)
    run = functools.partial(functional.linear_attention, feature_map=make_map("polynomial"))
    attention, x = nn.SketchAttention(8, 2, feature_map="polynomial"), torch.ones(1, 2, 8)
    for call, message in (
        (lambda: run(q[0], k[0], v[0]), "batch, time, heads, dim"),
        (lambda: run(q, k[:, :, :1], v), "must agree"),
        (lambda: run(q[:, :2], k, v, causal=True), "one key for every query"),
        (lambda: run(q, k, v, key_padding_mask=torch.ones(2, 4)), "key_padding_mask must be"),
        (lambda: nn.PolynomialMap(4, degree=3), "must be even"),
        (lambda: nn.SoftmaxMap(4, method="other"), "method must be"),
        (lambda: nn.SketchAttention(10, 3), "multiple of num_heads"),
        (lambda: nn.SketchAttention(9, 3, feature_map="other"), "feature_map must be"),
        (lambda: attention(x, need_weights=True), "need_weights"),
        (lambda: attention(x, attn_mask=torch.ones(2, 2)), "attn_mask"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
