"""The iterative solver: conjugate gradients that pass over the rows, for many columns.

Systems B V = ZᵀW Y with B = ZᵀWZ + I/s are solved for the mean of the weights, together with

    B δ = ṽ/s + ZᵀW^½ξ,    ṽ ~ N(0, s I),  ξ ~ N(0, I)

whose right-hand side has the covariance B: δ ~ N(0, B⁻¹) is a draw of the posterior around its mean
(Matheron's rule in the space of the weights). One pass over the rows multiplies all columns.

A draw starts at ṽ, which it equals along directions that no row shows: nothing is left to be found
there. All columns start with what the subspace of the preconditioner adds to that, if its system is
known (`start`), and share their search directions (`iteration`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...rows import Checkpoint
from .iteration import Iteration, Loop
from .passes import RowSystems
from .sampled import SampledPosterior
from .start import CLASS_DRAWS, DRAWS, Start


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
        Columns of the preconditioner, at most; "auto" takes the number with the least predicted
        time, up to 1024, from the spectrum of some columns of the features.
    n_samples : int or "auto", default="auto"
        Draws of the weights, for variances and samples; "auto" is 31 for a regression and 16 for
        each class of a classifier. The part of a variance that lies in the subspace of the
        preconditioner is exact, the rest has the relative standard error √(2 / n_samples), 25 % for
        31 draws; draws that are solved no further than that add about 3 % at most, if the rank is
        64 or more. `rank` = D makes all of it exact. In a regression with `rank="auto"` no part is
        exact if the subspace holds so small a share of the degrees of freedom that a few more draws
        would do as much in less time.
    memory : int, default=2**29
        Bytes. Features of all rows are kept in memory if they take no more than this (in single
        precision), and computed anew in every pass otherwise. It also bounds a rank of "auto".
    random_state : int, default=0
        For the draws.
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
            state = Start(
                systems,
                prior_variance,
                self.draws(systems.n_systems),
                self.tolerance,
                None if isinstance(self.rank, str) else int(self.rank),
                self.random_state,
            ).state()
        loop = Loop(systems, 1 / prior_variance, state, self.tolerance, self.max_iterations)
        while not loop.is_done:
            if checkpoint is not None:
                checkpoint.write(state, 1 + state.n_iterations)
            loop.step()
        if checkpoint is not None:
            checkpoint.write(state, 1 + state.n_iterations)
        loop.warn()
        return loop.posteriors(), state
