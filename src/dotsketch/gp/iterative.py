"""Which solver an estimator uses, and how it gives rows to the iterative one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from ..rows import Checkpoint
from ..rows.fold import Followed, fingerprint
from ..rows.sources import Block, Rows, len_of
from .packed import inner_products
from .solvers import ConjugateGradients, RowBlock, RowSystems
from .solvers.iteration import Iteration
from .solvers.passes import GROUP_ROWS, block_rows
from .solvers.sampled import SampledPosterior

SOLVERS = ("auto", "cholesky", "cg")
MOST_COLUMNS = 4096  # "auto" iterates beyond this number of columns
DIRECT_ROWS = 2000  # variances and α are chosen on so many rows
SAME = 1e-3  # features of rows in single precision differ by less: exact passes follow


def check_solver(solver: Any) -> None:
    if isinstance(solver, ConjugateGradients) or (isinstance(solver, str) and solver in SOLVERS):
        return
    raise ValueError(f"solver must be one of {SOLVERS} or a ConjugateGradients(…); got {solver!r}.")


def chosen_solver(
    solver: Any, rows: Rows, n_columns: int, is_complex: bool
) -> ConjugateGradients | None:
    """The iterative solver, or None for the direct one."""
    if solver == "cholesky":
        return None
    if solver == "auto":
        suits = n_columns > MOST_COLUMNS and rows.repeatable and not is_complex
        return ConjugateGradients() if suits else None
    if not rows.repeatable:
        raise ValueError(
            'solver="cg" reads the rows many times, and an iterator gives them once: pass a '
            'function that returns a fresh iterator, or use solver="cholesky".'
        )
    if is_complex:
        raise ValueError(
            'solver="cg" works with real columns: use posterior="real", features with '
            'output="complex_to_real", or solver="cholesky".'
        )
    return ConjugateGradients() if isinstance(solver, str) else solver


def check_direct(estimator: Any, what: str) -> None:
    """Raise if the estimator was fitted by the iterative solver, which keeps no sums."""
    given = estimator.solver == "cg" or isinstance(estimator.solver, ConjugateGradients)
    if given or getattr(estimator, "solver_", None) == "cg":
        raise ValueError(
            f'{what} needs sums over the rows, which solver="cg" does not compute: use '
            'solver="cholesky", or call fit with all rows.'
        )


def forget(estimator: Any, *names: str) -> None:
    """Remove what an earlier fit by the other solver has left."""
    for name in names:
        if hasattr(estimator, name):
            delattr(estimator, name)


def compressed(Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n, n) or (n, D)
    """Features in fewer columns with the same inner products, if there are more than rows."""
    if Z.shape[1] <= len(Z):
        return Z
    values, vectors = np.linalg.eigh(inner_products(Z))
    return vectors * np.sqrt(np.maximum(values, 0))


class RowPasses:
    """The passes of one fit over its rows, with an optional checkpoint.

    The first pass (`targets`) looks at the targets only and reads no features.
    """

    def __init__(self, estimator: Any, rows: Rows, path: Any, assumed: Any):
        self.estimator, self.rows, self.n_rows = estimator, rows, rows.n_rows
        given = estimator.chunk_rows
        self.block_rows = block_rows(estimator.n_columns_) if given is None else int(given)
        self.group_blocks = -(-GROUP_ROWS // self.block_rows) if given is None else 1
        self.is_single_safe = _is_single_safe(estimator, rows)
        self.checkpoint: Checkpoint | None = None
        self._resumes = False
        if path is not None:
            shapes = [getattr(column, "shape", None) for column in rows.columns or ()]
            layout = [field.name for field in fields(Iteration)]
            configuration = fingerprint([type(estimator).__name__, "cg", layout, shapes, assumed])
            self.checkpoint = Checkpoint(
                path, Iteration.restored, fingerprint=configuration, probe=estimator._probe
            )

    def targets(self, zero: Callable[[], Any], block: Callable[..., tuple[Any, ...]]) -> Any:
        """The sums of `block(columns, first)` over all rows.

        `zero()` is the state of no rows, with a method `update`. The rows are compared with those
        of the checkpoint.
        """
        checkpoint = self.checkpoint
        if checkpoint is not None:
            self._resumes = checkpoint.begin([self.block_rows]) > 0

        follows, counts = checkpoint is not None, self.rows.n_rows is None

        def none() -> Followed:
            return Followed(zero())

        def add(found: Followed, columns: Block, first: int) -> Followed:
            found.state.update(*block(columns, first))
            if counts:  # a stream, which is read here
                self.n_rows = first + len_of(columns[0])
            if follows:
                found.follow(columns)
            return found

        total = self.rows.fold(
            none, add, block_rows=self.block_rows, group_blocks=self.group_blocks
        )
        if checkpoint is not None:
            checkpoint.follow_all(total.digest)
        return total.state

    def __getstate__(self) -> dict[str, Any]:
        """Blocks may be computed elsewhere; the checkpoint is written here."""
        return {**self.__dict__, "checkpoint": None}

    def single(self, X: Any, exact: bool) -> Any:
        """Validated rows, in single precision unless that loses too much or `exact` is asked."""
        if exact or not self.is_single_safe or X.dtype == np.float32:
            return X
        return X.astype(np.float32)

    def solve(
        self,
        solver: ConjugateGradients,
        block: Callable[[Block, bool], RowBlock],
        n_systems: int,
        n_outputs: int,
        prior_variance: float,
    ) -> list[SampledPosterior]:
        """The posterior of every system; `n_iterations_` and `residuals_` of the estimator."""
        estimator = self.estimator
        systems = RowSystems(
            self.rows,
            block,
            estimator.n_columns_,
            n_systems,
            n_outputs,
            self.block_rows,
            solver.memory,
            estimator.verbose,
            self.group_blocks,
            n_rows=self.n_rows,
        )
        posteriors, state = solver.solve(
            systems, prior_variance, checkpoint=self.checkpoint, resumes=self._resumes
        )
        estimator.n_iterations_, estimator.residuals_ = state.n_iterations, state.history
        return posteriors


def _is_single_safe(estimator: Any, rows: Rows) -> bool:
    """Whether rows in single precision have nearly the same features: not far from the origin."""
    X = estimator._check_block(rows.sample(len(estimator._probe))[0])
    return has_same_features(estimator, X, X.astype(np.float32), SAME)


def has_same_features(estimator: Any, X: Any, other: Any, tolerance: float) -> bool:
    """Whether rows have the features of others to a tolerance, relative to the largest."""
    Z = estimator._map(X)
    difference = np.max(np.abs(estimator._map(other) - Z), initial=0.0)
    return bool(difference <= tolerance * np.max(np.abs(Z), initial=0.0))
