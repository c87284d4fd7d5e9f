"""The kernel of a classifier: candidates by a regression, chosen on rows held out.

Labels have no marginal likelihood in closed form. That of a regression on the columns [y = c], with
the same lengthscales for all classes, finds good lengthscales on many tables and bad ones on others
(letter). So the kernel as it was, the one after exact rows and the one after landmarks each predict
rows held out through 512 columns. The kernel as it was is kept unless another one is better by more
than chance: a search never makes a model worse, nor do few rows choose lengthscales by luck.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from .._arrays import Array
from ..features import NystromFeatures
from ..rows import Block
from .base import alternatives_of, labels_of
from .columns import is_default, searchable
from .noise import is_gain
from .search import Search, SearchStep, best_kernel, levelled, line_of
from .softmax import SEARCH_COLUMNS, LabelledBlock, chosen_prior

JUDGED_ROWS = 6000  # of which a fifth is held out; few rows are all held out in turn


def search_classes(
    estimator: Any, features: Any, sample: Block, rng: np.random.Generator
) -> Search:
    """The search for the kernel of features that predicts rows held out best."""
    kernel, X = searchable(features, sample[0])
    alternatives = alternatives_of(kernel, is_default(estimator.features))
    y, verbose = labels_of(sample[1]), estimator.verbose
    return best_class_kernel(kernel, X, y, alternatives, rng, verbose)


def best_class_kernel(
    kernel: Any,
    X: Array,
    y: np.ndarray,
    alternatives: Any,
    rng: np.random.Generator,
    verbose: bool,
) -> Search:
    """The best of the kernel as it is and of those that a search by regression passes through."""
    classes, codes = np.unique(y, return_inverse=True)
    Y = (codes[:, None] == np.arange(len(classes))).astype(np.float64)
    Y = Y[:, :1] if len(classes) == 2 else Y
    search = best_kernel(kernel, X, Y, alternatives=alternatives, rng=rng, verbose=verbose)
    exact = [step for step in search.steps if step.n_landmarks is None]
    last = max(exact, key=lambda step: (step.n_rows, step.log_likelihood)).kernel
    candidates: list[Any] = [kernel.resolve(X[:1000]), last]
    if search.steps[-1].n_landmarks is not None:
        candidates.append(search.steps[-1].kernel)
    order = rng.permutation(len(y))[:JUDGED_ROWS]
    X, codes = X[order], codes[order]
    frequencies = np.bincount(codes, minlength=len(classes)) / len(codes)
    means = np.log(np.maximum(frequencies, 0.5 / len(codes)))
    seed, steps = int(rng.integers(2**31)), list(search.steps)
    losses: list[np.ndarray] = []  # of the same rows for every candidate
    for candidate in candidates:
        began = time.perf_counter()
        n_columns = min(SEARCH_COLUMNS, len(codes))
        features = NystromFeatures(
            levelled(candidate, X[:1000], 1.0),
            n_components=n_columns,
            n_landmarks=n_columns,
            random_state=seed,
        )
        # candidates are compared in single precision: half the time
        Z = np.asarray(features.fit(X).transform(X), dtype=np.float32)
        block = LabelledBlock(Z, codes, np.ones(len(codes)))
        losses.append(chosen_prior(block, means, np.random.default_rng(seed))[1])
        seconds, value = time.perf_counter() - began, -float(np.mean(losses[-1]))
        step = SearchStep("held out", candidate, len(codes), n_columns, 1, value, np.nan, seconds)
        steps.append(step)
        if verbose:
            print(line_of(step))
    best = min(range(len(losses)), key=lambda k: float(np.mean(losses[k])))
    best = best if is_gain(losses[0] - losses[best]) else 0
    level = float(np.mean(np.asarray(candidates[0].diag(X))))
    return Search(levelled(candidates[best], X, level), tuple(steps))
