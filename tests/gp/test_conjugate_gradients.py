"""Conjugate gradients over passes give what the direct solver gives."""

import os
import pickle
import signal
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

import dotsketch.gp.iterative
import dotsketch.gp.regression_sums
import dotsketch.gp.solvers.iteration
import dotsketch.gp.solvers.passes as passes
from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian, load, save
from dotsketch._support import threads
from dotsketch.gp import ConjugateGradients
from dotsketch.gp.packed import PackedMatrix
from dotsketch.gp.solvers import RowBlock, RowSystems
from dotsketch.gp.solvers import basis as bases
from dotsketch.gp.solvers.basis import leading_basis, nystrom
from dotsketch.gp.solvers.iteration import Loop, conjugate
from dotsketch.gp.solvers.passes import AdjointSum
from dotsketch.gp.solvers.preconditioner import Preconditioner
from dotsketch.gp.solvers.start import Start
from dotsketch.gp.sums import sampled_columns
from dotsketch.rows import Rows
from gp.data import gaussian_features, polynomial_features, regression_data

STRICT = ConjugateGradients(tolerance=1e-9)
GIVEN = {"noise_variance": 0.02, "prior_variance": 2.0}


def regressor(**options):
    given = {"features": gaussian_features(), "solver": STRICT, "chunk_rows": 16, **GIVEN}
    return FeatureGPRegressor(**{**given, **options})


def direct(**options):
    return regressor(**{**options, "solver": "cholesky"})


