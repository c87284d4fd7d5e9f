"""Iterations of block conjugate gradients: one pass over the rows each.

The means and the draws of a system share one space of search directions (O'Leary, 1980): every
column is minimised over the directions of all, so that the extreme eigenvalues that 31 random draws
find soon no longer slow down any of them. A step with directions P, which PᵀBP makes conjugate, is

    V ← V + P (PᵀBP)⁻¹ PᵀR,    P ← P⁻¹R − P (PᵀBP)⁻¹ (BP)ᵀ P⁻¹R

where P⁻¹R are residuals times the inverse of the preconditioner. The draws of a system leave
together. The last directions that they have shared stay: while the directions of the means are
conjugate to them, they are so to all directions before as well.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._support.threads import single_blas_thread
from ..packed import PackedFactor
from .basis import product
from .passes import RowBlock, RowSystems, times
from .preconditioner import Preconditioner
from .sampled import SampledPosterior

# Of draws, relative to the root of the degrees of freedom: their spread at the rows over that of
# the noise. A squared residual of 1 is one direction in which a draw has the variance of the prior
# in place of the posterior's. With a rank of 64 or more, 0.08 makes variances 0 to 3 % too large,
# 0.13 up to 5 % and 0.3 up to 40 %; that there are 31 draws makes them vary by 25 %
DRAW_TOLERANCE = 0.08
REPLACED = 1e-3  # residuals are computed anew, exactly, when they have fallen by so much
RESTARTED = 10.0  # directions start anew where residuals have grown by so much
DEPENDENT = 1e-6  # of the largest eigenvalue of PᵀBP: directions below are not independent


def relative_norms(squares: np.ndarray, start_squares: np.ndarray) -> np.ndarray:  # (c,), (c,)
    """Norms of residuals from their squares; those of right-hand sides of zero are zero."""
    ratios = np.maximum(squares, 0) / np.where(start_squares > 0, start_squares, 1.0)
    return np.where(start_squares > 0, np.sqrt(ratios), 0.0)


@dataclass(eq=False)
class Iteration:
    """All that the next iteration needs; columns are those of the means, then those of the draws.

    `relative` are norms of residuals relative to those of the right-hand sides.
    """

    solution: np.ndarray  # V (D, c)
    residual: np.ndarray  # R (D, c)
    directions: np.ndarray  # P (D, c)
    start_squares: np.ndarray  # (c,)
    coarse: np.ndarray  # (r, S k): solutions of the draws within the subspace; (0, S k) without
    relative: np.ndarray  # (c,)
    checked: np.ndarray  # (S m,): `relative` when it was computed exactly
    history: np.ndarray  # (n_iterations + 1,): the largest of the means
    shared: np.ndarray  # (D, c), single precision: the last directions before draws left, conjugate
    shared_products: np.ndarray  # B times these
    basis: np.ndarray  # U (D, r)
    gram: np.ndarray  # (r (r + 1) / 2,)
    cores: np.ndarray  # (S, r (r + 1) / 2)
    tail: float
    is_exact: bool  # whether all passes are exact from here on

    @property
    def n_iterations(self) -> int:
        return len(self.history) - 1

    def arrays(self) -> dict[str, Any]:
        """The fields by name, for a checkpoint."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> Iteration:
        """The way back from `arrays`."""
        tail, is_exact = float(arrays["tail"]), bool(arrays["is_exact"])
        return cls(**{**arrays, "tail": tail, "is_exact": is_exact})


