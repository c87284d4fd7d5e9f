"""The iterative solver: conjugate gradients that pass over the rows, for many columns.

Systems B V = ZᵀW Y with B = ZᵀWZ + I/s are solved for the mean of the weights, together with

    B δ = ṽ/s + ZᵀW^½ξ,    ṽ ~ N(0, s I),  ξ ~ N(0, I)

whose right-hand side has the covariance B: δ ~ N(0, B⁻¹) is a draw of the posterior around its mean
(Matheron's rule in the space of the weights). One pass over the rows multiplies all columns.

A draw starts at ṽ, which it equals along directions that no row shows: nothing is left to be found
there. All columns start with what the subspace of the preconditioner adds to that.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ...rows import Checkpoint
from .passes import RowBlock, RowSystems, multiplier, times
from .preconditioner import Preconditioner, random_basis
from .sampled import SampledPosterior

# Of draws, relative to √min(D, n), the norm of all that n rows may show. A squared residual of 1 is
# one direction in which a draw has the variance of the prior in place of the posterior's: at 0.07
# variances were up to 1.8 times too large where the subspace is small (rank 8)
SAMPLE_TOLERANCE = 0.01
DRAW_ITERATIONS = 1 / 3  # of those of the means, at most
DRAWS, CLASS_DRAWS = 32, 16
REPLACED = 1e-3  # residuals are computed anew, exactly, when they have fallen by so much
RESTARTED = 100.0  # directions start anew where squared residuals have grown by so much


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
    rank : int or "auto", default="auto"
        Columns of the preconditioner; "auto" doubles it from 64 while that saves time, and beyond
        20,000 rows from 256 to 1024 at most, on 10,000 of the rows.
    n_samples : int or "auto", default="auto"
        Draws of the weights, for variances and samples; "auto" is 32 for a regression and 16 for
        each class of a classifier. The part of a variance that lies in the subspace of the
        preconditioner is exact, the rest has the relative standard error √(2 / n_samples), 25 % for
        32 draws; draws have a tolerance of their own, 0.01. `rank` = D makes all of it exact.
    memory : int, default=2**29
        Bytes. Features of all rows are kept in memory if they take no more than this (in single
        precision), and computed anew in every pass otherwise. The rank is bounded by it, too.
    random_state : int, default=0
        For the preconditioner and the draws.
    """

    tolerance: float = 1e-5
    max_iterations: int = 200
    rank: int | str = "auto"
    n_samples: int | str = "auto"
    memory: int = 1 << 29
    random_state: int = 0

    mergeable = False  # a pass needs all rows

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must be between 0 and 1; got {self.tolerance!r}.")
        for name, words in (
            ("max_iterations", ()),
            ("memory", ()),
            ("rank", ("auto",)),
            ("n_samples", ("auto",)),
        ):
            value = getattr(self, name)
            if value not in words and (not isinstance(value, (int, np.integer)) or value < 1):
                options = "".join(f' or "{word}"' for word in words)
                raise ValueError(f"{name} must be a positive integer{options}; got {value!r}.")
        is_integer = isinstance(self.random_state, (int, np.integer))
        if not is_integer or self.random_state < 0:
            raise ValueError(
                f"random_state must be an integer, at least 0; got {self.random_state!r}."
            )

    def draws(self, n_systems: int) -> int:
        """The number of draws of each system."""
        if isinstance(self.n_samples, str):
            return DRAWS if n_systems == 1 else CLASS_DRAWS
        return int(self.n_samples)

    def solve(
        self,
        systems: RowSystems,
        prior_variance: float,
        *,
        checkpoint: Checkpoint | None = None,
        resumes: bool = False,
    ) -> tuple[list[SampledPosterior], Iteration]:
        """The posterior of every system, and how the iterations went.

        A checkpoint is written after every iteration; if it `resumes`, the state in it is taken.
        """
        if resumes and checkpoint is not None:
            state = checkpoint.restored()
        else:
            state = self._begin(systems, prior_variance)
        loop = _Loop(self, systems, 1 / prior_variance, state)
        while not loop.is_done:
            if checkpoint is not None:
                checkpoint.write(state, 1 + state.n_iterations)
            loop.step()
        if checkpoint is not None:
            checkpoint.write(state, 1 + state.n_iterations)
        loop.warn()
        return loop.posteriors(), state

    def _begin(self, systems: RowSystems, prior_variance: float) -> Iteration:
        """Preconditioner, where columns start, and their first residuals and directions."""
        S, m, k = systems.n_systems, systems.n_outputs, self.draws(systems.n_systems)
        D, precision = systems.n_features, 1 / prior_variance
        streams = np.random.SeedSequence(self.random_state).spawn(2)
        basis, values = random_basis(
            systems,
            precision,
            self.tolerance,
            S * (m + DRAW_ITERATIONS * k),
            None if isinstance(self.rank, str) else int(self.rank),
            np.random.default_rng(streams[1]),
        )
        whole = basis.shape[1] == D  # as its preconditioner, the system itself
        k = 0 if whole else k  # its factor gives exact variances
        prior = np.random.default_rng(streams[0]).standard_normal((D, S * k))
        prior *= np.sqrt(prior_variance)
        basis = basis.astype(np.float32, copy=False)
        owners = np.concatenate([np.repeat(np.arange(S), m), np.repeat(np.arange(S), k)])
        of_draws = owners[S * m :]
        times_prior = multiplier(prior, whole)

        def noise(block: RowBlock, first: int) -> np.ndarray:  # -> (b, S k)
            """ξ of a block: a stream for each, so that it does not depend on earlier blocks."""
            rng = np.random.default_rng([self.random_state, first])
            return rng.standard_normal((len(block.weights), S * k), dtype=np.float32)

        def parts(block: RowBlock, first: int) -> np.ndarray:  # -> (b, S (m + 2 k))
            """WY, W^½ξ and WZṽ."""
            weights = block.weights[:, of_draws]
            Y = block.targets * block.weights[:, :, None]
            shown = weights * times_prior(block.features)
            found = Y.reshape(len(Y), -1), np.sqrt(weights) * noise(block, first), shown
            return np.concatenate(found, axis=1)

        moments, along = systems.cores(basis, parts, S * (m + 2 * k))
        preconditioner = Preconditioner.of(basis, moments, precision, float(values[-1]))
        targets, drawn, shown = np.split(along, [S * m, S * (m + k)], axis=1)
        # Uᵀ times right-hand sides, and times the residuals of ṽ
        right = np.concatenate([targets, drawn + precision * preconditioner.along(prior)], axis=1)
        inner = preconditioner.solved(np.concatenate([targets, drawn - shown], axis=1), owners)
        solution = preconditioner.outward(inner)
        solution[:, S * m :] += prior
        times_solution = multiplier(solution, whole)

        def columns(block: RowBlock, first: int) -> np.ndarray:  # -> (b, S (m + k))
            """W(Y − Zv) of the means and W^½(ξ − W^½Zv) of the draws."""
            weights = block.weights[:, owners]
            found = -weights * times_solution(block.features)
            found[:, : S * m] += (block.targets * block.weights[:, :, None]).reshape(len(found), -1)
            found[:, S * m :] += np.sqrt(weights[:, S * m :]) * noise(block, first)
            return found

        residual = systems.adjoint(columns, S * (m + k), exact=whole, what="start")
        residual -= precision * solution
        residual[:, S * m :] += precision * prior
        directions = preconditioner(residual, owners)
        squares = np.sum(residual * directions, axis=0)
        # rᵀB⁻¹r of the right-hand sides: what the subspace explains, and the rest
        first_squares = np.sum(inner * right, axis=0) + np.maximum(squares, 0)
        first_squares[S * m :] = min(D, systems.rows.n_rows or D)
        relative = relative_norms(squares, first_squares)
        checked = relative[: S * m].copy() if whole else (first_squares[: S * m] > 0).astype(float)
        return Iteration(
            solution=solution,
            residual=residual,
            directions=directions,
            squares=squares,
            first_squares=first_squares,
            coarse=preconditioner.solved(right[:, S * m :], of_draws),
            relative=relative,
            checked=checked,
            history=np.array([relative[: S * m].max()]),
            basis=basis,
            cores=moments,
            tail=preconditioner.tail,
            is_exact=whole,
        )