def random_systems(n=50, D=12, weights=3, outputs=2, memory=1 << 20, seed=0):
    """Systems of the rows of a matrix, in blocks of 16, and their features, targets and weights."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, D)).astype(np.float32)
    Y, W = rng.standard_normal((n, weights, outputs)), rng.uniform(0.5, 2, (n, weights))
    rows = Rows((Z, np.arange(n)))

    def block(columns, exact):
        return RowBlock(columns[0], Y[columns[1]], W[columns[1]])

    return RowSystems(rows, block, D, weights, outputs, 16, memory), Z.astype(float), Y, W


# -- the parts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [1, 1 << 20], ids=["computed again", "kept"])
def test_products_have_the_weights_of_their_system(memory):
    systems, Z, _, W = random_systems(memory=memory)
    V = np.random.default_rng(1).standard_normal((12, 4))
    owners = np.array([2, 0, 0, 1])
    for _ in range(2):  # the second time from memory
        found = systems.products(V, owners)
        expected = np.stack(
            [Z.T @ (W[:, s] * (Z @ v)) for s, v in zip(owners, V.T, strict=True)], axis=1
        )
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert systems.keeps_features == (memory > 1)
    assert systems.n_passes == 2


def test_cores_are_the_systems_within_the_subspace():
    systems, Z, _, W = random_systems()
    basis = np.random.default_rng(1).standard_normal((12, 5)).astype(np.float32)
    expected = [basis.T @ Z.T @ (W[:, [s]] * Z) @ basis for s in range(3)]
    found = [PackedMatrix(core).full() for core in systems.cores(basis)[0]]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-3)


def test_cores_come_with_products_of_the_subspace():
    systems, Z, Y, W = random_systems()
    basis = np.random.default_rng(1).standard_normal((12, 5)).astype(np.float32)

    def columns(block, first):
        return (block.targets * block.weights[:, :, None]).reshape(len(block.weights), -1)

    _, found = systems.cores(basis, columns, 6)
    expected = basis.T @ Z.T @ (Y * W[:, :, None]).reshape(50, 6)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("exact", [False, True], ids=["single", "double"])
@pytest.mark.parametrize("width", [2, 5])
def test_sums_of_many_blocks(width, exact):
    """Few columns are multiplied one by one, and some blocks are added in single precision."""
    systems, Z, *_ = random_systems(n=400)
    R = np.random.default_rng(1).standard_normal((400, width))

    def columns(block, first):
        return R[first : first + len(block.weights)].astype(block.features.dtype)

    found = systems.adjoint(columns, width, exact=exact)
    tolerance = 1e-12 if exact else 1e-5
    np.testing.assert_allclose(found, Z.T @ R, rtol=tolerance, atol=10 * tolerance)
    halves = AdjointSum((12, width)), AdjointSum((12, width))
    for half, rows in zip(halves, (slice(200), slice(200, 400)), strict=True):
        half.add(Z[rows].astype(np.float32), R[rows].astype(np.float32))
    first, second = halves
    first += second
    np.testing.assert_allclose(first.settled(), Z.T @ R, rtol=1e-5, atol=1e-4)


def test_a_sample_of_the_rows_stands_for_all_of_them():
    systems, Z, _, W = random_systems(n=400)
    assert systems.sampled(201) is systems  # more than half
    sample = systems.sampled(200).sampled(100)
    assert sample.share == 0.25
    assert not sample.keeps_features
    rows = sample.rows.columns[1]
    V = np.random.default_rng(1).standard_normal((12, 4))
    expected = 4 * Z[rows].T @ (W[rows, 1][:, None] * (Z[rows] @ V))
    np.testing.assert_allclose(sample.products(V, np.ones(4, int)), expected, rtol=1e-4, atol=1e-3)


def test_cores_of_many_systems_take_the_memory_that_is_counted():
    """Triangles without copies: the whole space of many classes fits where it is said to fit."""
    systems, *_ = random_systems(D=256, weights=20)
    counted = bases.BYTES_OF_WHOLE * 256**2 + systems.core_bytes(256)
    tracemalloc.start()
    try:
        basis, values, _ = bases.whole_space(256)
        P = Preconditioner.of(basis, systems.cores(basis)[0], 0.5, float(values[-1]))
        assert len(P.cores) == 20
        assert tracemalloc.get_traced_memory()[1] < 1.1 * counted
    finally:
        tracemalloc.stop()


def test_sums_of_more_groups_take_more_memory():
    """2¹⁶ rows are a group, and 16 groups a sum of the next level of the tree."""
    systems, *_ = random_systems(D=12, weights=3)
    one = 4 * 5**2 * (3 + 1)  # of rank 5
    for n_rows, states in ((50_000, 1), (1_000_000, 2), (1_200_000, 3), (20_000_000, 4)):
        systems.n_rows = n_rows
        systems.block_rows, systems.group_blocks = 4096, 16
        assert systems.core_bytes(5) == states * one


def test_the_rank_is_bounded_by_the_subspace_or_by_the_systems_within_it():
    memory = 20 * 600 * 128
    one, *_ = random_systems(n=16, D=600, weights=1, memory=memory)
    assert bases._fits(one, 128)
    assert not bases._fits(one, 129)
    groups, *_ = random_systems(n=50, D=600, weights=1, memory=32 * 600 * 128)
    assert bases._fits(groups, 128)
    assert not bases._fits(groups, 129)
    many, *_ = random_systems(n=16, D=600, weights=40, memory=memory)
    assert not bases._fits(many, 128)


def test_sums_over_columns_have_the_largest_weights():
    systems, Z, _, W = random_systems(n=400)
    places, factors = np.array([1, 4, 10]), np.array([1.0, 2.0, 0.5])
    for these in (systems, systems.sampled(100)):
        rows = these.rows.columns[1]
        roots = np.sqrt(W[rows].max(axis=1, keepdims=True) / these.share) * Z[rows]
        np.testing.assert_allclose(these.energies(), np.sum(roots**2, axis=0), rtol=1e-5)
        some = roots[:, places] * factors
        np.testing.assert_allclose(
            these.column_moment(places, factors), some.T @ some, rtol=1e-5, atol=1e-3
        )


def rows_on_disk(folder):
    """Rows of a memory map, one in ten of which has a weight of one and the others of zero."""
    rng = np.random.default_rng(0)
    np.save(folder / "X.npy", rng.standard_normal((4000, 3)))
    X = np.load(folder / "X.npy", mmap_mode="r")
    weights = (rng.uniform(size=4000) < 0.1).astype(float)
    return Rows((X, np.zeros(4000), None, weights)), X, weights


def test_rows_of_weight_zero_count_in_a_sample(tmp_path):
    """A memory map holds them, and a sample leaves them out."""
    rows, X, weights = rows_on_disk(tmp_path)

    def block(columns, exact):
        n = len(columns[0])
        return RowBlock(columns[0], np.zeros((n, 1, 1)), np.asarray(columns[3])[:, None])

    systems = RowSystems(rows, block, 3, 1, 1, 16, 0)
    for size in (1900, 10_000):
        trace = np.sum(systems.sampled(size).energies())
        assert trace == pytest.approx(np.sum(weights[:, None] * X**2), rel=0.3)  # 190 rows


def low_rank_systems(n=900, D=80, rank=12, **options):
    """Systems of features in a subspace: one weight, eigenvalues that halve."""
    systems, *_ = random_systems(n=n, D=D, weights=1, **options)
    rng = np.random.default_rng(5)
    directions = np.linalg.qr(rng.standard_normal((D, rank)))[0] * 0.5 ** (np.arange(rank) / 2)
    Z = rng.standard_normal((n, rank)) @ directions.T
    systems.rows.columns[0][:] = Z
    systems.block = lambda columns, exact: RowBlock(
        columns[0], np.zeros((len(columns[0]), 1, 2)), np.ones((len(columns[0]), 1))
    )
    return RowSystems(systems.rows, systems.block, D, 1, 2, 16, systems.memory), Z.T @ Z


def test_the_basis_holds_the_leading_eigenvectors(monkeypatch):
    """One product with all rows, or with a sample, follows the second moment of some columns."""
    systems, A = low_rank_systems()
    exact = np.linalg.eigvalsh(A)[::-1]

    def found(rank):
        return leading_basis(systems, 0.1, 1e-5, 10.0, rank)

    for rank in (6, 12, 20):
        U, values, _ = found(rank)
        number = min(rank, 12)  # there are no more of them
        assert U.shape == (80, number)
        np.testing.assert_allclose(U.T @ U, np.eye(number), atol=1e-3)
        # a subspace of fewer dimensions is not exact: it is turned towards the eigenvectors once
        tolerance = 0.3 if rank == 6 else 1e-4
        np.testing.assert_allclose(values, exact[:number], rtol=tolerance)
    monkeypatch.setattr(bases, "BASIS_ROWS", 200)
    U, values, _ = found(12)
    np.testing.assert_allclose(U @ (U.T @ A), A, atol=1e-3)  # the same space
    assert not np.allclose(values, exact[:12], rtol=1e-3)


@pytest.mark.parametrize("is_stream", [False, True])
def test_rows_that_are_alike(is_stream):
    """The first of a stream, or those in regular places, do not hide the others."""
    X, y = regression_data(n=2048)
    X = X.copy()
    X[: 256 if is_stream else 2048 : 1 if is_stream else 8] = 0.3
    features = gaussian_features(n_components=600)
    options = {"features": FrozenEstimator(features.fit(X)), "normalize_y": None}
    solver = ConjugateGradients(memory=1 << 21)  # the whole space does not fit
    gp = regressor(solver=solver, chunk_rows=256, **options)
    data = (
        (
            lambda: iter(
                [(X[k : k + 256], y[k : k + 256]) for k in range(0, 2048, 256)],
            )
        )
        if is_stream
        else X
    )
    gp.fit(data, None if is_stream else y)
    exact = direct(**options).fit(X, y)
    assert gp.n_iterations_ < 40
    assert np.abs(gp.predict(X) - exact.predict(X)).max() < 1e-3 * exact.predict(X).std()


def test_features_that_vanish_have_a_basis():
    systems, *_ = random_systems(D=200)
    systems.rows.columns[0][:] = 0
    U, values, _ = leading_basis(systems, 0.1, 1e-5, 10.0, None)
    assert U.shape == (200, 1)
    assert np.linalg.norm(U) == 1
    assert values == 0


def test_features_of_low_rank_need_no_whole_space():
    systems, _ = low_rank_systems(D=400, memory=1 << 24)
    U, *_ = leading_basis(systems, 1.0, 1e-5, 10.0, None)
    assert U.shape == (400, 12)


def test_columns_that_show_the_spectrum():
    for D, n, memory, rank, expected in (
        (32_768, 100_000, 1 << 29, None, 2048),
        (3000, 100_000, 1 << 29, None, 1500),
        (32_768, 8000, 1 << 29, None, 1000),
        (32_768, 800, 1 << 29, None, 256),
        (100, 800, 1 << 29, None, 100),
        (32_768, 100_000, 1 << 20, None, 128),
        (32_768, 100_000, 1 << 29, 100, 800),
        (32_768, 100_000, 1 << 20, 100, 200),
        (32_768, None, 1 << 29, None, 2048),
    ):
        systems, *_ = random_systems(D=4)
        systems.n_features, systems.memory, systems.n_rows = D, memory, n
        assert bases.moment_columns(systems, rank) == expected


def test_some_columns_show_the_subspace_of_all():
    """Of random features, whose eigenvectors have no large entries."""
    X, _ = regression_data(n=600)
    features = gaussian_features(n_components=2000).fit(X)
    rows = Rows((X, np.zeros(600)))

    def block(columns, exact):
        n = len(columns[0])
        return RowBlock(features.transform(columns[0]), np.zeros((n, 1, 1)), np.ones((n, 1)))

    systems = RowSystems(rows, block, 2000, 1, 1, 64, 1 << 29)
    Z = features.transform(X)
    exact, vectors = np.linalg.eigh(Z.T @ Z)
    U, values, _ = leading_basis(systems, 0.1, 1e-5, 10.0, 20)
    assert bases.moment_columns(systems, 20) == 160  # of 2000
    np.testing.assert_allclose(values[:5], exact[::-1][:5], rtol=1e-3)
    missed = vectors[:, ::-1][:, :5] - U @ (U.T @ vectors[:, ::-1][:, :5])
    assert np.linalg.norm(missed, 2) < 0.02


def test_draws_know_their_degrees_of_freedom():
    """tr (I − B⁻¹/s), which says what is left of their residuals: within 6 standard errors."""
    X, y = regression_data(n=200)
    features = gaussian_features(n_components=100)
    solver = ConjugateGradients(rank=5, n_samples=100, tolerance=1e-9)
    found = []

    class Last(Loop):
        def posteriors(self):
            found.append(float(self._degrees_of_freedom(0)))
            return super().posteriors()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dotsketch.gp.solvers.conjugate_gradients.Loop", Last)
        patch.setattr(dotsketch.gp.solvers.iteration, "DRAW_TOLERANCE", 1e-6)
        gp = regressor(features=features, solver=solver).fit(X, y)
    Z = gp._map(X).astype(float)
    values = np.linalg.eigvalsh(Z.T @ Z) * GIVEN["prior_variance"] / GIVEN["noise_variance"]
    shares = values / (1 + values)
    # a² − (a + √λ ξ)²/(1 + λ)² along an eigenvector has the variance 2 − 2/(1 + λ)²
    error = np.sqrt(np.sum(2 * shares * (2 - shares)) / 100)
    assert abs(found[0] - shares.sum()) < 6 * error
    assert 6 * error < 0.5 * shares.sum()


def test_nystrom_is_its_formula():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((20, 20)) * 0.6 ** np.arange(20)
    A, test = root @ root.T, rng.standard_normal((20, 6)).astype(np.float32)
    U, values = nystrom(test, A @ test, np.arange(20))
    Y = A @ test
    np.testing.assert_allclose(U * values @ U.T, Y @ np.linalg.solve(test.T @ Y, Y.T), atol=1e-7)
    np.testing.assert_allclose(U.T @ U, np.eye(6), atol=1e-10)
    assert np.all(np.diff(values) <= 0)


def test_nystrom_of_some_rows():
    """The test matrix has zeros in all other places."""
    rng = np.random.default_rng(0)
    root, places = rng.standard_normal((20, 20)) * 0.6 ** np.arange(20), np.array([2, 3, 7, 9, 16])
    A, test = root @ root.T, np.zeros((20, 4))
    test[places] = rng.standard_normal((5, 4))
    U, values = nystrom(test[places], A @ test, places)
    whole, expected = nystrom(test, A @ test, np.arange(20))
    np.testing.assert_allclose(values, expected, rtol=1e-9)
    np.testing.assert_allclose(U * values @ U.T, whole * expected @ whole.T, atol=1e-9)


def test_nystrom_of_a_matrix_of_lower_rank_is_exact():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((20, 3))
    test = rng.standard_normal((20, 8)).astype(np.float32)
    U, values = nystrom(test, root @ (root.T @ test), np.arange(20))
    np.testing.assert_allclose(U * values @ U.T, root @ root.T, atol=1e-6)


def test_preconditioner_is_its_formula():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((20, 4)))[0].astype(np.float32)
    roots = rng.standard_normal((2, 20, 30))
    moments = np.stack([PackedMatrix.of(basis.T @ root @ root.T @ basis).values for root in roots])
    P = Preconditioner.of(basis, moments, 0.5, 2.0)
    U = np.linalg.qr(basis.astype(float))[0]
    R, owners = rng.standard_normal((20, 3)), np.array([0, 1, 0])
    for column, system in enumerate(owners):
        core = basis.T @ (roots[system] @ roots[system].T + 0.5 * np.eye(20)) @ basis
        inverse = basis @ np.linalg.solve(core, basis.T) + (np.eye(20) - U @ U.T) / 2.5
        np.testing.assert_allclose(P(R, owners)[:, column], inverse @ R[:, column], atol=1e-10)


def test_number_of_iterations():
    found = bases.n_iterations(np.array([0.0, 3.0, 1e6 - 1]), 2e-6)
    assert found[0] < 1
    np.testing.assert_allclose(found[1:], [np.log(1e6) / np.log(3), 500 * np.log(1e6)], rtol=1e-3)


def test_rank_is_as_large_as_it_pays():
    X, y = regression_data(n=300)
    features = gaussian_features(n_components=1000)
    small = regressor(features=features, noise_variance=1000.0).fit(X, y)
    large = regressor(features=features, noise_variance=1e-6, prior_variance=100.0).fit(X, y)
    assert (small.posterior_.core.size, large.posterior_.core.size) == (64, 1000)


def test_directions_are_made_conjugate_and_dependent_ones_left_out():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((20, 20))
    B, P = root @ root.T, rng.standard_normal((20, 5))
    P[:, 1] *= 1e-9  # columns of residuals differ in size
    P[:, 3], P[:, 4] = P[:, 0] + P[:, 2], 0
    found, products = conjugate(P, B @ P)
    assert found.shape == (20, 3)
    np.testing.assert_allclose(found.T @ B @ found, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(products, B @ found, atol=1e-8)
    both = np.concatenate([found, P / [1, 1e-9, 1, 1, 1]], axis=1)
    assert np.linalg.matrix_rank(both) == 3  # the same space


def test_columns_share_their_directions(monkeypatch):
    """Each column is the best of the space that all have spanned: more draws, fewer iterations."""
    X, y = regression_data(n=200)
    features = gaussian_features(n_components=100)
    monkeypatch.setattr(dotsketch.gp.solvers.iteration, "DRAW_TOLERANCE", 1e-5)  # they stay
    iterations = [
        regressor(features=features, solver=ConjugateGradients(rank=5, n_samples=k))
        .fit(X, y)
        .n_iterations_
        for k in (1, 16)
    ]
    assert iterations[1] < iterations[0] / 2


def test_a_subspace_is_made_exact_if_more_draws_would_take_longer():
    numbers = np.arange(1, 257)
    slow, fast = 1e4 / numbers, (1e3 / numbers) ** 4
    # λ/(λ + μ) of 1e4/i, i ≤ N, add up to 1e4 log(1 + N/1e4), 253 of 256
    assert bases.is_worth_a_core(slow, 256, 31)
    assert bases.is_worth_a_core(slow, 800, 31)  # 253 of 769, a third: 39 more draws
    assert not bases.is_worth_a_core(slow, 3000, 31)  # 253 of 2624: 7 more, in six passes
    assert bases.is_worth_a_core(slow, 3000, 100)
    assert bases.is_worth_a_core(fast, 1_000_000, 31)  # of 1111
    assert bases.is_worth_a_core(slow[:64], 1_000_000, 1)


@pytest.mark.parametrize("n_samples", [1, 31])
def test_features_whose_rank_is_seen_have_exact_variances(n_samples):
    """70 of 2000 columns are independent: the subspace holds all, and nothing is beyond it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2500, 70)) @ np.linalg.qr(rng.standard_normal((2000, 70)))[0].T
    y = X @ rng.standard_normal(2000) + 0.3 * rng.standard_normal(2500)
    solver = ConjugateGradients(memory=1 << 24, n_samples=n_samples)  # the whole space is larger
    options = {"features": FunctionTransformer(), "noise_variance": 0.1, "chunk_rows": None}
    gp = regressor(solver=solver, **options).fit(X, y)
    assert gp.posterior_.core.size == 70
    expected = direct(**options).fit(X, y).predict(X[:100], return_std=True)[1]
    np.testing.assert_allclose(gp.predict(X[:100], return_std=True)[1], expected, rtol=1e-3)


