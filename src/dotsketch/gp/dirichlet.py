"""Classification as regression on transformed labels (Milios et al., 2018; the paper's Appendix D).

A label is a sample of a Dirichlet distribution with concentration 1 + α for its class and α for all
others; its gamma variables are matched by log-normal ones. So every class has a latent function
that sees one target and one noise variance at its own rows, and another of both elsewhere: with
G_c = Σ z zᴴ over the rows of class c and G = Σ G_c, the second moments of class c are
G/σ₀² + (1/σ₁² − 1/σ₀²) G_c. One pass over the rows is enough for all classes; a new α takes none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._support.parameters import check_positive, one_of
from .._support.stored import array, stored
from ..rows import Block, Checkpoint, fingerprint, split_target
from .algebra import solve
from .base import (
    Begun,
    TrainingRows,
    assign,
    begin,
    check_mergeable,
    check_optimize,
    checked,
    labels_of,
)
from .classes import (
    ClassificationProcess,
    ClassTable,
    HeldOut,
    check_one_kind,
    check_two_classes,
    downhill,
    log_normal,
    sample_functions,
)
from .columns import Columns, check_features
from .packed import PackedMatrix
from .posterior import Posterior
from .softmax import best_class_kernel
from .sums import SufficientStatistics, sampled_columns

ALPHAS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)  # the range searched in the paper
PRIORS = (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)  # in multiples of the variance of the labels
START = ALPHAS.index(1e-3), PRIORS.index(10.0)
SEARCH_COLUMNS = 512  # α and prior variance are chosen with this number of columns at most


@stored
@dataclass(frozen=True)
class DirichletLabels:
    """Targets and noise variances of the latent functions for one α.

    ỹ = log(y + α) − σ²/2 and σ² = log(1/(y + α) + 1) for y = 1 (inside a class) and 0 (outside).
    As the authors do, the prior mean of class c is μ_c = log π_c + mean(ỹ − log π), and the prior
    variance is the variance of all ỹ_c − μ_c together.

    >>> labels = DirichletLabels.of(1.0, [0.5, 0.5])
    >>> round(labels.inside, 4), round(labels.outside, 4)
    (0.4904, -0.3466)
    """

    alpha: float
    inside: float
    outside: float
    inside_variance: float
    outside_variance: float
    means: Annotated[np.ndarray, array("f", "C")]
    prior_variance: float

    @classmethod
    def of(cls, alpha: float, frequencies: Any) -> DirichletLabels:  # number, (C,)
        """For classes of the given relative frequencies."""
        share = np.asarray(frequencies, dtype=np.float64)
        inside_variance, outside_variance = np.log1p(1 / (1 + alpha)), np.log1p(1 / alpha)
        inside = np.log1p(alpha) - inside_variance / 2
        outside = np.log(alpha) - outside_variance / 2
        centre = np.mean(share * inside + (1 - share) * outside - np.log(share))
        means = np.log(share) + centre
        square = share * (inside - means) ** 2 + (1 - share) * (outside - means) ** 2
        return cls(
            float(alpha),
            float(inside),
            float(outside),
            float(inside_variance),
            float(outside_variance),
            means,
            float(np.mean(square)),
        )

    def targets(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # (n,) -> (n, C) twice
        """Targets, without the prior means, and noise variances of rows of these classes."""
        inside = codes[:, None] == np.arange(len(self.means))
        Y = np.where(inside, self.inside, self.outside) - self.means
        return Y, np.where(inside, self.inside_variance, self.outside_variance)


# -- what labelled rows say ------------------------------------------------------------------------


@stored
@dataclass(eq=False)
class ClassSums:
    """Sums over the features of rows, for every class; merge with `+`."""

    by_label: dict[Any, SufficientStatistics]  # without targets, which the labels are
    is_closed: bool = False  # whether there are no other labels than these

    @classmethod
    def zeros(
        cls, n_features: int, dtype: Any, labels: list[Any], is_closed: bool = False
    ) -> ClassSums:
        """The sums of no rows, for the labels that are named beforehand."""
        zeros = partial(SufficientStatistics.zeros, n_features, 0, dtype)
        return cls({label: zeros() for label in labels}, is_closed)

    def update(self, Z: np.ndarray, y: np.ndarray, counts: np.ndarray | None = None) -> None:
        """Add rows in place: features Z (n, D), labels y (n,), counts (n,)."""
        labels, places = np.unique(y, return_inverse=True)
        self.check_labels(labels.tolist())
        for k, label in enumerate(labels.tolist()):
            times = None if counts is None else counts[places == k]
            sums = SufficientStatistics.of(Z[:0])
            self.by_label.setdefault(label, sums).update(Z[places == k], counts=times)

    def check_labels(self, labels: Sequence[Any]) -> None:
        """Raise unless rows with these labels can be added."""
        check_one_kind([*self.by_label, *labels])
        others = [label for label in labels if label not in self.by_label]
        if self.is_closed and others:
            raise ValueError(
                f"y holds labels that are not among the classes {[*self.by_label]}: {others[:3]}."
            )

    def __add__(self, other: ClassSums) -> ClassSums:
        return deepcopy(self).__iadd__(other)

    def __iadd__(self, other: ClassSums) -> ClassSums:
        self.check_labels([*other.by_label])
        for label, sums in other.by_label.items():
            total = self.by_label.get(label, 0)
            total += sums
            self.by_label[label] = total
        return self

    def posterior(
        self, labels: DirichletLabels, class_weights: np.ndarray, prior: float
    ) -> Posterior:
        """Of the latent functions of all classes."""
        names = np.unique(np.array(list(self.by_label))).tolist()
        moments = [self.by_label[name].second_moment for name in names]
        sums = [w * self.by_label[name].cross for w, name in zip(class_weights, names, strict=True)]
        cross, moment = sum(sums), class_weights[0] * moments[0]
        for weight, other in zip(class_weights[1:], moments[1:], strict=True):
            moment.add_multiple(weight, other)
        inner, outer = 1 / labels.inside_variance, 1 / labels.outside_variance

        def systems() -> Iterator[tuple[PackedMatrix, np.ndarray]]:
            for c, weight in enumerate(class_weights):
                system = outer * moment
                system.add_multiple((inner - outer) * weight, moments[c])
                inside, outside = (v - labels.means[c] for v in (labels.inside, labels.outside))
                yield system, inner * inside * sums[c] + outer * outside * (cross - sums[c])

        return solve(systems(), np.arange(len(names)), np.full(len(names), float(prior)))

    def arrays(self) -> dict[str, Any]:
        """All of it by name, for a checkpoint."""
        named = {"labels": np.array(list(self.by_label)), "is_closed": self.is_closed}
        for k, sums in enumerate(self.by_label.values()):
            named |= {f"{name}_{k}": value for name, value in sums.arrays().items()}
        return named

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> ClassSums:
        """The way back from `arrays`."""
        names = SufficientStatistics.zeros(1, 0).arrays()
        by_label = {
            label: SufficientStatistics.restored({name: arrays[f"{name}_{k}"] for name in names})
            for k, label in enumerate(arrays["labels"].tolist())
        }
        return cls(by_label, bool(arrays["is_closed"]))


def best_labels(
    alpha: Any,
    prior_variance: Any,
    frequencies: np.ndarray,
    rows: HeldOut,
    predict: Callable[..., tuple[np.ndarray, np.ndarray]],
) -> tuple[DirichletLabels, float]:
    """The labels for α and the prior variance: given, or the best of a grid for rows held out.

    `predict(k, labels, prior_variance)` gives means and variances of the latent functions at the
    rows of fold k. Every decade of α below 1 has a prior probability of 1/e of the one before, and
    the prior variance that of `log_normal`.
    """
    alphas = ALPHAS if isinstance(alpha, str) else (float(alpha),)
    multiples = PRIORS if prior_variance == "auto" else (1.0,)

    def place_of(i: int, j: int) -> tuple[DirichletLabels, float]:
        labels = DirichletLabels.of(alphas[i], frequencies)
        is_given = not isinstance(prior_variance, str)
        prior = float(prior_variance) if is_given else multiples[j] * labels.prior_variance
        return labels, prior

    def loss(i: int, j: int) -> float:
        density = np.log10(alphas[i]) + log_normal(multiples[j])
        return rows.mean(rows.losses(predict, *place_of(i, j))) - density / rows.n_rows

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of values that are not chosen
        place = downhill(loss, (len(alphas), len(multiples)), START)
    return place_of(*place)


@stored
@dataclass(eq=False, repr=False)
class DirichletGPClassifier(ClassificationProcess):
    """Gaussian process classification by Dirichlet labels: the paper's classifier, in one pass.

    Labels become targets of a regression with one latent function for each class (Milios et al.,
    2018), whose posterior has a closed form: one pass over the rows gives sums that are shared by
    all classes and all values of α. Rows can be added (`partial_fit`, `merge`), and come from
    iterators that are read once. `FeatureGPClassifier` has the likelihood of the labels themselves,
    which predicts better with many rows.

    Parameters
    ----------
    features : "auto", int, kernel or transformer, default="auto"
        As for `FeatureGPRegressor`.
    alpha : float or "auto", default="auto"
        Concentration of the Dirichlet distribution. "auto" picks the best of 10⁻⁵, …, 1, downhill
        from 10⁻³, for the log-likelihood of rows held out: five folds of up to 1,000 rows, or a
        fifth of more (of 10,000 random ones at most, and with 512 columns at most). Few rows do not
        choose a small one. `partial_fit`, `merge` and `refit` keep what was chosen.
    prior_variance : float, "auto" or "labels", default="auto"
        Multiplies the kernel; "labels" is the variance of the transformed labels (as the authors).
        "auto" is the best of 0.01, 0.1, …, 10⁴ times that, chosen together with α.
    posterior : {"real", "complex"}, default="real"
        As for `FeatureGPRegressor`.
    variance_correction : "auto", "posterior" or None, default="auto"
        What is added to the variances of the latent functions, as for `FeatureGPRegressor`.
    class_weight : dict, "balanced" or None, default=None
        How often each row of a class counts.
    optimize : "auto", True or False, default="auto"
        Whether the parameters of the kernel are searched; see `FeatureGPClassifier`.
    random_state : int, RandomState, Generator or None, default=0
        For rows that are drawn or held out, and the average over latent functions.
    verbose : bool, default=False

    Attributes
    ----------
    classes_ : array (C,)
    alpha_, prior_variance_ : floats
    labels_ : DirichletLabels, the targets and noise variances
    class_sums_ : ClassSums of all rows seen
    posterior_ : Posterior of the coefficients, one output for every class
    features_, kernel_, relevances_, search_ : as for `FeatureGPRegressor`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dotsketch import DirichletGPClassifier, Gaussian, MaclaurinFeatures
    >>> X, y = load_iris(return_X_y=True)
    >>> features = MaclaurinFeatures(Gaussian(), n_components=40, random_state=0)
    >>> gp = DirichletGPClassifier(features).fit(X, y)
    >>> bool(gp.score(X, y) > 0.95)
    True
    """

    features: Any = "auto"
    _: KW_ONLY
    alpha: float | str = "auto"
    prior_variance: float | str = "auto"
    posterior: str = "real"
    variance_correction: str | None = "auto"
    class_weight: Any = None
    optimize: bool | str = "auto"
    random_state: Any = 0
    verbose: bool = False
    sample_functions = sample_functions

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: Any = None,
        classes: Any = None,
        checkpoint: Any = None,
    ) -> DirichletGPClassifier:
        """Fit in one pass.

        X, y, `sample_weight`, `target` and `checkpoint` are as for `FeatureGPRegressor.fit`, with
        labels of any kind (n,). `classes` may name the classes of a stream, of which some may have
        no rows.
        """
        self._check_parameters()
        X, y = split_target(X, y, target)
        training = TrainingRows.of(type(self), X, y, None, sample_weight, labels=True)
        if training.rows.in_memory and training.rows.columns and classes is None:  # before a search
            check_two_classes(np.unique(training.rows.columns[1]))
        begun = begin(self, training, partial(best_class_kernel, self.verbose))
        names = np.unique(labels_of(begun.sample[1]) if classes is None else classes).tolist()
        is_closed = classes is not None
        sums = self._gathered(training, begun.columns, names, is_closed, checkpoint)
        table = self._table(sums)
        labels, prior = self._chosen(begun, table)
        return assign(
            self,
            training.inputs,
            columns_=begun.columns,
            search_=begun.search,
            class_sums_=sums,
            **latent_attributes(table, labels, sums.posterior(labels, table.weights, prior)),
            _seed=begun.seed,
        )

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> DirichletGPClassifier:
        """Add rows to those seen before; the first call fits the features.

        The first call may name all `classes`; otherwise they are those of the rows seen so far, and
        later rows may add some.
        """
        if not hasattr(self, "columns_"):
            return self.fit(X, y, sample_weight, classes=classes)
        self._check_parameters()
        training = TrainingRows.of(type(self), X, y, None, sample_weight, labels=True, inputs=self)
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the rows seen so far, {self.classes_}.")
        before = self.class_sums_
        names, is_closed = [*before.by_label], before.is_closed
        return self._resolved(before + self._gathered(training, self.columns_, names, is_closed))

    def refit(self, alpha: float | str | None = None) -> DirichletGPClassifier:
        """The posterior for another α (or other changed parameters), without the rows."""
        check_is_fitted(self)
        changed = {} if alpha is None else {"alpha": alpha}
        return self._resolved(self.class_sums_, **changed)

    def merge(self, other: DirichletGPClassifier) -> DirichletGPClassifier:
        """Add the rows that another classifier with the same features has seen.

        The sums are those of one fit to the rows of both; see `FeatureGPRegressor.merge`.
        """
        check_is_fitted(self)
        check_mergeable(self, other)
        return self._resolved(self.class_sums_ + other.class_sums_)

    # -- from rows to posteriors -------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_features(self.features)
        check_positive("alpha", self.alpha, "auto")
        check_positive("prior_variance", self.prior_variance, "auto", "labels")
        one_of("posterior", self.posterior, ("real", "complex"))
        one_of("variance_correction", self.variance_correction, ("auto", "posterior", None))
        check_optimize(self.optimize)

    def _gathered(
        self,
        training: TrainingRows,
        columns: Columns,
        names: list[Any],
        is_closed: bool,
        path: Any = None,
    ) -> ClassSums:
        """The sums over rows, in one pass."""
        checkpoint = None
        if path is not None:
            configuration = fingerprint([names, columns.digest()])
            checkpoint = Checkpoint(path, ClassSums.restored, fingerprint=configuration)
        block_rows = max(columns.block_rows, min(1024 * len(names), 1 << 16))
        return training.rows.fold(
            partial(ClassSums.zeros, columns.n_columns, columns.dtype, names, is_closed),
            partial(_added, columns, training.inputs),
            block_rows=block_rows,
            group_blocks=max(4096 // block_rows, 1),
            checkpoint=checkpoint,
            progress="rows" if self.verbose else None,
        )

    def _table(self, sums: ClassSums) -> ClassTable:
        counts = {label: statistics.n for label, statistics in sums.by_label.items()}
        return ClassTable.of(counts, self.class_weight)

    def _chosen(self, begun: Begun, table: ClassTable) -> tuple[DirichletLabels, float]:
        """α and the prior variance that predict some rows of the sample best, if they are free."""
        if not isinstance(self.alpha, str) and self.prior_variance != "auto":
            labels = DirichletLabels.of(self.alpha, table.frequencies)
            given = self.prior_variance
            return labels, labels.prior_variance if isinstance(given, str) else float(given)
        X, y, _, counts = begun.sample
        codes = np.searchsorted(table.classes, labels_of(y))
        Z = np.asarray(begun.columns(X), dtype=begun.columns.dtype)
        counts = np.ones(len(Z)) if counts is None else counts
        places, factors = sampled_columns(np.sum(np.abs(Z) ** 2, axis=0), SEARCH_COLUMNS)
        Z = np.ascontiguousarray(Z[:, places] * factors)
        # variances of single precision take half the time, and are right to 1e-4
        low = Z.astype(np.complex64 if np.iscomplexobj(Z) else np.float32)
        rows, parts = HeldOut.of(codes, counts, begun.rng), []
        for rest, _ in rows.folds:
            parts.append(ClassSums.zeros(len(places), Z.dtype, list(range(len(table.classes)))))
            parts[-1].update(Z[rest], codes[rest], counts[rest])

        def predict(k: int, labels: DirichletLabels, prior: float) -> tuple[np.ndarray, np.ndarray]:
            posterior = parts[k].posterior(labels, table.weights, prior)
            held = rows.folds[k][1]
            return posterior.mean(Z[held]) + labels.means, posterior.variance(low[held])

        return best_labels(self.alpha, self.prior_variance, table.frequencies, rows, predict)

    def _resolved(self, sums: ClassSums, **changed: Any) -> DirichletGPClassifier:
        """This model with other sums, or other parameters; what was chosen stays."""
        other = type(self)(**{**self.get_params(deep=False), **changed})
        other._check_parameters()
        if self.columns_.joins_parts != (other.posterior == "real"):
            raise ValueError(f"posterior={other.posterior!r} needs other columns: fit again.")
        table = other._table(sums)
        alpha = self.alpha_ if isinstance(other.alpha, str) else float(other.alpha)
        labels, prior = DirichletLabels.of(alpha, table.frequencies), other.prior_variance
        if isinstance(prior, str):
            # the multiple of the variance of the labels that was chosen, or one
            prior = labels.prior_variance * (
                self.prior_variance_ / self.labels_.prior_variance if prior == "auto" else 1.0
            )
        return assign(
            self,
            self,
            columns_=self.columns_,
            search_=self.search_,
            class_sums_=sums,
            **latent_attributes(table, labels, sums.posterior(labels, table.weights, prior)),
            _seed=self._seed,
            **changed,
        )


def latent_attributes(table: ClassTable, labels: DirichletLabels, posterior: Any) -> dict[str, Any]:
    """What a classifier by Dirichlet labels knows of its classes."""
    return {
        "classes_": table.classes,
        "class_weights_": table.weights,
        "alpha_": labels.alpha,
        "labels_": labels,
        "prior_means_": labels.means,
        "posterior_": posterior,
    }


def _added(columns: Columns, inputs: Any, sums: ClassSums, block: Block, first: int) -> ClassSums:
    """The sums with one more block of rows."""
    X, y, _, counts = block
    sums.update(columns(checked(inputs, X)), labels_of(y), counts)
    return sums
