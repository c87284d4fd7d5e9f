"""Gaussian process classification on features, with the likelihood of a softmax."""

from __future__ import annotations

from collections import Counter
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np

from .._support.memory import usable_memory
from .._support.parameters import check_positive
from .._support.stored import stored
from .._support.threads import suited_blas_threads
from ..rows import Block, split_target
from .base import TrainingRows, assign, begin, check_optimize, checked, labels_of
from .classes import ClassificationProcess, ClassTable, add_labels, check_one_kind, sample_functions
from .columns import Columns, check_features
from .softmax import SEARCH_ROWS, LabelledBlock, best_class_kernel, chosen_prior, mode, moment_of


@stored
@dataclass(eq=False, repr=False)
class FeatureGPClassifier(ClassificationProcess):
    """Gaussian process classification with the kernel of a feature map.

    Every class has a latent Gaussian process, and the softmax of all of them gives probabilities.
    The mode of the posterior is found by up to 100 passes over the rows (features are kept if they
    take at most a quarter of the memory). The covariance of the
    coefficients is the same for all classes, by Böhning's bound of the curvature.
    `DirichletGPClassifier` takes one pass, and rows can be added to it.

    Parameters
    ----------
    features : "auto", int, kernel or transformer, default="auto"
        As for `FeatureGPRegressor`. Complex features become the columns [Re, Im].
    prior_variance : float or "auto", default="auto"
        Multiplies the kernel. "auto" is the best for rows held out: five folds of up to 1,000 rows,
        or a fifth of more (of 20,000 at most, and with 512 columns at most).
    class_weight : dict, "balanced" or None, default=None
        How often each row of a class counts.
    optimize : "auto", True or False, default="auto"
        Whether the parameters of the kernel are searched. A regression on the columns [y = c] finds
        candidates, like `FeatureGPRegressor`; these and the kernel as it was predict rows held out
        through 512 columns, and the best is kept. "auto" searches where `features` is "auto" or an
        int; True searches the kernel of the features that you give.
    random_state : int, RandomState, Generator or None, default=0
        For rows that are drawn or held out, and the average over latent functions.
    verbose : bool, default=False

    Attributes
    ----------
    classes_ : array (C,)
    prior_variance_ : float
    prior_means_ : (C,), the logarithms of the frequencies of the classes
    posterior_ : Posterior of the coefficients, one output for every class
    n_iterations_ : int
    features_, kernel_, relevances_, search_ : as for `FeatureGPRegressor`; log-likelihoods of the
        stage "held out" are those of rows held out, and there is no noise (NaN)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dotsketch import FeatureGPClassifier, Gaussian, MaclaurinFeatures
    >>> X, y = load_iris(return_X_y=True)
    >>> features = MaclaurinFeatures(Gaussian(), n_components=40, random_state=0)
    >>> gp = FeatureGPClassifier(features).fit(X, y)
    >>> bool(gp.score(X, y) > 0.95)
    True
    >>> gp.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    features: Any = "auto"
    _: KW_ONLY
    prior_variance: float | str = "auto"
    class_weight: Any = None
    optimize: bool | str = "auto"
    random_state: Any = 0
    verbose: bool = False
    sample_functions = sample_functions

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, target: Any = None
    ) -> FeatureGPClassifier:
        """Fit to rows that can be read many times.

        X, y, `sample_weight` and `target` are as for `FeatureGPRegressor.fit`, with labels of any
        kind (n,); an iterator that gives its rows once is for `DirichletGPClassifier`.
        """
        check_features(self.features)
        check_positive("prior_variance", self.prior_variance, "auto")
        check_optimize(self.optimize)
        X, y = split_target(X, y, target)
        training = TrainingRows.of(type(self), X, y, None, sample_weight, labels=True)
        if not training.rows.repeatable:
            raise ValueError(
                "FeatureGPClassifier reads the rows many times, and an iterator gives them once: "
                "pass a function that returns a fresh iterator, or use DirichletGPClassifier."
            )
        with suited_blas_threads(training.rows.n_rows):
            values = self._fitted(training)
        return assign(self, training.inputs, **values)

    def _fitted(self, training: TrainingRows) -> dict[str, Any]:
        """The attributes of a fit."""
        rows = training.rows
        counts = rows.fold(Counter, add_labels, block_rows=1 << 16)
        check_one_kind([*counts])
        table = ClassTable.of(counts, self.class_weight)
        begun = begin(self, training, partial(best_class_kernel, self.verbose))
        columns = begun.columns
        # many features are multiplied in single precision: half the time, and far more digits than
        # the iterations find
        is_large = columns.n_columns * (rows.n_rows or 0) > 1 << 22
        dtype = np.float32 if is_large else np.float64
        labelled = partial(labelled_block, columns, training.inputs, table, dtype)
        fold = rows.mapped(
            labelled,
            block_rows=columns.block_rows,
            row_bytes=np.dtype(dtype).itemsize * columns.n_columns,
            memory=usable_memory() // 4,
        ).fold
        means, start = np.log(table.frequencies), None
        if isinstance(self.prior_variance, str):
            some = labelled(training.sample(SEARCH_ROWS, begun.rng))
            prior, _, start = chosen_prior(some, means, begun.rng)
        else:
            prior = float(self.prior_variance)
        moment = moment_of(fold, columns.n_columns)
        posterior, n_iterations = mode(fold, moment, means, prior, start, verbose=self.verbose)
        return {
            "columns_": columns,
            "search_": begun.search,
            "classes_": table.classes,
            "class_weights_": table.weights,
            "prior_means_": means,
            "posterior_": posterior,
            "n_iterations_": n_iterations,
            "_seed": begun.seed,
        }


def labelled_block(
    columns: Columns, inputs: Any, table: ClassTable, dtype: Any, block: Block
) -> LabelledBlock:
    """Features, classes and weights of a block of rows."""
    X, y, _, counts = block
    codes = np.searchsorted(table.classes, labels_of(y, table.classes))
    weights = table.weights[codes] * (1.0 if counts is None else counts)
    return LabelledBlock(np.asarray(columns(checked(inputs, X)), dtype=dtype), codes, weights)