def test_few_draws_need_exact_variances_no_less(monkeypatch):
    """Those of a single draw would vary by 140 %: the usual number decides."""
    X, y = regression_data(n=400)
    seen = []

    def is_worth(ratios, most, n_draws):
        seen.append(n_draws)
        return True

    monkeypatch.setattr("dotsketch.gp.solvers.start.is_worth_a_core", is_worth)
    features = gaussian_features(n_components=300)
    for n_samples in (1, 50):
        solver = ConjugateGradients(memory=1 << 19, n_samples=n_samples)
        regressor(features=features, solver=solver).fit(X, y)
    assert seen == [31, 50]


def test_a_preconditioner_of_eigenvalues():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((20, 3)))[0].astype(np.float32)
    P = Preconditioner.of_values(basis, np.array([4.0, 3.0, 2.0]), 0.5)
    U, R = basis.astype(float), rng.standard_normal((20, 3))
    inverse = U @ np.diag([1 / 4.5, 1 / 3.5, 1 / 2.5]) @ U.T + (np.eye(20) - U @ U.T) / 2.5
    np.testing.assert_allclose(P(R, np.zeros(3, int)), inverse @ R, atol=1e-6)


# -- the whole -----------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_means_are_those_of_cholesky(outputs, dtype):
    X, y = regression_data(n=200, outputs=outputs)
    X = X.astype(dtype)
    exact, found = direct().fit(X, y), regressor().fit(X, y)
    np.testing.assert_allclose(found.predict(X), exact.predict(X), atol=1e-6)
    scale = np.abs(exact.posterior_.weights).max()
    difference = np.abs(found.posterior_.weights - exact.posterior_.weights).max()
    assert difference < 1e-5 * scale
    assert (found.solver_, exact.solver_) == ("cg", "cholesky")
    assert found.residuals_[-1] <= 1e-9
    assert len(found.residuals_) == found.n_iterations_ + 1


