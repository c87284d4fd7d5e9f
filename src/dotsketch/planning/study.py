"""A sample of the data, and what candidates need to know of it, computed once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from .._arrays import Array, as_generator, double, is_foreign, namespace, positive_integer
from ..expansion_moments import ExpansionMoments, relative_error
from ..expansions import OVERFLOW, column_means, expand, sample_rows
from ..kernels import DotProductKernel
from ..pairs import PairStatistics
from ..sketches import separable_sketch

_FITTING_ROWS = 5000  # at most so many rows are fitted to where an error is measured


class _Moments(NamedTuple):
    """Averages over the pairs that an allocation is fitted to, and over those it is judged on."""

    fitting: ExpansionMoments
    judging: ExpansionMoments


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
        n_pairs_sample = positive_integer("n_pairs_sample", n_pairs_sample)
        X = check_rows(X)
        self.rng = as_generator(random_state)
        self.kernel = kernel.resolve(X).detached()
        rows = sample_rows(X, 2 * n_pairs_sample + _FITTING_ROWS, self.rng)
        self._rows = rows[self.rng.permutation(len(rows))]
        self.sample, self._rest = np.split(self._rows, [n_pairs_sample])
        enough = len(self._rest) >= len(self.sample)
        self.fitting = self._rest[:n_pairs_sample] if enough else self.sample
        self.mean = column_means(X)
        self.n_rows = X.shape[0]
        self._moments: dict[tuple[str, str, bool], _Moments] = {}

    @property
    def dimension(self) -> int:
        return self.sample.shape[1]

    # -- closed forms ------------------------------------------------------------------------

    def prepare_moments(self, keys: Iterable[tuple[str, str, bool]]) -> None:
        """The moments of (sketch, output, mean split): one pass over the pairs an expansion."""
        missing = sorted(set(keys) - set(self._moments))
        for split in sorted({key[2] for key in missing}):
            chosen = [key for key in missing if key[2] is split]
            judged = [self.fitting] if self.fitting is self.sample else [self.fitting, self.sample]
            with np.errstate(over="ignore", invalid="ignore"):  # ExpansionMoments says it better
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
            return bool(np.isfinite(np.sum(self.kernel.diag(self._rows) ** 2)))

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

    # -- measurement -------------------------------------------------------------------------

    @cached_property
    def _streams(self) -> np.random.SeedSequence:
        """The same streams for all candidates: they meet the same luck, in any order."""
        return np.random.SeedSequence(self.rng.integers(2**63, size=2).tolist())

    def measure(
        self,
        approximate: Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray],
        n_fitting: int,
        n_draws: int,
    ) -> tuple[float, float]:
        """The relative error of an approximation that a formula does not give.

        `approximate(fitting rows, held-out rows, rng)` is the approximate Gram matrix of the
        held-out rows. These are the sample if as many other rows are left as it wants to fit to,
        or nine tenths of all; otherwise every draw holds out rows of its own, a tenth at least.
        Returns the root of the mean square over draws, and the deviation between draws.
        """
        keeps_sample = len(self._rest) >= min(n_fitting, len(self._rows) * 9 // 10)
        errors = []
        for child in np.random.SeedSequence(self._streams.entropy).spawn(n_draws):
            rng = np.random.default_rng(child)
            if keeps_sample:
                held, rest = self.sample, self._rest[rng.permutation(len(self._rest))]
            else:
                rows = self._rows[rng.permutation(len(self._rows))]
                n_held = max(len(rows) - n_fitting, len(rows) // 10, 1)
                held, rest = np.split(rows, [min(n_held, len(self.sample))])
            fitting = rest[:n_fitting]
            K = self.kernel(held)
            error = approximate(fitting if len(fitting) else held, held, rng) - K
            errors.append(relative_error(off_diagonal_mean(error**2), off_diagonal_mean(K**2)))
        deviation = np.std(errors, ddof=1) if n_draws > 1 else 0.0
        return float(np.sqrt(np.mean(np.square(errors)))), float(deviation)


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
