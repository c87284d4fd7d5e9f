"""How a classifier on features is fitted: by sums, or iteratively; see also `softmax_fits`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Self

import numpy as np
from sklearn.gaussian_process.kernels import DotProduct

from ..rows.sources import Block, Rows, sample_weights
from .choice import ALPHAS, PRIORS, START, HeldOut
from .class_sums import ClassSums
from .dirichlet import DirichletLabels
from .evidence import log_evidence
from .exact_classification import ExactGPClassifier
from .iterative import DIRECT_ROWS, RowPasses, check_direct, compressed, forget
from .posterior import Posterior, evaluate
from .softmax_fits import SoftmaxFits
from .solvers import ConjugateGradients, RowBlock

SEARCH_COLUMNS = 512  # α, prior variance and temperature are chosen with so many columns at most


class ClassFits(SoftmaxFits):
    """Rows to posteriors of all classes; `FeatureGPClassifier` has the parameters and methods."""

    _known: list[Any]

    @property
    def _latent_means(self) -> np.ndarray:  # -> (C,)
        """The prior means of the latent functions."""
        return np.log(self.frequencies_) if self.labels_ is None else self.labels_.means

    def _no_rows(self) -> ClassSums:
        return ClassSums.zeros(self.n_columns_, self._dtype, self._known, self._seed)

    def _gather_classes(
        self,
        rows: Rows,
        *,
        seen: int = 0,
        checkpoint: Any = None,
        features: np.ndarray | None = None,
        single: bool = False,
    ) -> ClassSums:
        """The sums over rows that come after `seen` others.

        The features (n, D) of all rows may be known. `single` allows products of single precision.
        """

        def block(columns: Block, first: int) -> tuple[Any, ...]:
            y = self._labels(columns[1])
            if features is None:
                Z = self._map(self._check_block(columns[0]))
            else:
                Z = features[first : first + len(y)]
            return Z, y, seen + first, sample_weights(columns), single

        return self._gather(
            rows,
            block,
            self._no_rows,
            assumed=self._seed,
            path=checkpoint,
            n_classes=len(self._known) or 10,  # a guess for streams
        )

    def _fit_sums(self, rows: Rows, checkpoint: Any) -> Self:
        """From rows to posteriors by their sums; those of a softmax may be rounded."""
        given = rows
        if checkpoint is None:
            rows = self._suited_rows(rows)
        features = self._kept_features(rows)
        gather = partial(self._gather_classes, rows, checkpoint=checkpoint, features=features)
        # `refit` and the like may follow, for rows that were given in double precision with it
        keeps_sums = rows is not given and self.likelihood != "softmax"
        single = checkpoint is None and not keeps_sums and self._may_round(rows)
        self._has_rounded_sums = single
        self._sums = gather(single=single)
        if self._is_softmax(rows, self._sums.held.n_rows):
            self._fit_softmax(rows, features, gather if single else None)
        else:
            self._finish()
        return self

    def _finish(self) -> Self:
        """From the sums to the posteriors of Dirichlet labels."""
        self._know_classes()
        forget(self, "n_iterations_")
        classes = self.classes_
        field = 2 if np.iscomplexobj(self.statistics_[0].cross) else 1
        n_values = field * len(classes) * sum(s.n for s in self.statistics_)
        self._choose(n_values, self._held_out(), self._log_evidence)
        self._repeat_sums(None, self.prior_variance_ / self.labels_.inside_variance)
        self.posteriors_ = list(self._solve(self._sums, self.labels_, self.prior_variance_))
        self.jitter_ = max(p.jitter for p in self.posteriors_)
        return self

    def _fit_by_passes(self, rows: Rows, solver: ConjugateGradients, checkpoint: Any) -> Self:
        """The posteriors by iterations over the rows, which leave no sums."""
        given = {**self.get_params(deep=False), "features": None, "solver": solver}
        assumed = self._seed, self._known, sorted(given.items(), key=str)
        passes = RowPasses(self, rows, checkpoint, assumed)

        def outputs(columns: Block, first: int) -> tuple[Any, ...]:
            self._check_block(columns[0])
            y = self._labels(columns[1])
            return np.empty((len(y), 0)), y, first, sample_weights(columns)

        def block(columns: Block, exact: bool) -> RowBlock:
            Z = self._map(passes.single(self._check_block(columns[0]), exact))
            codes = np.searchsorted(self.classes_, self._labels(columns[1]))
            inside = codes[:, None] == np.arange(len(self.classes_))
            targets = np.where(inside, labels.inside, labels.outside) - labels.means
            noise = np.where(inside, labels.inside_variance, labels.outside_variance)
            weights = self.class_weights_[codes][:, None] / noise
            times = sample_weights(columns)
            weights = weights if times is None else weights * times[:, None]
            return RowBlock(Z, targets[:, :, None], weights)

        none = partial(ClassSums.zeros, 0, self._dtype, self._known, self._seed)
        classes, counts = passes.targets(none, outputs).sorted()
        self._set_classes(classes, np.array([float(s.n) for s in counts]))
        self._choose_on_sample(rows.sample(DIRECT_ROWS))
        labels = self.labels_
        found = passes.solve(solver, block, len(classes), 1, self.prior_variance_)
        self.posteriors_ = list[Posterior](found)
        self.jitter_, self.solver_ = 0.0, "cg"
        forget(self, "_sums", "statistics_")
        return self

    def _choose_on_sample(self, sample: Block) -> None:
        """Labels, prior variance and temperature: given, or by the direct path on some rows."""
        known = ExactGPClassifier(None).get_params()
        shared = {name: v for name, v in self.get_params(deep=False).items() if name in known}
        alpha, prior, temperature = self.alpha, self.prior_variance, self.temperature
        multiple = 1.0
        if isinstance(alpha, str) or "auto" in (prior, temperature):
            Z = compressed(self._map(self._check_block(sample[0])))
            y = self._labels(sample[1])
            seen = np.unique(y).tolist()
            if isinstance(self.class_weight, dict):  # rare classes may have no row in the sample
                given = self.class_weight.items()
                shared["class_weight"] = {label: w for label, w in given if label in seen}
            if len(seen) == 1:
                alpha, multiple, temperature = self._without_choice(seen[0], len(y))
            else:
                direct = ExactGPClassifier(DotProduct(0.0)).set_params(**shared)
                found = direct.fit(Z, y, sample_weights(sample))
                alpha, temperature = found.alpha_, found.temperature_
                multiple = found.prior_variance_ / found.labels_.prior_variance
        self.labels_ = DirichletLabels.of(float(alpha), self.frequencies_)
        self.alpha_, self.temperature_ = self.labels_.alpha, float(temperature)
        is_given = not isinstance(prior, str)
        self.prior_variance_ = float(prior) if is_given else multiple * self.labels_.prior_variance

    def _without_choice(self, label: Any, n_rows: int) -> tuple[float, float, float]:
        """α, multiple of the variance of the labels and temperature where rows of one class say
        nothing about them: those given, and for others the values that a search starts from."""
        alpha = ALPHAS[START[0]] if isinstance(self.alpha, str) else float(self.alpha)
        multiple = PRIORS[START[1]] if self.prior_variance == "auto" else 1.0
        temperature = 1.0 if isinstance(self.temperature, str) else float(self.temperature)
        warnings.warn(
            f"The {n_rows} rows on which α, prior variance and temperature are chosen are all of "
            f"the class {label!r}. Values that are not given are the usual ones (α = {alpha:g}, "
            f"temperature {temperature:g}): shuffle the rows, or give all three.",
            UserWarning,
            stacklevel=5,
        )
        return alpha, multiple, temperature

    def _solve(self, sums: ClassSums, labels: DirichletLabels, prior: float) -> Iterator[Posterior]:
        """The posterior of every class."""
        return self._solver.solve(sums.systems(labels, self.class_weights_), prior)

    def _held_out(self) -> Callable[[DirichletLabels, float], HeldOut]:
        """A function from labels and prior variance to the prediction of rows held out."""
        split = cache(lambda: self._sums.split(SEARCH_COLUMNS))

        def held_out(labels: DirichletLabels, prior: float) -> HeldOut:
            sums, Z, y, counts = split()
            # variances of single precision take half the time, and are right to 1e-4
            low = np.asarray(Z, np.complex64 if np.iscomplexobj(Z) else np.float32)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of values that are not chosen
                solved = self._solve(sums, labels, prior)
                found = [(p.mean(Z)[:, 0], p.variance(low)) for p in solved]
            mean, variance = (np.stack(values, axis=1) for values in zip(*found, strict=True))
            codes = np.searchsorted(self.classes_, y)
            return HeldOut(mean + labels.means, variance, codes, counts)

        return held_out

    def _log_evidence(self, labels: DirichletLabels, prior_variance: float) -> float:
        """Σ_c log N(ỹ_c − μ_c; 0, s K̂ + Σ_c); a weight divides the noise variance of its rows."""
        check_direct(self, "log_marginal_likelihood")
        counts = np.array([float(s.n) for s in self.statistics_])
        weighted = counts * self.class_weights_
        log_weights = np.sum(counts * np.log(self.class_weights_))
        total = 0.0
        for c, system in enumerate(self._sums.systems(labels, self.class_weights_)):
            [found] = self._solver.solve([system], prior_variance)
            inside, outside = weighted[c], weighted.sum() - weighted[c]
            square = (
                inside * (labels.inside - labels.means[c]) ** 2 / labels.inside_variance
                + outside * (labels.outside - labels.means[c]) ** 2 / labels.outside_variance
            )
            log_noise = (
                counts[c] * np.log(labels.inside_variance)
                + (counts.sum() - counts[c]) * np.log(labels.outside_variance)
                - log_weights
            )
            total += log_evidence(system, found, square, log_noise, float(counts.sum()))
        return total

    def _weights(self) -> np.ndarray:  # -> (D, C)
        """The weights of all classes side by side."""
        return np.concatenate([p.weights for p in self.posteriors_], axis=1)

    def _latent_mean(self, X: Any) -> np.ndarray:
        weights = self._weights()
        blocks = [evaluate(Z, weights) for _, Z in self._prediction_blocks(X)]
        return np.concatenate(blocks) + self._latent_means

    def _latent_blocks(self, X: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        weights = self._weights()
        for rows, Z in self._prediction_blocks(X):
            mean = evaluate(Z, weights) + self._latent_means
            # classes of a softmax share one covariance
            distinct = self.posteriors_[:1] if self.labels_ is None else self.posteriors_
            variance = np.stack([p.variance(Z) for p in distinct], axis=1)
            variance = np.broadcast_to(variance, mean.shape)
            yield mean, variance + self.prior_variance_ * self._missing(rows, Z)[:, None]
