"""A sample of the data, and what candidates need to know of it, computed once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from .._arrays import Array, as_generator, double, is_foreign, namespace, positive_integer
from ..features.maclaurin.moments import ExpansionMoments, relative_error
from ..features.maclaurin.series import OVERFLOW, expand
from ..features.study import data_centre, most_rows, take_rows
from ..kernels import DotProductKernel
from ..pairs import PairStatistics
from ..sketches import separable_sketch

_FITTING_ROWS = 5000  # so many rows are fitted to where an error is measured, unless it wants more
_LEAST_HELD = 20  # rows held out at least, if X has ten times as many
_MOST_HELD = 150  # and at most: draws differ much more than pairs do, so that many draws pay
_DRAWS = 2, 128  # of a measurement, at least and at most
_EARLIEST = 16  # draws after which a measurement may end, as it is precise enough
_PRECISION = 0.05  # standard error of a measured error, relative to it, that is precise enough
_OPERATIONS = 3e9  # of a measurement: as many draws as they allow
_UNIT_TOLERANCE = 1e-5  # of the norm of rows "on the sphere": those of single precision pass


class _Moments(NamedTuple):
    """Averages over the pairs that an allocation is fitted to, and over those it is judged on."""

    fitting: ExpansionMoments
    judging: ExpansionMoments


class Measurement(NamedTuple):
    """The root mean square error over draws, its standard error, and the rows fitted to."""

    relative_error: float
    standard_error: float
    n_fitting: int


class Study:
    """A kernel with its parameters resolved, rows that stand for the data, averages over pairs.

    All candidates are judged on the same pairs, those of `sample`. What looks at the data (an
    allocation, fitted coefficients, landmarks) looks at other rows, as far as X has enough.

    Attributes
    ----------
    kernel : the kernel of X, on the host, without gradients
    sample : (m, d) rows whose pairs errors are averaged over
    fitting : (m, d) rows that allocations are fitted to: others, or those of the sample if X has
        fewer than 2m
    n_rows : the number of rows of X
    n_pairs_sample : the number m of rows that was asked for. `sample` has fewer if X has, or if m
        rows take more than 32 MiB (`is_reduced`)
    """

    def __init__(
        self,
        kernel: DotProductKernel,
        X: Array,
        *,
        max_degree: int = 10,
        n_pairs_sample: int = 500,
        random_state: Any = 0,
    ):
        if not isinstance(kernel, DotProductKernel):
            raise TypeError(
                f"kernel must be a kernel of dotsketch, such as Gaussian(); got {kernel!r}."
            )
        self.max_degree = positive_integer("max_degree", max_degree)
        self.n_pairs_sample = positive_integer("n_pairs_sample", n_pairs_sample)
        X = check_rows(X)
        self.rng = as_generator(random_state)
        self.kernel = kernel.resolve(X).detached()
        self.mean = data_centre(X, self.kernel)
        self.n_rows = X.shape[0]
        self._X = X  # landmarks are taken from it: as many as are claimed, whatever the width
        m = min(n_pairs_sample, most_rows(X.shape[1]))
        numbers = np.arange(self.n_rows)
        most = 2 * n_pairs_sample + _FITTING_ROWS
        if self.n_rows > most:
            numbers = np.sort(self.rng.choice(self.n_rows, most, replace=False))
        self._numbers = self.rng.permutation(numbers)
        self.sample = take_rows(X, self._numbers[:m])
        enough = self.n_rows >= 2 * m
        self.fitting = take_rows(X, self._numbers[m : 2 * m]) if enough else self.sample
        self._moments: dict[tuple[str, str, bool], _Moments] = {}

    @property
    def dimension(self) -> int:
        return self.sample.shape[1]

    @property
    def is_reduced(self) -> bool:
        """Whether the sample has fewer rows than were asked for because rows are wide."""
        return len(self.sample) < min(self.n_pairs_sample, self.n_rows)

    # -- closed forms ------------------------------------------------------------------------

    def prepare_moments(self, keys: Iterable[tuple[str, str, bool]]) -> None:
        """The moments of (sketch, output, mean split): one pass over the pairs an expansion."""
        missing = sorted(set(keys) - set(self._moments))
        for split in sorted({key[2] for key in missing}):
            chosen = [key for key in missing if key[2] is split]
            judged = [self.fitting] if self.fitting is self.sample else [self.fitting, self.sample]
            with np.errstate(over="ignore", invalid="ignore"):  # an error follows
                expansion = expand(
                    self.kernel, self.max_degree, self.fitting, self.mean, mean_split=split
                )
                inputs = [expansion.inputs(rows) for rows in judged]
            sketches = [
                (
                    separable_sketch(sketch, "real" if output == "real" else "complex"),
                    "complex" if output == "complex" else "real",
                )
                for sketch, output, _ in chosen
            ]
            found = [
                ExpansionMoments.of(rows, expansion.degrees, self.kernel, sketches)
                for rows in inputs
            ]
            self._moments.update(
                (key, _Moments(fitting, judging))
                for key, fitting, judging in zip(chosen, found[0], found[-1], strict=True)
            )

    def moments(self, sketch: str, output: str, mean_split: bool) -> _Moments:
        self.prepare_moments([(sketch, output, mean_split)])
        return self._moments[sketch, output, mean_split]

    @cached_property
    def kernel_values(self) -> np.ndarray:  # (m (m − 1) / 2,), as all that follow
        """k of the pairs of distinct rows of the sample."""
        with np.errstate(over="ignore"):
            return self.kernel(self.sample)[self._distinct]

    @cached_property
    def kernel_square(self) -> float:
        """Mean of k² over pairs of distinct rows."""
        with np.errstate(over="ignore"):
            value = float(np.mean(self.kernel_values**2))
        if not np.isfinite(value):
            raise ValueError(OVERFLOW)
        return value

    @cached_property
    def has_finite_diagonal(self) -> bool:
        """Whether k(x, x)² is finite for all rows, and with it k² for all pairs of them."""
        with np.errstate(over="ignore"):
            return all(
                bool(np.isfinite(np.sum(self.kernel.diag(rows) ** 2))) for rows in self._blocks()
            )

    @cached_property
    def has_unit_rows(self) -> bool:
        """Whether all rows of X have norm one, but for the rounding of single precision."""
        return all(
            bool(np.all(np.abs(np.linalg.norm(rows, axis=1) - 1) < _UNIT_TOLERANCE))
            for rows in self._blocks()
        )

    def _blocks(self) -> Iterator[np.ndarray]:
        """All rows of X, block by block."""
        size = most_rows(self.dimension)
        for start in range(0, self.n_rows, size):
            yield take_rows(self._X, np.arange(start, min(start + size, self.n_rows)))

    @cached_property
    def homogeneous_pairs(self) -> PairStatistics:
        """Of √gamma x with √coef0 appended, whose dot product is the base of a polynomial."""
        scaled = self.kernel.scale(self.sample)
        column = np.full((len(scaled), 1 if self.kernel.coef0 else 0), np.sqrt(self.kernel.coef0))
        pairs = PairStatistics.between(np.hstack([scaled, column]))
        chosen = self._distinct
        return PairStatistics(
            pairs.dot[chosen], pairs.norms[chosen], pairs.squares[chosen], pairs.dimension
        )

    @cached_property
    def distances(self) -> np.ndarray:
        """|x − y|."""
        return self._lengths(self.sample, -1)

    @cached_property
    def scaled_distances(self) -> np.ndarray:
        """|s(x) − s(y)| of rows scaled as the kernel does."""
        return self._lengths(self.kernel.scale(self.sample), -1)

    @cached_property
    def scaled_sums(self) -> np.ndarray:
        """|s(x) + s(y)|."""
        return self._lengths(self.kernel.scale(self.sample), 1)

    def _lengths(self, S: np.ndarray, sign: int) -> np.ndarray:
        """|x ± y| of the pairs of distinct rows of S."""
        if sign < 0:  # differences lose their digits to a common offset, which they do not see
            S = S - S.mean(axis=0)
        squares = np.sum(S * S, axis=1)
        found = squares[:, None] + squares[None, :] + 2 * sign * (S @ S.T)
        return np.sqrt(np.maximum(found[self._distinct], 0.0))

    @property
    def _distinct(self) -> tuple[np.ndarray, ...]:
        """Indices of the pairs of distinct rows; of the one pair there is, for one row."""
        m = len(self.sample)
        return np.triu_indices(m, 1) if m > 1 else np.triu_indices(m)

    @property
    def n_held(self) -> int:
        """The number of rows that a draw of a measurement is compared on, at most."""
        return min(len(self.sample), _MOST_HELD)

    # -- measurement -------------------------------------------------------------------------

    @cached_property
    def _streams(self) -> np.random.SeedSequence:
        """The same streams for all candidates: they meet the same luck, in any order."""
        return np.random.SeedSequence(self.rng.integers(2**63, size=2).tolist())

    def measure(
        self,
        approximate: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray],
        n_fitting: int,
        operations: float,
    ) -> Measurement:
        """The relative error of an approximation that a formula does not give.

        `approximate(fitting rows, held-out rows, rng)` is the approximate Gram matrix of the
        held-out rows. These are the sample if n_fitting other rows are left in X; otherwise every
        draw holds out rows of its own: what n_fitting leaves, 20 at least (a tenth of fewer than
        200). Only then are fewer rows fitted to, and the error is that of the fewer.

        Draws of `operations` each are repeated up to 128 times, twice at least, and end after 16,
        32 or 64 where the standard error is below 5 %. Errors differ much between draws (landmarks
        may miss a cluster), so that their squares are averaged, as the expected squared error is
        asked for; the standard error is that of the root of the mean. Every draw is compared on
        150 rows of the sample, others each time.
        """
        n_draws = int(np.clip(_OPERATIONS / operations, *_DRAWS))
        m = len(self.sample)
        keeps_sample = self.n_rows - m >= n_fitting
        n_held = max(self.n_rows - n_fitting, min(_LEAST_HELD, self.n_rows // 10), 1)
        numbers = self._numbers
        if len(numbers) - m < n_fitting and len(numbers) < self.n_rows:  # rows of all of X
            numbers = np.append(numbers, np.setdiff1d(np.arange(self.n_rows), numbers))
        squares = []
        n_fitted = 0
        for child in np.random.SeedSequence(self._streams.entropy).spawn(n_draws):
            rng = np.random.default_rng(child)
            if keeps_sample:
                chosen = rng.permutation(m)[: self.n_held]
                held, K = self.sample[chosen], self._sample_kernel[np.ix_(chosen, chosen)]
                rest = numbers[m + rng.permutation(len(numbers) - m)]
            else:
                drawn, rest = np.split(rng.permutation(numbers), [min(n_held, self.n_held)])
                held = take_rows(self._X, drawn)
                K = self.kernel(held)
            n_fitted = len(rest[:n_fitting])
            fitting = take_rows(self._X, rest[:n_fitting]) if n_fitted else held
            error = approximate(fitting, held, rng) - K
            K_square = off_diagonal_mean(K**2)
            squares.append(relative_error(off_diagonal_mean(error**2), K_square) ** 2)
            if len(squares) >= _EARLIEST and len(squares).bit_count() == 1:  # 16, 32, 64
                root, deviation = _root_mean(np.array(squares))
                if deviation <= _PRECISION * root:
                    break
        return Measurement(*_root_mean(np.array(squares)), n_fitted)

    @cached_property
    def _sample_kernel(self) -> np.ndarray:
        return self.kernel(self.sample)


def _root_mean(squares: np.ndarray) -> tuple[float, float]:
    """√(mean of squares), and its standard error by the slope 1 / (2√mean) of the root."""
    mean = float(np.mean(squares))
    if not 0 < mean < np.inf:
        return float(np.sqrt(mean)), 0.0 if mean == 0 else np.inf
    root = float(np.sqrt(mean))
    return root, float(np.std(squares, ddof=1) / np.sqrt(len(squares)) / (2 * root))


def off_diagonal_mean(values: np.ndarray) -> float:
    """The mean over pairs of distinct rows; over all there is where there is one row only."""
    n = len(values)
    if n < 2:
        return float(np.mean(values))
    distinct = values.copy()
    np.fill_diagonal(distinct, 0.0)  # subtracting a large trace would cancel
    return float(np.sum(distinct) / (n * (n - 1)))


def check_rows(X: Array) -> Array:
    """X as finite floating rows: NumPy, CSR, or an array of another library."""
    if not is_foreign(X):
        return check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32])
    xp = namespace(X)
    if X.ndim != 2 or not xp.isdtype(X.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"X must be a real matrix; got shape {tuple(X.shape)}, dtype {X.dtype}.")
    X = X if xp.isdtype(X.dtype, "real floating") else double(X)
    if not bool(xp.all(xp.isfinite(X))):
        raise ValueError("X contains NaN or infinity.")
    return X
