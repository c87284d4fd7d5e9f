"""What classifiers share: predictions from latent functions, weights of classes, folds.

A fitted classifier is three values: `columns_`, a function from rows to columns; `posterior_`,
which says what the latent function of every class is at columns; and `prior_means_` of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from .._arrays import as_generator, host, is_foreign, like, namespace
from .._support.parameters import positive_integer
from .._support.stored import array
from ..rows import Block, is_collection, lazy
from .base import (
    column_blocks,
    fitted_html,
    input_names,
    labels_of,
    mimebundle,
    plot_relevances,
    relevances,
    without_sums,
)
from .outputs import Outputs, SampledFunctions, joined

FOLDED_ROWS = 1000  # up to here every row is held out once; beyond, one fold is enough


class ClassificationProcess(ClassifierMixin, BaseEstimator):
    """The one base class of classifiers: how they predict. `fit` is theirs."""

    variance_correction: str | None = "auto"
    columns_: Any
    posterior_: Any
    classes_: Annotated[np.ndarray, array("biufUO", "C")]
    class_weights_: Annotated[np.ndarray, array("f", "C")]
    prior_means_: Annotated[np.ndarray, array("f", "C")]
    _seed: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    relevances_ = property(relevances)
    plot_relevances = plot_relevances
    _repr_html_inner = fitted_html
    _repr_mimebundle_ = mimebundle

    def _facts(self) -> list[tuple[str, Any]]:
        """What a notebook shows of a fit, beside its kernel and its search."""
        names = ", ".join(map(str, self.classes_))
        alpha = [("α", self.alpha_)] if hasattr(self, "alpha_") else []
        return [("classes", names), ("prior variance", self.prior_variance_), *alpha]

    @property
    def features_(self) -> Any:
        """The fitted feature map."""
        return self.columns_.features

    @property
    def kernel_(self) -> Any:
        """The kernel; of features in a pipeline, that of its last step; None if they name none."""
        return self.columns_.kernel

    @property
    def prior_variance_(self) -> float:
        """What multiplies the kernel."""
        return float(self.posterior_.prior_variances[0])

    def predict(self, X: Any) -> np.ndarray:  # (n, d) -> (n,)
        """The class of the greatest latent mean, which takes no variances.

        The greatest of `predict_proba` can be another class where variances differ.
        """
        check_is_fitted(self)
        if is_collection(X):
            return self._lazily("predict", X)
        means = [host(self._latent(*block, False)[0]) for block in column_blocks(self, X)]
        return self.classes_[np.concatenate(means).argmax(axis=1)]

    def predict_latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (n, C), (n, C)
        """Mean and standard deviation of the latent function of every class."""
        check_is_fitted(self)
        if is_collection(X):
            return self._lazily("predict_latent", X)
        latent = (self._latent(*block) for block in column_blocks(self, X))
        mean, variance = (np.concatenate([*map(host, part)]) for part in zip(*latent, strict=True))
        return mean, np.sqrt(variance)

    def predict_proba(self, X: Any) -> Any:  # (n, d) -> (n, C)
        """Probabilities of the classes: the softmax averaged over the latent functions.

        Rows of PyTorch and JAX give results of the same library, with gradients to X.
        """
        check_is_fitted(self)
        if is_collection(X):
            return self._lazily("predict_proba", X)
        blocks = column_blocks(self, X)
        return joined([expected_softmax(*self._latent(*block), self._seed) for block in blocks])

    def _latent(
        self, rows: Any, Z: Any, with_variance: bool = True
    ) -> tuple[Any, Any]:  # (n, d), (n, D) -> (n, C), (n, C)
        """Means and variances of the latent functions."""
        mean = self.posterior_.mean(Z)
        mean = mean + like(self.prior_means_, mean)
        if not with_variance:
            return mean, None
        variance = self.posterior_.variance(Z) + self.columns_.added_variance(
            rows,
            Z,
            self.variance_correction,
            self.columns_.greatest_lack,
            self.posterior_.prior_variances,
        )
        return mean, variance if is_foreign(variance) else np.maximum(variance, 0)

    def _lazily(self, method: str, X: Any) -> Any:
        """What a method returns of a Dask collection: collections."""
        call = getattr(without_sums(self), method)
        classes = [str(label) for label in self.classes_.tolist()]
        if method == "predict":
            return lazy(call, X, dtypes=[self.classes_.dtype], names=[None])[0]
        if method == "predict_proba":
            return lazy(call, X, dtypes=[np.float64], names=[classes])[0]
        names = [[f"{name}_{c}" for c in classes] for name in ("mean", "std")]
        return lazy(call, X, dtypes=2 * [np.float64], names=names)


def sample_functions(
    model: Any, n_functions: int = 1, random_state: Any = None
) -> SampledFunctions:
    """Latent functions of all classes drawn from their posteriors: `f(X)` (n, C, n_functions).

    As `FeatureGPRegressor.sample_functions`; a softmax over the classes gives probabilities.
    """
    check_is_fitted(model)
    n = positive_integer("n_functions", n_functions)
    draws = model.posterior_.sample(n, as_generator(random_state))
    outputs = Outputs.plain(model.prior_means_)
    return SampledFunctions(model.columns_, draws, outputs, input_names(model))


def add_labels(counts: Counter[Any], block: Block, first: int) -> Counter[Any]:
    """How often every label occurs, with one more block of rows."""
    labels, places = np.unique(labels_of(block[1]), return_inverse=True)
    weights = np.bincount(places, weights=block[3])
    check_one_kind([*counts, *labels.tolist()])
    return counts + Counter(dict(zip(labels.tolist(), weights.tolist(), strict=True)))


def check_one_kind(labels: Sequence[Any]) -> None:
    """Raise unless all labels are strings, or none is."""
    if len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError(f"Labels must not mix strings and numbers: {list(labels)}.")


def check_two_classes(classes: np.ndarray) -> None:
    if len(classes) < 2:
        raise ValueError(
            f"A classifier needs at least two classes in y; got one class: {classes.tolist()}."
        )


class ClassTable(NamedTuple):
    """The classes, how much a row of each counts, and their frequencies."""

    classes: np.ndarray  # (C,)
    weights: np.ndarray  # (C,)
    frequencies: np.ndarray  # (C,)

    @classmethod
    def of(cls, of_class: Mapping[Any, float], class_weight: Any) -> ClassTable:
        """From the number of rows of every class."""
        classes = np.unique(np.array(list(of_class)))
        check_two_classes(classes)
        counts = np.array([float(of_class[label]) for label in classes.tolist()])
        weights = class_weights(class_weight, classes, counts)
        weighted = np.where(counts > 0, counts, 0.5) * weights  # no rows yet: half of one
        return cls(classes, weights, weighted / weighted.sum())


def class_weights(option: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """How often a row of every class counts: scikit-learn's class_weight."""
    if option is None:
        return np.ones(len(classes))
    if isinstance(option, str) and option == "balanced":
        # counts are fractions if rows have weights; a class without rows has the weight of one row
        return counts.sum() / (len(classes) * np.where(counts > 0, counts, 1))
    if not isinstance(option, dict):
        raise ValueError(f'class_weight must be None, "balanced" or a dict; got {option!r}.')
    unknown = [label for label in option if label not in classes.tolist()]
    if unknown:
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not one of the classes {classes}."
        )
    weights = np.array([float(option.get(label, 1.0)) for label in classes.tolist()])
    if not np.all(np.isfinite(weights)) or not np.all(weights > 0):
        raise ValueError(f"class_weight must be positive; got {option!r}.")
    return weights


