"""The search for the kernel of a classifier: candidates by a regression, chosen on rows held out.

Labels have no marginal likelihood in closed form. That of a regression on the columns [y = c], with
the same lengthscales for all classes, finds good lengthscales on many data sets and bad ones on
others (letter). So candidates are fitted to some rows and predict others, and the kernel that was
given stays unless another one predicts these rows better. Then all lengthscales become shorter or
longer together, with more rows and columns: what is best depends on both.
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
from .search.factor import STEP, fewer_columns
from .search.features import Trial
from .search.placement import Placement
from .search.record import OutOfTime
from .search.rounds import suits_columns

TRIAL_ROWS, TRIAL_COLUMNS = 6000, 512  # of the rows a quarter is held out
# The last choice is between few candidates, so it can afford much of what the fit will have. With
# 4,500 rows of eeg short lengthscales predict better than the median distance, with 11,000 worse.
# On covertype half of it is better than the median distance with 4096 columns, and not with 1024.
LAST_ROWS, LAST_COLUMNS = 20_000, 4096
MOST_STEPS = 8  # of √2, shorter or longer
NEAR = 0.02  # a factor of the lengthscales seldom gains more log-likelihood per row


class Trials:
    """Log-likelihoods of rows held out, for features that are fitted to the others.

    `make(features)` is a classifier. Features have at most `most_columns` in a trial, and what
    stands before them in a pipeline is fitted to the rows `fitting` (k, d), as it will be:
    lengthscales that are good in one space are not in another.
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
        most_columns: int = TRIAL_COLUMNS,
    ):  # (n, d), (n,), (n,)
        self.most_columns = most_columns
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
        """How much better features are than others, less one standard error of that."""
        difference = self.values(features)[0] - self.values(given)[0]
        weights = self.counts[self.held] / np.sum(self.counts[self.held])
        mean = float(np.dot(weights, difference))
        return mean - float(np.sqrt(np.sum((weights * (difference - mean)) ** 2)))

    def is_known(self, features: Any) -> bool:
        """Whether the trial of these features was done."""
        return pickle.dumps(self._smaller(features)) in self._known

    def _smaller(self, features: Any) -> Any:
        place = Placement(features)
        most = min(self.most_columns, len(self.train))
        if place.n_columns is None or place.n_columns <= most:
            return features
        step = place.columns_at_once
        return place.with_kernel(place.kernel, max(most // step, 1) * step)


class LastChoice:
    """Between features with several kernels, and then between factors of the lengthscales."""

    def __init__(self, trials: Trials, recorder: Recorder):
        self.trials, self.recorder = trials, recorder
        self.judge = Judge(trials.score, trials.n_rows, trials.most_columns)

    def best(self, candidates: list[Any]) -> tuple[int, float] | None:
        """The number of the best candidate, and the best common factor of its lengthscales.

        None if time ran out before all of them were tried.

        The first stays unless another is clearly better. Factors are found with half of the columns
        where these are many, for all candidates that are near the best, and then with all of them
        for the best. Fewer columns prefer longer lengthscales, so the latter are shorter ones only.
        """
        try:
            starts = [self._tried(found, 0, self._fewer(found)) for found in candidates]
        except OutOfTime:
            return None
        number, steps = int(np.argmax([self.trials.gain(one, starts[0]) for one in starts])), 0
        try:
            values = [self.trials.score(start)[0] for start in starts]
            for k in np.flatnonzero(np.array(values) >= max(values) - NEAR):
                other = self._walk(candidates[k], 0, (-1, 1), self._fewer(candidates[k]))
                there = self._tried(candidates[k], other, self._fewer(candidates[k]))
                now = self._tried(candidates[number], steps, self._fewer(candidates[number]))
                if self.trials.gain(there, now) > 0:
                    number, steps = int(k), other
            steps = self._walk(candidates[number], steps, (-1,), None)
        except OutOfTime:
            pass
        return number, float(STEP**steps)

    def _walk(self, features: Any, steps: int, ways: tuple[int, ...], n_columns: int | None) -> int:
        """The number of steps of √2 after some that are clear gains."""
        for way in ways:
            while abs(steps + way) <= MOST_STEPS:
                here, there = (self._tried(features, k, n_columns) for k in (steps, steps + way))
                if self.trials.gain(there, here) <= 0:
                    break
                steps += way
        return steps

    @staticmethod
    def _fewer(features: Any) -> int | None:
        place = Placement(features)
        return fewer_columns(place.n_columns, place.columns_at_once)

    def _tried(self, features: Any, steps: int, n_columns: int | None) -> Any:
        """The features after some steps, with their trial done and recorded."""
        place, factor = Placement(features), float(STEP**steps)
        found = place.with_kernel(place.kernel.stretched(factor), n_columns)
        if not self.trials.is_known(found):
            self.recorder.check()
            Trial(place, place.kernel, self.judge, self.recorder).log_likelihood(factor, n_columns)
        return found


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
    features = Placement(features).model  # with one seed: what is drawn is the same for all kernels
    trials = Trials(make, X, y, counts, fitting, rng, TRIAL_ROWS)
    # the last class follows from the others
    Y = (y[:, None] == trials.classes[:-1]).astype(np.float64)
    n_rows = float(len(y) if counts is None else np.sum(counts))
    kinds = [False] if per_column is None else [per_column]
    if per_column is None and suits_columns(n_rows, X.shape[1]):
        # a factor of the lengthscale that was given is left to the last choice
        kinds = [True] if _has_one_lengthscale(features) else [False, True]
    judge = Judge(trials.score, trials.n_rows, trials.most_columns)
    candidates, messages = [], [""]
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
        candidates.append(found)
        lengthscales = "one lengthscale per column" if kind else "common lengthscales"
        messages.append(f"Best for rows held out: {lengthscales}. {message}")
    candidates.insert(0, _resolved(features, fitting))
    chosen = None
    if not recorder.is_late:
        last = Trials(make, X, y, counts, fitting, rng, LAST_ROWS, LAST_COLUMNS)
        chosen = LastChoice(last, recorder).best(candidates)
    if chosen is None:  # the trials of the first stage are known
        gains = [trials.gain(found, candidates[0]) for found in candidates]
        chosen = int(np.argmax(gains)), 1.0
    best, factor = chosen
    if best == 0:
        messages[0] = "The kernel stays as given"
        messages[0] += ": no other one predicts rows held out better." if factor == 1 else "."
    place = Placement(candidates[best])
    note = "" if factor == 1 else f" {factor:.3g} times these lengthscales predict better."
    return place.with_kernel(place.kernel.stretched(factor)), messages[best] + note


def _has_one_lengthscale(features: Any) -> bool:
    return bool(getattr(Placement(features).kernel, "is_common", False))


def _resolved(features: Any, X: Array) -> Any:
    """The features with the kernel as given, parameters that depend on rows set from them."""
    place = Placement(features)
    return place.with_kernel(place.kernel.resolve(place.rows_of_kernel(X, X)))