def test_several_threads_give_the_same(monkeypatch):
    X, y = regression_data(n=300)
    options = {"features": FrozenEstimator(gaussian_features(n_components=300).fit(X))}
    solver = ConjugateGradients(memory=1, rank=40)
    expected = regressor(solver=solver, **options).fit(X, y)
    shares = []

    def run_all(function, items, workers):
        shares.append(len(items))
        for item in reversed(items):
            function(item)

    monkeypatch.setattr(passes, "STRIP", 64)
    monkeypatch.setattr(threads, "_STRIP", 1)
    monkeypatch.setattr(threads, "blas_threads", lambda: 3)
    monkeypatch.setattr(threads, "run_all", run_all)
    found = regressor(solver=solver, **options).fit(X, y)
    assert max(shares) == 3
    for part in zip(*(gp.predict(X, return_std=True) for gp in (found, expected)), strict=True):
        np.testing.assert_allclose(*part, rtol=2e-4, atol=1e-5)


def test_default_tolerance():
    X, y = regression_data(n=300)
    features = gaussian_features(n_components=150)
    exact = direct(features=features).fit(X, y).predict(X)
    found = regressor(features=features, solver="cg").fit(X, y).predict(X)
    assert np.abs(found - exact).max() < 1e-4 * exact.std()


