"""pair_gram and pair_terms: the compiled passes equal the sums written out in NumPy."""

from math import comb

import numpy as np
import pytest

from _backends.test_kernels import run_with_environment
from dotsketch._backends import cpp

if not cpp.AVAILABLE:
    pytest.skip("The compiled kernels are not built.", allow_module_level=True)


def power_difference(a, b, difference, n):
    """aⁿ − bⁿ without cancellation."""
    return difference * sum(a**k * b ** (n - 1 - k) for k in range(n))


def differences(s, x, shared, n):
    return [power_difference(s + y, s, y, n) for y in (x, -shared * x)]


def expansions(s, x, y, n, order):
    """Coefficients of the powers of ρ, written out."""
    one_equal, none_equal = [], []
    for k in range(1, order + 1):
        factor = (-1) ** k * comb(n, k)  # 0 beyond n
        rest = max(n - k, 0)
        one_equal.append(factor * (y**k * (s + x) ** rest + x**k * (s + y) ** rest))
        none_equal.append(factor * (x + y) ** k * s**rest)
    both = power_difference(s + x + y, s, x + y, n)
    constant = power_difference(s + x, s, x, n) + power_difference(s + y, s, y, n)
    return [both, constant, *one_equal, *none_equal]


def n_terms(p):
    return 2 if p["crossed"] is None else 2 + 2 * p["order"]


def naive(p):
    """The outputs of both passes, started at zero, formula by formula."""
    counted = np.ones(p["dot"].shape)
    if p["skip_diagonal"]:
        np.fill_diagonal(counted, 0)
    dot, squares, values = p["dot"], p["squares"], p["values"]
    B = len(p["degrees"])
    weights = p["left"][:, None, :] * p["right"][None, :, :]
    t = weights * dot[:, :, None] ** p["degrees"]
    rest = values - t.sum(axis=2)
    s = dot**2
    N = p["left_lengths"][:, None] * p["right_lengths"][None, :]
    beta, gamma = np.maximum(N - squares, 0), s - squares
    terms = np.zeros((B, n_terms(p)))

    def excess(f, g, h, clip):
        x = f * beta + g * gamma + h * squares
        return np.maximum(x, 0) if clip else x

    for e, row in enumerate(p["straight"]):
        x = excess(*row)
        y = None if p["crossed"] is None else excess(*p["crossed"][e])
        for b, n in enumerate(p["degrees"]):
            values_b = (
                differences(s, x, p["shared"], n)
                if y is None
                else expansions(s, x, y, n, p["order"])
            )
            terms[b] += [np.sum(counted * weights[:, :, b] ** 2 * value) for value in values_b]
    return {
        "gram": np.einsum("ijb,ijc,ij->bc", t, t, counted),
        "tail": np.einsum("ijb,ij,ij->b", t, rest, counted),
        "squares_out": np.array([np.sum(counted * rest**2), np.sum(counted * values**2)]),
        "terms": terms / len(p["straight"]),
    }


CROSSED = np.array([[0.2, 1.0, 0.0, 0.0], [1.0, 0.0, 0.1, 0.0]])


def problem(
    r=5, c=9, degrees=(0, 1, 2, 3), E=1, shared=0.25, skip_diagonal=False, seed=0, order=None
):
    rng = np.random.default_rng(seed)
    d, B = 5, len(degrees)

    def unit(n):
        U = rng.normal(size=(n, d)) + 0.5
        U /= np.linalg.norm(U, axis=1, keepdims=True)
        U[rng.random(n) < 0.1] = 0
        return U

    U, V = unit(r), unit(c)
    straight = np.array([[1.0, 0.5, 0.2, 1.0], [0.3, 1.0, 0.0, 0.0]])[:E]
    return {
        "dot": U @ V.T,
        "squares": U**2 @ (V**2).T,
        "values": rng.normal(size=(r, c)),
        "left": rng.normal(size=(r, B)),
        "right": rng.normal(size=(c, B)),
        "degrees": np.array(degrees, dtype=np.int32),
        "left_lengths": (U**2).sum(axis=1),
        "right_lengths": (V**2).sum(axis=1),
        "straight": straight,
        "crossed": None if order is None else CROSSED[:E].copy(),
        "shared": shared,
        "order": 0 if order is None else order,
        "skip_diagonal": skip_diagonal,
    }


def outputs(p):
    B = len(p["degrees"])
    return {
        "gram": np.zeros((B, B)),
        "tail": np.zeros(B),
        "squares_out": np.zeros(2),
        "terms": np.zeros((B, n_terms(p))),
    }


