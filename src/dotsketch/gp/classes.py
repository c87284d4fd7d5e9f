"""What classifiers share: labels, weights of classes, probabilities of latent functions, folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from .._arrays import is_foreign, like, namespace
from ..rows import lazy
from .base import without_sums

FOLDED_ROWS = 1000  # up to here every row is held out once; beyond, one fold is enough


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
    def of(cls, classes: np.ndarray, counts: np.ndarray, class_weight: Any) -> ClassTable:
        check_two_classes(classes)
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


def mean_loss(
    mean: np.ndarray, variance: np.ndarray, codes: np.ndarray, counts: np.ndarray
) -> float:  # (n, C), (n, C), (n,), (n,)
    """The mean negative log-likelihood of the true classes under latent functions."""
    p = expected_softmax(mean, variance)
    with np.errstate(divide="ignore"):
        losses = -np.log(p[np.arange(len(p)), codes])
    return float(np.average(losses, weights=counts))


def folds(n: int, rng: np.random.Generator, held: float = 0.2) -> Iterator[np.ndarray]:
    """Rows that are held out, in turn: all of them where there are few, otherwise some, once."""
    order = rng.permutation(n)
    size = max(int(held * n), 1)
    if n > FOLDED_ROWS or n < 5:
        yield order[:size]
    else:
        yield from np.array_split(order, round(1 / held))


def downhill(
    loss: Callable[..., float], lengths: Sequence[int], start: Sequence[int]
) -> tuple[int, ...]:
    """A place of a grid with no less loss beside it along any axis; few places are computed.

    `loss(*place)`, for a grid of `lengths`: down along the last axis from `start`, then along the
    one before it, and so on until nothing changes. An axis of one place is not searched.
    """
    losses: dict[tuple[int, ...], float] = {}

    def value(place: tuple[int, ...]) -> float:
        if not all(0 <= at < length for at, length in zip(place, lengths, strict=True)):
            return np.inf
        if place not in losses:
            losses[place] = loss(*place)
        return losses[place]

    def moved(place: tuple[int, ...], axis: int, step: int) -> tuple[int, ...]:
        return (*place[:axis], place[axis] + step, *place[axis + 1 :])

    axes = [axis for axis in reversed(range(len(lengths))) if lengths[axis] > 1]
    best = tuple(at if n > 1 else 0 for at, n in zip(start, lengths, strict=True))
    before = None
    while axes and best != before:
        before = best
        for axis in axes:
            nearest = None
            while nearest != best:
                best = nearest or best
                beside = (moved(best, axis, step) for step in (-1, 1))
                nearest = next((place for place in beside if value(place) < value(best)), best)
    return best


def lazy_classes(model: Any, method: str, X: Any) -> Any:
    """What a method of a classifier returns of a Dask collection: collections."""
    call = getattr(without_sums(model), method)
    classes = [str(label) for label in model.classes_.tolist()]
    if method == "predict":
        return lazy(call, X, dtypes=[model.classes_.dtype], names=[None])[0]
    if method == "predict_proba":
        return lazy(call, X, dtypes=[np.float64], names=[classes])[0]
    names = [[f"{name}_{c}" for c in classes] for name in ("mean", "std")]
    return lazy(call, X, dtypes=2 * [np.float64], names=names)