def relative_norms(squares: np.ndarray, first_squares: np.ndarray) -> np.ndarray:  # (c,), (c,)
    """Norms of residuals from their squares; those of right-hand sides of zero are zero."""
    ratios = np.maximum(squares, 0) / np.where(first_squares > 0, first_squares, 1.0)
    return np.where(first_squares > 0, np.sqrt(ratios), 0.0)


@dataclass(eq=False)
class Iteration:
    """All that the next iteration needs; columns are those of the means, then those of the draws.

    `relative` are norms of residuals relative to those of the right-hand sides.
    """

    solution: np.ndarray  # V (D, c)
    residual: np.ndarray  # R (D, c)
    directions: np.ndarray  # (D, c)
    squares: np.ndarray  # (c,): RᵀP⁻¹R
    first_squares: np.ndarray  # (c,)
    coarse: np.ndarray  # (r, S k): the solutions of the draws within the subspace
    relative: np.ndarray  # (c,)
    checked: np.ndarray  # (S m,): `relative` when it was computed exactly
    history: np.ndarray  # (n_iterations + 1,): the largest of the means
    basis: np.ndarray  # (D, r)
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


class _Loop:
    """Iterations on a state, which they change.

    Residuals that are only updated drift away from the true ones, in single precision soon. So
    they are computed anew from the rows, in double precision, whenever they have fallen by
    `REPLACED`, and before a mean counts as found; search directions stay.
    """

    def __init__(
        self, solver: ConjugateGradients, systems: RowSystems, precision: float, state: Iteration
    ):
        self.solver, self.systems, self.precision, self.state = solver, systems, precision, state
        S, m = systems.n_systems, systems.n_outputs
        self.n_means = S * m
        self.n_draws = k = state.solution.shape[1] // S - m
        self.owners = np.concatenate([np.repeat(np.arange(S), m), np.repeat(np.arange(S), k)])
        self.preconditioner = Preconditioner.restored(state.basis, state.cores, state.tail)
        self.tolerances = np.full(len(self.owners), max(solver.tolerance, SAMPLE_TOLERANCE))
        self.tolerances[: self.n_means] = solver.tolerance

    @property
    def is_converged(self) -> bool:
        return not np.any(self._active())

    @property
    def is_done(self) -> bool:
        return self.is_converged or self.state.n_iterations >= self.solver.max_iterations

    def _active(self) -> np.ndarray:  # -> (c,), bool
        """Columns that are not found: a mean is found by an exact residual only."""
        known = self.state.relative.copy()
        known[: self.n_means] = np.maximum(known[: self.n_means], self.state.checked)
        return known > self.tolerances

    def step(self) -> None:
        """One iteration: one pass over the rows."""
        state = self.state
        active = np.flatnonzero(self._active())
        means = active[active < self.n_means]
        relative = state.relative[means]
        due = (relative <= REPLACED * state.checked[means]) | (relative <= self.solver.tolerance)
        exact = state.is_exact or bool(np.any(due))
        directions, residual = state.directions[:, active], state.residual[:, active]
        label = f"iteration {state.n_iterations + 1}, residual {state.history[-1]:.1e}"
        if exact:
            products, true = self._exact_pass(directions, active, means, label)
            residual[:, : len(means)] = true
        else:
            products = self.systems.products(directions, self.owners[active], what=label)
        products += self.precision * directions
        curvature = np.sum(directions * products, axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.sum(directions * residual, axis=0) / curvature
        steps = np.where(curvature > 0, steps, 0.0)
        state.solution[:, active] += steps * directions
        residual -= steps * products
        found = self.preconditioner(residual, self.owners[active])
        squares = np.sum(residual * found, axis=0)
        growth = squares / state.squares[active]
        growth[growth > RESTARTED] = 0.0  # a residual that was far off: earlier directions mislead
        state.directions[:, active] = found + growth * directions
        state.residual[:, active], state.squares[active] = residual, squares
        state.relative[active] = relative_norms(squares, state.first_squares[active])
        if exact:
            before = state.checked[means]
            state.checked[means] = state.relative[means]
            # single precision no longer helps these systems
            state.is_exact |= bool(np.any(state.checked[means] > before / 2))
        largest = state.relative[: self.n_means].max()
        state.history = np.append(state.history, largest)

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
            f"{self.solver.tolerance:.0e}. Use a larger noise variance, a larger rank of the "
            "preconditioner or more iterations: solver=ConjugateGradients(rank=…, "
            'max_iterations=…); or solver="cholesky".',
            ConvergenceWarning,
            stacklevel=5,
        )

    def posteriors(self) -> list[SampledPosterior]:
        state, n = self.state, self.n_means
        m, k = self.systems.n_outputs, self.n_draws
        # δ − U (UᵀBU)⁻¹ Uᵀ Bδ: the part of a draw that the subspace does not explain
        explained = self.preconditioner.outward(state.coarse)
        rest = (state.solution[:, n:] - explained).astype(np.float32)
        nothing = np.zeros((len(rest), 1), dtype=np.float32)  # the whole space explains all
        return [
            SampledPosterior(
                state.solution[:, s * m : (s + 1) * m].copy(),
                state.basis,
                core,
                rest[:, s * k : (s + 1) * k].copy() if k else nothing,
            )
            for s, core in enumerate(self.preconditioner.cores)
        ]
