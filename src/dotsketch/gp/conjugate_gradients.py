"""Block conjugate gradients that pass over the rows, for many columns.

Every output (or class) s has a system B_s v = ZᵀW_s y with B_s = ZᵀW_sZ + I/s. It is solved for the
mean of the coefficients, together with draws

    B δ = ṽ/s + ZᵀW^½ξ,    ṽ ~ N(0, s I),  ξ ~ N(0, I)

whose right-hand side has the covariance B: δ ~ N(0, B⁻¹) is a draw of the posterior around its mean
(Matheron's rule in the space of the coefficients). One pass over the rows multiplies all columns.

The preconditioner is a randomised Nyström approximation of fixed rank (Frangella, Tropp and Udell,
2023): U spans the leading eigenvectors of ZᵀWZ on some rows, and with the exact core UᵀB_sU

    P⁻¹ = U (UᵀBU)⁻¹ Uᵀ + (I − UUᵀ) / (λ_r + 1/s).

Columns of one system share their search directions (O'Leary, 1980). Passes multiply in single
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
from .columns import Columns
from .packed import PackedFactor, PackedMatrix
from .posterior import evaluate

SOLVERS = ("auto", "cholesky", "cg")
MOST_DIRECT = 8192  # columns: "auto" iterates beyond, where sums take more than 0.25 GB
BASIS_ROWS = 10_000  # that the subspace is found on: it need not be exact
# Relative residual of draws: what is left changes variances by less than 1 %, beside the 25 % that
# 31 draws have as a standard error
DRAW_TOLERANCE = 0.01


class RowBlock(NamedTuple):
    """What a block of b rows says to S systems."""

    features: np.ndarray  # Z (b, D)
    targets: np.ndarray  # (b, S)
    weights: np.ndarray  # (b, S)


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
    """Coefficients with the mean v_s (D, S) and the covariance B_s⁻¹, in two parts.

    For any U, with core = UᵀBU = L Lᵀ,

        B⁻¹ = U core⁻¹ Uᵀ + Cov(δ'),    δ' = δ − U core⁻¹ Uᵀ B δ,   δ ~ N(0, B⁻¹)

    The first part is exact. The second is estimated from k independent draws of δ',
    with a relative standard error of √(2/k). It vanishes if the columns of U span the space.
    """

    coefficients: Annotated[np.ndarray, array("f", "D", "S")]  # v
    basis: Annotated[np.ndarray, array("f", "D", "r")]  # U, single precision
    cores: tuple[PackedFactor, ...]  # L of every system
    rest: Annotated[np.ndarray, array("f", "D", "S", "k")]  # draws of δ', single precision

    def __post_init__(self) -> None:
        (D, S), r = self.coefficients.shape, self.basis.shape[1]
        if len(self.basis) != D or self.rest.shape[:2] != (D, S) or not self.rest.shape[2]:
            raise ValueError("Coefficients, basis and draws of a posterior do not fit each other.")
        if len(self.cores) != S or any(core.size != r for core in self.cores):
            raise ValueError(f"{S} cores of {r} rows are expected beside this basis.")

    def mean(self, Z: Any) -> Any:  # (n, D) -> (n, S)
        """E f(x)."""
        return evaluate(Z, self.coefficients)

    def variance(self, Z: Any) -> Any:  # (n, D) -> (n, S)
        """Var f(x) = |L⁻¹ Uᵀz|² + mean (zᵀδ')², in the array library of Z."""
        if is_foreign(Z):
            xp, (D, S, k) = namespace(Z), self.rest.shape
            maps = [self.basis @ core.inverse().T for core in self.cores]
            parts = [xp.sum((Z @ like(half, Z)) ** 2, axis=1) for half in maps]
            draws = xp.reshape(Z @ like(self.rest.reshape(D, S * k), Z), (-1, S, k))
            return xp.stack(parts, axis=1) + xp.mean(draws**2, axis=2)
        along = (np.asarray(Z, dtype=np.float32) @ self.basis).astype(np.float64)
        exact = np.stack([core.half_squares(along) for core in self.cores], axis=1)
        return exact + np.mean(self._rest(Z) ** 2, axis=2)

    def covariance(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n, n, S)
        """The same for pairs of rows."""
        along = (np.asarray(Z, dtype=np.float32) @ self.basis).astype(np.float64)
        halves = [core.half_solve(along.T) for core in self.cores]
        exact = np.stack([half.T @ half for half in halves], axis=2)
        rest = self._rest(Z)
        return exact + np.einsum("isk,jsk->ijs", rest, rest) / rest.shape[2]

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:  # -> (D, S, n)
        """Draws of v: new ones in the subspace, and a random rotation of the draws of δ'.

        Up to k draws are independent; more share the same k draws of δ'.
        """
        k, draws = self.rest.shape[2], []
        for s, core in enumerate(self.cores):
            inner = core.half_solve(rng.standard_normal((core.size, n)), adjoint=True)
            turns = [np.linalg.qr(rng.standard_normal((k, k)))[0] for _ in range(-(-n // k))]
            turn = np.concatenate(turns, axis=1)[:, :n].astype(np.float32)
            draws.append(self.basis @ inner.astype(np.float32) + self.rest[:, s] @ turn)
        return self.coefficients[:, :, None] + np.stack(draws, axis=1)

    def _rest(self, Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n, S, k)
        D, S, k = self.rest.shape
        values = np.asarray(Z, dtype=np.float32) @ self.rest.reshape(D, S * k)
        return values.astype(np.float64).reshape(len(Z), S, k)


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
    basis: np.ndarray  # U (D, r), single precision
    cores: np.ndarray  # (S, r (r + 1) / 2): Cholesky factors of UᵀBU
    tail: np.ndarray  # (S,): λ_r + 1/s
    history: np.ndarray  # (n_iterations + 1,): the largest relative norm of a mean

    def arrays(self) -> dict[str, Any]:
        """The fields by name, for a checkpoint."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> Iteration:
        """The way back from `arrays`."""
        return cls(**arrays)

    def preconditioned(self, R: np.ndarray, s: int) -> np.ndarray:  # (D, c) -> (D, c)
        """P⁻¹ R of system s."""
        along = self.basis.T.astype(np.float64) @ R
        inner = PackedFactor(self.cores[s]).solve(along) - along / self.tail[s]
        return R / self.tail[s] + self.basis @ inner


def solve_by_passes(
    rows: Rows,
    block: Callable[[Block], RowBlock],
    n_columns: int,
    priors: np.ndarray,
    solver: ConjugateGradients,
    *,
    seed: int,
    checkpoint: Checkpoint | None = None,
    verbose: bool = False,
) -> tuple[SampledPosterior, np.ndarray]:  # (S,)
    """The posterior of every system, and the relative residual after 0, 1, … iterations.

    `block` computes the features, targets and weights of a block of rows; prior variances are
    those of the systems. A checkpoint is written after every iteration.
    """
    # features of a block in single precision stay near the caches
    block_rows = int(np.clip((1 << 24) // (4 * n_columns), 64, 4096))
    passes = Passes(rows, block, n_columns, block_rows, solver.memory, verbose)
    precisions = 1 / np.asarray(priors, dtype=np.float64)
    state = None
    if checkpoint is not None:
        state = checkpoint.begin(digest(rows, block_rows))
    if state is None:
        state = _start(passes, precisions, solver, seed)
    if checkpoint is not None:
        checkpoint.write(state)
    limits = np.full(state.norms.shape, max(solver.tolerance, DRAW_TOLERANCE))
    limits[:, 0] = solver.tolerance
    while len(state.history) <= solver.max_iterations and _active(state, limits).any():
        _step(passes, state, precisions, limits)
        if checkpoint is not None:
            checkpoint.write(state)
    if _active(state, limits).any():
        warnings.warn(
            f"The conjugate gradients stopped after {solver.max_iterations} iterations with a "
            f"relative residual of {state.history[-1]:.1e}, above the tolerance of "
            f"{solver.tolerance:.0e}. Use a larger noise variance, a larger rank of the "
            "preconditioner or more iterations: solver=ConjugateGradients(rank=…, "
            'max_iterations=…); or solver="cholesky".',
            ConvergenceWarning,
            stacklevel=4,
        )
    cores = tuple(map(PackedFactor, state.cores))
    rest = np.empty((n_columns, len(cores), solver.n_samples), dtype=np.float32)
    for s, core in enumerate(cores):
        # δ − U (UᵀBU)⁻¹ Uᵀ Bδ: the part of a draw that the subspace does not explain
        coarse = core.solve(state.basis.T.astype(np.float64) @ state.right[:, s, 1:])
        rest[:, s] = state.solution[:, s, 1:] - state.basis @ coarse
    means = np.ascontiguousarray(state.solution[:, :, 0])
    return SampledPosterior(means, state.basis, cores, rest), state.history


class Passes:
    """Products with ZᵀW_sZ that hold neither this matrix nor, unless it fits, all of Z."""

    def __init__(
        self,
        rows: Rows,
        block: Callable[[Block], RowBlock],
        n_columns: int,
        block_rows: int,
        memory: int,
        verbose: bool = False,
    ):
        self.rows, self.block, self.n_columns = rows, block, n_columns
        self.block_rows, self.verbose = block_rows, verbose
        options = {"block_rows": block_rows, "row_bytes": 4 * n_columns}
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
        if not np.all(np.isfinite(total)):
            raise ValueError(
                "The sums over the features overflow or are not finite: scale the features down, "
                "or use a larger noise variance."
            )
        return total.T

    def products(
        self, V: np.ndarray, owners: np.ndarray, what: str, *, exact: bool = False
    ) -> np.ndarray:  # (D, c), (c,) -> (D, c)
        """ZᵀW_sZ V; column j has the weights of system owners[j]."""
        scales = np.max(np.abs(V), axis=0)  # small numbers keep their digits in single precision
        scales = np.where(scales > 0, scales, 1.0)
        scaled = (V / scales).astype(np.float64 if exact else np.float32)

        def right(block: RowBlock, first: int) -> np.ndarray:
            return (block.features @ scaled) * block.weights[:, owners]

        return self.adjoint(right, V.shape[1], what, exact=exact) * scales

    def cores(self, basis: np.ndarray, n_systems: int) -> list[PackedMatrix]:  # (D, r)
        """UᵀZᵀW_sZU of every system.

        Weights that all systems have in common are summed once. What a system adds to them is often
        on few rows: those of its class.
        """
        r = basis.shape[1]

        def add(total: np.ndarray, block: RowBlock, first: int) -> np.ndarray:
            T = (block.features @ basis).astype(np.float64)
            least = block.weights.min(axis=1, keepdims=True)
            own = np.concatenate([least, block.weights - least], axis=1).astype(np.float64)
            for packed, weights in zip(total, own.T, strict=True):
                some = np.flatnonzero(weights)
                if len(some):
                    scaled = T[some] * np.sqrt(weights[some])[:, None]
                    PackedMatrix(packed).add_outer_products(scaled)
            return total

        total = self._single.fold(partial(np.zeros, (n_systems + 1, r * (r + 1) // 2)), add)
        return [PackedMatrix(total[0] + own) for own in total[1:]]


def _as_type(block: Callable[[Block], RowBlock], dtype: Any, columns: Block) -> RowBlock:
    with threads_for_features(), np.errstate(over="ignore"):  # the sums are looked at
        return RowBlock(*(np.asarray(part, dtype=dtype) for part in block(columns)))


def _start(
    passes: Passes, precisions: np.ndarray, solver: ConjugateGradients, seed: int
) -> Iteration:
    """Preconditioner, right-hand sides, and the first solutions: draws of the prior."""
    rng = np.random.default_rng(seed)
    (S,), D, k = precisions.shape, passes.n_columns, solver.n_samples
    basis, last = _subspace(passes, min(solver.rank, D), rng)
    gram = basis.T.astype(np.float64) @ basis
    cores, whole = [], PackedMatrix.of(gram)
    for moment, precision in zip(passes.cores(basis, S), precisions, strict=True):
        moment.add_multiple(precision, whole)
        factor = moment.cholesky()
        if factor is None:
            raise ValueError(
                "The system is not positive definite to rounding: use a larger noise variance or a "
                "smaller prior variance."
            )
        cores.append(factor.values)
    prior = rng.standard_normal((D, S, k)) / np.sqrt(precisions)[:, None]

    def right(block: RowBlock, first: int) -> np.ndarray:  # -> (b, S (1 + k))
        """W y and W^½ ξ; ξ of a row follows from its number."""
        noise = np.random.default_rng([seed, first]).standard_normal((len(block.weights), S, k))
        drawn = np.sqrt(block.weights)[:, :, None] * noise
        means = (block.targets * block.weights)[:, :, None]
        return np.concatenate([means, drawn], axis=2).reshape(len(means), -1)

    sides = passes.adjoint(right, S * (1 + k), "right-hand sides", exact=True)
    sides = np.ascontiguousarray(sides).reshape(D, S, 1 + k)
    sides[:, :, 1:] += prior * precisions[:, None]
    state = Iteration(
        np.concatenate([np.zeros((D, S, 1)), prior], axis=2),
        sides.copy(),
        np.zeros_like(sides),
        sides,
        np.ones((S, 1 + k)),
        np.ones((S, 1 + k)),
        np.ones((S, 1 + k)),
        basis,
        np.stack(cores),
        last + precisions,
        np.zeros(0),
    )
    for s in range(S):
        squares = np.sum(sides[:, s] * state.preconditioned(sides[:, s], s), axis=0)
        state.start_norms[s] = np.sqrt(np.maximum(squares, 0))
    _refresh(passes, state, precisions)
    state.history = np.array([state.norms[:, 0].max()])
    return state


def _subspace(
    passes: Passes, rank: int, rng: np.random.Generator
) -> tuple[np.ndarray, float]:  # -> (D, r), λ_r
    """Leading eigenvectors of ZᵀWZ, with the largest weights of any system; the last eigenvalue.

    A randomised Nyström approximation on a sample of the rows: with Y = A Ω and ΩᵀY = C Cᵀ, the
    left singular vectors of Y C⁻ᵀ.
    """
    D = passes.n_columns
    if rank == D:
        return np.eye(D, dtype=np.float32), 0.0
    n = passes.rows.n_rows
    rows = passes.rows if n is None else Rows.of(*passes.rows.sample(BASIS_ROWS, rng))
    share = 1.0 if n is None or not rows.n_rows else n / rows.n_rows
    sample = Passes(rows, passes.block, D, passes.block_rows, 0)
    test = np.linalg.qr(rng.standard_normal((D, rank)).astype(np.float32))[0]

    def right(block: RowBlock, first: int) -> np.ndarray:
        return (block.features @ test) * block.weights.max(axis=1, keepdims=True)

    image = share * sample.adjoint(right, rank, "subspace")
    shift = float(np.finfo(np.float32).eps * np.linalg.norm(image))  # for a Cholesky factor
    image = image + shift * test
    inner = test.T.astype(np.float64) @ image
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    kept = values > 10 * shift
    if not np.any(kept):
        return np.eye(D, 1, dtype=np.float32), shift
    half = image @ (vectors[:, kept] / np.sqrt(values[kept]))
    squares, turns = np.linalg.eigh(half.T @ half)
    basis = half @ (turns / np.sqrt(squares))
    return np.ascontiguousarray(basis, dtype=np.float32), max(float(squares[0]) - shift, 0.0)


def _active(state: Iteration, limits: np.ndarray) -> np.ndarray:  # -> (S, 1 + k), bool
    """Columns that are not solved: a mean by an exact residual only, draws of a system together."""
    active = state.norms > limits
    active[:, 0] |= state.exact_norms[:, 0] > limits[:, 0]
    active[:, 1:] |= active[:, 1:].any(axis=1, keepdims=True)
    return active


def _refresh(passes: Passes, state: Iteration, precisions: np.ndarray) -> None:
    """Residuals from the rows in double precision; search directions start again."""
    D, S, c = state.solution.shape
    flat, owners = state.solution.reshape(D, S * c), np.repeat(np.arange(S), c)
    products = passes.products(flat, owners, "residuals", exact=True).reshape(D, S, c)
    state.residual = state.right - products - state.solution * precisions[:, None]
    for s in range(S):
        state.directions[:, s] = state.preconditioned(state.residual[:, s], s)
        squares = np.sum(state.residual[:, s] * state.directions[:, s], axis=0)
        state.norms[s] = _relative(squares, state.start_norms[s])
    state.exact_norms = state.norms.copy()


def _relative(squares: np.ndarray, norms: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(squares, 0)) / np.where(norms > 0, norms, 1.0)


def _step(passes: Passes, state: Iteration, precisions: np.ndarray, limits: np.ndarray) -> None:
    """One iteration: one pass over the rows, and another where residuals are computed anew.

    A step with directions P, which PᵀBP makes conjugate, is

        V ← V + P PᵀR,    R ← R − BP PᵀR,    P ← P⁻¹R − P (BP)ᵀ P⁻¹R.
    """
    active = _active(state, limits)
    systems, columns = np.nonzero(active)
    directions = state.directions[:, systems, columns]
    label = f"iteration {len(state.history)}, residual {state.history[-1]:.1e}"
    products = passes.products(directions, systems, label) + directions * precisions[systems]
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
        _refresh(passes, state, precisions)
    state.history = np.append(state.history, state.norms[:, 0].max())


def _conjugate(P: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (D, a), (D, a)
    """Combinations of directions P with PᵀBP = I, and of Q = BP; dependent ones are left out."""
    C = P.T @ Q
    lengths = np.sqrt(np.maximum(C.diagonal(), 0))
    scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    values, vectors = np.linalg.eigh((C + C.T) / 2 * np.outer(scales, scales))
    independent = values > 1e-6 * max(float(values[-1]), 0.0)  # single precision sees no more
    turn = scales[:, None] * vectors[:, independent] / np.sqrt(values[independent])
    return P @ turn, Q @ turn
