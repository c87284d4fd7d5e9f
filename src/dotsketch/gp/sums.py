"""What rows say about the weights of a linear Gaussian model: values that merge with `+`.

The model: f(x) = Re z(x)ᴴ v with weights v ~ N(0, s I), and y_i = f(x_i) + ε_i, Var ε_i = 1/w_i.
The kernel of f is s Re k̂ with k̂(x, x') = z(x)ᵀ conj z(x'). Everything the data say is in

    M = Σ w_i z_i z_iᴴ (D, D),   Σ w_i z_i [y_i, 1] (D, m + 1),   Σ w_i [y_i, 1]ᵀ[y_i, 1]

which are sums over rows: they are computed in blocks, on many machines, and merged. From there on
nothing depends on the number of rows: see `algebra`. Sums are in double precision. An `offset` is
subtracted from the targets first, so that sums of squares lose no digits to a large mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

import numpy as np

from .._arrays import Array, host
from .._support.stored import array, stored
from .packed import PackedMatrix


@stored
@dataclass
class SufficientStatistics:
    """What n rows of features Z and targets y (m columns) with weights w say about the weights v.

    `a + b` merges statistics of disjoint rows, `a - b` removes rows; `update` and `+=` change a.
    M = conj(ZᴴWZ) is kept by one triangle; `gram()` gives ZᴴWZ in full.

    >>> import numpy as np
    >>> Z, y = np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([3.0, 5.0])
    >>> statistics = SufficientStatistics.of(Z[:1], y[:1]) + SufficientStatistics.of(Z[1:], y[1:])
    >>> statistics.n, statistics.gram()
    (2, array([[2., 2.],
           [2., 4.]]))
    """

    n: float  # Σ of the counts of the rows: their number, if every row counts once
    second_moment: PackedMatrix  # M
    cross: Annotated[np.ndarray, array("fc", "D", "m + 1")]  # Σ w z [y, 1]
    targets: Annotated[np.ndarray, array("f", "m + 1", "m + 1")]  # Σ w [y, 1]ᵀ[y, 1]
    plain: Annotated[np.ndarray, array("f", 2, "m")]  # Σ y and Σ y², without weights
    log_weights: float  # Σ log w
    offset: Annotated[np.ndarray, array("f", "m")]  # y stands for y − offset above

    def __post_init__(self) -> None:
        m = self.cross.shape[1] - 1
        shapes = self.targets.shape, self.plain.shape, self.offset.shape
        if len(self.cross) != self.second_moment.size or (shapes != ((m + 1, m + 1), (2, m), (m,))):
            raise ValueError("The sums of SufficientStatistics do not fit each other.")

    @classmethod
    def zeros(
        cls,
        n_features: int,
        n_outputs: int,
        dtype: Any = np.float64,
        offset: np.ndarray | None = None,
    ) -> SufficientStatistics:
        """The statistics of no rows; dtype float64 or complex128, as the features are."""
        return cls(
            0,
            PackedMatrix.zeros(n_features, dtype),
            np.zeros((n_features, n_outputs + 1), dtype=dtype),
            np.zeros((n_outputs + 1, n_outputs + 1)),
            np.zeros((2, n_outputs)),
            0.0,
            np.zeros(n_outputs) if offset is None else np.array(offset, dtype=np.float64),
        )

    @classmethod
    def of(
        cls,
        Z: Array,
        y: Array | None = None,
        weights: Array | None = None,
        counts: Array | None = None,
    ) -> SufficientStatistics:
        """The statistics of the rows of Z (n, D) with targets y (n,), (n, m) or none."""
        Z = np.asarray(host(Z))
        m = 0 if y is None else 1 if y.ndim == 1 else y.shape[1]
        dtype = np.complex128 if np.iscomplexobj(Z) else np.float64
        statistics = cls.zeros(Z.shape[1], m, dtype)
        statistics.update(Z, y, weights, counts)
        return statistics

    def update(
        self,
        Z: Array,
        y: Array | None = None,
        weights: Array | None = None,
        counts: Array | None = None,
    ) -> None:
        """Add rows in place: Z (n, D), y (n,) or (n, m) or None, weights (n,) or None for ones.

        A row with a count of 3 is added three times; `counts` (n,) are positive, None for ones.
        """
        Z = np.asarray(host(Z))
        if Z.ndim != 2 or Z.shape[1] != self.n_features:
            raise ValueError(f"Rows of {self.n_features} features are expected; got {Z.shape}.")
        n, m = len(Z), self.n_outputs
        targets = np.empty((n, 0)) if y is None else np.asarray(host(y), dtype=np.float64)
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.shape != (n, m):
            raise ValueError(
                f"The targets have shape {targets.shape}; {n} rows of {m} outputs are expected."
            )
        targets = targets - self.offset
        times, precisions = positive_rows("counts", counts, n), positive_rows("weights", weights, n)
        often = np.ones(n) if times is None else times
        Y, roots = np.concatenate([targets, np.ones((n, 1))], axis=1), None
        if precisions is not None or times is not None:
            roots = np.sqrt(often if precisions is None else often * precisions)[:, None]
            Y = Y * roots
        for rows, part in _weighted_rows(Z, roots, self.cross.dtype):
            self.second_moment.add_outer_products(part)
            self.cross += part.T @ Y[rows]
        self.targets += Y.T @ Y
        each = often[:, None] * targets
        self.plain += np.stack([each.sum(axis=0), (each * targets).sum(axis=0)])
        self.n += n if times is None else float(np.sum(times))
        if precisions is not None:
            self.log_weights += float(np.sum(often * np.log(precisions)))

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        return deepcopy(self)._added(other, 1)

    def __sub__(self, other: SufficientStatistics) -> SufficientStatistics:
        return deepcopy(self)._added(other, -1)

    def __iadd__(self, other: SufficientStatistics) -> SufficientStatistics:
        return self._added(other, 1)

    def __radd__(self, other: object) -> SufficientStatistics:
        """For `sum(parts)`, which starts from zero."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _added(self, other: SufficientStatistics, sign: int) -> SufficientStatistics:
        """Change these sums by others."""
        if not isinstance(other, SufficientStatistics):
            return NotImplemented
        if self.cross.shape != other.cross.shape or self.cross.dtype != other.cross.dtype:
            raise ValueError(
                "Only statistics of the same features and outputs can be merged; got "
                f"{self.n_features} features ({self.cross.dtype}), {self.n_outputs} outputs and "
                f"{other.n_features} features ({other.cross.dtype}), {other.n_outputs} outputs."
            )
        other = other.shifted(self.offset)
        self.second_moment.add_multiple(sign, other.second_moment)
        for name in ("n", "cross", "targets", "plain", "log_weights"):
            setattr(self, name, getattr(self, name) + sign * getattr(other, name))
        return self

    @property
    def n_features(self) -> int:
        return self.cross.shape[0]

    @property
    def n_outputs(self) -> int:
        return self.cross.shape[1] - 1

    def arrays(self) -> dict[str, Any]:
        """The fields by name, for a checkpoint."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**named, "second_moment": self.second_moment.values}

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> SufficientStatistics:
        """The way back from `arrays`, also from a file of arrays."""
        return cls(
            **{
                **arrays,
                "n": np.asarray(arrays["n"]).item(),
                "second_moment": PackedMatrix(arrays["second_moment"]),
                "log_weights": float(arrays["log_weights"]),
            }
        )

    def gram(self) -> np.ndarray:  # -> (D, D)
        """ZᴴWZ in full."""
        return np.conj(self.second_moment.full())

    def means(self) -> np.ndarray:  # -> (m,)
        """The mean of every output, in which rows count alike whatever their noise."""
        return self.plain[0] / self.n + self.offset

    def deviations(self) -> np.ndarray:  # -> (m,)
        """The standard deviation of every output."""
        return np.sqrt(np.maximum(self.plain[1] / self.n - (self.plain[0] / self.n) ** 2, 0))

    def shifted(self, offset: np.ndarray) -> SufficientStatistics:  # (m,)
        """The same statistics about another offset of the targets."""
        m, amounts = self.n_outputs, self.offset - offset
        if not np.any(amounts):
            return self
        shift = np.eye(m + 1)  # [y + amounts, 1] = [y, 1] shift
        shift[m, :m] = amounts
        plain = np.stack(
            [
                self.plain[0] + self.n * amounts,
                self.plain[1] + 2 * amounts * self.plain[0] + self.n * amounts**2,
            ]
        )
        return replace(
            self,
            second_moment=self.second_moment.copy(),  # `update` writes into it
            cross=self.cross @ shift,
            targets=shift.T @ self.targets @ shift,
            plain=plain,
            offset=offset,
        )

    def centred(
        self, means: np.ndarray, scales: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:  # (m,), (m,) -> (D, m), (m,)
        """Σ w z y' and Σ w y'² of the targets y' = (y − mean) / scale."""
        m, T = self.n_outputs, self.targets
        means = means - self.offset
        cross = (self.cross[:, :m] - self.cross[:, m:] * means) / scales
        squares = np.diag(T)[:m] - 2 * means * T[:m, m] + means**2 * T[m, m]
        return cross, np.maximum(squares, 0) / scales**2