def test_ill_conditioned_systems_and_rows_far_from_the_origin():
    """Single precision alone gives neither: eigenvalues span eleven orders, rows lose digits."""
    X, y = regression_data(n=300)
    options = {"noise_variance": 1e-5, "prior_variance": 1e4}
    features = gaussian_features(n_components=100)
    exact = direct(features=features, **options).fit(X, y)
    found = regressor(features=features, **options).fit(X, y)
    assert np.abs(found.predict(X) - exact.predict(X)).max() < 1e-6 * exact.predict(X).std()
    features = gaussian_features(n_components=100)
    far = X + 1e7
    exact = direct(features=features).fit(far, y).predict(far)
    assert np.abs(regressor(features=features).fit(far, y).predict(far) - exact).max() < 1e-6


def test_the_whole_space_is_not_formed_where_it_does_not_fit(monkeypatch):
    """A matrix of D × D numbers would be gigabytes for the columns that the solver is for."""
    monkeypatch.setattr(bases, "whole_space", None)
    X, y = regression_data(n=100)
    features = gaussian_features(n_components=300)
    solver = ConjugateGradients(memory=1 << 20)
    gp = regressor(features=features, solver=solver, noise_variance=1e-3).fit(X, y)
    assert gp.posterior_.core.size < 300
    with pytest.raises(TypeError):  # with memory it is formed
        regressor(features=features, solver="cg", noise_variance=1e-3).fit(X, y)


@pytest.mark.parametrize(("n", "n_components"), [(60, 20), (60, 100), (800, 512), (1500, 1200)])
def test_targets_without_noise(n, n_components):
    """Smooth features of a plane are dependent, and a noise near 0 makes all of them count."""
    rng = np.random.default_rng(3)
    X, new = rng.standard_normal((n, 2)), rng.standard_normal((50, 2))
    features = FourierFeatures(
        Gaussian(lengthscale=2.0), n_components=n_components, random_state=3
    ).fit(X)
    exact = FeatureGPRegressor(features, solver="cholesky").fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        found = FeatureGPRegressor(features, solver="cg").fit(X, X[:, 0])
    assert found.noise_variance_ < 1e-6
    assert found.n_iterations_ <= 20
    np.testing.assert_allclose(found.predict(new), exact.predict(new), atol=5e-3)


@pytest.mark.parametrize("correction", [None, "fitc"])
def test_noise_by_row_and_corrections(correction):
    X, y = regression_data(n=100)
    noise = np.random.default_rng(0).uniform(0.01, 0.1, len(y))
    options = {"variance_correction": correction}
    exact = direct(**options).fit(X, y, noise_variance=noise)
    found = regressor(**options).fit(X, y, noise_variance=noise)
    np.testing.assert_allclose(found.predict(X), exact.predict(X), atol=1e-6)


def test_weights_of_rows_are_copies():
    X, y = regression_data(n=100)
    times = np.random.default_rng(0).integers(1, 4, len(y))
    found = regressor().fit(X, y, times.astype(float))
    copies = regressor(features=FrozenEstimator(found.features_))
    copies.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(found.predict(X), copies.predict(X), atol=1e-6)


def test_complex_features():
    X, y = regression_data(n=100)
    features = gaussian_features("complex", n_components=20)
    exact, found = direct(features=features).fit(X, y), regressor(features=features).fit(X, y)
    np.testing.assert_allclose(found.predict(X), exact.predict(X), atol=1e-6)
    with pytest.raises(ValueError, match="real columns"):
        regressor(features=features, posterior="complex").fit(X, y)
    assert regressor(features=features, posterior="complex", solver="auto").fit(X, y)


