"""A sample of the rows and what is known of it: lazy, each thing once.

A design is made from a `Study`, and its error is predicted on it. Constructing a study reads
nothing and draws nothing. `fit` makes one of its rows; a plan makes one for all candidates, which
are fitted to some rows of it and judged on others, so that predictions are for fresh rows.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .._arrays import (
    Array,
    as_generator,
    dense,
    host,
    is_sparse,
    is_traced,
    like,
    namespace,
    share_of_entries,
)
from .._support.parameters import positive_integer
from ..kernels import Kernel
from .design import Design

SAMPLE_ROWS = 10_000  # of a Dask collection: fits and plans see no more of its rows
OVERFLOW = (
    "The squares of the kernel's values overflow on these data: scale X down, or use a larger "
    "lengthscale or a smaller gamma."
)


@dataclass(frozen=True, kw_only=True)
class ExpectedError:
    """The error of an approximate kernel over pairs of distinct fresh rows, and its cost.

    relative_error is √(E(k − k̂)²/E k²); cost is the number of arithmetic operations per row. Where
    the error is known in closed form, source is "formula", and squared_bias + variance is the
    squared error. Otherwise source is "measured": features were drawn and compared with the kernel
    on rows held out, and the two parts are not known (NaN). standard_error is that of
    relative_error, by leaving out each row (and each draw) in turn. n_measured is the number of
    rows that were fitted to where X has too few for the landmarks and for rows held out: the error
    is then somewhat too large.
    """

    relative_error: float
    standard_error: float
    squared_bias: float
    variance: float
    cost: float
    source: str = "formula"
    n_measured: int | None = None

    @property
    def upper_error(self) -> float:
        """The error and twice its standard error: what has to be within a tolerance."""
        return self.relative_error + 2 * self.standard_error


class Study:
    """A kernel with its parameters resolved, and rows that stand for the data.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d), validated rows of any array library, or CSR
    n_pairs_sample : the number of rows that errors are judged on, and as many others are fitted
        to; at most half of all rows, and 32 MiB. None for a fit, which judges nothing and fits to
        2000 rows.

    Attributes
    ----------
    X, unresolved : the rows and the kernel as they are given
    resolved : the kernel with its parameters set from X
    kernel : the same on the host, without gradients
    fitting : rows (m, d) that allocations are fitted to
    held : rows (h, d) whose pairs errors are averaged over: others than `fitting`
    centre : (d,) what a shift-invariant kernel subtracts from rows, or None
    n_rows, dimension : of X
    """

    def __init__(
        self, kernel: Kernel, X: Array, *, n_pairs_sample: int | None = 500, random_state: Any = 0
    ):
        if n_pairs_sample is not None:
            n_pairs_sample = positive_integer("n_pairs_sample", n_pairs_sample)
        self.n_pairs_sample = n_pairs_sample
        self.n_rows, self.dimension = X.shape
        self.unresolved = kernel
        self.X = X
        self._rng = as_generator(random_state)

    @cached_property
    def streams(self) -> list[np.random.Generator]:
        """Generators of the rows, and of what a design draws. They are children of that of the
        weights, whose own numbers are left alone."""
        return self._rng.spawn(2)

    @cached_property
    def resolved(self) -> Any:
        """A copy, as later changes of the kernel are not ours; itself if gradients flow to it."""
        kernel = self.unresolved.resolve(self.X)
        lengthscale: Any = getattr(kernel, "lengthscale", 1.0)
        is_list = isinstance(lengthscale, (np.ndarray, list, tuple)) and np.ndim(lengthscale) > 0
        if is_list and len(lengthscale) != self.dimension:
            raise ValueError(
                f"lengthscale has {len(lengthscale)} values for {self.dimension} features."
            )
        return kernel if kernel.is_differentiable else deepcopy(kernel)

    @cached_property
    def kernel(self) -> Any:
        return self.resolved.detached()

    @cached_property
    def _numbers(self) -> np.ndarray:
        """The rows of X in random order; of a million, some thousand."""
        most = 2 * (self.n_pairs_sample or 0) + 5000
        return self.streams[0].permutation(self.n_rows)[:most]

    @property
    def n_held(self) -> int:
        wanted = self.n_pairs_sample or 0
        return min(wanted, (self.n_rows + 1) // 2, most_rows(self.dimension))

    @cached_property
    def held(self) -> np.ndarray:  # (n_held, d)
        return take_rows(self.X, self._numbers[: self.n_held])

    @cached_property
    def fitting(self) -> np.ndarray:  # (m, d)
        if self.n_pairs_sample is None:
            # pairs of 2000 rows take a tenth of a second
            return sample_rows(self.X, 2000, self.streams[0])
        if self.n_rows == 1:
            return self.held
        return take_rows(self.X, self._numbers[self.n_held : 2 * self.n_held])

    def rows(self, n_rows: int) -> np.ndarray:  # -> (n_rows or fewer, d)
        """Rows of X at random."""
        return take_rows(self.X, self._numbers[: min(n_rows, most_rows(self.dimension))])

    @cached_property
    def few_rows(self) -> np.ndarray:  # -> (64, d)
        """Rows that warnings look at; none of traced or very wide data, or where there are too few
        different ones to judge by."""
        is_wide = most_rows(self.dimension) <= 50  # some rows would take more than 32 MiB
        if is_wide or (not isinstance(self.X, np.ndarray) and is_traced(self.X)):
            return np.empty((0, self.dimension))
        rows = sample_rows(self.X, 64, self.streams[0])
        return rows if len(np.unique(rows, axis=0)) > 4 else rows[:0]

    @cached_property
    def centre(self) -> np.ndarray | None:
        """The mean of all rows, unless outliers pull it off them: then the median.

        One cell of 10⁶ among 1000 rows moves the mean by 1000, and the weights exp(−|x − c|²/2l²)
        of all rows underflow. Where half of the rows are more than twice as far from the mean as
        from the median, in lengthscales, the median is the centre. None for kernels that are not
        shift-invariant, and for sparse rows, which a centre would make dense.
        """
        if not self.resolved.shift_invariant or keeps_sparse(self.X):
            return None
        with np.errstate(over="ignore", invalid="ignore"):
            mean = column_means(self.X)
            median = np.median(self.fitting, axis=0)
            near, far = (
                np.median(np.linalg.norm(self.kernel.scale(self.fitting - c), axis=1))
                for c in (median, mean)
            )
        return mean if far <= 2 * near else median  # a mean that overflows compares as False

    # -- errors ----------------------------------------------------------------------------------

    @cached_property
    def kernel_squares(self) -> np.ndarray:  # (n_held, n_held)
        return kernel_squares(self.kernel, self.held)

    def error_of(self, design: Design) -> ExpectedError:
        """The error of a design on fresh rows: a closed form averaged over the held rows, or
        measured."""
        if not design.has_formula:
            return self._measured_error(design)
        return formula_error(design, self.held, self.kernel_squares)

    def _measured_error(self, design: Design) -> ExpectedError:
        """Features are drawn for some rows and compared with the kernel on others.

        Every draw has rows of its own, the same for all candidates: those held out are what the
        design leaves of X, but 20 at least (a tenth of fewer than 200). Draws of random weights
        differ, so these get 32 draws of 150 rows. Features fitted to rows differ little, but their
        error may stand in few pairs of rows (heavy tails): they get 8 draws of 1000 rows, or as
        many as have 8000 rows together, up to 32. There are as many draws as 10⁹ operations, about
        a second, allow, but three at least.
        """
        n, wanted = self.n_rows, design.n_rows_wanted
        most = min(1000 if wanted else 150, most_rows(self.dimension))
        n_held = min(most, max(n - wanted, min(20, n // 10), 1))
        n_fitting = min(wanted, n - n_held)
        smaller = design.for_rows(max(n_fitting, 1))
        operations = smaller.cost * (n_held + 2 * n_fitting)
        n_draws = int(np.clip(min(1e9 / operations, 8000 / n_held), 3, 32))
        sums: list[np.ndarray] = []  # of the squared errors and of k², row by row
        seeds = np.random.SeedSequence(self._draw_entropy)
        for seed in seeds.spawn(n_draws):
            rng = np.random.default_rng(seed)
            numbers = rng.choice(n, n_held + n_fitting, replace=False)
            held = take_or_keep(self.X, numbers[:n_held])
            fitting = take_or_keep(self.X, numbers[n_held:]) if n > 1 else held
            Z = smaller.apply(held, smaller.sample(rng, fitting))
            K = np.asarray(self.kernel(held))
            errors, squares = off_diagonal(np.abs(Z @ Z.conj().T - K) ** 2), off_diagonal(K**2)
            sums.append(np.stack([errors.sum(axis=1), squares.sum(axis=1)]))
        error, deviation = root_ratio(*np.stack(sums, axis=1))
        return ExpectedError(
            relative_error=error,
            standard_error=deviation,
            squared_bias=np.nan,
            variance=np.nan,
            cost=design.cost,
            source="measured",
            n_measured=None if smaller is design else n_fitting,
        )

    @cached_property
    def _draw_entropy(self) -> list[int]:
        """Of the draws of all candidates: they meet the same luck, in any order."""
        _ = self._numbers  # are drawn first
        words: list[int] = self.streams[0].integers(2**63, size=2).tolist()
        return words


def kernel_squares(kernel: Kernel, rows: np.ndarray) -> np.ndarray:  # (n, d) -> (n, n)
    """k² of the pairs of distinct rows; zeros on the diagonal."""
    with np.errstate(over="ignore"):
        squares = off_diagonal(np.asarray(kernel(rows)) ** 2)
    if not np.all(np.isfinite(squares)):
        raise ValueError(OVERFLOW)
    return squares


def formula_error(design: Design, rows: np.ndarray, squares: np.ndarray) -> ExpectedError:
    """The closed form averaged over pairs of distinct rows (n, d), whose k² are given (n, n)."""
    with np.errstate(over="ignore", invalid="ignore"):
        squared_bias = off_diagonal(design.bias(rows, rows) ** 2)
        variance = off_diagonal(design.variance(rows, rows, design.part))
    errors = (squared_bias + variance).sum(axis=1)
    error, deviation = root_ratio(errors[None], squares.sum(axis=1)[None])
    n_pairs = max(len(rows) * (len(rows) - 1), 1)
    return ExpectedError(
        relative_error=error,
        standard_error=deviation,
        squared_bias=float(squared_bias.sum()) / n_pairs,
        variance=float(variance.sum()) / n_pairs,
        cost=design.cost,
    )


def root_ratio(errors: np.ndarray, squares: np.ndarray) -> tuple[float, float]:
    """√(Σ errors / Σ squares) for sums (draws, rows) over the pairs of a row, and its standard
    error.

    The standard error is the jackknife's: the spread of the root with each row left out in turn
    (with both of its pairs), or with each draw left out, whichever is larger. A row that makes up
    most of either sum, as one outlier does for a kernel that grows, makes it as large as the root.

    >>> root_ratio(np.full((1, 4), 0.09), np.ones((1, 4)))
    (0.3, 0.0)
    """
    total_error, total_square = float(errors.sum()), float(squares.sum())
    if total_error == 0:
        return 0.0, 0.0
    if not (total_square > 0 and total_error < np.inf):
        return np.inf, 0.0

    def spread(left_errors: np.ndarray, left_squares: np.ndarray) -> float:
        n = left_errors.size
        if n < 2:
            return 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            remaining = np.maximum(total_error - left_errors, 0) / np.maximum(
                total_square - left_squares, 0
            )
        # without a row that holds all of both sums nothing is left to tell by
        roots = np.sqrt(np.where(np.isfinite(remaining), remaining, 0.0))
        return float(np.sqrt((n - 1) * np.mean((roots - roots.mean()) ** 2)))

    over_rows = spread(2 * errors.ravel(), 2 * squares.ravel())
    over_draws = spread(errors.sum(axis=1), squares.sum(axis=1))
    return float(np.sqrt(total_error / total_square)), max(over_rows, over_draws)


def off_diagonal(values: np.ndarray) -> np.ndarray:  # (n, n) -> (n, n)
    """The values with zeros on the diagonal; themselves where there is one row only."""
    if len(values) > 1:
        values = values.copy()
        np.fill_diagonal(values, 0.0)
    return values


def off_diagonal_mean(values: np.ndarray) -> float:  # (n, n)
    """The mean over pairs of distinct rows; of the one value there is for one row."""
    n = len(values)
    return float(np.sum(off_diagonal(values)) / max(n * (n - 1), 1))


# -- rows of any array library, looked at on the host ------------------------------------------


def sample_rows(X: Array, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """At most n_rows rows of X (and 32 MiB), drawn without replacement, as float64 on the host."""
    n_rows = min(n_rows, most_rows(X.shape[1]))
    rows = np.arange(X.shape[0])
    if X.shape[0] > n_rows:
        rows = np.sort(rng.choice(X.shape[0], n_rows, replace=False))
    return take_rows(X, rows)


def most_rows(dimension: int) -> int:
    """How many rows take 32 MiB; 50 at least."""
    return max(50, (1 << 22) // dimension)


def keeps_sparse(X: Array) -> bool:
    """Whether rows are sparse enough to stay CSR: with a tenth of all entries or fewer."""
    return is_sparse(X) and share_of_entries(X) <= 0.1


def take_or_keep(X: Array, rows: np.ndarray) -> Any:
    """The rows of X of these numbers, in float64: CSR if X `keeps_sparse`, otherwise dense."""
    if isinstance(X, np.ndarray) or not keeps_sparse(X):
        return take_rows(X, rows)
    kept: Any = X[rows]
    return kept.tocsr().astype(np.float64)


def take_rows(X: Array, rows: np.ndarray) -> np.ndarray:
    """The rows of X of these numbers, dense, as float64 on the host."""
    if isinstance(X, np.ndarray):
        return X[rows].astype(np.float64, copy=False)
    sample = host(X[rows] if is_sparse(X) else namespace(X).take(X, like(rows, X), axis=0))
    return np.asarray(dense(sample), dtype=np.float64)


def column_means(X: Array) -> np.ndarray:
    """Means of the columns, float64 on the host."""
    if is_sparse(X):
        return np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    return np.asarray(host(namespace(X).mean(X, axis=0)), dtype=np.float64)


def check_kernel(kernel: Any, kinds: Any = Kernel, advice: str = "") -> None:
    """Raise a TypeError unless it is a kernel, and one that the features are for."""
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"kernel must be a kernel of dotsketch, such as Gaussian(); got {kernel!r}."
        )
    if not isinstance(kernel, kinds):
        raise TypeError(f"{advice}; got {kernel!r}.")
