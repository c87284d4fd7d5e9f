"""How the iterations start: the preconditioner, first solutions and their residuals.

Two passes over the rows follow those of the preconditioner. The first gives UᵀBU and Uᵀ times all
right-hand sides, the second the residuals of the solutions within the subspace. Where the subspace
is not made exact, there is no first pass, and draws start at those of the prior.
"""

from __future__ import annotations

import numpy as np

from .basis import adjoint_product, is_worth_a_core, leading_basis, product
from .iteration import Iteration, relative_norms
from .passes import RowBlock, RowSystems, multiplier
from .preconditioner import Preconditioner, solved

DRAWS, CLASS_DRAWS = 31, 16  # 31 and a mean: 32 columns are multiplied faster than 33
DRAW_ITERATIONS = 1 / 3  # of those of the means, at most


class Start:
    """The first state of the iterations of some systems.

    Every system has `n_draws` draws, unless the subspace of the preconditioner is the whole space:
    its factor gives exact variances then.
    """

    def __init__(
        self,
        systems: RowSystems,
        prior_variance: float,
        n_draws: int,
        tolerance: float,
        rank: int | None,
        random_state: int,
    ):
        self.systems, self.precision, self.seed = systems, 1 / prior_variance, random_state
        S, m, D = systems.n_systems, systems.n_outputs, systems.n_features
        n_columns = S * (m + DRAW_ITERATIONS * n_draws)
        subspace = leading_basis(systems, self.precision, tolerance, n_columns, rank)
        self.basis, self.values, most = subspace
        r = self.basis.shape[1]
        self.is_whole = r == D  # as its preconditioner, the system itself
        self.has_core = self.is_whole or rank is not None or S > 1
        if not self.has_core:  # fewer draws than usual need it no less
            most = min(most, systems.n_rows or D)
            draws = max(n_draws, DRAWS)
            self.has_core = is_worth_a_core(self.values / self.precision, most, draws)
        k = 0 if self.is_whole else n_draws
        self.n_means = S * m
        self.owners = np.concatenate([np.repeat(np.arange(S), m), np.repeat(np.arange(S), k)])
        [stream] = np.random.SeedSequence(random_state).spawn(1)
        self.prior = np.random.default_rng(stream).standard_normal((D, S * k))
        self.prior *= np.sqrt(prior_variance)

    @property
    def of_draws(self) -> np.ndarray:  # (S k,)
        """The systems of the draws."""
        return self.owners[self.n_means :]

    def state(self) -> Iteration:
        n, prior, precision = self.n_means, self.prior, self.precision
        solution = np.zeros((len(prior), len(self.owners)))
        right = inner = np.zeros((0, len(self.owners)))
        if self.has_core:
            moments, right, first = self._within()
            last = float(self.values[-1])
            preconditioner = Preconditioner.of(self.basis, moments, precision, last)
            inner = solved(preconditioner.cores, first, self.owners)
            solution = product(self.basis, inner)
        else:
            preconditioner = Preconditioner.of_values(self.basis, self.values, precision)
        solution[:, n:] += prior
        residual = self._residual(solution)
        directions = preconditioner(residual, self.owners)
        squares = np.sum(residual * directions, axis=0)
        # rᵀB⁻¹r of the right-hand sides: what the subspace explains, and the rest
        start_squares = np.sum(inner * right, axis=0) + np.maximum(squares, 0)
        start_squares[n:] = precision * np.sum(prior**2, axis=0)
        relative = relative_norms(squares, start_squares)
        return Iteration(
            solution=solution,
            residual=residual,
            directions=directions,
            start_squares=start_squares,
            coarse=solved(preconditioner.cores, right[:, n:], self.of_draws)
            if self.has_core
            else right[:, n:],
            relative=relative,
            checked=relative[:n].copy() if self.is_whole else (start_squares[:n] > 0).astype(float),
            history=np.array([relative[:n].max()]),
            shared=np.zeros(directions.shape, dtype=np.float32),
            shared_products=np.zeros(directions.shape, dtype=np.float32),
            basis=self.basis,
            gram=preconditioner.gram.values,
            cores=preconditioner.packed,
            tail=preconditioner.tail,
            is_exact=self.is_whole,
        )

    def _noise(self, block: RowBlock, first: int) -> np.ndarray:  # -> (b, S k)
        """ξ of a block: a stream for each, so that it does not depend on earlier blocks."""
        rng = np.random.default_rng([self.seed, first])
        return rng.standard_normal((len(block.weights), len(self.of_draws)), dtype=np.float32)

    def _within(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """UᵀZᵀWZU of all systems, packed; Uᵀ times right-hand sides and times residuals of ṽ."""
        n, k = self.n_means, len(self.of_draws)
        times_prior = multiplier(self.prior, self.is_whole)

        def parts(block: RowBlock, first: int) -> np.ndarray:  # -> (b, S (m + 2 k))
            """WY, W^½ξ and WZṽ."""
            weights = block.weights[:, self.of_draws]
            Y = block.targets * block.weights[:, :, None]
            shown = weights * times_prior(block.features)
            found = Y.reshape(len(Y), -1), np.sqrt(weights) * self._noise(block, first), shown
            return np.concatenate(found, axis=1)

        moments, along = self.systems.cores(self.basis, parts, n + 2 * k)
        targets, drawn, shown = np.split(along, [n, n + k], axis=1)
        prior = self.precision * adjoint_product(self.basis, self.prior)
        right = np.concatenate([targets, drawn + prior], axis=1)
        return moments, right, np.concatenate([targets, drawn - shown], axis=1)

    def _residual(self, solution: np.ndarray) -> np.ndarray:  # (D, c) -> (D, c)
        """Right-hand sides minus B times the solution."""
        n, owners, times_solution = self.n_means, self.owners, multiplier(solution, self.is_whole)

        def columns(block: RowBlock, first: int) -> np.ndarray:  # -> (b, S (m + k))
            """W(Y − Zv) of the means and W^½(ξ − W^½Zv) of the draws."""
            weights = block.weights[:, owners]
            found = -weights * times_solution(block.features)
            found[:, :n] += (block.targets * block.weights[:, :, None]).reshape(len(found), -1)
            found[:, n:] += np.sqrt(weights[:, n:]) * self._noise(block, first)
            return found

        residual = self.systems.adjoint(columns, len(owners), exact=self.is_whole, what="start")
        residual -= self.precision * solution
        residual[:, n:] += self.precision * self.prior
        return residual