def test_variances_chosen_on_a_sample_are_those_of_all_rows_if_it_holds_them():
    X, y = regression_data(n=60)
    options = {"noise_variance": "auto", "prior_variance": "auto"}
    for features in (gaussian_features(), gaussian_features(n_components=80)):
        exact = direct(features=features, **options).fit(X, y)
        found = regressor(features=features, **options).fit(X, y)
        np.testing.assert_allclose(found.noise_variance_, exact.noise_variance_, rtol=1e-4)
        np.testing.assert_allclose(found.prior_variance_, exact.prior_variance_, rtol=1e-4)


def test_more_rows_with_fewer_columns_correct_the_variances(monkeypatch):
    """What more rows change with fewer columns is what they change with all, within limits."""
    X, y = regression_data(n=400)
    features = gaussian_features(n_components=120)
    options = {"noise_variance": "auto", "prior_variance": "auto", "features": features}
    monkeypatch.setattr(dotsketch.gp.regression_sums, "DIRECT_ROWS", 50)
    exact = direct(**options).fit(X, y)
    found = regressor(**options).fit(X, y)  # not more than FEWER_COLUMNS: all of them
    np.testing.assert_allclose(found.noise_variance_, exact.noise_variance_, rtol=1e-4)
    np.testing.assert_allclose(found.prior_variance_, exact.prior_variance_, rtol=1e-4)
    monkeypatch.setattr(dotsketch.gp.regression_sums, "FEWER_COLUMNS", 60)
    corrected = regressor(**options).fit(X, y)
    monkeypatch.setattr(dotsketch.gp.regression_sums, "MORE_ROWS", 50)
    small = regressor(**options).fit(X, y)

    sample = Rows((X, y)).sample(50)
    Z = corrected._block(sample)[0]
    places = sampled_columns(np.sum(Z * Z, axis=0), 60)
    few, many = (
        corrected._choose_variances(corrected._sums_of_columns(rows, *places))
        for rows in (sample, (X, y))
    )
    change = np.clip(np.divide(many, few), 0.1, (1.0, 10.0))
    np.testing.assert_allclose(corrected.noise_variance_, small.noise_variance_ * change[0])
    np.testing.assert_allclose(corrected.prior_variance_, small.prior_variance_ * change[1])
    given = regressor(**{**options, "noise_variance": 0.3}).fit(X, y)
    assert given.noise_variance_ == 0.3


def test_constant_targets():
    X, _ = regression_data(n=50)
    found = regressor(solver="cg").fit(X, np.full(50, 3.0))
    np.testing.assert_allclose(found.predict(X), 3.0)
    assert np.all(found.predict(X, return_std=True)[1] >= 0)


# -- variances and samples -----------------------------------------------------------------------


def test_variances_are_exact_if_the_subspace_is_everything():
    X, y = regression_data(n=80, outputs=2)
    exact = direct().fit(X, y)
    found = regressor(solver=ConjugateGradients(rank=30, n_samples=3)).fit(X, y)
    for option in ("return_std", "return_cov"):
        (_, a), (_, b) = (gp.predict(X, **{option: True}) for gp in (found, exact))
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_variances_are_unbiased():
    """Of 2000 draws, on ten rows: 6 standard errors of the part outside of the subspace."""
    X, y = regression_data(n=80)
    exact = direct().fit(X, y).predict(X[:10], return_std=True)[1] ** 2
    solver = ConjugateGradients(rank=5, n_samples=2000)
    gp = regressor(solver=solver).fit(X, y)
    found = gp.predict(X[:10], return_std=True)[1] ** 2
    half, _ = gp.posterior_._parts(gp._map(X[:10]))
    inside = np.sum(half**2, axis=0) * gp.scales_**2
    assert np.all(inside < 0.9 * exact)  # the draws matter
    error = 6 * np.sqrt(2 / solver.n_samples) * (exact - inside)
    assert np.all(np.abs(found - exact) < error)
    # a wrong covariance of the right-hand sides would fail: of the noise alone, say
    assert np.all(exact - inside > 2 * error)
    _, covariance = gp.predict(X[:10], return_cov=True)
    np.testing.assert_allclose(np.diag(covariance), found, rtol=1e-6)


def test_variances_of_many_columns_and_a_small_subspace():
    """Draws that stop near the prior, where they start, are too large: 1.8 times at 0.07."""
    rng = np.random.default_rng(0)
    X, rows = rng.uniform(size=(1500, 1)), np.linspace(0, 1, 50)[:, None]
    features = FourierFeatures(Gaussian(lengthscale=0.05), n_components=1024, random_state=0)
    given = {"noise_variance": 0.05, "prior_variance": 1.0}
    solver = ConjugateGradients(rank=8, n_samples=400)
    variances = [
        FeatureGPRegressor(features, solver=one, **given).fit(X, X[:, 0]).predict(rows, True)[1]
        ** 2
        for one in ("cholesky", solver)
    ]
    assert np.median(variances[1] / variances[0]) < 1.1


def test_variances_by_draws_alone(monkeypatch):
    """A subspace that is not made exact: within 6 standard errors."""
    X, y = regression_data(n=80)
    exact = direct().fit(X, y).predict(X[:10], return_std=True)[1] ** 2
    monkeypatch.setattr("dotsketch.gp.solvers.start.is_worth_a_core", lambda *_: False)
    monkeypatch.setattr(bases, "FIRST_RANK", 5)
    monkeypatch.setattr(bases, "BYTES_OF_WHOLE", 1 << 30)
    solver = ConjugateGradients(n_samples=2000, tolerance=1e-9)
    gp = regressor(solver=solver).fit(X, y)
    assert gp.posterior_.basis.shape[1] == gp.posterior_.core.size == 0
    np.testing.assert_allclose(gp.predict(X), direct().fit(X, y).predict(X), atol=1e-6)
    found = gp.predict(X[:10], return_std=True)[1] ** 2
    np.testing.assert_allclose(found, exact, rtol=6 * np.sqrt(2 / 2000))
    assert gp.sample_y(X[:3], n_samples=4, random_state=0).shape == (3, 4)
    loaded = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(loaded.predict(X[:10], return_std=True)[1] ** 2, found)