ONLY_GRAM = {"values", "gram", "tail", "squares_out"}
ONLY_TERMS = {
    *("squares", "left_lengths", "right_lengths", "straight", "crossed"),
    *("shared", "order", "terms"),
}


def call(arguments):
    cpp.pair_gram(**{k: v for k, v in arguments.items() if k not in ONLY_TERMS})
    cpp.pair_terms(**{k: v for k, v in arguments.items() if k not in ONLY_GRAM})


def run(p, out=None):
    out = outputs(p) if out is None else out
    call({**p, **out})
    return out


def magnitudes(p):
    """Sums of moduli, the scale of rounding."""
    positive = {k: np.abs(v) if isinstance(v, np.ndarray) else v for k, v in p.items()}
    positive["values"] = np.abs(p["values"])
    sums = naive({**positive, "skip_diagonal": False, "shared": -p["shared"]})
    sums["terms"] = np.abs(sums["terms"])
    B = len(p["degrees"])
    rest = np.abs(p["values"]) + np.abs(
        p["left"][:, None] * p["right"][None] * np.abs(p["dot"])[:, :, None] ** p["degrees"]
    ).sum(axis=2)
    sums["squares_out"] = np.array([np.sum(rest**2), np.sum(rest**2)])
    sums["tail"] = np.full(B, np.sqrt(np.sum(rest**2) * sums["gram"].trace()))
    return sums


def assert_agrees(p, actual, expected):
    scale = magnitudes(p)
    for name, value in expected.items():
        assert np.all(np.isfinite(value)), name
        error = np.abs(actual[name] - value)
        assert np.all(error <= 1e-13 * scale[name] + 1e-300), (name, error / (scale[name] + 1e-300))


SHAPES = [
    (0, 5),
    (5, 0),
    (1, 1),
    (1, 2),
    (2, 1),
    (3, 3),
    (2, 7),
    (3, 8),
    (5, 9),
    (4, 63),
    (7, 64),
    (3, 65),
    (70, 130),
    (131, 20),
]
DEGREES = [
    (0,),
    (1,),
    (5,),
    (0, 1),
    (0, 1, 2),
    (3, 1, 1, 0),
    (2, 2),
    (0, 2, 7),
    tuple(range(11)),
    (9, 0, 4, 4, 0, 1, 30),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("degrees", DEGREES, ids=str)
def test_agrees_with_numpy(shape, degrees):
    for E in (1, 2):
        for shared in (0.0, 0.25):
            for skip in (False, True):
                p = problem(*shape, degrees, E, shared, skip, seed=sum(shape) + len(degrees))
                assert_agrees(p, run(p), naive(p))


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (3, 65), (70, 130), (131, 20)], ids=str)
@pytest.mark.parametrize("degrees", DEGREES, ids=str)
@pytest.mark.parametrize("order", [0, 1, 3, 11])
def test_expansions_agree_with_numpy(shape, degrees, order):
    for E in (1, 2):
        p = problem(*shape, degrees, E, skip_diagonal=E == 2, order=order, seed=len(degrees))
        assert_agrees(p, run(p), naive(p))


@pytest.mark.parametrize("order", [None, 3])
@pytest.mark.parametrize("columns", [128, 129, 300])
def test_diagonal_in_every_strip_is_skipped(columns, order):
    """The kernels walk strips of 128 columns; the diagonal crosses several of them."""
    p = problem(columns, columns, (0, 1, 3), skip_diagonal=True, order=order)
    assert_agrees(p, run(p), naive(p))
    expected = run(p)
    for name in ("dot", "squares", "values"):
        p[name] = p[name].copy()
        np.fill_diagonal(p[name], np.nan)
    for name, value in run(p).items():
        np.testing.assert_array_equal(value, expected[name])


def test_largest_case():
    p = problem(6, 70, tuple(np.random.default_rng(1).permutation(np.arange(128) % 65)), 2)
    assert_agrees(p, run(p), naive(p))
    p = problem(3, 35, tuple(range(65)), 2, order=64)
    assert_agrees(p, run(p), naive(p))


