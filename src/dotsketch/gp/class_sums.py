"""What labelled rows say: sums for every class, and a sample of rows to choose α on.

Every class has two noise levels only, inside and outside of it. With G_c = Σ z zᴴ over the rows of
class c and G = Σ G_c, the second moments of class c are G/σ₀² + (1/σ₁² − 1/σ₀²) G_c: one pass over
the rows is enough for all classes, and a new α takes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .dirichlet import DirichletLabels
from .packed import PackedMatrix
from .solvers import System
from .sums import SufficientStatistics, sampled_columns

VALIDATION_ROWS = 1000  # α is chosen on so many rows at most


def row_hashes(seed: int, first: int, n: int) -> np.ndarray:  # -> (n,), uint64
    """Well mixed numbers of rows first, first + 1, … (SplitMix64 by Steele, Lea and Flood)."""
    with np.errstate(over="ignore"):  # sums and products of 64 bits wrap around
        start = np.uint64(seed) * np.uint64(0xD1342543DE82EF95)  # far apart for seeds 0, 1, …
        rows = np.arange(first + 1, first + n + 1, dtype=np.uint64)
        z = start + rows * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@dataclass(eq=False)
class HeldOutRows:
    """A uniform sample of rows: those with the smallest hashes of (seed, number of the row).

    Samples of disjoint rows merge with `+` in any order, and blocks do not matter.
    """

    size: int
    seed: int
    n_rows: int  # of which it is a sample
    hashes: np.ndarray  # (k,), ascending
    rows: np.ndarray  # (k, D)
    labels: np.ndarray  # (k,)
    counts: np.ndarray  # (k,), how often they count

    @classmethod
    def none(cls, size: int, seed: int) -> HeldOutRows:
        """The sample of no rows."""
        none = np.empty(0)
        return cls(size, seed, 0, np.empty(0, np.uint64), np.empty((0, 0)), none, none)

    def update(
        self, rows: np.ndarray, labels: np.ndarray, first: int, counts: np.ndarray | None = None
    ) -> None:
        """Add the rows first, first + 1, … (n, D) with labels (n,), which count so often."""
        counts = np.ones(len(rows)) if counts is None else counts
        self.n_rows += len(rows)
        hashes = row_hashes(self.seed, first, len(rows))
        if len(self.hashes) == self.size:
            kept = np.flatnonzero(hashes < self.hashes[-1])
        else:
            kept = np.argsort(hashes)[: self.size]
        if len(kept):
            self._add(hashes[kept], rows[kept], labels[kept], counts[kept])

    def __add__(self, other: HeldOutRows) -> HeldOutRows:
        found = replace(self, n_rows=self.n_rows + other.n_rows)
        if len(other.hashes):
            found._add(other.hashes, other.rows, other.labels, other.counts)
        return found

    def _add(
        self, hashes: np.ndarray, rows: np.ndarray, labels: np.ndarray, counts: np.ndarray
    ) -> None:
        if len(self.hashes):
            hashes = np.concatenate([self.hashes, hashes])
            rows = np.concatenate([self.rows, rows])
            labels = np.concatenate([self.labels, labels])
            counts = np.concatenate([self.counts, counts])
        # Processes with one seed number their rows alike: sums of features decide between equals
        kept = np.lexsort((rows.real.sum(axis=1), hashes))[: self.size]
        self.hashes, self.rows = hashes[kept], rows[kept]
        self.labels, self.counts = labels[kept], counts[kept]


@dataclass(eq=False)
class ClassSums:
    """Sums over the features of rows, for every class; merge with `+`.

    `a += b` works in place.
    """

    n_features: int
    dtype: Any  # a NumPy type by name
    by_label: dict[Any, SufficientStatistics]  # without targets, which the labels are
    held: HeldOutRows

    @classmethod
    def zeros(cls, n_features: int, dtype: Any, labels: list[Any], seed: int) -> ClassSums:
        """The sums of no rows, for the labels that are known."""
        sums = cls(n_features, np.dtype(dtype).name, {}, HeldOutRows.none(VALIDATION_ROWS, seed))
        for label in labels:
            sums._of(label)
        return sums

    def update(
        self,
        Z: np.ndarray,
        y: np.ndarray,
        first: int,
        counts: np.ndarray | None = None,
        single: bool = False,
    ) -> None:
        """Add the rows first, first + 1, …: features Z (n, D), labels y (n,), counts (n,).

        `single` is that of `SufficientStatistics.update`.
        """
        labels, places = np.unique(y, return_inverse=True)
        self.check_labels(labels.tolist())
        for k, label in enumerate(labels.tolist()):
            inside = places == k
            times = None if counts is None else counts[inside]
            self._of(label).update(Z[inside], counts=times, single=single)
        self.held.update(Z, y, first, counts)

    def __add__(self, other: ClassSums) -> ClassSums:
        self.check_labels(list(other.by_label))
        total = {label: other.by_label.get(label, 0) + s for label, s in self.by_label.items()}
        return ClassSums(
            self.n_features, self.dtype, {**other.by_label, **total}, self.held + other.held
        )

    def __iadd__(self, other: ClassSums) -> ClassSums:
        self.check_labels(list(other.by_label))
        for label, statistics in other.by_label.items():
            if label in self.by_label:
                self.by_label[label] += statistics
            else:
                self.by_label[label] = statistics
        self.held = self.held + other.held
        return self

    def check_labels(self, labels: list[Any]) -> None:
        """Raise unless the labels can join those there are."""
        if len({isinstance(label, str) for label in (*labels, *self.by_label)}) > 1:
            raise ValueError(
                f"Labels must not mix strings and numbers: {[*self.by_label, *labels]}."
            )

    @property
    def n(self) -> float:
        """The number of rows, as often as they count."""
        return sum(statistics.n for statistics in self.by_label.values())

    def sorted(self) -> tuple[np.ndarray, list[SufficientStatistics]]:
        """The classes, and the sums of each."""
        classes = np.unique(np.array(list(self.by_label)))
        return classes, [self.by_label[label] for label in classes.tolist()]

    def held_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:  # -> (k, D), (k,), (k,)
        """The rows held out, their labels and counts: a tenth of all rows at most."""
        held, k = self.held, max(self.held.n_rows // 10, 1)
        return held.rows[:k].astype(self.dtype), held.labels[:k], held.counts[:k]

    def split(self, n_columns: int) -> tuple[ClassSums, np.ndarray, np.ndarray, np.ndarray]:
        """The sums without the rows held out, these rows (k, D), their labels and counts (k,).

        With more than `n_columns` columns, so many are drawn: see `sampled_columns`.
        """
        Z, y, counts = self.held_out()
        moments = [statistics.second_moment for statistics in self.by_label.values()]
        energies = np.sum([moment.diagonal() for moment in moments], axis=0)
        places, factors = sampled_columns(energies, n_columns)
        Z = Z[:, places] * factors
        kept = {
            label: statistics.of_columns(places, factors)
            - SufficientStatistics.of(Z[y == label], counts=counts[y == label])
            for label, statistics in self.by_label.items()
        }
        none = HeldOutRows.none(self.held.size, self.held.seed)
        return ClassSums(len(places), self.dtype, kept, none), Z, y, counts

    def moment(self, class_weights: np.ndarray) -> PackedMatrix:  # (C,)
        """Σ w z zᴴ over all rows, with the weights of their classes."""
        total = PackedMatrix.zeros(self.n_features, self.dtype)
        for weight, statistics in zip(class_weights, self.sorted()[1], strict=True):
            total.add_multiple(weight, statistics.second_moment)
        return total

    def systems(self, labels: DirichletLabels, class_weights: np.ndarray) -> Iterator[System]:
        """The system of every class."""
        _, statistics = self.sorted()
        sums = [weight * s.cross for weight, s in zip(class_weights, statistics, strict=True)]
        cross = sum(sums)
        moment = self.moment(class_weights)
        inner, outer = 1 / labels.inside_variance, 1 / labels.outside_variance
        for c, weight in enumerate(class_weights):
            value, other = (v - labels.means[c] for v in (labels.inside, labels.outside))
            system = outer * moment
            system.add_multiple((inner - outer) * weight, statistics[c].second_moment)
            yield System(system, inner * value * sums[c] + outer * other * (cross - sums[c]))

    def arrays(self) -> dict[str, Any]:
        """All of it by name, for a checkpoint."""
        found: dict[str, Any] = {
            "features": np.zeros((self.n_features, 0), dtype=self.dtype),
            "labels": np.array(list(self.by_label)),
            "seed": self.held.seed,
            "held_n_rows": self.held.n_rows,
            "held_hashes": self.held.hashes,
            "held_rows": self.held.rows,
            "held_labels": np.array(self.held.labels.tolist()),
            "held_counts": self.held.counts,
        }
        for k, statistics in enumerate(self.by_label.values()):
            found |= {f"{name}_{k}": value for name, value in statistics.arrays().items()}
        return found

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> ClassSums:
        """The way back from `arrays`."""
        names = SufficientStatistics.zeros(1, 0).arrays()
        by_label = {
            label: SufficientStatistics.restored({name: arrays[f"{name}_{k}"] for name in names})
            for k, label in enumerate(arrays["labels"].tolist())
        }
        held = (arrays[f"held_{name}"] for name in ("hashes", "rows", "labels", "counts"))
        sizes = VALIDATION_ROWS, int(arrays["seed"]), int(arrays["held_n_rows"])
        features = arrays["features"]
        return cls(
            len(features),
            features.dtype.name,
            by_label,
            HeldOutRows(*sizes, *held),
        )

    def _of(self, label: Any) -> SufficientStatistics:
        if label not in self.by_label:
            self.by_label[label] = SufficientStatistics.zeros(self.n_features, 0, self.dtype)
        return self.by_label[label]