def test_all_passes_see_the_same_noise(tmp_path, monkeypatch):
    """Blocks of rows on disk leave out those of weight zero, so that small ones begin elsewhere."""
    X, y = regression_data(n=600)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    weights = (np.random.default_rng(0).uniform(size=600) < 0.5).astype(float)
    seen, noise = [], Start._noise

    def recorded(self, block, first):
        seen.append(noise(self, block, first))
        return seen[-1]

    monkeypatch.setattr(Start, "_noise", recorded)
    features = FrozenEstimator(gaussian_features(n_components=200).fit(X))
    solver = ConjugateGradients(rank=32, memory=1, n_samples=1, max_iterations=1)
    gp = regressor(features=features, solver=solver, chunk_rows=64)
    with pytest.warns(ConvergenceWarning):
        gp.fit(mapped, y, sample_weight=weights)
    assert len(seen) == 20  # 10 blocks, in the pass of the subspace and in that of residuals
    first, second = np.concatenate(seen[:10]), np.concatenate(seen[10:])
    np.testing.assert_array_equal(first, second)
    assert len(first) == np.sum(weights)


def test_a_sample_of_rows_counts_those_of_weight_zero(tmp_path):
    """A memory map holds them and a sample leaves them out: it stands for all rows still."""
    rows, *_ = rows_on_disk(tmp_path)
    systems = RowSystems(rows, lambda columns, exact: None, 3, 1, 1, 16, 0)
    sampled = systems.sampled(400)
    assert sampled.rows.n_rows < 80
    assert sampled.share == 0.1


def test_samples_have_the_posterior_covariance():
    X, y = regression_data(n=80, outputs=2)
    gp = regressor(solver=ConjugateGradients(rank=5, n_samples=50)).fit(X, y)
    mean, deviation = gp.predict(X[:5], return_std=True)
    draws = gp.sample_y(X[:5], n_samples=20_000, random_state=1)
    assert draws.shape == (5, 2, 20_000)
    assert np.all(np.abs(draws.mean(axis=2) - mean) < 6 * deviation / np.sqrt(800))
    np.testing.assert_allclose(draws.var(axis=2), deviation**2, rtol=6 * np.sqrt(2 / 20_000))
    few = gp.sample_y(X[:5], n_samples=3, random_state=1)
    assert not np.allclose(few, gp.sample_y(X[:5], n_samples=3, random_state=2))


def test_draws_do_not_depend_on_the_seed_of_the_features():
    X, y = regression_data(n=80)
    first, again, other = (
        regressor(solver=ConjugateGradients(rank=5, random_state=seed)).fit(X, y)
        for seed in (0, 0, 1)
    )
    std = [gp.predict(X, return_std=True)[1] for gp in (first, again, other)]
    np.testing.assert_array_equal(std[0], std[1])
    assert not np.allclose(std[0], std[2], rtol=1e-3)


# -- rows from anywhere --------------------------------------------------------------------------


def batches(*columns, size=7):
    for start in range(0, len(columns[0]), size):
        yield tuple(c[start : start + size] for c in columns)


@pytest.mark.parametrize("source", ["stream", "memory map", "sparse"])
@pytest.mark.parametrize("memory", [1, 1 << 20])
def test_sources_give_the_same(source, memory, tmp_path):
    X, y = regression_data()
    y = y - y.mean()
    options = {
        "features": polynomial_features(),
        "solver": ConjugateGradients(memory=memory, tolerance=1e-9),
    }
    exact = direct(features=polynomial_features()).fit(X, y).predict(X, return_std=True)
    gp = regressor(**options)
    if source == "stream":
        gp.fit(lambda: batches(X, y))
    elif source == "memory map":
        np.save(tmp_path / "X.npy", X)
        gp.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    else:
        gp.fit(scipy.sparse.csr_array(X), y)
    found = gp.predict(X, return_std=True)
    np.testing.assert_allclose(found[0], exact[0], atol=1e-6)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-4)  # ten columns are all in the subspace


def test_iterators_that_end():
    X, y = regression_data()
    with pytest.raises(ValueError, match="function that returns a fresh iterator"):
        regressor().fit(batches(X, y))
    assert regressor(solver="auto").fit(batches(X, y)).solver_ == "cholesky"


def test_auto_iterates_beyond_some_columns(monkeypatch):
    X, y = regression_data()
    assert regressor(solver="auto").fit(X, y).solver_ == "cholesky"
    monkeypatch.setattr(dotsketch.gp.iterative, "MOST_COLUMNS", 20)
    gp = regressor(solver="auto").fit(X, y)
    assert gp.solver_ == "cg"
    assert not hasattr(gp, "statistics_")
    assert hasattr(gp.set_params(solver="cholesky").fit(X, y), "statistics_")
    assert regressor(solver="auto").partial_fit(X, y).solver_ == "cholesky"


@pytest.mark.parametrize("what", ["partial_fit", "merge", "refit", "log_marginal_likelihood"])
def test_what_needs_sums_raises(what):
    X, y = regression_data()
    gp = regressor().fit(X, y)
    arguments = {"partial_fit": (X, y), "merge": (direct().fit(X, y),)}.get(what, ())
    with pytest.raises(ValueError, match=f"{what} needs sums"):
        getattr(gp, what)(*arguments)


def test_parameters():
    X, y = regression_data()
    with pytest.raises(ValueError, match="solver must be one of"):
        regressor(solver="lu").fit(X, y)
    for wrong in (
        {"tolerance": 0},
        {"rank": 0},
        {"n_samples": 0},
        {"memory": 1.5},
        {"random_state": None},
    ):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ConjugateGradients(**wrong)
    assert clone(regressor()).solver == STRICT