def expected_softmax(
    mean: Any, variance: Any, seed: int = 0, n_samples: int = 128
) -> Any:  # (n, C), (n, C) -> (n, C)
    """E softmax(f) for independent f_c ~ N(mean_c, variance_c), in the array library of the mean.

    The mean over draws that are the same for every row: scrambled Sobol points, which spread more
    evenly than independent ones.
    """
    n, C = mean.shape
    sobol = qmc.Sobol(C, rng=np.random.default_rng(seed))
    uniform = sobol.random_base2((n_samples - 1).bit_length())[:n_samples]
    # points may be 0, whose normal quantile is infinite
    draws = ndtri(np.clip(uniform, 2.0**-32, 1 - 2.0**-32))
    xp = namespace(mean)
    deviation = xp.sqrt(variance)
    if is_foreign(mean):
        values = deviation[:, None, :] * like(draws, mean) + mean[:, None, :]
        values = xp.exp(values - xp.max(values, axis=2, keepdims=True))
        return xp.mean(values / xp.sum(values, axis=2, keepdims=True), axis=1)
    result = np.empty_like(mean)
    step = max(1, (1 << 18) // (n_samples * C))  # 2 MB at a time stay in the cache
    for start in range(0, n, step):
        rows = slice(start, start + step)
        values = deviation[rows, None, :] * draws
        values += mean[rows, None, :]
        values -= values.max(axis=2, keepdims=True)
        np.exp(values, out=values)
        # each draw is a distribution over the classes
        result[rows] = np.einsum("ijk,ij->ik", values, 1 / values.sum(axis=2)) / n_samples
    return result


class HeldOut(NamedTuple):
    """Rows that are held out, in turn: all of them where there are few, otherwise a fifth, once."""

    folds: tuple[tuple[np.ndarray, np.ndarray], ...]  # the places of the other rows, and of these
    codes: np.ndarray  # the classes of the rows that are held out, one fold after the other
    counts: np.ndarray
    n_rows: int

    @classmethod
    def of(cls, codes: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> HeldOut:
        """Of n rows with these classes, which count so often."""
        n = len(codes)
        order = rng.permutation(n)
        parts = [order[: max(n // 5, 1)]]
        if 5 <= n <= FOLDED_ROWS:
            parts = np.array_split(order, 5)
        rests = [np.setdiff1d(order, held) for held in parts]  # ascending
        folds = [(r if len(r) else held, held) for r, held in zip(rests, parts, strict=True)]
        places = np.concatenate(parts)
        return cls(tuple(folds), codes[places], counts[places], n)

    def losses(self, predict: Callable[..., tuple[Any, Any]], *values: Any) -> np.ndarray:
        """−log p of the classes of all rows under latent functions.

        `predict(k, *values)` gives their means and variances at the rows of fold k, (n_k, C) each.
        """
        moments = [predict(k, *values) for k in range(len(self.folds))]
        mean, variance = (np.concatenate(part).astype(float) for part in zip(*moments, strict=True))
        p = expected_softmax(mean, np.maximum(variance, 0))
        with np.errstate(divide="ignore"):
            return -np.log(p[np.arange(len(p)), self.codes])

    def mean(self, losses: np.ndarray) -> float:
        return float(np.average(losses, weights=self.counts))


def log_normal(multiple: float) -> float:
    """The log density (in logarithms) of a variance in units of its typical value.

    √3 wide, as the prior of lengthscales in GPyTorch and BoTorch: few rows, whose choice is chance,
    do not make a classifier overconfident, and for many it does not matter.
    """
    return -(float(np.log(multiple)) ** 2) / 6


def downhill(
    loss: Callable[..., float], lengths: Sequence[int], start: Sequence[int]
) -> tuple[int, ...]:
    """A place of a grid with no less loss beside it along any axis; few places are computed.

    `loss(*place)`, for a grid of `lengths`: from `start` to the first place beside it, on the last
    axis if there is one, that is better. An axis of one place is not searched.
    """
    losses: dict[tuple[int, ...], float] = {}

    def value(place: tuple[int, ...]) -> float:
        if not all(0 <= at < length for at, length in zip(place, lengths, strict=True)):
            return np.inf
        if place not in losses:
            losses[place] = loss(*place)
        return losses[place]

    axes = [axis for axis in reversed(range(len(lengths))) if lengths[axis] > 1]
    best = tuple(at if n > 1 else 0 for at, n in zip(start, lengths, strict=True))
    nearest = best if axes else None
    while nearest is not None:
        best = nearest
        steps = ((axis, step) for axis in axes for step in (-1, 1))
        beside = ((*best[:k], best[k] + step, *best[k + 1 :]) for k, step in steps)
        nearest = next((place for place in beside if value(place) < value(best)), None)
    return best
