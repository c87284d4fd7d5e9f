"""What every kernel promises: the same values everywhere, a positive matrix, copies, slopes."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from benchmarks.fuzz_subjects import default_kernels
from dotsketch import (
    ArcCosine,
    Exponential,
    Gaussian,
    Linear,
    Maclaurin,
    Matern,
    Periodic,
    Polynomial,
    RationalQuadratic,
    Tanimoto,
    kernels,
    load,
    save,
)

LENGTHSCALES = np.array([0.5, 1.0, 2.0, 1.0, 3.0])
KERNELS = [
    Polynomial(3, gamma=0.4, coef0=0.7, variance=1.3),
    Polynomial(1, gamma=0.4),
    Polynomial(2, coef0=0.0),
    Linear(gamma=0.5, coef0=0.4),
    Exponential(lengthscale=1.7, variance=0.5),
    Exponential(lengthscale=LENGTHSCALES),
    Maclaurin([0.5, 0.0, 1.0, 0.3], gamma=0.6, variance=2.0),
    ArcCosine(0),
    ArcCosine(1, variance=1.4),
    Tanimoto(variance=2.0),
    Gaussian(lengthscale=1.4, variance=0.3),
    Gaussian(lengthscale=LENGTHSCALES, variance=1.3),
    Matern(0.5, lengthscale=LENGTHSCALES),
    Matern(1.5, lengthscale=1.2),
    Matern(2.5, lengthscale=1.3),
    RationalQuadratic(0.7, lengthscale=LENGTHSCALES, variance=1.3),
    RationalQuadratic(20.0, lengthscale=1.5),
    Periodic(2.5, lengthscale=0.8, variance=1.3),
    Periodic(LENGTHSCALES, lengthscale=2 * LENGTHSCALES),
    Polynomial(2, gamma=0.3) + Gaussian(lengthscale=LENGTHSCALES),
    Polynomial(2) + Exponential(lengthscale=1.3),
    Gaussian(lengthscale=1.5) * Gaussian(lengthscale=2.5, variance=2.0),
    3.0 * (Polynomial(1) + Polynomial(2)) * Polynomial(1, coef0=0.0),
    Matern(2.5, lengthscale=1.4) * Exponential(lengthscale=2.0),
    Tanimoto() + 0.5 * Gaussian(lengthscale=3.0),
    Gaussian(lengthscale=LENGTHSCALES[:2]).on([2, 0]) * Periodic(1.7).on(1) + Linear().on(0),
    (2.0 * (Matern(lengthscale=1.5) + Linear()).on([3, 0])) * Periodic(2.0).on(4),
]
# Kernels without a line above take part with their default parameters
ROWS = np.random.default_rng(0).random((9, 5))
LISTED = {type(kernel) for kernel in KERNELS}
KERNELS += [kernel.resolve(ROWS) for kernel in default_kernels() if type(kernel) not in LISTED]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@pytest.fixture
def X(rng):
    """Rows for every kernel: none is negative, some entries are zero, two rows are equal."""
    X = rng.random((25, 5)) * (rng.random((25, 5)) > 0.3)
    X[5] = X[4]
    return X


@every_kernel
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_on_every_library(kernel, X, dtype, library):
    """Those of NumPy in double precision; dtypes are kept."""
    A, B = (library.asarray(rows.astype(dtype)) for rows in (X, X[:7]))
    # portable code has distances from products: equal rows are as near as their roots
    close = {"rtol": 1e-6, "atol": 2e-6} if dtype == "float64" else {"rtol": 1e-3, "atol": 2e-3}
    for found, expected in ((kernel(A, B), kernel(X, X[:7])), (kernel.diag(A), kernel.diag(X))):
        values = library.numpy(found)
        assert values.dtype == dtype
        np.testing.assert_allclose(values, expected, **close)


@every_kernel
def test_the_matrix_of_one_set_is_symmetric_and_positive(kernel, X):
    K = kernel(X)
    np.testing.assert_allclose(K, K.T, rtol=1e-14)
    np.testing.assert_allclose(K, kernel(X, X), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(np.diag(K), kernel.diag(X), rtol=1e-7)
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.trace(K)
    zeros = np.zeros((2, 5))
    assert np.all(np.isfinite(kernel(zeros)))
    np.testing.assert_allclose(kernel(zeros), kernel.diag(zeros)[0])


@every_kernel
@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_rows_and_whole_numbers(kernel, X, kind):
    A, B = np.round(3 * X), np.round(3 * X[:4])
    expected = kernel(A, B)
    for left, right in ((kind(A), kind(B)), (kind(A), B), (A, kind(B)), (A.astype(int), B)):
        np.testing.assert_allclose(kernel(left, right), expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(kernel(kind(A)), kernel(A), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(kernel.diag(kind(A)), kernel.diag(A))
    single = kind(A.astype(np.float32))
    assert kernel(single).dtype == kernel.diag(single).dtype == np.float32


@every_kernel
def test_copies_repr_and_files(kernel, tmp_path):
    names = vars(kernels) | {"array": np.array}
    save(kernel, tmp_path / "kernel.dsk")
    copies = [clone(kernel), pickle.loads(pickle.dumps(kernel)), load(tmp_path / "kernel.dsk")]
    for copy in [*copies, eval(repr(kernel), {}, names)]:
        assert copy is not kernel
        assert copy == kernel
        assert hash(copy) == hash(kernel)
        assert type(copy) is type(kernel)
    assert kernel != 2.0 * kernel
    assert kernel != "a kernel"


@every_kernel
def test_gradients_reach_the_rows(kernel, X):
    jax = pytest.importorskip("jax")
    X, Y, step = X + 0.1, X[::-1] + 0.2, 1e-6
    gradient = np.asarray(jax.grad(lambda A: kernel(A, jax.numpy.asarray(Y)).sum())(X))
    for i, k in [(0, 0), (3, 4)]:
        E = np.zeros_like(X)
        E[i, k] = step
        expected = (kernel(X + E, Y).sum() - kernel(X - E, Y).sum()) / (2 * step)
        assert gradient[i, k] == pytest.approx(expected, rel=1e-5, abs=1e-7)


@every_kernel
def test_gradients_reach_the_parameters(kernel, X):
    """Every number of torch among the parameters: the slope is that of differences."""
    torch = pytest.importorskip("torch")
    parameters = kernel.get_params()
    for name, value in parameters.items():
        searched = getattr(kernel, "searched", ())
        if type(value) is not float or name.split("__")[-1] in ("nu", "coef0") or not searched:
            continue
        number = torch.tensor(value, dtype=torch.float64, requires_grad=True)
        of = clone(kernel).set_params(**{name: number})
        of(torch.asarray(X), torch.asarray(X[:7] + 0.1)).sum().backward()
        up, down = (
            clone(kernel).set_params(**{name: value + h})(X, X[:7] + 0.1).sum()
            for h in (1e-6, -1e-6)
        )
        assert float(number.grad) == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-6)


# -- what a search asks of kernels -----------------------------------------------------------------


@every_kernel
def test_derivatives_by_differences(kernel, X, rng):
    """Of Σ M_ij k(x_i, x_j) with respect to every logarithm, for a symmetric M."""
    M = rng.standard_normal((len(X), len(X)))
    M = M + M.T
    start, step = kernel.logarithms, 1e-5
    # between other rows M need not be symmetric
    for Y, weights in ((None, M), (X[3:10] + 0.1, M[:, :7] - 1)):
        K, pullback = kernel.with_pullback(X, Y)
        np.testing.assert_allclose(K, kernel(X, Y), rtol=1e-12, atol=1e-13)
        ends = [
            [kernel.with_logarithms(start + s * e)(X, Y) for s in (step, -step)]
            for e in np.eye(len(start))
        ]
        expected = [np.vdot(weights, up - down) / (2 * step) for up, down in ends]
        np.testing.assert_allclose(pullback(weights), expected, rtol=1e-6, atol=1e-7)


@every_kernel
def test_one_lengthscale_per_column_is_the_same_kernel(kernel, X):
    spread = kernel.per_column(5)
    np.testing.assert_allclose(spread(X), kernel(X), atol=1e-13)
    assert len(spread.search_range(X)) == len(spread.logarithms)


@every_kernel
def test_ranges_follow_the_scale_of_the_rows(kernel, X):
    """Kernels at their typical parameters are of order one, whatever the units of X are."""
    for scale in (1.0, 1e-3):
        low, typical, high = kernel.search_range(scale * X).T
        assert np.all(low < typical)
        assert np.all(typical < high)
        middle = kernel.with_logarithms(typical)
        assert 0.1 < np.mean(middle.diag(scale * X)) < 100


def test_constant_columns_have_a_range():
    X = np.stack([np.linspace(0, 1, 9), *np.full((4, 9), 3.0)], axis=1)
    for kernel in (Gaussian(lengthscale=LENGTHSCALES), Exponential(lengthscale=LENGTHSCALES)):
        assert np.all(np.isfinite(kernel.search_range(X)))