def test_too_few_iterations_warn():
    X, y = regression_data(n=200)
    solver = ConjugateGradients(max_iterations=2, rank=1, n_samples=1)
    with pytest.warns(ConvergenceWarning, match="after 2 iterations.*max_iterations"):
        gp = regressor(solver=solver, noise_variance=1e-4).fit(X, y)
    assert gp.n_iterations_ == 2


@pytest.mark.parametrize("rank", ["auto", 40])
def test_a_subspace_of_few_rows_serves_all_rows(monkeypatch, rank):
    """Its quality changes the number of iterations, and nothing else."""
    X, y = regression_data(n=400)
    features = gaussian_features(n_components=200)
    solver = ConjugateGradients(tolerance=1e-9, rank=rank, memory=1 << 18)
    plain = regressor(features=features, solver=solver, noise_variance=0.1).fit(X, y)
    seen = []
    sampled = RowSystems.sampled
    monkeypatch.setattr(bases, "ENERGY_ROWS", 60)
    monkeypatch.setattr(bases, "SPECTRUM_ROWS", 80)
    monkeypatch.setattr(bases, "BASIS_ROWS", 120)
    monkeypatch.setattr(
        RowSystems, "sampled", lambda self, size: seen.append(size) or sampled(self, size)
    )
    gp = regressor(features=features, solver=solver, noise_variance=0.1).fit(X, y)
    assert set(seen) == {60, 80, 120}
    assert gp.posterior_.core.size < 100
    exact = direct(features=features, noise_variance=0.1).fit(X, y)
    test = X[:50]
    for model in (plain, gp):
        np.testing.assert_allclose(model.predict(test), exact.predict(test), atol=1e-6)


def test_the_whole_space_needs_no_iterations():
    X, y = regression_data()
    gp = regressor(solver=ConjugateGradients(tolerance=1e-9, rank=1000)).fit(X, y)
    assert gp.n_iterations_ == 0
    assert gp.residuals_[-1] < 1e-9
    mean, std = gp.predict(X, return_std=True)
    expected, spread = direct().fit(X, y).predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=1e-7)
    np.testing.assert_allclose(std, spread, rtol=1e-3)


def test_verbose_shows_residuals(capsys):
    pytest.importorskip("rich")
    X, y = regression_data()
    regressor(solver=ConjugateGradients(rank=4), verbose=True).fit(X, y)
    assert "iteration 1, residual" in capsys.readouterr().out


def test_saved_and_loaded(tmp_path):
    X, y = regression_data()
    gp = regressor().fit(X, y)
    save(gp, tmp_path / "model")
    again = load(tmp_path / "model")
    for a, b in zip(gp.predict(X, True), again.predict(X, True), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(again.residuals_, gp.residuals_)


# -- interrupted fits ----------------------------------------------------------------------------

INTERRUPTED = {
    "features": polynomial_features(n_components=60),
    # few draws: many share so many directions that the fit ends before it is killed
    "solver": ConjugateGradients(rank=4, memory=1, n_samples=2),
}


class Stopped:
    """Rows that end the process, or raise, in one of the passes."""

    def __init__(self, X, y, last_pass=None, stop=None):
        self.X, self.y, self.last_pass, self.stop = X, y, last_pass, stop
        self.passes = 0

    def __call__(self):
        self.passes += 1
        for number, batch in enumerate(batches(self.X, self.y, size=16)):
            if self.passes == self.last_pass and number == 2:
                self.stop()
            yield batch


KILLED = """
import os, signal
from gp.test_conjugate_gradients import *
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
regressor(**INTERRUPTED).fit(Stopped(*regression_data(), 12, kill), checkpoint={path!r})
"""


def test_killed_fit_goes_on(tmp_path):
    path = tmp_path / "state.npz"
    script = KILLED.format(path=str(path))
    environment = {**os.environ, "PYTHONPATH": f"{os.environ.get('PYTHONPATH', '')}:tests"}
    process = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert process.returncode == -signal.SIGKILL
    X, y = regression_data()
    whole, resumed = Stopped(X, y), Stopped(X, y)
    expected = regressor(**INTERRUPTED).fit(whole)
    found = regressor(**INTERRUPTED).fit(resumed, checkpoint=path)
    assert resumed.passes < whole.passes - 3  # iterations, right-hand sides, preconditioner
    assert found.n_iterations_ == expected.n_iterations_
    for a, b in zip(found.predict(X, True), expected.predict(X, True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7)


def test_checkpoint_of_something_else(tmp_path):
    X, y = regression_data()
    path = tmp_path / "state.npz"
    regressor(**INTERRUPTED).fit(X, y, checkpoint=path)
    with pytest.raises(ValueError, match="another configuration"):
        regressor(**INTERRUPTED, noise_variance=1.0).fit(X, y, checkpoint=path)
    changed = X.copy()
    changed[40, 0] += 1
    with pytest.raises(ValueError, match="other rows"):
        regressor(**INTERRUPTED).fit(changed, y, checkpoint=path)
    with pytest.raises(ValueError, match="another configuration"):
        regressor(**INTERRUPTED | {"solver": "cholesky"}).fit(X, y, checkpoint=path)


def test_nothing_is_left_of_the_other_solver():
    X, y = regression_data()
    gp = regressor(solver="cg").fit(X, y)
    gp.set_params(solver="cholesky").fit(X, y)
    assert not hasattr(gp, "residuals_")
    assert not hasattr(gp, "n_iterations_")
    assert not hasattr(gp.set_params(solver="cg").fit(X, y), "statistics_")
