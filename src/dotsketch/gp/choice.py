"""α, prior variance and temperature of a classifier: what rows held out find most likely.

The temperature divides the latent functions before the softmax. It takes no factorisation, and with
it the likelihood hardly depends on α within a decade or two, so that a coarse grid of α and of the
prior variance is enough, searched downhill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from .softmax import expected_softmax

ALPHAS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)  # the range searched in the paper
PRIORS = (0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)  # in multiples of the variance of the labels
START = ALPHAS.index(1e-3), PRIORS.index(10.0)  # where a search begins
# Standard deviations of weak priors: in decades from the start for α and the prior variance, and of
# log T. They weigh as much as one row: ten rows held out are guided by them, a thousand are not,
# unless the likelihood is flat.
ALPHA_SPREAD, PRIOR_SPREAD, TEMPERATURE_SPREAD = 0.5, 1.5, 0.5
LARGEST_LOG_TEMPERATURE = 2.0


class HeldOut(NamedTuple):
    """What latent functions say about rows held out, and what these rows are."""

    mean: np.ndarray  # (n, C)
    variance: np.ndarray  # (n, C)
    codes: np.ndarray  # (n,), the true classes
    counts: np.ndarray  # (n,), how often each row counts

    def loss(
        self, temperature: float, method: str = "closed_form", n: int = 1, seed: int = 0
    ) -> float:
        """The mean negative log-likelihood of the true classes."""
        p = expected_softmax(
            self.mean / temperature, self.variance / temperature**2, method, n, seed
        )
        with np.errstate(divide="ignore"):
            losses = -np.log(p[np.arange(len(p)), self.codes])
        return float(np.average(losses, weights=self.counts))

    @property
    def n(self) -> float:
        """The number of rows, as often as they count."""
        return float(np.sum(self.counts))

    def best_temperature(self, *average: Any) -> tuple[float, float]:
        """The temperature of the least loss, and that loss, both with the weak prior."""
        found = minimize_scalar(
            lambda log: self.loss(np.exp(log), *average) + penalty(log, TEMPERATURE_SPREAD, self.n),
            bounds=(-LARGEST_LOG_TEMPERATURE, LARGEST_LOG_TEMPERATURE),
            method="bounded",
            options={"xatol": 0.02},
        )
        return float(np.exp(found.x)), float(found.fun)


def penalty(decades: float, spread: float, n: float) -> float:
    """What a weak prior adds to the mean loss of n rows, so many decades from its centre."""
    return decades**2 / (2 * spread**2 * n)


def downhill(
    loss: Callable[..., float], lengths: Sequence[int], start: Sequence[int]
) -> tuple[int, ...]:
    """A place of a grid with no less loss beside it along any axis; few places are computed.

    `loss(*place)`, for a grid of `lengths`: down along the last axis from `start`, then along the
    one before it, and so on until nothing changes. An axis of one place is not searched.
    """
    known: dict[tuple[int, ...], float] = {}

    def value(place: tuple[int, ...]) -> float:
        if not all(0 <= at < length for at, length in zip(place, lengths, strict=True)):
            return np.inf
        if place not in known:
            known[place] = loss(*place)
        return known[place]

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