class Loop:
    """Iterations on a state, which they change, until residuals are at most `tolerance`.

    Residuals that are only updated drift away from the true ones, in single precision soon. So
    they are computed anew from the rows, in double precision, whenever they have fallen by
    `REPLACED`, and before a mean counts as found; search directions stay.
    """

    def __init__(
        self,
        systems: RowSystems,
        precision: float,
        state: Iteration,
        tolerance: float,
        max_iterations: int,
    ):
        self.systems, self.precision, self.state = systems, precision, state
        self.tolerance, self.max_iterations = tolerance, max_iterations
        S, m = systems.n_systems, systems.n_outputs
        self.n_means = S * m
        self.n_draws = k = state.solution.shape[1] // S - m
        self.owners = np.concatenate([np.repeat(np.arange(S), m), np.repeat(np.arange(S), k)])
        self.preconditioner = Preconditioner(
            state.basis, PackedFactor(state.gram), state.cores, state.tail
        )

    @property
    def is_converged(self) -> bool:
        return not np.any(self._active())

    @property
    def is_done(self) -> bool:
        return self.is_converged or self.state.n_iterations >= self.max_iterations

    def _active(self) -> np.ndarray:  # -> (c,), bool
        """Columns that are not found: a mean by an exact residual only, draws of a system all."""
        known = np.maximum(self.state.relative[: self.n_means], self.state.checked)
        draws = [self._needs_draws(system) for system in range(self.systems.n_systems)]
        return np.concatenate([known > self.tolerance, np.repeat(draws, self.n_draws)])

    def _needs_draws(self, system: int) -> bool:
        """Whether draws of a system are not found."""
        if not self.n_draws:
            return False
        own, state = self._draws_of(system), self.state
        squares = state.relative[own] ** 2 * state.start_squares[own]
        tolerance = max(self.tolerance, DRAW_TOLERANCE)
        return bool(np.max(squares) > tolerance**2 * self._degrees_of_freedom(system))

    def _degrees_of_freedom(self, system: int) -> float:
        """How much of |ṽ|²/s = D the rows have taken from the draws of a system, so far.

        tr (I − B⁻¹/s) of a posterior B⁻¹ are its degrees of freedom, and those of draws that are
        not found are fewer.
        """
        own = self._draws_of(system)
        draws = self.state.solution[:, own]
        left = self.precision * np.einsum("ij,ij->j", draws, draws)
        return max(float(np.mean(self.state.start_squares[own] - left)), 1.0)

    def _draws_of(self, system: int) -> slice:
        first = self.n_means + system * self.n_draws
        return slice(first, first + self.n_draws)

    def step(self) -> None:
        """One iteration: one pass over the rows."""
        state = self.state
        active = np.flatnonzero(self._active())
        means = active[active < self.n_means]
        relative = state.relative[means]
        due = (relative <= REPLACED * state.checked[means]) | (relative <= self.tolerance)
        exact = state.is_exact or bool(np.any(due))
        directions = state.directions[:, active]
        label = f"iteration {state.n_iterations + 1}, residual {state.history[-1]:.1e}"
        if exact:
            products, true = self._exact_pass(directions, active, means, label)
            state.residual[:, means] = true
        else:
            products = self.systems.products(directions, self.owners[active], what=label)
        products += self.precision * directions
        # Short calls of NumPy's BLAS and of SciPy's alternate: see `suited_blas_threads`
        with single_blas_thread():
            for system in np.unique(self.owners[active]):
                self._advance(active, self.owners[active] == system, directions, products)
        if exact:
            before = state.checked[means]
            state.checked[means] = state.relative[means]
            # single precision no longer helps these systems
            state.is_exact |= bool(np.any(state.checked[means] > before / 2))
        largest = state.relative[: self.n_means].max()
        state.history = np.append(state.history, largest)

    def _advance(
        self, active: np.ndarray, mine: np.ndarray, directions: np.ndarray, products: np.ndarray
    ) -> None:  # (a,), (a,) bool, (D, a), (D, a)
        """The step of one system, and its next directions."""
        state, columns = self.state, active[mine]
        own = self.owners == self.owners[columns[0]]
        P, Q = conjugate(directions[:, mine], products[:, mine])
        n_new = P.shape[1]  # at most the number of columns
        if np.any(state.shared[:, own]):
            # a residual that was computed anew may have something to be found along these, too
            P = np.concatenate([P, state.shared[:, own]], axis=1)
            Q = np.concatenate([Q, state.shared_products[:, own]], axis=1)
        residual = state.residual[:, columns]
        steps = P.T @ residual
        state.solution[:, columns] += P @ steps
        residual -= Q @ steps
        state.residual[:, columns] = residual
        found = self.preconditioner(residual, self.owners[columns])
        before = state.relative[columns]
        squares = np.sum(residual * found, axis=0)
        state.relative[columns] = relative_norms(squares, state.start_squares[columns])
        following = found - P @ (Q.T @ found)
        # A residual was far off, and earlier directions mislead; or they fill the space, so that
        # nothing but what their single precision has left is conjugate to them
        is_off = state.relative[columns] > RESTARTED * before
        is_filled = np.sum(residual * following, axis=0) < squares / 2
        if np.any(is_off | is_filled):
            state.directions[:, columns], state.shared[:, own] = found, 0.0
            return
        state.directions[:, columns] = following
        if columns[-1] >= self.n_means and not self._needs_draws(
            self.owners[columns[0]]
        ):  # they leave
            state.shared[:, columns[:n_new]] = P[:, :n_new]
            state.shared_products[:, columns[:n_new]] = Q[:, :n_new]

    def _exact_pass(
        self, directions: np.ndarray, active: np.ndarray, means: np.ndarray, label: str
    ) -> tuple[np.ndarray, np.ndarray]:  # -> (D, active), (D, means)
        """ZᵀWZ times directions, and the residuals ZᵀW(Y − ZV) − V/s of the means."""
        V, owners = self.state.solution[:, means], self.owners[active]

        def columns(block: RowBlock, first: int) -> np.ndarray:
            products = times(block.features, directions) * block.weights[:, owners]
            targets = block.targets.reshape(len(products), -1)[:, means]
            rest = (targets - times(block.features, V)) * block.weights[:, owners[: len(means)]]
            return np.concatenate([products, rest], axis=1)

        width = len(active) + len(means)
        found = self.systems.adjoint(columns, width, exact=True, what=label)
        return found[:, : len(active)], found[:, len(active) :] - self.precision * V

    def warn(self) -> None:
        if self.is_converged:
            return
        warnings.warn(
            f"The conjugate gradients stopped after {self.state.n_iterations} iterations with a "
            f"relative residual of {self.state.history[-1]:.1e}, above the tolerance of "
            f"{self.tolerance:.0e}. Use a larger noise variance, a larger rank of the "
            "preconditioner or more iterations: solver=ConjugateGradients(rank=…, "
            'max_iterations=…); or solver="cholesky".',
            ConvergenceWarning,
            stacklevel=5,
        )

    def posteriors(self) -> list[SampledPosterior]:
        state, n = self.state, self.n_means
        m, k, e = self.systems.n_outputs, self.n_draws, len(state.coarse)
        # δ − U (UᵀBU)⁻¹ Uᵀ Bδ: the part of a draw that the subspace does not explain
        basis = state.basis if e else np.zeros((len(state.basis), 0), dtype=np.float32)
        cores = self.preconditioner.cores if e else [PackedFactor(np.zeros(0))]
        rest = (state.solution[:, n:] - product(basis, state.coarse)).astype(np.float32)
        nothing = np.zeros((len(rest), 1), dtype=np.float32)  # the whole space explains all
        return [
            SampledPosterior(
                state.solution[:, s * m : (s + 1) * m].copy(),
                basis,
                core,
                rest[:, s * k : (s + 1) * k].copy() if k else nothing,
            )
            for s, core in enumerate(cores)
        ]


def conjugate(P: np.ndarray, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (D, a), (D, a)
    """Combinations of directions P with PᵀBP = I, and of Q = BP; dependent ones are left out."""
    C = P.T @ Q
    lengths = np.sqrt(np.maximum(C.diagonal(), 0))
    scales = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    values, vectors = np.linalg.eigh((C + C.T) / 2 * np.outer(scales, scales))
    independent = values > DEPENDENT * max(float(values[-1]), 0.0)
    turn = scales[:, None] * vectors[:, independent] / np.sqrt(values[independent])
    return P @ turn, Q @ turn
