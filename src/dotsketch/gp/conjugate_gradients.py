"""Block conjugate gradients that pass over the rows, for many columns.

With the weights W of the rows, every output s has a system with its own noise σ_s² and prior
variance. All have the same matrix, and a shift of their own:

    A_s v_s = ZᵀW y_s,   A_s = ZᵀWZ + λ_s I,   λ_s = σ_s² / prior variance.

It is solved for the mean v_s of the coefficients, together with draws

    A_s δ = √λ_s ε + ZᵀW^½ ξ,    ε, ξ ~ N(0, I)

whose right-hand side has the covariance A_s: σ_s δ ~ N(0, σ_s² A_s⁻¹) is a draw of the posterior
around its mean (Matheron's rule in the space of the coefficients). One pass over the rows
multiplies all columns of all outputs.

The preconditioner is a randomised Nyström approximation of fixed rank r (Frangella, Tropp and
Udell, 2023): U spans the leading eigenvectors of ZᵀWZ on some rows, turned so that it makes this
matrix diagonal, UᵀZᵀWZU = diag θ, and

    P⁻¹ = U diag(1 / (θ + λ_s)) Uᵀ + (I − UUᵀ) / (θ_r + λ_s).

Columns of one output share their search directions (O'Leary, 1980). Passes multiply in single
precision; residuals are computed anew in double precision when they have fallen a thousandfold, and
before a solution counts (iterative refinement).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._arrays import is_foreign, like, namespace
from .._backends import add_adjoint
from .._support.stored import array, stored
from .._support.threads import run_strips, single_blas_thread, threads_for_features
from ..rows import Block, Checkpoint, Rows, digest
from .algebra import check_finite
from .columns import Columns
from .posterior import evaluate

SOLVERS = ("auto", "cholesky", "cg")
NO_SUMS = (
    '{} needs sums over the rows, which solver="cg" does not compute: use solver="cholesky", or '
    "call fit with all rows."
)
MOST_DIRECT = 8192  # columns: "auto" iterates beyond, where sums take more than 0.25 GB
BASIS_ROWS = 10_000  # that the subspace is found on: it need not be exact
# Relative residual of draws: what is left changes variances by less than 1 %, beside the 25 % that
# 31 draws have as a standard error
DRAW_TOLERANCE = 0.01


class RowBlock(NamedTuple):
    """What a block of b rows says to S systems."""

    features: np.ndarray  # Z (b, D)
    targets: np.ndarray  # (b, S)
    weights: np.ndarray  # (b,)


@stored
@dataclass(frozen=True)
class ConjugateGradients:
    """Preconditioned conjugate gradients: memory and time linear in the number of columns D.

    Use it as `FeatureGPRegressor(features, solver=ConjugateGradients(tolerance=1e-8))`;
    `solver="cg"` has these defaults.

    Parameters
    ----------
    tolerance : float, default=1e-5
        Iterations end where the norm of the residual, relative to that of the right-hand side, is
        at most this. The norm is that of the preconditioner, √(rᵀP⁻¹r), so this is about the error
        of the means at the training rows, relative to their spread.
    max_iterations : int, default=200
    rank : int, default=512
        Columns of the preconditioner. The part of a variance that lies in their subspace is exact;
        a rank of D makes all of it exact.
    n_samples : int, default=31
        Draws of the coefficients of every output, for variances and samples. The part of a
        variance outside of the preconditioner's subspace has the relative standard error
        √(2 / n_samples), 25 % for 31 draws.
    memory : int, default=2**29
        Bytes. Features of all rows are kept in memory if they take no more than this (in single
        precision), and computed again in every pass otherwise.
    """

    tolerance: float = 1e-5
    max_iterations: int = 200
    rank: int = 512
    n_samples: int = 31
    memory: int = 1 << 29

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must be between 0 and 1; got {self.tolerance!r}.")
        for name in ("max_iterations", "rank", "n_samples", "memory"):
            value = getattr(self, name)
            if not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{name} must be a positive integer; got {value!r}.")


def check_solver(solver: Any) -> None:
    if isinstance(solver, ConjugateGradients) or (isinstance(solver, str) and solver in SOLVERS):
        return
    raise ValueError(f"solver must be one of {SOLVERS} or a ConjugateGradients(…); got {solver!r}.")


def chosen_solver(solver: Any, rows: Rows, columns: Columns) -> ConjugateGradients | None:
    """The iterative solver, or None for the direct one."""
    if solver == "cholesky":
        return None
    if solver == "auto":
        suits = columns.n_columns > MOST_DIRECT and rows.repeatable and not columns.is_complex
        return ConjugateGradients() if suits else None
    if not rows.repeatable:
        raise ValueError(
            'solver="cg" reads the rows many times, and an iterator gives them once: pass a '
            'function that returns a fresh iterator, or use solver="cholesky".'
        )
    if columns.is_complex:
        raise ValueError(
            'solver="cg" works with real columns: use posterior="real", features with '
            'output="complex_to_real", or solver="cholesky".'
        )
    return ConjugateGradients() if isinstance(solver, str) else solver


@stored
@dataclass(frozen=True, eq=False)
class SampledPosterior:
    """Coefficients with the mean v_s (D, S) and the covariance σ_s² A_s⁻¹, in two parts.

    With c_s = (θ + λ_s) / σ_s² for the eigenvalues θ in the subspace of U,

        σ_s² A_s⁻¹ = U diag(1/c_s) Uᵀ + Cov(δ'),    δ' = δ − U diag(1/(θ + λ_s)) Uᵀ A_s δ.

    The first part is exact. The second is estimated from k independent draws of δ', with a relative
    standard error of √(2/k). It vanishes if the columns of U span the space.
    """

    coefficients: Annotated[np.ndarray, array("f", "D", "S")]  # v
    basis: Annotated[np.ndarray, array("f", "D", "r")]  # U, single precision
    precisions: Annotated[np.ndarray, array("f", "S", "r")]  # c
    rest: Annotated[np.ndarray, array("f", "D", "S", "k")]  # draws of δ', single precision
    prior_variances: Annotated[np.ndarray, array("f", "S")]

    def check_stored(self) -> None:
        if not self.rest.shape[2] or not np.all(self.precisions > 0):
            raise ValueError("A sampled posterior needs draws and positive precisions.")

    def mean(self, Z: Any) -> Any:  # (n, D) -> (n, S)
        """E f(x)."""
        return evaluate(Z, self.coefficients)

    def variance(self, Z: Any) -> Any:  # (n, D) -> (n, S)
        """Var f(x) = Σ (u_jᵀz)² / c_j + mean (zᵀδ')², in the array library of Z."""
        along, rest = self._parts(Z)
        xp = namespace(along)
        return along**2 @ like(1 / self.precisions.T, along) + xp.mean(rest**2, axis=2)

    def covariance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n, n, S)
        """The same for pairs of rows."""
        along, rest = self._parts(Z)
        exact = np.einsum("ir,jr,sr->ijs", along, along, 1 / self.precisions, optimize=True)
        return exact + np.einsum("isk,jsk->ijs", rest, rest, optimize=True) / rest.shape[2]

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:  # -> (D, S, n)
        """Draws of v: new ones in the subspace, and a random rotation of the draws of δ'.

        Up to k draws are independent; more share the same k draws of δ'.
        """
        k, draws = self.rest.shape[2], []
        for s, precisions in enumerate(self.precisions):
            inner = rng.standard_normal((len(precisions), n)) / np.sqrt(precisions)[:, None]
            turns = [np.linalg.qr(rng.standard_normal((k, k)))[0] for _ in range(-(-n // k))]
            turn = np.concatenate(turns, axis=1)[:, :n]
            draws.append(self.basis @ inner + self.rest[:, s] @ turn)
        return self.coefficients[:, :, None] + np.stack(draws, axis=1)

    def _parts(self, Z: Any) -> tuple[Any, Any]:  # (n, D) -> (n, r), (n, S, k)
        """Uᵀz and zᵀδ', products of single precision."""
        draws = self.rest.reshape(len(self.rest), -1)
        if is_foreign(Z):
            along, rest = Z @ like(self.basis, Z), Z @ like(draws, Z)
        else:
            low = np.asarray(Z, dtype=np.float32)
            along, rest = (low @ self.basis).astype(float), (low @ draws).astype(float)
        return along, namespace(rest).reshape(rest, (-1, *self.rest.shape[1:]))


@dataclass(eq=False)
class Iteration:
    """All that the next iteration needs. Columns: the mean of every system, then its k draws."""

    solution: np.ndarray  # V (D, S, 1 + k)
    residual: np.ndarray  # R, the same shape
    directions: np.ndarray  # P
    right: np.ndarray  # right-hand sides
    start_norms: np.ndarray  # (S, 1 + k)
    norms: np.ndarray  # (S, 1 + k): of residuals, relative to those of the right-hand sides
    exact_norms: np.ndarray  # the same when residuals were last computed exactly
    basis: np.ndarray  # U (D, r)
    values: np.ndarray  # θ (r,)
    last: np.ndarray  # θ_r: 0 if U spans the space
    shifts: np.ndarray  # λ (S,)
    history: np.ndarray  # (n_iterations + 1,): the largest relative norm of a mean

    def arrays(self) -> dict[str, Any]:
        """The fields by name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def preconditioned(self, R: np.ndarray, s: int) -> np.ndarray:  # (D, c) -> (D, c)
        """P⁻¹ R of system s."""
        outside = 1 / (self.last + self.shifts[s])
        inside = 1 / (self.values + self.shifts[s]) - outside
        return outside * R + self.basis @ (inside[:, None] * (self.basis.T @ R))

    def active(self, limits: np.ndarray) -> np.ndarray:  # -> (S, 1 + k), bool
        """Columns to solve: a mean until its exact residual is small, draws of a system at once."""
        active = self.norms > limits
        active[:, 0] |= self.exact_norms[:, 0] > limits[:, 0]
        active[:, 1:] |= active[:, 1:].any(axis=1, keepdims=True)
        return active


def solve_by_passes(
    rows: Rows,
    block: Callable[[Block], RowBlock],
    n_columns: int,
    noise: np.ndarray,
    priors: np.ndarray,
    solver: ConjugateGradients,
    *,
    seed: int,
    checkpoint: Checkpoint | None = None,
    verbose: bool = False,
) -> tuple[SampledPosterior, np.ndarray]:  # (S,), (S,)
    """The posterior of every system, and the relative residual after 0, 1, … iterations.

    `block` computes the features, targets and weights of a block of rows; noise and prior variances
    are those of the systems. A checkpoint is written after every iteration.
    """
    passes = Passes(rows, block, n_columns, solver.memory, verbose)
    state = None
    if checkpoint is not None:
        state = checkpoint.begin(digest(rows, passes.block_rows))
    if state is None:
        state = _start(passes, noise / priors, solver, seed)
    if checkpoint is not None:
        checkpoint.write(state)
    limits = np.full(state.norms.shape, max(solver.tolerance, DRAW_TOLERANCE))
    limits[:, 0] = solver.tolerance
    while len(state.history) <= solver.max_iterations and state.active(limits).any():
        _step(passes, state, limits)
        if checkpoint is not None:
            checkpoint.write(state)
    if state.active(limits).any():
        warnings.warn(
            f"The conjugate gradients stopped after {solver.max_iterations} iterations with a "
            f"relative residual of {state.history[-1]:.1e}, above the tolerance of "
            f"{solver.tolerance:.0e}. Use a larger noise variance, a larger rank of the "
            "preconditioner or more iterations: solver=ConjugateGradients(rank=…, "
            'max_iterations=…); or solver="cholesky".',
            ConvergenceWarning,
            stacklevel=6,
        )
    totals = state.values + state.shifts[:, None]  # (S, r)
    rest = np.empty((n_columns, len(noise), solver.n_samples), dtype=np.float32)
    for s, total in enumerate(totals):
        # the part of a draw that the subspace does not explain
        explained = state.basis @ (state.basis.T @ state.right[:, s, 1:] / total[:, None])
        rest[:, s] = np.sqrt(noise[s]) * (state.solution[:, s, 1:] - explained)
    posterior = SampledPosterior(
        np.ascontiguousarray(state.solution[:, :, 0]),
        state.basis.astype(np.float32),
        totals / noise[:, None],
        rest,
        priors,
    )
    return posterior, state.history


class Passes:
    """Products with M = ZᵀWZ that hold neither this matrix nor, unless it fits, all of Z."""

    def __init__(
        self,
        rows: Rows,
        block: Callable[[Block], RowBlock],
        n_columns: int,
        memory: int,
        verbose: bool = False,
    ):
        self.rows, self.block, self.n_columns, self.verbose = rows, block, n_columns, verbose
        # features of a block in single precision stay near the caches
        self.block_rows = int(np.clip((1 << 24) // (4 * n_columns), 64, 4096))
        options = {"block_rows": self.block_rows, "row_bytes": 4 * n_columns}
        self._single = rows.mapped(partial(_as_type, block, np.float32), memory=memory, **options)
        self._double = rows.mapped(partial(_as_type, block, np.float64), memory=0, **options)

    def adjoint(
        self,
        right: Callable[[RowBlock, int], np.ndarray],
        width: int,
        what: str,
        *,
        exact: bool = False,
    ) -> np.ndarray:  # -> (D, width)
        """Σ Zᵀ right(block, first) over all blocks; `first` is the number of the first row."""

        def add(total: np.ndarray, block: RowBlock, first: int) -> np.ndarray:
            R = right(block, first)
            if exact:
                total += R.T @ block.features
            else:
                part = np.zeros(total.shape, dtype=np.float32)
                R = R.astype(np.float32, copy=False)
                run_strips(
                    lambda own: add_adjoint(block.features[:, own], R, part[:, own]),
                    self.n_columns,
                    1024,
                )
                total += part
            return total

        source = self._double if exact else self._single
        total = source.fold(
            partial(np.zeros, (width, self.n_columns)), add, progress=what if self.verbose else None
        )
        check_finite(total)
        return np.asarray(total.T)

    def products(
        self, V: np.ndarray, what: str, *, exact: bool = False
    ) -> np.ndarray:  # (D, c) -> (D, c)
        """M V."""
        scales = np.max(np.abs(V), axis=0)  # small numbers keep their digits in single precision
        scales = np.where(scales > 0, scales, 1.0)
        scaled = (V / scales).astype(np.float64 if exact else np.float32)

        def right(block: RowBlock, first: int) -> np.ndarray:
            return (block.features @ scaled) * block.weights[:, None]

        return self.adjoint(right, V.shape[1], what, exact=exact) * scales

    def core(self, basis: np.ndarray) -> np.ndarray:  # (D, r) -> (r, r)
        """UᵀMU, squares of columns of single precision: it is never far from positive."""
        low = basis.astype(np.float32)

        def add(total: np.ndarray, block: RowBlock, first: int) -> np.ndarray:
            T = (block.features @ low).astype(np.float64)
            total += (T * block.weights[:, None]).T @ T
            return total

        total: np.ndarray = self._single.fold(partial(np.zeros, 2 * (low.shape[1],)), add)
        return total


def _as_type(block: Callable[[Block], RowBlock], dtype: Any, columns: Block) -> RowBlock:
    with threads_for_features(), np.errstate(over="ignore"):  # the sums are looked at
        return RowBlock(*(np.asarray(part, dtype=dtype) for part in block(columns)))


def _start(passes: Passes, shifts: np.ndarray, solver: ConjugateGradients, seed: int) -> Iteration:
    """Preconditioner, right-hand sides, and the first solutions: draws of the prior."""
    rng = np.random.default_rng(seed)
    (S,), D, k = shifts.shape, passes.n_columns, solver.n_samples
    basis, last = _subspace(passes, min(solver.rank, D), rng)
    values, turn = np.linalg.eigh(passes.core(basis))
    prior = rng.standard_normal((D, S, k)) / np.sqrt(shifts)[:, None]

    def right(block: RowBlock, first: int) -> np.ndarray:  # -> (b, S (1 + k))
        """W y and W^½ ξ; ξ of a row follows from its number."""
        weights = block.weights[:, None, None]
        noise = np.random.default_rng([seed, first]).standard_normal((len(weights), S, k))
        parts = weights * block.targets[:, :, None], np.sqrt(weights) * noise
        return np.concatenate(parts, axis=2).reshape(len(weights), -1)

    sides = passes.adjoint(right, S * (1 + k), "right-hand sides", exact=True)
    sides = np.ascontiguousarray(sides).reshape(D, S, 1 + k)
    sides[:, :, 1:] += prior * shifts[:, None]
    ones = np.ones((S, 1 + k))
    state = Iteration(
        np.concatenate([np.zeros((D, S, 1)), prior], axis=2),
        *(sides, np.zeros_like(sides), sides),
        *(ones, ones, ones),
        *(basis @ turn, np.maximum(values, 0), np.array(last), shifts, np.zeros(0)),
    )
    squares = [np.sum(sides[:, s] * state.preconditioned(sides[:, s], s), axis=0) for s in range(S)]
    state.start_norms = np.sqrt(np.maximum(squares, 0))
    _refresh(passes, state)
    state.history = np.array([state.norms[:, 0].max()])
    return state


def _subspace(
    passes: Passes, rank: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:  # -> (D, r), θ_r
    """Orthonormal leading eigenvectors of M, and the last eigenvalue.

    A randomised Nyström approximation on a sample of the rows: with Y = M Ω and ΩᵀY = C Cᵀ, the
    left singular vectors of Y C⁻ᵀ.
    """
    D = passes.n_columns
    if rank == D:
        return np.eye(D), 0.0
    n = passes.rows.n_rows
    rows = passes.rows if n is None else Rows.of(*passes.rows.sample(BASIS_ROWS, rng))
    share = 1.0 if n is None or not rows.n_rows else n / rows.n_rows
    test = np.linalg.qr(rng.standard_normal((D, rank)))[0]
    image = share * Passes(rows, passes.block, D, 0).products(test, "subspace")
    shift = float(np.finfo(np.float32).eps * np.linalg.norm(image))  # for a Cholesky factor
    image = image + shift * test
    inner = test.T @ image
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    kept = values > 10 * shift
    if not np.any(kept):
        return np.eye(D, 1), shift
    half = image @ (vectors[:, kept] / np.sqrt(values[kept]))
    basis, singular, _ = np.linalg.svd(half, full_matrices=False)
    return basis, max(float(singular[-1]) ** 2 - shift, 0.0)


def _refresh(passes: Passes, state: Iteration) -> None:
    """Residuals from the rows in double precision; search directions start again."""
    D, S, c = state.solution.shape
    flat = state.solution.reshape(D, S * c)
    products = passes.products(flat, "residuals", exact=True).reshape(D, S, c)
    state.residual = state.right - products - state.solution * state.shifts[:, None]
    for s in range(S):
        state.directions[:, s] = state.preconditioned(state.residual[:, s], s)
        squares = np.sum(state.residual[:, s] * state.directions[:, s], axis=0)
        state.norms[s] = _relative(squares, state.start_norms[s])
    state.exact_norms = state.norms.copy()


def _relative(squares: np.ndarray, norms: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(squares, 0)) / np.where(norms > 0, norms, 1.0)


def _step(passes: Passes, state: Iteration, limits: np.ndarray) -> None:
    """One iteration: one pass over the rows, and another where residuals are computed anew.

    A step with directions P, which PᵀAP makes conjugate, is

        V ← V + P PᵀR,    R ← R − AP PᵀR,    P ← P⁻¹R − P (AP)ᵀ P⁻¹R.
    """
    systems, columns = np.nonzero(state.active(limits))
    directions = state.directions[:, systems, columns]
    label = f"iteration {len(state.history)}, residual {state.history[-1]:.1e}"
    products = passes.products(directions, label) + directions * state.shifts[systems]
    # Short calls of NumPy's BLAS and of SciPy's alternate: their threads would fight
    with single_blas_thread():
        for s in np.unique(systems):
            own, mine = columns[systems == s], systems == s
            P, Q = _conjugate(directions[:, mine], products[:, mine])
            residual = state.residual[:, s, own]
            steps = P.T @ residual
            state.solution[:, s, own] += P @ steps
            residual -= Q @ steps
            state.residual[:, s, own] = residual
            following = state.preconditioned(residual, s)
            squares = np.sum(residual * following, axis=0)
            state.norms[s, own] = _relative(squares, state.start_norms[s, own])
            state.directions[:, s, own] = following - P @ (Q.T @ following)
    means = state.norms[:, 0]
    # single precision carries about three digits of a residual
    if np.all((means <= limits[:, 0]) | (means <= 1e-3 * state.exact_norms[:, 0])) or np.any(
        means > 10 * state.exact_norms[:, 0]
    ):
        _refresh(passes, state)
    state.history = np.append(state.history, state.norms[:, 0].max())


def _conjugate(P: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (D, a), (D, a)
    """Combinations of directions P with PᵀAP = I, and of Q = AP; dependent ones are left out."""
    C = P.T @ Q
    lengths = np.sqrt(np.maximum(C.diagonal(), 0))
    scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    values, vectors = np.linalg.eigh((C + C.T) / 2 * np.outer(scales, scales))
    independent = values > 1e-6 * max(float(values[-1]), 0.0)  # single precision sees no more
    turn = scales[:, None] * vectors[:, independent] / np.sqrt(values[independent])
    return P @ turn, Q @ turn
