"""Compact bilinear pooling is the count sketch of an outer product."""

import pytest

torch = pytest.importorskip("torch")
nn = pytest.importorskip("dotsketch.nn")


def by_definition(pool, x, y):  # (batch, channels, locations) -> (batch, out, locations)
    """Coordinate (i, j) of x ⊗ y is added to column (h(i) + g(j)) mod D, with its sign."""
    first, second = pool.assembled()
    result = torch.zeros(x.shape[0], pool.out_features, x.shape[2], dtype=x.dtype)
    for i, (a, s) in enumerate(zip(first.buckets.tolist(), first.turns.tolist(), strict=True)):
        for j, (b, t) in enumerate(
            zip(second.buckets.tolist(), second.turns.tolist(), strict=True)
        ):
            result[:, (a + b) % pool.out_features] += (1 - s) * (1 - t) * x[:, i] * y[:, j]
    return result


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("out_features", [1, 7, 16])
def test_pooling_is_the_definition(out_features, balanced):
    pool = nn.CompactBilinearPooling(4, 5, out_features, balanced=balanced, generator=0)
    each = nn.CompactBilinearPooling(4, 5, out_features, False, balanced=balanced, generator=0)
    x = torch.randn(2, 4, 3, 2, dtype=torch.float64, requires_grad=True)
    y = torch.randn(2, 5, 3, 2, dtype=torch.float64, requires_grad=True)
    expected = by_definition(pool, x.flatten(2), y.flatten(2))
    torch.testing.assert_close(each(x, y), expected.unflatten(2, (3, 2)))
    torch.testing.assert_close(pool(x, y), expected.sum(2))
    torch.testing.assert_close(pool(x[:, :, 0, 0], y[:, :, 0, 0]), expected[:, :, 0])
    torch.testing.assert_close(each(x[:, :, 0, 0], y[:, :, 0, 0]), expected[:, :, 0])
    assert torch.autograd.gradcheck(pool, (x, y))


def test_dot_products_are_those_of_bilinear_pooling_on_average():
    x = torch.rand(2, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pool = nn.CompactBilinearPooling(6, 6, 32)
    outer = torch.einsum("bil,bjl->bij", x, x).flatten(1)
    exact = (outer @ outer.T)[0, 1]
    draws = []
    for seed in range(300):
        Z = pool.resample_(seed)(x)
        draws.append((Z @ Z.T)[0, 1])
    draws = torch.stack(draws)
    assert abs(draws.mean() - exact) < 6 * draws.std() / 300**0.5
    assert draws.std() < exact  # the threshold is smaller than the value


def test_state_dict_half_precision_and_messages():
    pool = nn.CompactBilinearPooling(6, 6, 32, generator=0)
    other = nn.CompactBilinearPooling(6, 6, 32, generator=1)
    x = torch.randn(2, 6, 4)
    assert not torch.allclose(pool(x), other(x))
    other.load_state_dict(pool.state_dict())
    assert torch.equal(pool(x), other(x))
    half = pool(x.bfloat16())
    assert torch.equal(half, pool(x.bfloat16().float()).bfloat16())
    with pytest.raises(ValueError, match="same batch and locations"):
        pool(x, x[:, :, :2])
    with pytest.raises(ValueError, match="Input 2 must have 6 channels"):
        pool(x, torch.randn(2, 5, 4))