def test_tiny_excess_keeps_its_digits():
    p = problem(6, 10, tuple(range(6)), shared=0.5)
    p["straight"] = np.array([[1e-14, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(run(p)["terms"], naive(p)["terms"], rtol=1e-13)


def test_adds_to_what_is_there_the_same_bits_at_every_call():
    p = problem(33, 100, tuple(range(11)))
    once, again, twice = run(p), run(p), run(p, run(p))
    for name, value in once.items():
        np.testing.assert_array_equal(again[name], value)
        np.testing.assert_array_equal(twice[name], 2 * value)
    np.testing.assert_array_equal(once["gram"], once["gram"].T)


def test_nan_is_not_hidden():
    p = problem()
    p["squares"][2, 3] = np.nan
    assert np.isnan(run(p)["terms"][1, 0])


def test_row_strides():
    p = problem(12, 20)
    expected = run(p)
    for name in ("dot", "squares", "values"):
        wide = np.full((24, 27), np.nan)
        wide[::2, 3:23] = p[name]
        p[name] = wide[::2, 3:23]
    for name, value in run(p).items():
        np.testing.assert_array_equal(value, expected[name])


@pytest.mark.parametrize(
    ("name", "change", "error", "message"),
    [
        ("dot", lambda a: a.astype(np.float32), TypeError, "dot must be of type float64"),
        ("values", lambda a: a.astype(int), TypeError, "values must be of type float64"),
        ("dot", lambda a: np.asfortranarray(a), ValueError, "rows of dot must be contiguous"),
        ("squares", lambda a: a[:, :-1], ValueError, "same shape"),
        ("values", lambda a: a[0], ValueError, "values must have 2 axes"),
        ("left", lambda a: a[:-1].copy(), ValueError, r"left must have shape \(5, 4\)"),
        ("right", lambda a: a.T, ValueError, "right must be C-contiguous"),
        ("right", lambda a: a.T.copy(), ValueError, r"right must have shape \(9, 4\)"),
        ("left_lengths", lambda a: a[1:], ValueError, r"left_lengths must have shape \(5,\)"),
        ("right_lengths", lambda a: a[::2], ValueError, "right_lengths must be C-contiguous"),
        ("degrees", lambda a: a.astype(np.int64), TypeError, "degrees must be of type int32"),
        ("degrees", lambda a: a - 1, ValueError, "degrees must lie in 0, ..., 64"),
        ("degrees", lambda a: a + 62, ValueError, "degrees must lie in 0, ..., 64"),
        ("degrees", lambda a: a[:0], ValueError, "degrees must have 1 to 128 blocks"),
        ("degrees", lambda a: a[:2], ValueError, "left must have shape"),
        (
            "straight",
            lambda a: np.vstack([a, a, a]),
            ValueError,
            r"straight must have shape \(1, 4",
        ),
        ("straight", lambda a: a[:, :3].copy(), ValueError, r"straight must have shape \(1, 4\)"),
        ("crossed", lambda a: CROSSED, ValueError, r"crossed must have shape \(1, 4\)"),
        ("crossed", lambda a: CROSSED[:1].tolist(), TypeError, "incompatible"),
        ("order", lambda a: -1, ValueError, "order must lie in 0, ..., 64"),
        ("order", lambda a: 65, ValueError, "order must lie in 0, ..., 64"),
        ("gram", lambda a: a[:-1], ValueError, r"gram must have shape \(4, 4\)"),
        ("tail", lambda a: a[:-1], ValueError, r"tail must have shape \(4,\)"),
        ("terms", lambda a: a.T, ValueError, "terms must be C-contiguous"),
        ("squares_out", lambda a: np.zeros(3), ValueError, r"squares_out must have shape \(2,\)"),
        ("gram", lambda a: np.broadcast_to(a, a.shape), TypeError, "incompatible"),
        ("terms", lambda a: np.zeros((4, 4)), ValueError, r"terms must have shape \(4, 2\)"),
    ],
)
def test_errors(name, change, error, message):
    p = {**problem(), **outputs(problem())}
    p[name] = change(p[name])
    with pytest.raises(error, match=message):
        call(p)


ISA_SCRIPT = """
import sys
sys.path[:0] = sys.argv[1:]
from _backends.test_kernel_pair_sums import assert_agrees, naive, problem, run
from dotsketch._backends import cpp
for shape in ((1, 1), (5, 9), (140, 140)):
    for order in (None, 0, 3):
        for E in (1, 2):
            p = problem(*shape, tuple(range(11)), E, skip_diagonal=E == 2, order=order)
            assert_agrees(p, run(p), naive(p))
print(cpp.ISA)
"""


@pytest.mark.parametrize("isa", ["baseline", "v3", "v4"])
def test_agrees_with_numpy_for_every_instruction_set(isa):
    """To rounding: sums, unlike features, may have other bits where products are fused."""
    run = run_with_environment(ISA_SCRIPT, DOTSKETCH_ISA=isa)
    if run.returncode != 0 and "this CPU lacks it" in run.stderr:
        assert isa != "baseline", run.stderr
        pytest.skip(f"This CPU does not run {isa}.")
    assert run.stdout.split() == [isa], run.stderr
