"""Classification as regression on transformed labels (Milios et al., 2018; the paper's Appendix D).

A label is a sample of a Dirichlet distribution with concentration 1 + α for its class and α for all
others; its gamma variables are matched by log-normal ones. So every class has a latent function
that sees one target and one noise variance at its own rows, and another of both elsewhere: with
G_c = Σ z zᴴ over the rows of class c and G = Σ G_c, the second moments of class c are
G/σ₀² + (1/σ₁² − 1/σ₀²) G_c. One pass over the rows is enough for all classes; a new α takes none.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._arrays import as_generator, host, like
from .._support.parameters import check_positive, one_of, positive_integer
from .._support.stored import array, stored
from ..rows import Block, Checkpoint, fingerprint, is_collection, split_target
from .algebra import System, solve
from .base import (
    Begun,
    GaussianProcess,
    TrainingRows,
    begin,
    check_mergeable,
    check_optimize,
    checked,
    column_blocks,
    input_names,
    kept,
    labels_of,
)
from .class_search import searched_features
from .classes import (
    FOLDED_ROWS,
    ClassTable,
    check_one_kind,
    check_two_classes,
    downhill,
    expected_softmax,
    lazy_classes,
    mean_loss,
)
from .columns import Columns, check_features
from .conjugate_gradients import (
    ConjugateGradients,
    Iteration,
    RowBlock,
    check_solver,
    chosen_solver,
    solve_by_passes,
)
from .packed import PackedMatrix
from .posterior import SampledFunctions
from .sums import SufficientStatistics, sampled_columns

ALPHAS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)  # the range searched in the paper
PRIORS = (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)  # in multiples of the variance of the labels
START = ALPHAS.index(1e-3), PRIORS.index(10.0)
SEARCH_COLUMNS = 512  # α and prior variance are chosen with this number of columns at most
DIRECT_ROWS = 2000  # that "cg" chooses them on


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


# -- what labelled rows say ------------------------------------------------------------------------


def row_hashes(seed: int, first: int, n: int) -> np.ndarray:  # -> (n,), uint64
    """Well mixed numbers of rows first, first + 1, … (SplitMix64 by Steele, Lea and Flood)."""
    with np.errstate(over="ignore"):  # sums and products of 64 bits wrap around
        start = np.uint64(seed) * np.uint64(0xD1342543DE82EF95)  # far apart for seeds 0, 1, …
        rows = np.arange(first + 1, first + n + 1, dtype=np.uint64)
        z = start + rows * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


@stored
@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """A uniform sample of at most 1,000 rows: those with the smallest hashes of their numbers.

    Samples of disjoint rows merge with `+` in any order, and blocks do not matter.
    """

    n_rows: int  # of which it is a sample
    hashes: Annotated[np.ndarray, array("u", "k")]  # ascending
    features: Annotated[np.ndarray, array("fc", "k", "D")]
    labels: Annotated[np.ndarray, array("biufUO", "k")]
    counts: Annotated[np.ndarray, array("f", "k")]  # how often they count

    @classmethod
    def of(
        cls, seed: int, first: int, Z: np.ndarray, y: np.ndarray, counts: np.ndarray | None
    ) -> HeldOutRows:
        """Of the rows first, first + 1, … (n, D) with labels (n,), which count so often."""
        hashes = row_hashes(seed, first, len(Z))
        kept = np.argsort(hashes)[:FOLDED_ROWS]
        counts = np.ones(len(Z)) if counts is None else np.asarray(counts, dtype=np.float64)
        return cls(len(Z), hashes[kept], Z[kept], y[kept], counts[kept])

    def __add__(self, other: HeldOutRows) -> HeldOutRows:
        parts = [part for part in (self, other) if len(part.hashes)]
        n_rows = self.n_rows + other.n_rows
        if len(parts) < 2:
            return replace(parts[0] if parts else self, n_rows=n_rows)
        hashes, Z, y, counts = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("hashes", "features", "labels", "counts")
        )
        # Processes with one seed number their rows alike: sums of features decide between equals
        kept = np.lexsort((Z.real.sum(axis=1), hashes))[:FOLDED_ROWS]
        return HeldOutRows(n_rows, hashes[kept], Z[kept], y[kept], counts[kept])

    def folds(self) -> list[slice]:
        """Rows to hold out, in turn: all of them if there are no others, otherwise a tenth."""
        k = len(self.hashes)
        if self.n_rows > k or k < 5:
            return [slice(0, max(min(k, self.n_rows // 10), 1))]
        return [slice(start, start + -(-k // 5)) for start in range(0, k, -(-k // 5))]


@stored
@dataclass(eq=False)
class ClassSums:
    """Sums over the features of rows, for every class; merge with `+`, in place with `+=`."""

    n_features: int
    dtype: str  # a NumPy type by name
    seed: int
    by_label: dict[Any, SufficientStatistics]  # without targets, which the labels are
    held: HeldOutRows

    @classmethod
    def zeros(cls, n_features: int, dtype: Any, labels: list[Any], seed: int) -> ClassSums:
        """The sums of no rows, for the labels that are known."""
        none = np.empty(0)
        held = HeldOutRows(0, np.empty(0, np.uint64), np.empty((0, n_features)), none, none)
        name = np.dtype(dtype).name
        by_label = {label: SufficientStatistics.zeros(n_features, 0, name) for label in labels}
        return cls(n_features, name, seed, by_label, held)

    def update(
        self, Z: np.ndarray, y: np.ndarray, first: int, counts: np.ndarray | None = None
    ) -> None:
        """Add the rows first, first + 1, …: features Z (n, D), labels y (n,), counts (n,)."""
        labels, places = np.unique(y, return_inverse=True)
        check_one_kind([*self.by_label, *labels.tolist()])
        for k, label in enumerate(labels.tolist()):
            inside = places == k
            if label not in self.by_label:
                self.by_label[label] = SufficientStatistics.zeros(self.n_features, 0, self.dtype)
            times = None if counts is None else counts[inside]
            self.by_label[label].update(Z[inside], counts=times)
        self.held = self.held + HeldOutRows.of(self.seed, first, Z, y, counts)

    def __add__(self, other: ClassSums) -> ClassSums:
        check_one_kind([*self.by_label, *other.by_label])
        total = {label: other.by_label.get(label, 0) + s for label, s in self.by_label.items()}
        return replace(self, by_label={**other.by_label, **total}, held=self.held + other.held)

    def __iadd__(self, other: ClassSums) -> ClassSums:
        check_one_kind([*self.by_label, *other.by_label])
        for label, statistics in other.by_label.items():
            if label in self.by_label:
                self.by_label[label] += statistics
            else:
                self.by_label[label] = statistics
        self.held = self.held + other.held
        return self

    def sorted(self) -> tuple[np.ndarray, list[SufficientStatistics]]:
        """The classes, and the sums of each."""
        classes = np.unique(np.array(list(self.by_label)))
        return classes, [self.by_label[label] for label in classes.tolist()]

    def folds(self) -> Iterator[tuple[ClassSums, np.ndarray, np.ndarray, np.ndarray]]:
        """The sums without some rows, and these rows (k, D), their labels and counts (k,).

        With more than 512 columns, that number of them is drawn: see `sampled_columns`.
        """
        moments = [statistics.second_moment for statistics in self.by_label.values()]
        energies = np.sum([moment.diagonal() for moment in moments], axis=0)
        places, factors = sampled_columns(energies, SEARCH_COLUMNS)
        for rows in self.held.folds():
            Z = self.held.features[rows].astype(self.dtype)[:, places] * factors
            y, counts = self.held.labels[rows], self.held.counts[rows]
            rest = {
                label: statistics.of_columns(places, factors)
                - SufficientStatistics.of(Z[y == label], counts=counts[y == label])
                for label, statistics in self.by_label.items()
            }
            yield replace(self, n_features=len(places), by_label=rest), Z, y, counts

    def systems(
        self, labels: DirichletLabels, class_weights: np.ndarray, prior_variance: float
    ) -> Iterator[System]:
        """The system of every class."""
        _, statistics = self.sorted()
        sums = [weight * s.cross for weight, s in zip(class_weights, statistics, strict=True)]
        cross, moment = sum(sums), PackedMatrix.zeros(self.n_features, self.dtype)
        for weight, s in zip(class_weights, statistics, strict=True):
            moment.add_multiple(weight, s.second_moment)
        inner, outer = 1 / labels.inside_variance, 1 / labels.outside_variance
        for c, weight in enumerate(class_weights):
            value, other = (v - labels.means[c] for v in (labels.inside, labels.outside))
            system = outer * moment
            system.add_multiple((inner - outer) * weight, statistics[c].second_moment)
            right = inner * value * sums[c] + outer * other * (cross - sums[c])
            yield System(system, right, prior_variance)

    def arrays(self) -> dict[str, Any]:
        """All of it by name, for a checkpoint."""
        named: dict[str, Any] = {
            "columns": np.zeros((self.n_features, 0), dtype=self.dtype),
            "labels": np.array(list(self.by_label)),
            "seed": self.seed,
            "held_n_rows": self.held.n_rows,
            "held_hashes": self.held.hashes,
            "held_features": self.held.features,
            "held_labels": np.array(self.held.labels.tolist()),
            "held_counts": self.held.counts,
        }
        for k, statistics in enumerate(self.by_label.values()):
            named |= {f"{name}_{k}": value for name, value in statistics.arrays().items()}
        return named

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> ClassSums:
        """The way back from `arrays`."""
        names = SufficientStatistics.zeros(1, 0).arrays()
        by_label = {
            label: SufficientStatistics.restored({name: arrays[f"{name}_{k}"] for name in names})
            for k, label in enumerate(arrays["labels"].tolist())
        }
        held = (arrays[f"held_{name}"] for name in ("hashes", "features", "labels", "counts"))
        return cls(
            len(arrays["columns"]),
            arrays["columns"].dtype.name,
            int(arrays["seed"]),
            by_label,
            HeldOutRows(int(arrays["held_n_rows"]), *held),
        )


class Chosen(NamedTuple):
    """α with its labels, and the prior variance."""

    labels: DirichletLabels
    prior_variance: float


def choose(
    alpha: Any,
    prior_variance: Any,
    frequencies: np.ndarray,
    n_rows: float,
    loss: Callable[[DirichletLabels, float], float],
) -> Chosen:
    """α and prior variance: given, or the best of a grid for rows held out, downhill.

    `loss(labels, prior_variance)` is the mean negative log-likelihood of these rows. Every decade
    of α below 1 has a prior probability of 1/e of the one before: few rows, whose choice is chance,
    do not make a classifier overconfident, and for many it does not matter.
    """
    alphas = ALPHAS if isinstance(alpha, str) else (float(alpha),)
    multiples = PRIORS if prior_variance == "auto" else (1.0,)

    def place_of(i: int, j: int) -> Chosen:
        labels = DirichletLabels.of(alphas[i], frequencies)
        is_given = not isinstance(prior_variance, str)
        prior = float(prior_variance) if is_given else multiples[j] * labels.prior_variance
        return Chosen(labels, prior)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of values that are not chosen
        place = downhill(
            lambda i, j: loss(*place_of(i, j)) - np.log10(alphas[i]) / n_rows,
            (len(alphas), len(multiples)),
            START,
        )
    return place_of(*place)


@stored
class DirichletGPClassifier(ClassifierMixin, GaussianProcess):
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
        from 10⁻³, for the log-likelihood of rows that are taken out of the sums: five folds of up
        to 1,000 rows, or a tenth of more (1,000 at most). Few rows do not choose a small one. With
        more than 512 columns, 512 of them are drawn for this choice.
    prior_variance : float, "auto" or "labels", default="auto"
        Multiplies the kernel; "labels" is the variance of the transformed labels (as the authors).
        "auto" is the best of 0.01, 0.1, …, 10⁴ times that, chosen together with α.
    posterior : {"real", "complex"}, default="real"
    solver : {"auto", "cholesky", "cg"} or ConjugateGradients, default="auto"
        As for `FeatureGPRegressor`; all classes share the passes of "cg". Parameters that are
        "auto" are then chosen on 2,000 rows.
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
    posterior_ : Posterior of the coefficients, one output for every class
    features_, kernel_, relevances_, search_, solver_, n_iterations_, residuals_ : as for
        `FeatureGPRegressor`

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

    classes_: Annotated[np.ndarray, array("biufUO", "C")]
    class_weights_: Annotated[np.ndarray, array("f", "C")]
    residuals_: Annotated[np.ndarray, array("f", "iterations")]
    _named: Annotated[np.ndarray | None, array("biufUO", "named")]

    def __init__(
        self,
        features: Any = "auto",
        *,
        alpha: float | str = "auto",
        prior_variance: float | str = "auto",
        posterior: str = "real",
        solver: Any = "auto",
        variance_correction: str | None = "auto",
        class_weight: Any = None,
        optimize: bool | str = "auto",
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.features = features
        self.alpha = alpha
        self.prior_variance = prior_variance
        self.posterior = posterior
        self.solver = solver
        self.variance_correction = variance_correction
        self.class_weight = class_weight
        self.optimize = optimize
        self.random_state = random_state
        self.verbose = verbose

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
        """Fit in one pass, or in one for every iteration of `solver="cg"`.

        X, y, `sample_weight`, `target` and `checkpoint` are as for `FeatureGPRegressor.fit`, with
        labels of any kind (n,). `classes` may name the classes of a stream, of which some may have
        no rows.
        """
        self._check_parameters()
        X, y = split_target(X, y, target)
        training = TrainingRows.of(type(self), X, y, None, sample_weight, labels=True)
        named = None if classes is None else np.unique(classes)
        begun = self._begun(training, named)
        solver = chosen_solver(self.solver, training.rows, begun.columns)
        if solver is None:
            values = self._solved(self._gathered(training, begun.attributes, checkpoint))
        else:
            values = self._by_passes(training, begun, solver, checkpoint)
        return self._assign(training.inputs, **begun.attributes, **values)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> DirichletGPClassifier:
        """Add rows to those seen before; the first call fits the features.

        The first call may name all `classes`; otherwise they are those of the rows seen so far, and
        later rows may add some.
        """
        self._check_parameters()
        if self.solver == "cg" or isinstance(self.solver, ConjugateGradients):
            raise ValueError(NO_SUMS.format("partial_fit"))
        is_first = not hasattr(self, "columns_")
        training = TrainingRows.of(
            type(self), X, y, None, sample_weight, labels=True, inputs=None if is_first else self
        )
        if is_first:
            named = None if classes is None else np.unique(classes)
            attributes = self._begun(training, named).attributes
            sums = self._gathered(training, attributes, None)
        else:
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(f"classes must be those of the rows seen so far, {self.classes_}.")
            attributes, before = kept(self, *OWN), self._sums("partial_fit")
            sums = before + self._gathered(training, attributes, None, seen=before.held.n_rows)
        return self._assign(training.inputs, **attributes, **self._solved(sums))

    def refit(self, alpha: float | str | None = None) -> DirichletGPClassifier:
        """The posterior for another α (or other changed parameters), without the rows."""
        check_is_fitted(self)
        sums, changed = self._sums("refit"), {} if alpha is None else {"alpha": alpha}
        other = type(self)(**{**self.get_params(deep=False), **changed})
        other._check_parameters()
        return self._assign(self, **kept(self, *OWN), **other._solved(sums), **changed)

    def merge(self, other: DirichletGPClassifier) -> DirichletGPClassifier:
        """Add the rows that another classifier with the same features has seen.

        The sums are those of one fit to the rows of both; see `FeatureGPRegressor.merge`.
        """
        check_is_fitted(self)
        self._check_parameters()
        check_mergeable(self, other)
        sums = self._sums("merge") + other._sums("merge")
        if self._named is not None:
            labels_of(np.array(list(sums.by_label)), self._named)
        return self._assign(self, **kept(self, *OWN), **self._solved(sums))

    # -- from rows to posteriors -------------------------------------------------------------------

    def _check_parameters(self) -> None:
        check_features(self.features)
        check_positive("alpha", self.alpha, "auto")
        check_positive("prior_variance", self.prior_variance, "auto", "labels")
        one_of("posterior", self.posterior, ("real", "complex"))
        one_of("variance_correction", self.variance_correction, ("auto", "posterior", None))
        check_solver(self.solver)
        check_optimize(self.optimize)

    def _begun(self, training: TrainingRows, named: np.ndarray | None) -> Begun:
        """The features, fitted, and what the sums depend on."""
        labels = training.rows.distinct(1) if named is None else named
        if labels is not None:
            check_two_classes(labels)
        begun = begin(self, training, partial(searched_features, self))
        more = {
            "_seed": begun.seed,
            "_named": named,
            "_first_labels": [] if labels is None else labels.tolist(),
        }
        return begun._replace(attributes={**begun.attributes, **more})

    def _gathered(
        self, training: TrainingRows, attributes: dict[str, Any], path: Any, seen: int = 0
    ) -> ClassSums:
        """The sums over rows that come after `seen` others, in one pass."""
        columns, labels, seed = (attributes[k] for k in ("columns_", "_first_labels", "_seed"))
        checkpoint = None
        if path is not None:
            configuration = fingerprint([seed, labels, columns.digest()])
            checkpoint = Checkpoint(path, ClassSums.restored, fingerprint=configuration)
        block_rows = max(columns.block_rows, min(1024 * (len(labels) or 10), 1 << 16))
        return training.rows.fold(
            partial(ClassSums.zeros, columns.n_columns, columns.dtype, labels, seed),
            partial(_added, columns, training.inputs, attributes["_named"], seen),
            block_rows=block_rows,
            group_blocks=max(4096 // block_rows, 1),
            checkpoint=checkpoint,
            progress="rows" if self.verbose else None,
        )

    def _solved(self, sums: ClassSums) -> dict[str, Any]:
        """From the sums to the posterior."""
        classes, statistics = sums.sorted()
        table = ClassTable.of(
            classes, np.array([float(s.n) for s in statistics]), self.class_weight
        )
        parts: list[Any] = []

        def loss(labels: DirichletLabels, prior: float) -> float:
            parts.extend([] if parts else sums.folds())
            values, sizes = [], []
            for rest, Z, y, counts in parts:
                posterior = solve(rest.systems(labels, table.weights, prior))
                # variances of single precision take half the time, and are right to 1e-4
                low = np.asarray(Z, np.complex64 if np.iscomplexobj(Z) else np.float32)
                mean = posterior.mean(Z) + labels.means
                codes = np.searchsorted(classes, y)
                values.append(mean_loss(mean, posterior.variance(low), codes, counts))
                sizes.append(float(np.sum(counts)))
            return float(np.average(values, weights=sizes))

        n_rows = float(sum(s.n for s in statistics))
        chosen = choose(self.alpha, self.prior_variance, table.frequencies, n_rows, loss)
        posterior = solve(sums.systems(chosen.labels, table.weights, chosen.prior_variance))
        return {"class_sums_": sums, "solver_": "cholesky", **_described(table, chosen, posterior)}

    def _by_passes(
        self, training: TrainingRows, begun: Begun, solver: ConjugateGradients, path: Any
    ) -> dict[str, Any]:
        """The posterior by iterations over the rows, which leave no sums.

        α and prior variance are chosen by the direct path on some rows and columns.
        """
        columns, named = begun.columns, begun.attributes["_named"]
        counted = training.rows.fold(Counts, partial(counted_labels, named), block_rows=1 << 16)
        if named is not None:
            counted = counted + Counts(named, np.zeros(len(named)))
        table = ClassTable.of(counted.labels, counted.counts, self.class_weight)
        X, y, _, counts = (None if c is None else c[:DIRECT_ROWS] for c in begun.sample)
        Z = columns(X)
        places, factors = sampled_columns(np.einsum("ij,ij->j", Z, Z), DIRECT_ROWS)
        sums = ClassSums.zeros(len(places), columns.dtype, table.classes.tolist(), begun.seed)
        sums.update(Z[:, places] * factors, labels_of(y), 0, counts)
        few = self._solved(sums)
        labels = DirichletLabels.of(few["alpha_"], table.frequencies)
        prior = few["prior_variance_"]
        if isinstance(self.prior_variance, str):
            prior *= labels.prior_variance / few["labels_"].prior_variance
        checkpoint = None
        if path is not None:
            settings = [solver, labels.alpha, prior, table.classes.tolist(), begun.seed]
            configuration = fingerprint([*settings, columns.digest()])
            checkpoint = Checkpoint(path, Iteration.restored, fingerprint=configuration)
        posterior, history = solve_by_passes(
            training.rows,
            partial(_row_block, columns, training.inputs, table, labels),
            columns.n_columns,
            np.full(len(table.classes), prior),
            solver,
            seed=begun.seed,
            checkpoint=checkpoint,
            verbose=self.verbose,
        )
        iterations = {"n_iterations_": len(history) - 1, "residuals_": history}
        return {
            "solver_": "cg",
            **iterations,
            **_described(table, Chosen(labels, prior), posterior),
        }

    def _sums(self, method: str) -> ClassSums:
        if not hasattr(self, "class_sums_"):
            raise ValueError(NO_SUMS.format(method))
        return self.class_sums_

    # -- predictions -------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:  # (n, d) -> (n,)
        """The class of the greatest latent mean, which takes no variances.

        The greatest of `predict_proba` can be another class where variances differ.
        """
        check_is_fitted(self)
        if is_collection(X):
            return lazy_classes(self, "predict", X)
        blocks = [host(self._latent(rows, Z, False)[0]) for rows, Z in column_blocks(self, X)]
        return self.classes_[np.concatenate(blocks).argmax(axis=1)]

    def predict_latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (n, C), (n, C)
        """Mean and standard deviation of the latent function of every class."""
        check_is_fitted(self)
        if is_collection(X):
            return lazy_classes(self, "predict_latent", X)
        means, variances = zip(
            *(self._latent(*block) for block in column_blocks(self, X)), strict=True
        )
        mean, variance = (np.concatenate([*map(host, part)]) for part in (means, variances))
        return mean, np.sqrt(variance)

    def predict_proba(self, X: Any) -> Any:  # (n, d) -> (n, C)
        """Probabilities of the classes: the softmax averaged over the latent functions."""
        check_is_fitted(self)
        if is_collection(X):
            return lazy_classes(self, "predict_proba", X)
        blocks = [expected_softmax(*self._latent(*b), self._seed) for b in column_blocks(self, X)]
        return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)

    def sample_functions(self, n_functions: int = 1, random_state: Any = None) -> SampledFunctions:
        """Latent functions of all classes drawn from their posteriors: `f(X)` (n, C, n_functions).

        As `FeatureGPRegressor.sample_functions`; a softmax over the classes gives probabilities.
        """
        check_is_fitted(self)
        n = positive_integer("n_functions", n_functions)
        draws = self.posterior_.sample(n, as_generator(random_state))
        means = self.labels_.means
        return SampledFunctions(
            self.columns_, draws, means, np.ones_like(means), False, input_names(self)
        )

    def _latent(self, rows: Any, Z: Any, with_variance: bool = True) -> tuple[Any, Any]:
        """Means and variances (n, C) of the latent functions."""
        mean = self.posterior_.mean(Z)
        mean = mean + like(self.labels_.means, mean)
        if not with_variance:
            return mean, None
        variance = self.posterior_.variance(Z)
        if self.variance_correction is not None:
            is_auto = self.variance_correction == "auto"
            lack = (self.columns_.missing if is_auto else self.columns_.deficit)(rows, Z)
            variance = variance + self.prior_variance_ * lack[:, None]
        return mean, variance


OWN = ("_seed", "_named", "_first_labels")
NO_SUMS = (
    '{} needs sums over the rows, which solver="cg" does not compute: use solver="cholesky", or '
    "call fit with all rows."
)


def _described(table: ClassTable, chosen: Chosen, posterior: Any) -> dict[str, Any]:
    """The attributes of a solution."""
    return {
        "classes_": table.classes,
        "class_weights_": table.weights,
        "alpha_": chosen.labels.alpha,
        "labels_": chosen.labels,
        "prior_variance_": chosen.prior_variance,
        "posterior_": posterior,
    }


def _added(
    columns: Columns,
    inputs: Any,
    named: np.ndarray | None,
    seen: int,
    sums: ClassSums,
    block: Block,
    first: int,
) -> ClassSums:
    """The sums with one more block of rows."""
    Z = columns(checked(inputs, block[0]))
    sums.update(Z, labels_of(block[1], named), seen + first, block[3] if len(block) > 3 else None)
    return sums


class Counts(NamedTuple):
    """How often every label occurs."""

    labels: Any = ()
    counts: Any = ()

    def __add__(self, other: Any) -> Counts:
        labels = [*np.asarray(self.labels).tolist(), *np.asarray(other.labels).tolist()]
        check_one_kind(labels)
        values, places = np.unique(np.array(labels), return_inverse=True)
        weights = np.concatenate([np.ravel(self.counts), np.ravel(other.counts)]).astype(float)
        return Counts(values, np.bincount(places, weights=weights, minlength=len(values)))


def counted_labels(named: np.ndarray | None, total: Counts, block: Block, first: int) -> Counts:
    y = labels_of(block[1], named)
    labels, places = np.unique(y, return_inverse=True)
    weights = block[3] if len(block) > 3 else None
    return total + Counts(labels, np.bincount(places, weights=weights))


def _row_block(
    columns: Columns, inputs: Any, table: ClassTable, labels: DirichletLabels, block: Block
) -> RowBlock:
    """What conjugate gradients see of a block: every class is a system."""
    Z = columns(checked(inputs, block[0]))
    codes = np.searchsorted(table.classes, labels_of(block[1]))
    inside = codes[:, None] == np.arange(len(table.classes))
    targets = np.where(inside, labels.inside, labels.outside) - labels.means
    noise = np.where(inside, labels.inside_variance, labels.outside_variance)
    weights = table.weights[codes][:, None] / noise
    if len(block) > 3 and block[3] is not None:
        weights = weights * np.asarray(block[3])[:, None]
    return RowBlock(Z, targets, weights)
