"""Gaussian process classification on features, by Dirichlet labels.

Every class has two noise levels only, inside and outside of it. With G_c = Σ z zᴴ over the rows of
class c and G = Σ G_c, the second moments of class c are G/σ₀² + (1/σ₁² − 1/σ₀²) G_c: one pass over
the rows is enough for all classes, and a new α takes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import _packed
from .._arrays import host
from ..linear_gaussian import (
    Posterior,
    SufficientStatistics,
    log_density,
    posterior,
    predict_mean,
    predict_variance,
)
from ..rows.sources import Block, Rows, is_on_disk, is_stream
from .base import DTYPES, FeatureGP
from .classifier import VALIDATION_ROWS, DirichletClassifier, check_two_classes
from .dirichlet import DirichletLabels, Reservoir


class FeatureGPClassifier(DirichletClassifier, FeatureGP):
    """Gaussian process classification with the kernel of a feature map, in one pass over the rows.

    Labels become targets of one latent Gaussian process for every class (Milios et al., 2018),
    with a closed-form posterior. The sums over the rows are shared by all classes and all values
    of α.

    Parameters
    ----------
    features : transformer
        As for `FeatureGPRegressor`.
    alpha : float, "auto" or "evidence", default="auto"
        Concentration of the Dirichlet distribution. "auto" picks the best of 10⁻⁵, …, 1, downhill
        from 10⁻², for the log-likelihood of up to 1000 rows, a tenth of all at most, which are
        taken out of the sums for it. "evidence" takes the greatest marginal likelihood of the
        labels: no rows are held out, but the noise of the model depends on the labels.
    prior_variance : float or "labels", default="labels"
        Multiplies the kernel; "labels" is the variance of the transformed labels (as the authors).
    posterior : {"real", "complex"}, default="real"
        As for `FeatureGPRegressor`.
    variance_correction : None or "posterior", default=None
    class_weight : dict, "balanced" or None, default=None
        How often a row of every class counts.
    probabilities : {"monte_carlo", "closed_form"}, default="monte_carlo"
        How `predict_proba` averages the softmax over the latent functions.
    n_samples : int, default=1000
        Draws of the Monte Carlo average.
    chunk_rows, verbose : as for `FeatureGPRegressor`
    random_state : int, RandomState or None, default=0
        For the Monte Carlo average and the rows that α is chosen on.

    Attributes
    ----------
    classes_ : array (C,)
    alpha_ : float
    labels_ : DirichletLabels, the targets and noise variances
    statistics_ : list of SufficientStatistics, one for every class
    posteriors_ : list of Posterior, one for every class
    jitter_ : float, the largest relative jitter that a factorisation took

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

    def __init__(
        self,
        features: Any,
        *,
        alpha: float | str = "auto",
        prior_variance: float | str = "labels",
        posterior: str = "real",
        variance_correction: str | None = None,
        class_weight: Any = None,
        probabilities: str = "monte_carlo",
        n_samples: int = 1000,
        chunk_rows: int | None = None,
        verbose: bool = False,
        random_state: Any = 0,
    ):
        self.features = features
        self.alpha = alpha
        self.prior_variance = prior_variance
        self.posterior = posterior
        self.variance_correction = variance_correction
        self.class_weight = class_weight
        self.probabilities = probabilities
        self.n_samples = n_samples
        self.chunk_rows = chunk_rows
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, classes: Any = None, checkpoint: Any = None
    ) -> FeatureGPClassifier:
        """Fit in one pass.

        X, y and `checkpoint` are as for `FeatureGPRegressor.fit`, with labels of any kind (n,).
        `classes` may name the classes of a stream, of which some may have no rows.
        """
        self._check_parameters()
        rows = self._training_rows(X, y, reset=True)
        self._begin(rows, classes)
        self._accumulate(rows, ClassSums(self), checkpoint, self._seed, self._n_groups)
        return self._finish()

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> FeatureGPClassifier:
        """Add rows to those seen before; the first call fits the features.

        The first call may name all `classes`; otherwise they are those of the rows seen so far, and
        later rows may add some.
        """
        self._check_parameters()
        first = not hasattr(self, "_sums")
        rows = self._training_rows(X, y, reset=first)
        if first:
            self._begin(rows, classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the rows seen so far, {self.classes_}.")
        self._accumulate(rows, ClassSums(self), None, self._seed, self._n_groups)
        return self._finish()

    def refit(self, alpha: float | str | None = None) -> FeatureGPClassifier:
        """The posterior for another α (or other changed parameters), without the rows."""
        check_is_fitted(self)
        if alpha is not None:
            self.alpha = alpha
        self._check_parameters()
        return self._finish()

    def merge(self, other: FeatureGPClassifier) -> FeatureGPClassifier:
        """Add the rows that another classifier with the same features has seen.

        The sums are those of one fit to the rows of both; see `FeatureGPRegressor.merge`.
        """
        check_is_fitted(self)
        self._check_parameters()
        self._check_mergeable(other)
        self._check_labels(list(other._sums))
        for label, statistics in other._sums.items():
            self._sums[label] = self._sums.get(label, self._no_rows()) + statistics
        self._reservoir.merge(other._reservoir)
        return self._finish()

    def _check_parameters(self) -> None:
        self._check_features((None, "posterior"))
        self._check_classifier()

    def _training_rows(self, X: Any, y: Any, *, reset: bool) -> Rows:
        if is_stream(X):
            return self._rows(X, y)
        if not is_on_disk(X):
            X, y = validate_data(
                self, host(X), host(y), accept_sparse="csr", dtype=DTYPES, reset=reset
            )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return self._rows(X, y)

    def _begin(self, rows: Rows, classes: Any) -> None:
        """Fit the features; statistics of no rows for the classes that are known by now."""
        self._named = None if classes is None else np.unique(classes)
        known = self._named
        if known is None and rows.columns is not None:
            known = np.unique(rows.columns[1])
            check_two_classes(known)
        self._fit_features(rows, self.features)
        self._n_groups = 10 if known is None else len(known)
        self._sums = {label: self._no_rows() for label in ([] if known is None else known.tolist())}
        self._seed = self._draw_seed()
        self._reservoir = Reservoir(VALIDATION_ROWS, self._seed)

    def _check_labels(self, labels: list) -> None:
        """Raise unless labels can join those there are; nothing has been added yet."""
        if self._named is not None and not set(labels) <= set(self._sums):
            raise ValueError(f"y holds labels that are not among the classes {self._named}.")
        if len({isinstance(label, str) for label in (*labels, *self._sums)}) > 1:
            raise ValueError(f"Labels are strings and numbers: {[*self._sums, *labels]}.")

    def _no_rows(self) -> SufficientStatistics:
        return SufficientStatistics.zeros(self.n_columns_, 0, self._dtype)

    def _finish(self) -> FeatureGPClassifier:
        """From the sums to the posteriors."""
        classes = np.unique(np.array(list(self._sums)))
        self.statistics_ = [self._sums[label] for label in classes.tolist()]
        self._set_classes(classes, np.array([float(s.n) for s in self.statistics_]))
        field = 2 if np.iscomplexobj(self.statistics_[0].cross) else 1
        n_values = field * len(classes) * sum(s.n for s in self.statistics_)
        self.labels_ = self._choose_labels(n_values, self._held_out())
        self.alpha_, self.prior_variance_ = self.labels_.alpha, self._prior(self.labels_)
        self.posteriors_ = list(self._solve(self.labels_))
        self.jitter_ = max(p.jitter for p in self.posteriors_)
        return self

    def _solve(
        self, labels: DirichletLabels, held: list[np.ndarray] | None = None
    ) -> Iterator[Posterior]:
        """The posterior of every class."""
        for moment, cross in self._systems(labels, held):
            yield posterior(moment, cross, self._prior(labels))

    def _systems(
        self, labels: DirichletLabels, held: list[np.ndarray] | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Second moments (packed) and cross moments of every class.

        `held` are the features of rows to leave out, (n_c, D) for every class: they are subtracted.
        """
        u = self.class_weights_
        rows = held or [np.empty((0, self.n_columns_), dtype=self._dtype)] * len(u)
        sums = [
            s.cross - z.sum(axis=0)[:, None] for s, z in zip(self.statistics_, rows, strict=True)
        ]
        cross = sum(w * s for w, s in zip(u, sums, strict=True))
        moment = np.zeros_like(self.statistics_[0].second_moment)
        for c in range(len(u)):
            self._add_class(moment, c, u[c], rows[c])
        inner, outer = 1 / labels.inside_variance, 1 / labels.outside_variance
        for c in range(len(u)):
            value, other = (v - labels.means[c] for v in (labels.inside, labels.outside))
            system = outer * moment
            self._add_class(system, c, (inner - outer) * u[c], rows[c])
            inside = u[c] * sums[c]
            yield system, inner * value * inside + outer * other * (cross - inside)

    def _add_class(self, moment: np.ndarray, c: int, scale: float, held: np.ndarray) -> None:
        """Add a multiple of G_c without the rows held out, in place."""
        _packed.add_multiple(moment, scale, self.statistics_[c].second_moment)
        if len(held):
            _packed.add_outer_products(moment, held, -scale)

    def _held_out(self) -> Any:
        """A function from labels to latent means, variances and classes of rows held out."""

        def held_out(labels: DirichletLabels) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            Z, y = self._reservoir.split(max(self._reservoir.seen // 10, 1))
            Z = Z.astype(self._dtype)
            held = [Z[y == label] for label in self.classes_.tolist()]
            found = [
                (predict_mean(Z, p)[:, 0], predict_variance(Z, p))
                for p in self._solve(labels, held)
            ]
            mean, variance = (np.stack(values, axis=1) for values in zip(*found, strict=True))
            return mean + labels.means, variance, np.searchsorted(self.classes_, y)

        return held_out

    def _log_evidence(self, labels: DirichletLabels) -> float:
        """Σ_c log N(ỹ_c − μ_c; 0, s K̂ + Σ_c); a weight divides the noise variance of its rows."""
        prior = self._prior(labels)
        counts = np.array([float(s.n) for s in self.statistics_])
        weighted = counts * self.class_weights_
        log_weights = np.sum(counts * np.log(self.class_weights_))
        total = 0.0
        for c, (moment, cross) in enumerate(self._systems(labels)):
            found = posterior(moment, cross, prior)
            inside, outside = weighted[c], weighted.sum() - weighted[c]
            square = (
                inside * (labels.inside - labels.means[c]) ** 2 / labels.inside_variance
                + outside * (labels.outside - labels.means[c]) ** 2 / labels.outside_variance
                - np.sum((np.conj(cross) * found.mean).real)
            )
            determinant = (
                found.log_determinant
                + counts[c] * np.log(labels.inside_variance)
                + (counts.sum() - counts[c]) * np.log(labels.outside_variance)
                - log_weights
            )
            total += log_density(determinant, square, counts.sum(), bool(np.iscomplexobj(cross)))
        return float(total)

    def _weights(self) -> Posterior:
        """The weights of all classes side by side."""
        first = self.posteriors_[0]
        mean = np.concatenate([p.mean for p in self.posteriors_], axis=1)
        return Posterior(first.factor, mean, first.prior_variance, first.jitter)

    def _latent_mean(self, X: Any) -> np.ndarray:
        weights = self._weights()
        blocks = [predict_mean(Z, weights) for _, Z in self._prediction_blocks(X)]
        return np.concatenate(blocks) + self.labels_.means

    def _latent_blocks(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        weights = self._weights()
        for rows, Z in self._prediction_blocks(X):
            mean = predict_mean(Z, weights) + self.labels_.means
            variance = np.stack([predict_variance(Z, p) for p in self.posteriors_], axis=1)
            yield mean, variance + self.prior_variance_ * self._missing(rows, Z)[:, None]


class ClassSums:
    """The statistics of a classifier, as `accumulate` fills, writes and restores them."""

    def __init__(self, gp: FeatureGPClassifier):
        self.gp = gp

    def add(self, block: Block) -> None:
        gp = self.gp
        Z = gp._map(gp._check_block(block[0]))
        y = column_or_1d(block[1])
        check_classification_targets(y)
        labels, places = np.unique(y, return_inverse=True)
        gp._check_labels(labels.tolist())
        for k, label in enumerate(labels.tolist()):
            gp._sums.setdefault(label, gp._no_rows()).update(Z[places == k])
        gp._reservoir.add(Z, y)

    def arrays(self) -> dict[str, Any]:
        gp, reservoir = self.gp, self.gp._reservoir
        found: dict[str, Any] = {
            "labels": np.array(list(gp._sums)),
            "seen": reservoir.seen,
            "validation_rows": reservoir.rows,
            "validation_labels": np.array(reservoir.labels.tolist()),
        }
        for k, statistics in enumerate(gp._sums.values()):
            found |= {f"{name}_{k}": value for name, value in statistics.arrays().items()}
        return found

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        gp = self.gp
        names = SufficientStatistics.zeros(1, 0).arrays()
        gp._sums = {
            label: SufficientStatistics.restored({name: arrays[f"{name}_{k}"] for name in names})
            for k, label in enumerate(arrays["labels"].tolist())
        }
        gp._reservoir.seen = int(arrays["seen"])
        gp._reservoir.rows = arrays["validation_rows"]
        gp._reservoir.labels = arrays["validation_labels"]
