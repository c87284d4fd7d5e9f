"""A sample of the rows and what is known of it: lazy, each thing once.

A design is made from a `Study`, and the prediction of its error is judged on it. Constructing it
reads nothing and draws nothing. `fit` makes a study of its rows; a plan makes one for all
candidates, which are fitted to some rows of it and judged on others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from .._arrays import Array, as_generator
from .._support.parameters import positive_integer
from ..kernels import Kernel
from .errors import (
    OVERFLOW,
    ExpectedError,
    Measurement,
    off_diagonal_mean,
    relative_error,
    root_mean,
    spread_over_rows,
)
from .samples import data_centre, most_rows, sample_rows, take_rows

Value = TypeVar("Value")

_FITTING_ROWS = 5000  # so many rows are fitted to where an error is measured, unless it wants more
_OUTERMOST = 128  # rows that have most of the error of a series
_LEAST_HELD = 20  # rows held out at least, if X has ten times as many
_MOST_HELD = 150  # and at most: draws differ much more than pairs do, so that many draws pay
_DRAWS = 2, 128  # of a measurement, at least and at most (one if only rows held out differ)
_EARLIEST = 16  # draws after which a measurement may end, as it is precise enough
_PRECISION = 0.05  # standard error of a measured error, relative to it, that is precise enough
_OPERATIONS = 1e9  # of a measurement: as many draws as they allow
_KNOWN_ROWS = 2000  # up to so many rows, values of the kernel are computed once for all draws


class Study:
    """A kernel with its parameters resolved, rows that stand for the data, averages over pairs.

    All candidates are judged on the same pairs, those of `sample`. What looks at the data (an
    allocation, fitted coefficients, landmarks) looks at other rows, as far as X has enough.

    Parameters
    ----------
    kernel : Kernel
    X : (n, d), validated rows of any array library, or CSR
    max_degree : where series are truncated at the latest, for candidates that nobody named
    n_pairs_sample : the number m of rows that is asked for. `sample` has fewer if X has, or if m
        rows take more than 32 MiB (`is_reduced`)

    Attributes
    ----------
    resolved : the kernel with its parameters set from X
    kernel : the same on the host, without gradients
    sample : (m, d) rows whose pairs errors are averaged over
    fitting : (m, d) rows that allocations are fitted to: others, or those of the sample if X has
        fewer than 2m
    outermost : (128, d) rows of the sample that are farthest from the mean
    n_rows, dimension : of X
    known : what `once` has computed
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Array,
        *,
        max_degree: int = 10,
        n_pairs_sample: int = 500,
        random_state: Any = 0,
    ):
        check_kernel(kernel)
        self.max_degree = positive_integer("max_degree", max_degree)
        self.n_pairs_sample = positive_integer("n_pairs_sample", n_pairs_sample)
        self.n_rows, self.dimension = X.shape
        self.known: dict[Hashable, Any] = {}
        self._given = kernel
        self._X = X  # landmarks are taken from it: as many as are claimed, whatever the width
        self._random_state = random_state

    def once(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """What `compute` gave when it was first asked for under this key."""
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]

    @cached_property
    def resolved(self) -> Kernel:
        return self._given.resolve(self._X)

    @cached_property
    def kernel(self) -> Kernel:
        return self.resolved.detached()

    @cached_property
    def mean(self) -> np.ndarray:  # (d,)
        return data_centre(self._X, self.kernel)

    @cached_property
    def rng(self) -> np.random.Generator:
        return as_generator(self._random_state)

    @cached_property
    def _numbers(self) -> np.ndarray:
        """Rows of X in the order in which they are used: sample, fitting, others."""
        numbers = np.arange(self.n_rows)
        most = 2 * self.n_pairs_sample + _FITTING_ROWS
        if self.n_rows > most:
            numbers = np.sort(self.rng.choice(self.n_rows, most, replace=False))
        return self.rng.permutation(numbers)

    @property
    def _size(self) -> int:
        return min(self.n_pairs_sample, most_rows(self.dimension))

    @cached_property
    def sample(self) -> np.ndarray:  # (m, d)
        return take_rows(self._X, self._numbers[: self._size])

    @cached_property
    def fitting(self) -> np.ndarray:  # (m, d)
        m = self._size
        enough = self.n_rows >= 2 * m
        return take_rows(self._X, self._numbers[m : 2 * m]) if enough else self.sample

    @cached_property
    def outermost(self) -> np.ndarray:  # (128, d)
        if len(self.sample) <= _OUTERMOST:
            return self.sample
        with np.errstate(over="ignore", invalid="ignore"):
            S = self.kernel.scale(self.sample)
            lengths = np.sum((S - S.mean(axis=0)) ** 2, axis=1)
        return self.sample[np.argsort(-lengths, kind="stable")[:_OUTERMOST]]

    def numbers(self, n_rows: int) -> np.ndarray:  # -> (n_rows or fewer,)
        """Where the `rows` stand in X."""
        return self._numbers[: min(n_rows, most_rows(self.dimension))]

    def rows(self, n_rows: int) -> np.ndarray:  # -> (n_rows or fewer, d)
        """Rows of X in the order in which they are used, those of the sample first."""
        return take_rows(self._X, self.numbers(n_rows))

    def given(self, n_rows: int) -> Array:  # -> (n_rows or fewer, d)
        """The first rows of X as they are, in their library and precision."""
        return self._X[: min(n_rows, most_rows(self.dimension)), :]

    @property
    def is_reduced(self) -> bool:
        """Whether the sample has fewer rows than were asked for because rows are wide."""
        return len(self.sample) < min(self.n_pairs_sample, self.n_rows)

    def blocks(self) -> Iterator[np.ndarray]:
        """All rows of X, block by block."""
        size = most_rows(self.dimension)
        for start in range(0, self.n_rows, size):
            yield take_rows(self._X, np.arange(start, min(start + size, self.n_rows)))

    # -- closed forms, over the pairs of distinct rows of the sample ---------------------------

    @cached_property
    def distinct(self) -> tuple[np.ndarray, ...]:
        """Indices of the pairs of distinct rows; of the one pair there is, for one row."""
        m = len(self.sample)
        return np.triu_indices(m, 1) if m > 1 else np.triu_indices(m)

    @cached_property
    def kernel_values(self) -> np.ndarray:  # (m (m − 1) / 2,)
        """k of the pairs."""
        return self._sample_kernel[self.distinct]

    @cached_property
    def kernel_square(self) -> float:
        """Mean of k² over the pairs."""
        with np.errstate(over="ignore"):
            value = float(np.mean(self.kernel_values**2))
        if not np.isfinite(value):
            raise ValueError(OVERFLOW)
        return value

    def lengths(self, sign: int, *, scaled: bool = True) -> np.ndarray:  # (m (m − 1) / 2,)
        """|s(x) ± s(y)| of the pairs, for rows scaled as the kernel does; or |x ± y|."""

        def compute() -> np.ndarray:
            S = self.kernel.scale(self.sample) if scaled else self.sample
            if sign < 0:  # differences lose their digits to a common offset, which they do not see
                S = S - S.mean(axis=0)
            squares = np.sum(S * S, axis=1)
            found = squares[:, None] + squares[None, :] + 2 * sign * (S @ S.T)
            return np.sqrt(np.maximum(found[self.distinct], 0.0))

        return self.once(("lengths", sign, scaled), compute)

    def error(
        self, squared_bias: float, variance: float, cost: float, max_degree: int | None = None
    ) -> ExpectedError:
        """An error that a formula gives."""
        return ExpectedError(
            relative_error=relative_error(squared_bias + variance, self.kernel_square),
            squared_bias=squared_bias,
            variance=variance,
            cost=cost,
            max_degree=max_degree,
        )

    # -- measurement -------------------------------------------------------------------------

    @property
    def n_held(self) -> int:
        """Rows that a draw of a measurement is compared on, at most."""
        return min(len(self.sample), _MOST_HELD)

    def keeps_sample(self, n_fitting: int) -> bool:
        """Whether X has n_fitting rows beside the sample, which a measurement is then made on."""
        return self.n_rows - len(self.sample) >= n_fitting

    @cached_property
    def streams(self) -> np.random.SeedSequence:
        """The same streams for all candidates: they meet the same luck, in any order."""
        _ = self._numbers  # are drawn first
        return np.random.SeedSequence(self.rng.integers(2**63, size=2).tolist())

    @cached_property
    def known_values(self) -> tuple[Any, Array]:
        """A kernel and rows for draws that look at values of the kernel alone.

        The rows are the numbers of those of X, (n, 1), and the values are looked up; beyond 2000
        rows, or 32 MiB of them, they are the kernel and X themselves.
        """
        if self.n_rows > min(_KNOWN_ROWS, most_rows(self.dimension)):
            return self.kernel, self._X
        everything = np.arange(self.n_rows)
        with np.errstate(over="ignore"):
            K = self.kernel(take_rows(self._X, everything))
        return KnownValues(K), everything[:, None]

    def measure(
        self,
        approximate: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray],
        n_fitting: int,
        operations: float,
        *,
        is_random: bool = True,
        by_values: bool = False,
    ) -> Measurement:
        """The relative error of an approximation that a formula does not give.

        `approximate(fitting rows, held-out rows, rng)` is the approximate Gram matrix of the
        held-out rows. These are the sample if n_fitting other rows are left in X; otherwise every
        draw holds out rows of its own: what n_fitting leaves, 20 at least (a tenth of fewer than
        200). Only then are fewer rows fitted to, and the error is that of the fewer.

        Draws of `operations` each are repeated up to 128 times, twice at least, and end after 16,
        32, 48, … where the standard error is below 5 %. Errors differ much between draws
        (landmarks may miss a cluster), so that their squares are averaged, as the expected squared
        error is asked for; the standard error is that of the root of the mean. (One draw may do
        where only the rows held out are random, `is_random=False`: the standard error is then from
        the spread over them.) Every draw is compared on 150 rows of the sample, others each time.
        With `by_values` the rows are those of `known_values`.
        """
        least, most = _DRAWS
        n_draws = int(np.clip(_OPERATIONS / operations, least if is_random else 1, most))
        squares = []
        for fitting, held, K, rng in self._draws(n_draws, n_fitting, by_values):
            rows = held if fitting is None else fitting
            error = np.abs(approximate(rows, held, rng) - K) ** 2
            K_square = off_diagonal_mean(K**2)
            squares.append(relative_error(off_diagonal_mean(error), K_square) ** 2)
            if len(squares) % _EARLIEST == 0:
                root, deviation = root_mean(np.array(squares))
                if deviation <= _PRECISION * root:
                    break
        n_fitted = 0 if fitting is None else len(fitting)
        if len(squares) == 1:
            root = float(np.sqrt(squares[0]))
            return Measurement(root, root * spread_over_rows(error, K**2), n_fitted)
        return Measurement(*root_mean(np.array(squares)), n_fitted)

    def _draws(
        self, n_draws: int, n_fitting: int, by_values: bool
    ) -> Iterator[tuple[np.ndarray | None, np.ndarray, np.ndarray, np.random.Generator]]:
        """For each draw rows to fit to (None without any), rows held out, their kernel matrix."""
        m = len(self.sample)
        n_held = max(self.n_rows - n_fitting, min(_LEAST_HELD, self.n_rows // 10), 1)
        numbers = self._numbers
        if len(numbers) - m < n_fitting and len(numbers) < self.n_rows:  # rows of all of X
            numbers = np.append(numbers, np.setdiff1d(np.arange(self.n_rows), numbers))
        kernel, X = self.known_values if by_values else (self.kernel, self._X)
        for child in np.random.SeedSequence(self.streams.entropy).spawn(n_draws):
            rng = np.random.default_rng(child)
            if self.keeps_sample(n_fitting):
                chosen = rng.permutation(m)[: self.n_held]
                held, K = take_rows(X, numbers[chosen]), self._sample_kernel[np.ix_(chosen, chosen)]
                rest = numbers[m + rng.permutation(len(numbers) - m)]
            else:
                drawn, rest = np.split(rng.permutation(numbers), [min(n_held, self.n_held)])
                held = take_rows(X, drawn)
                K = kernel(held)
            rest = rest[:n_fitting]
            yield take_rows(X, rest) if len(rest) else None, held, K, rng

    @cached_property
    def _sample_kernel(self) -> np.ndarray:
        with np.errstate(over="ignore"):  # `kernel_square` raises
            return self.kernel(self.sample)


class KnownValues:
    """A kernel as a function of row numbers (n, 1): values of a symmetric matrix (N, N)."""

    def __init__(self, values: np.ndarray):
        self._values = values

    def __call__(self, X: np.ndarray, Y: np.ndarray | None = None) -> np.ndarray:
        Y = X if Y is None else Y
        left, right = X[:, 0].astype(np.intp), Y[:, 0].astype(np.intp)
        if len(left) > len(right):
            return self(Y, X).T
        return self._values.take(left, axis=0).take(right, axis=1)  # several times as fast as ix_

    def diag(self, X: np.ndarray) -> np.ndarray:
        return np.diagonal(self._values)[X[:, 0].astype(np.intp)]


class FitStudy(Study):
    """The study of a fit: all rows may be fitted to, and none is held out."""

    @cached_property
    def fitting(self) -> np.ndarray:  # (m, d)
        return sample_rows(self._X, self.n_pairs_sample, self.rng)


def check_kernel(kernel: Any, kind: type = Kernel, advice: str = "") -> None:
    """Raise TypeError unless it is a kernel, and of the kind that the features are for."""
    if not isinstance(kernel, Kernel):
        raise TypeError(
            f"kernel must be a kernel of dotsketch, such as Gaussian(); got {kernel!r}."
        )
    if not isinstance(kernel, kind):
        raise TypeError(f"{advice}; got {kernel!r}.")