def sampled_columns(
    energies: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:  # (D,) -> (size,), (size,)
    """Columns for an unbiased kernel of fewer of them, and what each is multiplied by.

    Columns of large energy Σ |z_j|² are taken as they are; others are drawn with probabilities p in
    proportion to their energy (one random start would do, and the middle stands for it), and
    multiplied by 1/√p. So the leading columns of Nyström features are kept, and those of random
    features are thinned out. All columns if there are no more than `size`.
    """
    if len(energies) <= size:
        return np.arange(len(energies)), np.ones(len(energies))
    order = np.argsort(-energies, kind="stable")
    falling = energies[order]
    remaining = np.cumsum(falling[::-1])[::-1]  # of a column and all after it
    is_large = (size - np.arange(len(order))) * falling > remaining
    large = int(np.argmin(is_large))  # the first that is not
    p = np.ones(len(order))
    if remaining[large] == 0:  # columns of zeros are not needed
        return np.sort(order[:large]), np.ones(large)
    p[large:] = (size - large) * falling[large:] / remaining[large]
    drawn = np.diff(np.floor(np.cumsum(p[large:]) + 0.5), prepend=0.0) > 0
    chosen = np.concatenate([np.arange(large), large + np.flatnonzero(drawn)])
    ascending = np.argsort(order[chosen])
    return order[chosen][ascending], 1 / np.sqrt(p[chosen])[ascending]


def positive_rows(name: str, values: Array | None, n: int) -> np.ndarray | None:
    """The numbers of n rows, if there are any and all of them are positive."""
    if values is None:
        return None
    numbers = np.asarray(host(values), dtype=np.float64)
    if numbers.shape != (n,) or not np.all(numbers > 0) or not np.all(np.isfinite(numbers)):
        raise ValueError(
            f"{name} must be {n} positive finite numbers, one for every row; got the shape "
            f"{numbers.shape}."
        )
    return numbers


def _weighted_rows(
    Z: np.ndarray, roots: np.ndarray | None, dtype: Any
) -> Iterator[tuple[slice, np.ndarray]]:  # (n, D), (n, 1)
    """Rows of Z of some dtype, times the roots of their weights; no copy if none is needed.

    Copies go through one buffer of 16 MB: fresh memory for all rows would cost a fifth of the time.
    """
    if roots is None and Z.dtype == dtype and Z.flags.c_contiguous:
        yield slice(None), Z
        return
    step = max((1 << 24) // (max(Z.shape[1], 1) * np.dtype(dtype).itemsize), 64)
    buffer = np.empty((min(step, len(Z)), Z.shape[1]), dtype=dtype)
    for start in range(0, len(Z), step):
        rows = slice(start, min(start + step, len(Z)))
        part = buffer[: rows.stop - start]
        np.copyto(part, Z[rows])
        if roots is not None:
            part *= roots[rows]
        yield rows, part
