"""The search for the kernel of a classifier: candidates by a regression, chosen on rows held out.

Labels have no marginal likelihood in closed form. That of a regression on the columns [y = c], with
the same lengthscales for all classes, finds good lengthscales on many data sets and bad ones on
others (letter). So candidates are fitted to some rows and predict others, and the kernel that was
given stays unless another one predicts these rows better.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays import Array
from ..features.degenerate import without_degenerate_warnings
from .search import Judge, Recorder, Score, tuned_features
from .search.placement import Placement
from .search.rounds import suits_columns

TRIAL_ROWS = 6000  # of which a quarter is held out
# The last choice is between few candidates, so it can afford what the fit will have: with 4,500
# rows of eeg short lengthscales predict better than the median distance, with 11,000 worse
LAST_ROWS = 20_000
LONGER = 2.0**0.5  # more rows than in a trial may want longer lengthscales, since columns are few
TRIAL_COLUMNS = 512


class Trials:
    """Log-likelihoods of rows held out, for features that are fitted to the others.

    `make(features)` is a classifier. Features have at most 512 columns in a trial, and what stands
    before them in a pipeline is fitted to the rows `fitting` (k, d), as it will be: lengthscales
    that are good in one space are not in another.
    """

    def __init__(
        self,
        make: Callable[[Any], Any],
        X: Array,
        y: np.ndarray,
        counts: np.ndarray | None,
        fitting: Array,
        rng: np.random.Generator,
        most_rows: int,
    ):  # (n, d), (n,), (n,)
        self.make, self.X, self.y, self.fitting = make, X, y, fitting
        self.counts = np.ones(len(y)) if counts is None else counts
        self.classes = np.unique(y)
        order = rng.permutation(len(y))[:most_rows]
        self.n_rows = len(order)
        self.held, self.train = np.split(order, [max(len(order) // 4, 1)])
        self._known: dict[bytes, tuple[np.ndarray, float]] = {}

    def values(self, features: Any) -> tuple[np.ndarray, float]:
        """Log-likelihoods (k,) of the rows held out, and the prior variance of the fit."""
        trial = self._smaller(features)
        key = pickle.dumps(trial)
        if key not in self._known:
            with warnings.catch_warnings(), without_degenerate_warnings():
                warnings.simplefilter("ignore")  # of kernels that are not chosen
                fitted = Placement(trial).with_fitted_steps(self.fitting)
                gp = self.make(fitted).fit(
                    self.X[self.train],
                    self.y[self.train],
                    self.counts[self.train],
                    classes=self.classes,
                )
                p = gp.predict_proba(self.X[self.held])
            right = p[np.arange(len(p)), np.searchsorted(self.classes, self.y[self.held])]
            found = np.log(np.maximum(right, np.finfo(float).tiny)), float(gp.prior_variance_)
            self._known[key] = found
        return self._known[key]

    def score(self, features: Any) -> Score:
        """The mean log-likelihood; there is no noise."""
        values, prior = self.values(features)
        return float(np.average(values, weights=self.counts[self.held])), np.nan, prior

    def gain(self, features: Any, given: Any) -> float:
        """How much better features are than those given, less one standard error of that."""
        difference = self.values(features)[0] - self.values(given)[0]
        weights = self.counts[self.held] / np.sum(self.counts[self.held])
        mean = float(np.dot(weights, difference))
        return mean - float(np.sqrt(np.sum((weights * (difference - mean)) ** 2)))

    def _smaller(self, features: Any) -> Any:
        place = Placement(features)
        most = min(TRIAL_COLUMNS, len(self.train))
        if place.n_columns is None or place.n_columns <= most:
            return features
        step = place.columns_at_once
        return place.with_kernel(place.kernel, max(most // step, 1) * step)


def tuned_for_classes(
    features: Any,
    X: Array,
    y: np.ndarray,
    counts: np.ndarray | None,
    *,
    fitting: Array,
    make: Callable[[Any], Any],
    per_column: bool | None,
    recorder: Recorder,
) -> tuple[Any, str]:  # (n, d), (n,), (n,)
    """A clone of the features with the kernel that was found, and what was done.

    `fitting` (k, d) are the rows that the features will be fitted to.
    """
    rng = np.random.default_rng(0)
    trials = Trials(make, X, y, counts, fitting, rng, TRIAL_ROWS)
    # the last class follows from the others
    Y = (y[:, None] == trials.classes[:-1]).astype(np.float64)
    n_rows = float(len(y) if counts is None else np.sum(counts))
    kinds = [False] if per_column is None else [per_column]
    if per_column is None and suits_columns(n_rows, X.shape[1]):
        kinds.append(True)
    judge = Judge(trials.score, trials.n_rows)
    candidates, message = [], ""
    for kind in kinds:
        found, message = tuned_features(
            features,
            X,
            Y,
            None,
            counts,
            fitting=fitting,
            judge=judge,
            quick=judge,
            per_column=kind,
            rng=rng,
            recorder=recorder,
            margin=0.0,
        )
        if Placement(found).kernel is None or recorder.steps == []:
            return found, message  # there is nothing to search
        candidates.append((found, kind, message))
    given = _resolved(features, fitting)
    gains = [trials.gain(found, given) for found, *_ in candidates]
    if len(y) > trials.n_rows and not recorder.is_late:
        last = Trials(make, X, y, counts, fitting, rng, LAST_ROWS)
        note = f" With more rows, {LONGER:.3g} times longer."
        candidates += [(_longer(found), kind, text + note) for found, kind, text in candidates]
        gains = [last.gain(found, given) for found, *_ in candidates]
    if max(gains) <= 0:
        return given, "The kernel stays as given: no other one predicts rows held out better."
    best, kind, message = candidates[int(np.argmax(gains))]
    lengthscales = "one lengthscale per column" if kind else "common lengthscales"
    return best, f"Best for rows held out: {lengthscales}. {message}"


def _longer(features: Any) -> Any:
    place = Placement(features)
    return place.with_kernel(place.kernel.stretched(LONGER))


def _resolved(features: Any, X: Array) -> Any:
    """The features with the kernel as given, parameters that depend on rows set from them."""
    place = Placement(features)
    return place.with_kernel(place.kernel.resolve(place.rows_of_kernel(X, X)))
