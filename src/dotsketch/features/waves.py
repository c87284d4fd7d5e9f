"""Columns of cosines and sines of random frequencies, what Fourier and spherical features share.

A frequency ω contributes a_ω cos ωᵀ(x − y) to the approximate kernel, with weights a that sum to
one: by a pair of columns √a [cos ωᵀx, sin ωᵀx], by one complex column √a exp(i ωᵀx), or, where
the number of real columns is odd, at the end by one column √(2a) cos(ωᵀx + φ) of random phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from .._arrays import OUTPUTS, Array, ArrayT, as_generator, is_foreign
from .._backends import Prepared, WaveFactors, backend_of, keeps_prepared, kept
from .._support.parameters import check_even, one_of
from .._support.stored import array
from ..projections import Frequencies
from .base import FeatureMap


@keeps_prepared
class WaveWeights(NamedTuple):
    frequencies: Any  # named tuple of arrays, see `frequencies`; prepared, a function of rows
    # (1,), of the last column if the number of real columns is odd, or (0,)
    phase: Annotated[np.ndarray, array("f", "phases")]


@dataclass(frozen=True)
class Waves:
    """A random feature map of n_components columns, each a wave.

    Parameters
    ----------
    n_components : D ≥ 1, the number of columns
    projection : "independent", "orthogonal" or "sorf", see `Frequencies`
    output : "real": √(2/D) [cos ωᵀx, sin ωᵀx] for D/2 frequencies; an odd D has the last column
        √(2/D) cos(ωᵀx + φ) with one more frequency and a uniform phase φ. "complex":
        exp(i ωᵀx)/√D for D frequencies. "complex_to_real": their real and imaginary parts, the
        same numbers as "real" (D must be even).
    """

    n_components: int
    projection: str = "orthogonal"
    output: str = "real"

    def __post_init__(self) -> None:
        one_of("output", self.output, OUTPUTS)
        if self.output == "complex_to_real":
            check_even(self.n_components, "complex_to_real returns pairs of columns")
        _ = self.frequencies  # refuses what has no meaning

    @cached_property
    def frequencies(self) -> Frequencies:
        n = self.n_components if self.output == "complex" else (self.n_components + 1) // 2
        return Frequencies(n, self.projection)

    @property
    def has_phase(self) -> bool:
        """Whether the last column stands alone, as a cosine with a random phase."""
        return self.output == "real" and self.n_components % 2 == 1

    @property
    def shares(self) -> np.ndarray:  # (n_frequencies,)
        """The weights a of the frequencies in the approximate kernel; they sum to one."""
        shares = np.full(self.frequencies.n_frequencies, self._scale**2)
        if self.has_phase:
            shares[-1] /= 2
        return shares

    @property
    def phase_variance(self) -> float:
        """What the random phase adds to the variance of the approximate kernel, a²/2."""
        return float(self.shares[-1] ** 2 / 2) if self.has_phase else 0.0

    @property
    def part(self) -> str:
        """Whose variance a user sees: that of the complex value, or of its real part."""
        return "complex" if self.output == "complex" else "real"

    def sample(
        self, dimension: int, rng: np.random.Generator, radii: np.ndarray | None = None
    ) -> WaveWeights:
        """Weights of one map on R^dimension; `radii` as for `Frequencies.sample`."""
        frequencies = self.frequencies.sample(dimension, rng, radii)
        return WaveWeights(frequencies, rng.uniform(0, 2 * math.pi, int(self.has_phase)))

    def apply(
        self,
        X: ArrayT,
        weights: WaveWeights,
        *,
        preprocess: Callable[[Array], Array] | None = None,
        lengthscale: Any = None,
        scale: Any = 1.0,
        n_jobs: int | None = None,
    ) -> ArrayT:  # (n, d) -> (n, n_components)
        """Features of all rows times `scale`, in chunks.

        `preprocess` maps rows to inputs, which are divided by the lengthscale, if there is one.
        """
        if isinstance(lengthscale, (list, tuple)):
            lengthscale = np.asarray(lengthscale, dtype=np.float64)
        prepared = self._prepared(weights, lengthscale, scale * self._scale, X)
        return prepared.map(X, self.part, self.n_components, preprocess, n_jobs)

    def _prepared(self, weights: WaveWeights, lengthscale: Any, scale: Any, X: Array) -> Prepared:
        def make() -> Prepared:
            factors = WaveFactors(*weights, lengthscale, scale, self.output == "complex")
            return backend_of(X).waves(factors, X)

        if is_foreign(lengthscale) or is_foreign(scale):  # they may have gradients
            return make()
        length = np.asarray(lengthscale).tobytes() if np.ndim(lengthscale) else lengthscale
        return kept(weights, (self.output, backend_of(X), length, float(scale)), X, make)

    def cost(self, dimension: int) -> float:
        """About how many arithmetic operations the features of one row take."""
        return self.frequencies.cost(dimension) + 20.0 * 2 * self.frequencies.n_frequencies

    @property
    def _scale(self) -> float:
        return math.sqrt((1 if self.output == "complex" else 2) / self.n_components)


class FrequencyFeatures(FeatureMap):
    """Features whose description, `map_`, draws random frequencies."""

    projection: str
    map_: Any

    def check_stored(self) -> None:
        if not hasattr(self, "weights_"):
            return
        weights = self.weights_
        if type(weights) is WaveWeights:
            if len(weights.phase) != self.map_.has_phase:
                raise ValueError("WaveWeights.phase does not fit the number of columns.")
            weights = weights.frequencies
        self.map_.frequencies.check_weights(weights, self.n_features_in_)

    def redrawn(self, X: Array | None, random_state: Any) -> Self:
        weights = self.map_.sample(self.n_features_in_, as_generator(random_state))
        return self._with_weights(random_state, weights)


def output_suffix(output: str) -> str:
    """What a label says of columns that are not real, as the usual ones are."""
    return "" if output == "real" else f", {output}"
