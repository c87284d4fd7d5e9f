"""The exact kernels: closed forms, Maclaurin series, parameters and messages."""

import math

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits

from dotsketch import ArcCosine, Exponential, Gaussian, Maclaurin, Matern, Polynomial
from dotsketch.kernels import directions, median_distance

KERNELS = [
    Polynomial(3),
    Polynomial(2, gamma=0.5, coef0=0.0, variance=2.0),
    Exponential(lengthscale=1.3, variance=0.5),
    Gaussian(lengthscale=0.8, variance=3.0),
    Gaussian(lengthscale=[0.5, 1.0, 2.0, 1.0, 3.0]),
    Maclaurin([0.5, 1, 0, 2], gamma=0.7, variance=2.0),
    ArcCosine(0),
    ArcCosine(1, variance=2.0),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def closed_form(kernel, x, y):
    t = x @ y
    if isinstance(kernel, Polynomial):
        return kernel.variance * (kernel.gamma * t + kernel.coef0) ** kernel.degree
    if isinstance(kernel, Exponential):
        return kernel.variance * math.exp(t / kernel.lengthscale**2)
    if isinstance(kernel, Gaussian):
        difference = (x - y) / np.asarray(kernel.lengthscale)
        return kernel.variance * math.exp(-difference @ difference / 2)
    if isinstance(kernel, Maclaurin):
        series = sum(a * (kernel.gamma * t) ** n for n, a in enumerate([0.5, 1, 0, 2]))
        return kernel.variance * series
    cosine = t / math.sqrt((x @ x) * (y @ y))
    angle = math.acos(min(1, max(-1, cosine)))
    if kernel.order == 0:
        return kernel.variance * (1 - angle / math.pi)
    sine = math.sin(angle)
    return kernel.variance * (sine + (math.pi - angle) * cosine) / math.pi


@every_kernel
def test_gram_matrix_is_the_closed_form(kernel, X, rng, library):
    Y = rng.standard_normal((3, 5))
    expected = [[closed_form(kernel, x, y) for y in Y] for x in X]
    K = library.numpy(kernel(library.asarray(X), library.asarray(Y)))
    np.testing.assert_allclose(K, expected, rtol=1e-12, atol=1e-14)


@every_kernel
def test_kernel_is_its_weighted_series(kernel, X, rng):
    """k(x, y) = w(x) w(y) Σ a_n ⟨s(x), s(y)⟩ⁿ, the triple that features are built from."""
    Y = rng.standard_normal((3, 5)) / 3
    t = kernel.scale(X) @ kernel.scale(Y).T
    a = kernel.coefficients(1000 if isinstance(kernel, ArcCosine) else 40)
    assert np.all(a >= 0)
    series = sum(c * t**n for n, c in enumerate(a))
    K = kernel.weight(X)[:, None] * kernel.weight(Y)[None, :] * series
    np.testing.assert_allclose(K, kernel(X, Y), rtol=1e-10)


@every_kernel
def test_coefficients_of_a_lower_degree_are_the_first_ones(kernel):
    for degree in range(8):
        a = kernel.coefficients(degree)
        assert a.shape == (degree + 1,)
        np.testing.assert_array_equal(a, kernel.coefficients(20)[: degree + 1])


def test_arc_cosine_coefficients_by_hand():
    pi = math.pi
    np.testing.assert_allclose(
        ArcCosine(0).coefficients(5), [1 / 2, 1 / pi, 0, 1 / (6 * pi), 0, 3 / (40 * pi)]
    )
    np.testing.assert_allclose(
        ArcCosine(1).coefficients(5), [1 / pi, 1 / 2, 1 / (2 * pi), 0, 1 / (24 * pi), 0]
    )
    assert np.all(np.isfinite(ArcCosine(1).coefficients(5000)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gaussian_kernel_of_huge_and_tiny_norms(dtype):
    """Squares of these norms overflow or vanish; the kernel is one or zero all the same."""
    big = 1e200 if dtype == "float64" else 1e30
    X = np.array([[big, 0], [0, big], [0, 0]], dtype=dtype)
    np.testing.assert_array_equal(Gaussian(lengthscale=1.0)(X), np.eye(3))
    np.testing.assert_array_equal(Gaussian(lengthscale=1.0)(X, -X[:2]), np.eye(3)[:, 2:] * [[0, 0]])
    np.testing.assert_array_equal(Gaussian(lengthscale=1.0)(X / big / big), np.ones((3, 3)))


@pytest.mark.parametrize("size", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("variance", [1.0, 2.5])
def test_gaussian_kernel_in_blocks_of_rows(size, variance):
    """Several blocks, the last one shorter; the blocks above the diagonal are mirrored."""
    rng = np.random.default_rng(0)
    X, Y = size * rng.standard_normal((403, 3)), size * rng.standard_normal((200, 3))
    kernel = Gaussian(lengthscale=size, variance=variance)
    for other, K in ((X, kernel(X)), (Y, kernel(X, Y))):
        distances = cdist(X, other, "sqeuclidean") / size**2
        np.testing.assert_allclose(K, variance * np.exp(-distances / 2), rtol=1e-12)
    np.testing.assert_array_equal(kernel(X), kernel(X).T)
    np.testing.assert_array_equal(np.diagonal(kernel(X)), variance)


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1.0, 1e30, 1e300])
def test_arc_cosine_kernel_sees_only_angles(X, size):
    np.testing.assert_allclose(ArcCosine(1)(size * X), ArcCosine(1)(X), rtol=1e-12)


def test_directions_have_unit_norm_whatever_the_norm(X, library):
    """x = |x|·u with |u| = 1; a zero row has the direction zero."""
    A = np.vstack([X, np.zeros(5), 1e-200 * X[:1], 1e200 * X[:1]])
    units, _ = directions(library.asarray(A))
    norms = np.linalg.norm(library.numpy(units), axis=1)
    np.testing.assert_allclose(norms, [1] * 7 + [0, 1, 1], rtol=1e-14)


def test_median_lengthscale_is_the_median_distance(X, library):
    i, j = np.triu_indices(len(X), 1)
    expected = np.median(np.linalg.norm(X[i] - X[j], axis=1))
    kernel = Gaussian(variance=2.0)
    resolved = kernel.resolve(library.asarray(X))
    assert resolved.lengthscale == pytest.approx(expected, rel=1e-9)
    assert resolved.variance == 2.0
    assert kernel.lengthscale == "median"
    assert resolved.resolve(X) is resolved


def test_median_of_many_rows_is_that_of_a_subsample():
    X = load_digits().data
    i, j = np.triu_indices(len(X), 1)
    everything = np.median(np.linalg.norm(X[i[::50]] - X[j[::50]], axis=1))
    assert median_distance(X) == pytest.approx(everything, rel=0.05)
    assert median_distance(sparse.csr_array(X)) == pytest.approx(median_distance(X))


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_median_lengthscale_of_repeated_rows(size, rng):
    """Most distances are zero (up to rounding): the median of the others, never a tiny number."""
    X = np.repeat(rng.random((2, 300)) + 1, [30, 3], axis=0) * size
    assert median_distance(X) == pytest.approx(size * np.linalg.norm((X[0] - X[-1]) / size))


def test_median_must_be_resolved_first(X):
    with pytest.raises(ValueError, match=r"call kernel\.resolve\(X\) first"):
        Gaussian()(X)


def test_one_lengthscale_for_every_feature(X):
    lengthscale = np.array([1.0, 2, 3, 4, 5])
    for kernel in (Gaussian, Exponential):
        scaled = kernel(lengthscale=lengthscale)(X)
        np.testing.assert_allclose(scaled, kernel(lengthscale=1.0)(X / lengthscale))
        with pytest.raises(ValueError, match="lengthscale has 3 values for 5 features"):
            kernel(lengthscale=[1, 2, 3])(X)


def test_kernels_of_different_classes_differ():
    assert Gaussian(lengthscale=1.0) != Exponential(lengthscale=1.0)
    assert Gaussian() != Gaussian(lengthscale=1.0)
    assert len(set(KERNELS)) == len(KERNELS)


def test_equal_kernels_have_equal_hashes():
    a, b = Polynomial(2, gamma=1, coef0=0), Polynomial(2, gamma=1.0, coef0=0.0)
    assert a == b
    assert hash(a) == hash(b)
    a, b = Gaussian(lengthscale=[1, 2]), Gaussian(lengthscale=np.array([1.0, 2.0]))
    assert a == b
    assert hash(a) == hash(b)


def test_maclaurin_parameters():
    kernel = Maclaurin([1.0, 2.0])
    kernel.set_params(coefficients=[0.0, 3.0], gamma=2.0)
    assert kernel.get_params() == {"coefficients": [0.0, 3.0], "gamma": 2.0, "variance": 1.0}
    assert kernel(np.array([[1.0]]))[0, 0] == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(0), "degree must be a positive integer; got 0"),
        (lambda: Polynomial(2.5), "degree must be a positive integer; got 2.5"),
        (lambda: Polynomial(True), "degree must be a positive integer; got True"),
        (lambda: Polynomial(coef0=-1), "coef0 must be a nonnegative number; got -1: a negative"),
        (lambda: Polynomial(gamma=0), "gamma must be a positive number; got 0"),
        (lambda: Polynomial(gamma="scale"), "gamma must be a positive number; got 'scale'"),
        (lambda: Polynomial(variance=-2.0), "variance must be a positive number; got -2.0"),
        (lambda: Exponential(lengthscale=0.0), "lengthscale must be a positive number; got 0.0"),
        (lambda: Exponential(lengthscale=np.nan), "lengthscale must be a positive number; got nan"),
        (lambda: Gaussian(lengthscale=-1), "lengthscale must be a positive number; got -1"),
        (lambda: Gaussian(lengthscale=[1, 0]), r"must be a positive number; got \[1, 0"),
        (lambda: Gaussian(lengthscale="mean"), "must be positive or \"median\"; got 'mean'"),
        (lambda: Gaussian(variance=np.inf), "variance must be a positive number; got inf"),
        (lambda: Gaussian(variance=[1.0, 2.0]), r"variance must be one number; got shape \(2,\)"),
        (lambda: Polynomial(gamma=np.ones(3)), r"gamma must be one number; got shape \(3,\)"),
        (lambda: Polynomial(coef0=np.ones(1)), r"coef0 must be one number; got shape \(1,\)"),
        (lambda: Gaussian(lengthscale=np.ones((3, 3))), "one number or one for every feature; got"),
        (lambda: Maclaurin([1, -2]), "coefficients must be nonnegative.*got a_1 = -2"),
        (lambda: Maclaurin([]), r"list of finite numbers a_0, a_1, …; got \[\]"),
        (lambda: Maclaurin([[1.0]]), "list of finite numbers"),
        (lambda: Maclaurin([np.nan]), "list of finite numbers"),
        (lambda: Maclaurin("ab"), "list of finite numbers"),
        (lambda: Maclaurin([1], gamma=-1), "gamma must be a positive number"),
        (lambda: ArcCosine(2), "order must be 0 or 1; got 2"),
        (lambda: ArcCosine(variance=0), "variance must be a positive number; got 0"),
        (lambda: Gaussian().set_params(lengthscale=0), "lengthscale must be a positive number"),
        (lambda: Polynomial().set_params(coef0=-1), "coef0 must be a nonnegative number"),
        (lambda: Maclaurin([1]).set_params(coefficients=[-1]), "coefficients must be nonnegative"),
        (lambda: Polynomial().set_params(sigma=1), "Invalid parameter 'sigma'"),
    ],
)
def test_parameters_without_meaning_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("X", "Y", "message"),
    [
        (np.ones(3), None, r"X must have two dimensions \(rows, features\); got \(3,\)"),
        (np.ones((2, 3)), np.ones((2, 2)), "X has 3 features and Y has 2"),
        (np.ones((2, 3)), np.ones((2, 3), complex), "Y must be real and numeric.*complex128"),
        (np.array([["a"]]), None, "X must be real and numeric"),
        (np.array([[None]]), None, "X must be real and numeric"),
    ],
)
def test_input_without_meaning_is_refused(X, Y, message):
    with pytest.raises(ValueError, match=message):
        Polynomial()(X, Y)


