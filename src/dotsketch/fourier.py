"""Random Fourier features of the Gaussian kernel exp(−|x − y|²/2).

The kernel is the mean of cos ωᵀ(x − y) over Gaussian frequencies ω (Rahimi and Recht). Features
are cosines and sines of ωᵀx for D frequencies; orthogonal frequencies have less variance than
independent ones (Yu et al., 2016), known here in closed form for both. With constant norms |ω|
they have less still, at the price of a bias of about −k|x − y|⁴/(4(d + 2)).

`FourierMap` is the description; inputs are already divided by the lengthscale. The estimator is
`dotsketch.FourierFeatures`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import hyp0f1

from ._arrays import OUTPUTS, Array, Parts, join, like, map_rows, namespace
from .frequencies import Frequencies, orthogonal_covariance
from .kernels import Gaussian

NORMS = ("auto", "random", "constant")


class FourierWeights(NamedTuple):
    frequencies: Any  # named tuple of arrays, see `frequencies`
    phase: np.ndarray  # (1,), of the last column if the number of real columns is odd, or (0,)


@dataclass(frozen=True)
class FourierMap:
    """A random feature map z with E[z(x)·conj z(y)] = exp(−|x − y|²/2).

    Parameters
    ----------
    n_components : D ≥ 1, the number of columns
    projection : "independent", "orthogonal" or "sorf", see `Frequencies`
    output : "real": √(2/D) [cos ωᵀx, sin ωᵀx] for D/2 frequencies; an odd D has the last column
        √(2/D) cos(ωᵀx + φ) with one more frequency and a uniform phase φ. "complex":
        exp(i ωᵀx)/√D for D frequencies. "complex_to_real": their real and imaginary parts, the
        same numbers as "real" (D must be even).
    norms : "random": those of Gaussian vectors, so that k̂ is exactly unbiased for "independent"
        and "orthogonal" (and nearly so for "sorf", docs/fourier.md). "constant": all √d, biased
        but of less variance. "auto": as published, "constant" for "sorf", otherwise "random".

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.3, 0.1], [1.0, 0.2]])
    >>> fourier = FourierMap(4000)
    >>> Z = fourier.apply(X, fourier.sample(2, np.random.default_rng(0)))
    >>> exact = np.exp(-0.5 / 2)
    >>> deviation = fourier.variance(0.5, dimension=2) ** 0.5
    >>> bool(abs(Z[0] @ Z[1] - exact) < 3 * deviation)
    True
    """

    n_components: int
    projection: str = "orthogonal"
    output: str = "real"
    norms: str = "auto"

    def __post_init__(self) -> None:
        if self.norms not in NORMS:
            raise ValueError(f"norms must be one of {NORMS}; got {self.norms!r}.")
        if self.output not in OUTPUTS:
            raise ValueError(f"output must be one of {OUTPUTS}; got {self.output!r}.")
        if self.output == "complex_to_real" and self.n_components % 2:
            raise ValueError(
                f"complex_to_real returns pairs of columns: n_components={self.n_components} must "
                f"be even; use {self.n_components + 1}."
            )
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
    def has_constant_norms(self) -> bool:
        return self.norms == "constant" or (self.norms == "auto" and self.projection == "sorf")

    @property
    def is_exact(self) -> bool:
        """Whether `bias` and `variance` are exact: "sorf" is only close to "orthogonal"."""
        return self.projection != "sorf"

    def sample(self, dimension: int, rng: np.random.Generator) -> FourierWeights:
        """Weights of one map on R^dimension."""
        radii = None
        if self.has_constant_norms:
            ambient = self.frequencies.ambient_dimension(dimension)
            radii = np.full(self.frequencies.n_frequencies, math.sqrt(ambient))
        frequencies = self.frequencies.sample(dimension, rng, radii)
        return FourierWeights(frequencies, rng.uniform(0, 2 * math.pi, int(self.has_phase)))

    def apply(
        self,
        X: Array,
        weights: FourierWeights,
        *,
        preprocess: Callable[[Array], Array] | None = None,
        scale: Any = 1.0,
        n_jobs: int | None = None,
    ) -> Array:  # (n, d) -> (n, n_components)
        """Features of all rows times `scale`, in chunks; `preprocess` maps rows to inputs."""
        prepared = FourierWeights(
            self.frequencies.prepare(weights.frequencies, X), like(weights.phase, X)
        )
        inputs = preprocess or (lambda rows: rows)
        scale = scale * self._scale
        width = max(X.shape[1], self.frequencies.n_frequencies)
        return map_rows(
            lambda rows: self._parts(inputs(rows), prepared, scale),
            X,
            "complex" if self.output == "complex" else "real",
            self.n_components,
            max(16, (1 << 23) // (8 * width)),
            write=lambda rows, out: self._write(inputs(rows), prepared, scale, out),
            n_jobs=n_jobs,
        )

    @property
    def _scale(self) -> float:
        return math.sqrt((1 if self.output == "complex" else 2) / self.n_components)

    def _parts(self, X: Array, weights: FourierWeights, scale: Any) -> Parts:
        angles = self.frequencies.apply(X, weights.frequencies)
        xp = namespace(angles)
        if self.output == "complex":
            return scale * xp.cos(angles), scale * xp.sin(angles)
        if not self.has_phase:
            return scale * join((xp.cos(angles), xp.sin(angles)), "complex_to_real"), None
        paired, last = angles[:, :-1], angles[:, -1:]
        columns = [xp.cos(paired), xp.sin(paired), xp.cos(last + weights.phase)]
        return scale * xp.concat(columns, axis=1), None

    def _write(self, X: Array, weights: FourierWeights, scale: Any, out: Parts) -> None:
        """`_parts` of NumPy or CSR rows, straight into views of the result."""
        angles = self.frequencies.apply(X, weights.frequencies)
        n_pairs = self.frequencies.n_frequencies - self.has_phase
        real, imaginary = out
        if imaginary is None:
            real, imaginary = out[0][:, :n_pairs], out[0][:, n_pairs : 2 * n_pairs]
        np.cos(angles[:, :n_pairs], out=real)
        np.sin(angles[:, :n_pairs], out=imaginary)
        if self.has_phase:
            np.cos(angles[:, -1:] + weights.phase, out=out[0][:, -1:])
        for part in out:
            if part is not None:
                part *= scale

    def variance(
        self, squared_distance: Any, dimension: int, *, part: str | None = None
    ) -> np.ndarray:
        """Variance of k̂(x, y) from |x − y|² (an array of any shape), on the host.

        With k = exp(−|x − y|²/2), one frequency of random norm has the variance (1 − k²)²/2 (the
        real part) or 1 − k² (the complex value), two of one block the covariance c of
        `orthogonal_covariance`; D frequencies in blocks of d give (variance + (d − 1) c)/D, and
        an incomplete last block counts as it is. The phase of an odd last column adds 1/(2 D²).
        For constant norms, m(a) = E cos(a ωᵀ(x − y)) takes the place of k: (1 + m(2))/2 − m(1)²
        or 1 − m(1)², and c = m(√2) − m(1)².

        `part` is "real" for Re k̂ (the default but for output="complex") or "complex". For "sorf"
        this is the expression for orthogonal frequencies in R^p: an approximation, as good as
        docs/fourier.md tells; `measured_squared_error` measures it.
        """
        part = part or ("complex" if self.output == "complex" else "real")
        if part not in ("real", "complex"):
            raise ValueError(f'part must be "real" or "complex"; got {part!r}.')
        s = np.asarray(squared_distance, dtype=np.float64)
        ambient = self.frequencies.ambient_dimension(dimension)
        share = np.full(self.frequencies.n_frequencies, self._scale**2)
        if self.has_phase:
            share[-1] /= 2
        squares, pairs = self.frequencies.pair_sums(share, dimension)
        if self.has_constant_norms:
            square = sphere_mean_cosine(s, ambient) ** 2
            double_angle = sphere_mean_cosine(4 * s, ambient)
            single = 1 - square if part == "complex" else (1 + double_angle) / 2 - square
            total = squares * single + pairs * (sphere_mean_cosine(2 * s, ambient) - square)
        else:
            loss = -np.expm1(-s)  # 1 − k²
            total = squares * (loss if part == "complex" else loss**2 / 2)
            if pairs:
                total = total + pairs * orthogonal_covariance(s / 2, ambient, sign=-1)
        return np.maximum(total + self.has_phase * share[-1] ** 2 / 2, 0)

    def bias(self, squared_distance: Any, dimension: int) -> np.ndarray:
        """E[k̂] − k from |x − y|²: zero for random norms; for "sorf" an approximation."""
        s = np.asarray(squared_distance, dtype=np.float64)
        if not self.has_constant_norms:
            return np.zeros_like(s)
        return sphere_mean_cosine(s, self.frequencies.ambient_dimension(dimension)) - np.exp(-s / 2)

    def expected_squared_error(
        self, squared_distance: Any, dimension: int, *, part: str | None = None
    ) -> np.ndarray:
        """E|k̂ − k|² = variance + bias²."""
        variance = self.variance(squared_distance, dimension, part=part)
        return variance + self.bias(squared_distance, dimension) ** 2

    def measured_squared_error(
        self,
        X: np.ndarray,
        Y: np.ndarray | None = None,
        *,
        n_draws: int = 100,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:  # (n, d), (m, d) -> (n, m), (n, m)
        """E|k̂ − k|² between rows of X and of Y over `n_draws` maps, and its standard error.

        It needs no formula, where `expected_squared_error` is only an approximation: for "sorf".
        """
        Y = X if Y is None else Y
        kernel = Gaussian(lengthscale=1.0)(X, Y)
        total, squares = np.zeros_like(kernel), np.zeros_like(kernel)
        for _ in range(n_draws):
            weights = self.sample(X.shape[1], rng)
            Z, V = self.apply(X, weights), self.apply(Y, weights)
            error = np.abs(Z @ V.conj().T - kernel) ** 2
            total += error
            squares += error**2
        mean = total / n_draws
        spread = np.maximum(squares / n_draws - mean**2, 0)
        return mean, np.sqrt(spread / max(n_draws - 1, 1))

    def cost(self, dimension: int) -> float:
        """About how many arithmetic operations the features of one row take."""
        return self.frequencies.cost(dimension) + 20.0 * 2 * self.frequencies.n_frequencies


def sphere_mean_cosine(squared_length: np.ndarray, dimension: int) -> np.ndarray:
    """E[cos(√d qᵀx)] over a uniform direction q, from |x|²: ₀F₁(; d/2; −d|x|²/4).

    Lengths above √1500, where the Gaussian kernel underflows, count as √1500.

    >>> sphere_mean_cosine(np.array([1.0]), 1) - np.cos(1)  # d = 1: q = ±1
    array([0.])
    """
    s = np.minimum(squared_length, 1500.0)
    return hyp0f1(dimension / 2, -dimension * s / 4)
