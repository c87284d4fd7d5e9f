"""A classifier with the likelihood of a softmax: when, and from which features of the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from .._arrays import is_sparse
from .._support.memory import usable_memory
from ..rows.sources import Block, Rows, sample_weights
from .base import FeatureGP
from .class_sums import ClassSums
from .dirichlet import DirichletClassifier
from .iterative import forget, has_same_features
from .multinomial import (
    CURVATURE,
    MEMORY,
    MEMORY_SHARE,
    LabelledBlock,
    SoftmaxProblem,
    chosen_prior,
    fold_of,
)
from .posterior import Posterior
from .solvers.passes import GROUP_ROWS, block_rows

# "auto" is the softmax from so many rows on. Mean NLL of Dirichlet labels and of the softmax with
# 400 Nyström columns on adult, magic, eeg, covertype and letter:
#  1,000 rows  .352 .350, .371 .384, .304 .303, .744 .712, .690 .840
#  3,000 rows  .344 .341, .350 .344, .238 .238, .663 .636, .374 .382
# 15,000 rows  .332 .328, .321 .313, .223 .195, .606 .573, .225 .157
LEAST_ROWS = 2000
# Products of single precision may change the precision of the weights by so much of that of their
# prior. USUAL_PRIOR stands for prior variance · precision · |z|² of a row before they are known.
MOST_ROUNDING, USUAL_PRIOR = 0.02, 100.0
# From so many features on, rows in single precision save more time than it takes to make them. They
# will do where features differ by less than this from those of the rows as they are, relative to
# the largest: far less than where the iterations end.
LEAST_NUMBERS, SAME = 1 << 22, 1e-4
EXTREME_ROWS = 256  # at most, of which that is asked


class SoftmaxFits(DirichletClassifier, FeatureGP):
    """What `ClassFits` does for a softmax, and when products of single precision will do."""

    likelihood: str
    _sums: ClassSums
    _seed: int
    _has_rounded_sums = False  # of products in single precision
    prior_variance_: float

    @property
    def _asks_for_labels(self) -> bool:
        """Whether parameters have a meaning for Dirichlet labels only."""
        return bool(self.alpha != "auto" or self.prior_variance == "labels")

    def _is_softmax(self, rows: Rows, n_rows: int) -> bool:
        """Whether the likelihood is that of the softmax, for so many rows with sums."""
        if self.likelihood != "auto":
            return bool(self.likelihood == "softmax")
        suits = rows.repeatable and not np.iscomplexobj(self._probe)
        return suits and not self._asks_for_labels and n_rows >= LEAST_ROWS

    def _suited_rows(self, rows: Rows) -> Rows:
        """The rows in single precision if a softmax of many features is as good with it.

        Some rows show that, and those with the extreme values of columns.
        """
        n, columns = rows.n_rows or 0, rows.columns
        if not columns or not rows.in_memory or n * self.n_columns_ < LEAST_NUMBERS:
            return rows
        X, *others = columns
        if X.dtype == np.float32 or not self._is_softmax(rows, n):
            return rows
        with np.errstate(over="ignore"):
            low = X.astype(np.float32)
        if not np.all(np.isfinite(low.data if is_sparse(low) else low)):
            return rows
        places = np.unique([*range(min(n, len(self._probe))), *extreme_rows(X)])
        probe = self._map(low[: len(self._probe)])
        if probe.dtype != np.float32 or not has_same_features(self, X[places], low[places], SAME):
            return rows
        self._probe = probe
        return Rows((low, *others))

    def _kept_features(self, rows: Rows) -> np.ndarray | None:  # -> (n, D)
        """The features of rows in memory, if a softmax will need them many times and they fit."""
        n = rows.n_rows or 0
        size = n * self.n_columns_ * self._probe.itemsize
        fits = rows.in_memory and size <= MEMORY_SHARE * usable_memory() and self.chunk_rows is None
        if not fits or not rows.columns or not self._is_softmax(rows, n):
            return None
        return self._map(rows.columns[0])

    def _fit_softmax(
        self, rows: Rows, features: np.ndarray | None, again: Callable[[], ClassSums] | None
    ) -> None:
        """The posteriors by iterations over the rows, from their sums."""
        self._know_classes()
        problem = SoftmaxProblem(
            self._labelled_fold(rows, features),
            self._seed,
            self._sums.moment(self.class_weights_),
            np.log(self.frequencies_),
        )
        is_given = not isinstance(self.temperature, str)
        self.temperature_ = float(self.temperature) if is_given else 1.0
        start = None
        if isinstance(self.prior_variance, str):
            prior, start = chosen_prior(problem, self._sums.held.n_rows, self.temperature_)
        else:
            prior = float(self.prior_variance)
        if self._repeat_sums(again, CURVATURE * prior):
            problem.moment = self._sums.moment(self.class_weights_)
        found = problem.mode(prior, start, verbose=self.verbose)
        self.labels_, self.alpha_, self.prior_variance_ = None, None, prior
        self.n_iterations_, self.jitter_ = found.n_iterations, found.jitter
        self.posteriors_ = list[Posterior](found.posteriors())

    def _labelled_fold(self, rows: Rows, features: np.ndarray | None) -> Callable[..., Any]:
        """The fold over features, classes and weights of all rows, which are kept if they fit."""
        light = copy(self)  # it may be sent to where the rows are
        forget(light, "_sums")

        def labelled(columns: Block, Z: np.ndarray | None = None) -> LabelledBlock:
            Z = light._map(light._check_block(columns[0])) if Z is None else Z
            codes = np.searchsorted(light.classes_, light._labels(columns[1]))
            weights, times = light.class_weights_[codes], sample_weights(columns)
            return LabelledBlock(Z, codes, weights if times is None else weights * times)

        if features is not None and rows.columns:
            return fold_of(labelled(rows.columns, features))
        size = block_rows(self.n_columns_) if self.chunk_rows is None else int(self.chunk_rows)
        mapped = rows.mapped(
            labelled,
            block_rows=size,
            row_bytes=self._probe.itemsize * self.n_columns_ + 16,
            memory=MEMORY,
        )
        # blocks that are given are groups, as partitions are elsewhere
        group = -(-GROUP_ROWS // size) if self.chunk_rows is None else 1
        return partial(mapped.fold, group_blocks=group)

    def _may_round(self, rows: Rows) -> bool:
        """Whether products of single precision will do for a softmax, as far as one can tell now.

        They take half the time. Sums of rows in memory can be gathered again if it turns out that
        they do not.
        """
        if self._probe.dtype not in (np.float32, np.complex64) or not rows.in_memory:
            return False
        n = rows.n_rows or 0
        return self._is_softmax(rows, n) and self._rounding(USUAL_PRIOR * n) < MOST_ROUNDING

    def _rounding(self, scaled_trace: float) -> float:
        """The norm of the error of single precision in B = I + M, where M has a trace of so much.

        See `PackedMatrix.add_outer_products`; the prior precision of the weights is one in B.
        """
        return float(np.finfo(np.float32).eps * scaled_trace / np.sqrt(self.n_columns_))

    def _repeat_sums(self, again: Callable[[], ClassSums] | None, scale: float) -> bool:
        """Gather sums again, if there is a way to, whose rounding would change I + scale · G."""
        if not self._has_rounded_sums:
            return False
        weighted = zip(self.class_weights_, self.statistics_, strict=True)
        trace = sum(float(w * np.sum(s.second_moment.diagonal())) for w, s in weighted)
        if self._rounding(scale * trace) <= MOST_ROUNDING:
            return False
        if again is not None:
            self._sums, self._has_rounded_sums = again(), False
            self._know_classes()
            return True
        warnings.warn(
            "The sums over the rows are in single precision, which is too little for a prior "
            f"variance of {self.prior_variance_:.3g}: call fit with the rows, in double precision.",
            RuntimeWarning,
            stacklevel=4,
        )
        return False

    def _know_classes(self) -> None:
        """The classes of the rows that the sums are of."""
        classes, self.statistics_ = self._sums.sorted()
        self._set_classes(classes, np.array([float(s.n) for s in self.statistics_]))

    def _labels(self, column: Any) -> np.ndarray:
        """Validated labels of a block of rows."""
        y: np.ndarray = column_or_1d(column)
        check_classification_targets(y)
        self._check_named(np.unique(y).tolist())
        return y

    def _check_named(self, labels: list[Any]) -> None:
        if self._named is not None and not set(labels) <= set(self._named.tolist()):
            raise ValueError(f"y holds labels that are not among the classes {self._named}.")


def extreme_rows(X: Any) -> np.ndarray:  # (n, d) -> (m,)
    """The numbers of rows that have the largest or the least value of a column, 256 at most."""
    found = np.unique(np.concatenate([np.ravel(X.argmax(axis=0)), np.ravel(X.argmin(axis=0))]))
    return found[:: -(-len(found) // EXTREME_ROWS)]
