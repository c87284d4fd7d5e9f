"""Gaussian process classification on features, by Dirichlet labels.

Every class has two noise levels only, inside and outside of it. With G_c = Σ z zᴴ over the rows of
class c and G = Σ G_c, the second moments of class c are G/σ₀² + (1/σ₁² − 1/σ₀²) G_c: one pass over
the rows serves all classes, and a new α takes none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._arrays import host
from ..chunks import Block, Rows, is_on_disk, is_stream
from ..linear_gaussian import (
    Posterior,
    SufficientStatistics,
    log_density,
    posterior,
    predict_mean,
    predict_variance,
)
from ..metrics import mean_negative_log_likelihood
from .base import DTYPES, FeatureGP, check_positive
from .dirichlet import (
    ALPHAS,
    VALIDATION_ROWS,
    DirichletLabels,
    Reservoir,
    check_classification,
    check_two_classes,
    class_weights,
    expected_softmax,
)


class FeatureGPClassifier(ClassifierMixin, FeatureGP):
    """Gaussian process classification with the kernel of a feature map, in one pass over the rows.

    Labels become targets of one latent Gaussian process for every class (Milios et al., 2018),
    with a closed-form posterior. The sums over the rows are shared by all classes and all values
    of α.

    Parameters
    ----------
    features : transformer
        As for `FeatureGPRegressor`.
    alpha : float, "auto" or "evidence", default="auto"
        Concentration of the Dirichlet distribution. "auto" takes the best of 10⁻⁵, …, 1 for the
        log-likelihood of up to 1000 rows, a tenth of all at most, which are taken out of the sums
        for it. "evidence" takes the greatest marginal likelihood of the labels: no rows are
        held out, but the noise of the model depends on the labels, which favours a small α.
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
        known = self._known_classes(rows, classes)
        self._begin(rows, known)
        self._accumulate(rows, ClassSums(self), checkpoint, self._n_groups)
        return self._finish()

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> FeatureGPClassifier:
        """Add rows to those seen before; the first call fits the features.

        The first call may name all `classes`; otherwise they are those of the rows seen so far.
        """
        self._check_parameters()
        first = not hasattr(self, "_sums")
        rows = self._training_rows(X, y, reset=first)
        if first:
            self._begin(rows, self._known_classes(rows, classes))
        self._accumulate(rows, ClassSums(self), None, self._n_groups)
        return self._finish()

    def refit(self, alpha: float | str | None = None) -> FeatureGPClassifier:
        """The posterior for another α (or other changed parameters), without the rows."""
        check_is_fitted(self)
        if alpha is not None:
            self.alpha = alpha
        self._check_parameters()
        return self._finish()

    def predict_latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (n, C), (n, C)
        """Mean and standard deviation of the latent function of every class."""
        check_is_fitted(self)
        blocks = list(self._latent_blocks(X))
        return tuple(np.concatenate(parts) for parts in zip(*blocks, strict=True))

    def decision_function(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C), or (n,) if C = 2
        """Mean of the latent functions; their difference if there are two classes."""
        check_is_fitted(self)
        weights = self._weights()
        mean = np.concatenate([predict_mean(Z, weights) for _, _, Z in self._prediction_blocks(X)])
        mean = mean + self.labels_.means
        return mean[:, 1] - mean[:, 0] if len(self.classes_) == 2 else mean

    def predict(self, X: Any) -> np.ndarray:  # (n, d) -> (n,)
        """The class of the greatest latent mean; no variances are computed."""
        scores = self.decision_function(X)
        return self.classes_[scores.argmax(axis=1) if scores.ndim == 2 else (scores > 0).astype(int)]

    def predict_proba(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C)
        """Probabilities of the classes: the softmax averaged over the latent functions."""
        check_is_fitted(self)
        check_classification(self.alpha, self.probabilities, self.n_samples)
        return np.concatenate(
            [self._probabilities(mean, std**2) for mean, std in self._latent_blocks(X)]
        )

    def log_marginal_likelihood(self) -> float:
        """log p of the labels' targets at the fitted α, summed over classes."""
        check_is_fitted(self)
        return self._log_evidence(self.labels_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        self._check_shared((None, "posterior"))
        check_positive("prior_variance", self.prior_variance, ("labels",))
        check_classification(self.alpha, self.probabilities, self.n_samples)

    def _training_rows(self, X: Any, y: Any, *, reset: bool) -> Rows:
        if is_stream(X):
            return self._rows(X, y)
        if y is None:
            validate_data(self, X, y, reset=reset)  # says that y is required
        if not is_on_disk(X):
            X, y = validate_data(self, host(X), host(y), accept_sparse="csr", dtype=DTYPES, reset=reset)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return self._rows(X, y)

    def _known_classes(self, rows: Rows, classes: Any) -> np.ndarray | None:
        """The classes that are named, or those of labels in memory."""
        if classes is not None:
            return np.unique(classes)
        if rows.columns is None:
            return None
        found = np.unique(rows.columns[1])
        check_two_classes(found)
        return found

    def _begin(self, rows: Rows, known: np.ndarray | None) -> None:
        self._fit_features(rows, self.features)
        self._n_groups = 10 if known is None else len(known)
        self._sums: dict[Any, SufficientStatistics] = {}
        self._named = known
        for label in () if known is None else known.tolist():
            self._sums[label] = self._no_rows()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self._seed = seed
        self._reservoir = Reservoir(VALIDATION_ROWS, seed)

    def _no_rows(self) -> SufficientStatistics:
        return SufficientStatistics.zeros(self.n_columns_, 0, self._dtype)

    def _finish(self) -> FeatureGPClassifier:
        """From the sums to the posteriors."""
        self.classes_ = np.unique(np.array(list(self._sums)))
        check_two_classes(self.classes_)
        if self._named is not None and len(self._named) < len(self.classes_):
            raise ValueError(f"y holds labels that are not among the classes {self._named}.")
        self.statistics_ = [self._sums[label] for label in self.classes_.tolist()]
        counts = np.array([s.n for s in self.statistics_], dtype=np.float64)
        self.class_weights_ = class_weights(self.class_weight, self.classes_, counts)
        weighted = np.maximum(counts, 0.5) * self.class_weights_  # a class without rows yet is rare
        self._frequencies = weighted / weighted.sum()
        self.alpha_ = self._choose_alpha()
        self.labels_ = DirichletLabels.of(self.alpha_, self._frequencies)
        self.prior_variance_ = self._prior(self.labels_)
        self.posteriors_ = [
            posterior(moment, cross, self.prior_variance_) for moment, cross in self._systems(self.labels_)
        ]
        self.jitter_ = max(p.jitter for p in self.posteriors_)
        return self

    def _prior(self, labels: DirichletLabels) -> float:
        return labels.prior_variance if self.prior_variance == "labels" else float(self.prior_variance)

    def _systems(
        self, labels: DirichletLabels, held: list[SufficientStatistics] | None = None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Second moments (packed) and cross moments of every class, without the rows held out."""
        u = self.class_weights_
        moment = sum(w * s.second_moment for w, s in zip(u, self.statistics_, strict=True))
        cross = sum(w * s.cross for w, s in zip(u, self.statistics_, strict=True))
        if held is not None:
            moment = moment - sum(w * s.second_moment for w, s in zip(u, held, strict=True))
            cross = cross - sum(w * s.cross for w, s in zip(u, held, strict=True))
        inner, outer = 1 / labels.inside_variance, 1 / labels.outside_variance
        for c, statistics in enumerate(self.statistics_):
            inside = statistics if held is None else statistics - held[c]
            value, other = (v - labels.means[c] for v in (labels.inside, labels.outside))
            class_cross = u[c] * inside.cross
            yield (
                outer * moment + (inner - outer) * u[c] * inside.second_moment,
                inner * value * class_cross + outer * other * (cross - class_cross),
            )

    def _choose_alpha(self) -> float:
        if not isinstance(self.alpha, str):
            return float(self.alpha)
        candidates = [DirichletLabels.of(alpha, self._frequencies) for alpha in ALPHAS]
        if self.alpha == "evidence":
            n = sum(s.n for s in self.statistics_) * len(self.classes_)
            # the same two-valued labels, stretched by inside − outside: a change of variables
            scores = [
                self._log_evidence(labels) + n * np.log(labels.inside - labels.outside)
                for labels in candidates
            ]
            return ALPHAS[int(np.argmax(scores))]
        Z, y = self._reservoir.split(max(self._reservoir.seen // 10, 1))
        held = [SufficientStatistics.of(Z[y == label]) for label in self.classes_.tolist()]
        losses = []
        for labels in candidates:
            mean, variance = np.empty((2, len(Z), len(self.classes_)))
            for c, (moment, cross) in enumerate(self._systems(labels, held)):
                found = posterior(moment, cross, self._prior(labels))
                mean[:, c] = predict_mean(Z, found)[:, 0] + labels.means[c]
                variance[:, c] = predict_variance(Z, found)
            rng = np.random.default_rng(self._seed)
            p = expected_softmax(mean, variance, "closed_form", 1, rng)
            losses.append(mean_negative_log_likelihood(y, p, classes=self.classes_))
        return ALPHAS[int(np.argmin(losses))]

    def _log_evidence(self, labels: DirichletLabels) -> float:
        """Σ_c log N(ỹ_c − μ_c; 0, s K̂ + Σ_c); weighted rows count as so many."""
        prior = self._prior(labels)
        counts = np.array([s.n for s in self.statistics_]) * self.class_weights_
        total = 0.0
        for c, (moment, cross) in enumerate(self._systems(labels)):
            found = posterior(moment, cross, prior)
            inside, outside = counts[c], counts.sum() - counts[c]
            square = (
                inside * (labels.inside - labels.means[c]) ** 2 / labels.inside_variance
                + outside * (labels.outside - labels.means[c]) ** 2 / labels.outside_variance
                - np.sum((np.conj(cross) * found.mean).real)
            )
            determinant = (
                found.log_determinant
                + inside * np.log(labels.inside_variance)
                + outside * np.log(labels.outside_variance)
            )
            total += log_density(determinant, square, counts.sum(), bool(np.iscomplexobj(cross)))
        return float(total)

    def _weights(self) -> Posterior:
        """The weights of all classes side by side."""
        first = self.posteriors_[0]
        mean = np.concatenate([p.mean for p in self.posteriors_], axis=1)
        return Posterior(first.factor, mean, first.prior_variance, first.jitter)

    def _latent_blocks(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        weights = self._weights()
        for _, rows, Z in self._prediction_blocks(X):
            mean = predict_mean(Z, weights) + self.labels_.means
            variance = np.stack([predict_variance(Z, p) for p in self.posteriors_], axis=1)
            if self.variance_correction is not None:
                variance += self.prior_variance_ * self._deficit(rows, Z)[:, None]
            yield mean, np.sqrt(variance)

    def _probabilities(self, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        rng = np.random.default_rng(self._seed)
        return expected_softmax(mean, variance, self.probabilities, self.n_samples, rng)


class ClassSums:
    """The statistics of a classifier, as `accumulate` fills, writes and restores them."""

    def __init__(self, gp: FeatureGPClassifier):
        self.gp = gp

    def add(self, block: Block) -> None:
        gp = self.gp
        Z = gp._map(gp._check_block(block[0]))
        y = column_or_1d(block[1])
        labels, places = np.unique(y, return_inverse=True)
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