@pytest.mark.parametrize("order", [0, 1])
def test_arc_cosine_gradients_of_a_row_with_itself_are_zero(order, X):
    """The angle is at its end there, where the derivative of acos is infinite."""
    jax, torch = pytest.importorskip("jax"), pytest.importorskip("torch")
    kernel = ArcCosine(order)
    rows = torch.tensor(X, requires_grad=True)
    kernel.diag(rows).sum().backward()
    np.testing.assert_allclose(rows.grad, 0, atol=1e-6)  # rounding of 1 − t, under a root
    E = np.eye(3)  # exact angles of 0, and of π with the opposite rows
    gradient = jax.jacobian(lambda A: kernel(A, np.vstack([E, -E])))(jax.numpy.asarray(E))
    assert np.all(np.isfinite(gradient))


def one_hot_rows(rng, offset):
    """A column of numbers beside 60 indicators, of which a row has one."""
    X = np.zeros((90, 61))
    X[:, 0] = offset + rng.uniform(0, 10, 90)
    X[np.arange(90), rng.integers(1, 61, 90)] = 1
    return X


@pytest.mark.parametrize("offset", [0.0, 1.7e9])
@pytest.mark.parametrize(
    "kernel",
    [
        Gaussian(lengthscale=2.0),
        Gaussian(lengthscale=np.linspace(1, 3, 61)),
        Matern(1.5, lengthscale=2.0),
    ],
    ids=["gaussian", "ard", "matern"],
)
def test_an_offset_costs_sparse_rows_no_digits(kernel, offset, rng):
    X = one_hot_rows(rng, offset)
    S = sparse.csr_array(X)
    np.testing.assert_allclose(kernel(S), kernel(X), atol=1e-13)
    np.testing.assert_allclose(kernel(S[:1], S[5:]), kernel(X[:1], X[5:]), atol=1e-13)
    assert median_distance(S) == pytest.approx(median_distance(X), rel=1e-6)


@pytest.mark.parametrize("kernel", [Gaussian(lengthscale=2.0), Polynomial(2), ArcCosine()])
def test_sparse_rows_are_only_read(kernel):
    """Unsorted indices, one of them twice, in arrays that cannot be written to."""
    parts = [np.array([1.0, 2, 3, 1, 2, 3]), np.array([2, 0, 2, 1, 1, 0]), np.array([0, 3, 6])]
    for part in parts:
        part.flags.writeable = False
    S = sparse.csr_array(tuple(parts), shape=(2, 900))
    np.testing.assert_allclose(kernel(S), kernel(S.toarray()), rtol=1e-12)
    assert S.nnz == 6


def test_tiny_sparse_rows_have_directions():
    X = np.zeros((2, 90))
    X[0, 0], X[1, :2] = 1e-310, (1, 2)
    np.testing.assert_allclose(ArcCosine()(sparse.csr_array(X)), ArcCosine()(X), rtol=1e-12)
