"""A kernel as a sum of powers of one dot product, each with a weight of its own.

    k(x, y) ≈ Σ_b ω_b(x) ω_b(y) ⟨u(x), u(y)⟩^{n_b},   |u| = 1 (or 0)

A block b has a degree n_b ≥ 0 and a weight function ω_b. The Maclaurin series is one expansion
(one block a degree); the split along the mean direction is another. The directions u are
normalised and the weights computed in logarithms, ω_n(x) = √a_n w(x) |s(x)|ⁿ, so that no norm and
no lengthscale overflows: for the Gaussian kernel ω_n² is the Poisson weight of |x/l|².
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from scipy.special import gammaln

from ..._arrays import Array, like, namespace, square_root
from ..._support.stored import MOST_DEGREE, Count, array, stored
from ...kernels import DotProductKernel, ExpandedKernel, directions
from ..errors import OVERFLOW
from .eigenfunctions import EigenExpansion, Inputs, mean_direction


@stored
@dataclass(frozen=True)
class MaclaurinExpansion:
    """The Maclaurin series, one block for every degree with a_n > 0."""

    keeps_sparse: ClassVar[bool] = False  # whether `inputs` takes CSR rows and returns some
    kernel: DotProductKernel
    degrees: Annotated[tuple[int, ...], Count(MOST_DEGREE)]
    # what a shift-invariant kernel subtracts first
    mean: Annotated[np.ndarray | None, array("f", "d")] = None

    @classmethod
    def of(
        cls, kernel: DotProductKernel, max_degree: int, mean: np.ndarray | None = None
    ) -> MaclaurinExpansion:
        degrees = np.flatnonzero(kernel.series(max_degree) > 0)
        return cls(kernel, tuple(degrees.tolist()), mean)

    def inputs(self, X: Array, blocks: Sequence[int] | None = None) -> Inputs[np.ndarray]:  # (n, d)
        """What the expansion makes of rows; the weights of these blocks only, if some are given."""
        used = self.degrees if blocks is None else [self.degrees[b] for b in blocks]
        S = self.kernel.scale(X if self.mean is None else X - like(self.mean, X))
        unit, radius = directions(S)
        log_weight = self.kernel.log_weight(S)
        logs = np.log(self.kernel.series(max(self.degrees))[list(used)])
        xp = namespace(X)
        log_radius = xp.log(xp.where(radius > 0, radius, xp.ones_like(radius)))
        powers = like(np.array(used, dtype=float), X)
        exponent = like(logs, X)[None, :] / 2 + log_weight[:, None]
        exponent = exponent + powers[None, :] * log_radius[:, None]
        # A zero row has u = 0, so its weight of a positive degree does not matter
        weights = square_root(self.kernel.variance) * xp.exp(exponent)
        return Inputs(unit, weights, radius, None, log_weight)


@stored
@dataclass(frozen=True)
class MeanSplitExpansion:
    """The series in x_⊥·y_⊥ after the part along the mean direction m is split off.

    With x = α m + x_⊥, (αα' + x_⊥·y_⊥)ⁿ summed over n gives Σ_j κ_j(α, α') (x_⊥·y_⊥)ʲ with
    κ_j(α, α') = Σ_n a_{n+j} C(n+j, j) (αα')ⁿ, a kernel of one variable. It is written in its
    eigenfunctions over the data, of which one or two are enough when α varies little: every
    eigenfunction kept is a block. Only x_⊥ is sketched, which is small for raw nonnegative data.
    """

    keeps_sparse: ClassVar[bool] = False  # whether `inputs` takes CSR rows and returns some
    kernel: DotProductKernel
    direction: Annotated[np.ndarray, array("f", "d")]  # unit
    degrees: Annotated[tuple[int, ...], Count(MOST_DEGREE)]
    # φ_b(α) = Σ_n functions[b, n] (α/reach)ⁿ
    functions: Annotated[np.ndarray, array("f", "blocks", "n")]
    reach: float

    @classmethod
    def fit(
        cls,
        kernel: DotProductKernel,
        max_degree: int,
        X: np.ndarray,
        *,
        share: float = 1e-3,
    ) -> MeanSplitExpansion:
        """Eigenfunctions on the rows of X that carry more than `share` of their degree."""
        S = kernel.scale(X)
        direction = mean_direction(S)
        alpha = S @ direction
        radius = np.linalg.norm(S - alpha[:, None] * direction, axis=1)
        reach = float(np.abs(alpha).max()) or 1.0
        weight = np.exp(kernel.log_weight(S))
        last = kernel.last_degree
        n_series = max_degree + 40 if last is None else max(last, max_degree)
        with np.errstate(divide="ignore"):
            log_a = np.log(kernel.series(n_series))
        degrees, functions = [], []
        powers = (alpha / reach)[:, None] ** np.arange(n_series + 1)
        for degree in range(max_degree + 1):
            n = np.arange(n_series + 1 - degree)
            log_binomial = gammaln(n + degree + 1.0) - gammaln(n + 1.0) - gammaln(degree + 1.0)
            # in logarithms: 0 · ∞ where the series has ended
            roots = np.exp((log_a[degree:] + log_binomial) / 2 + n * math.log(reach))
            values = powers[:, : len(n)] * roots * (weight * radius**degree)[:, None]
            gram = values.T @ values
            if not np.all(np.isfinite(gram)):
                raise ValueError(OVERFLOW)
            eigenvalues, vectors = np.linalg.eigh(gram)
            # a block of degree 0 costs one exact column: keep more of them
            least = (share**2 if degree == 0 else share) * eigenvalues[-1]
            for k in np.flatnonzero(eigenvalues > max(least, 0))[::-1]:
                sign = 1.0 if np.sum(values @ vectors[:, k]) >= 0 else -1.0
                degrees.append(degree)
                functions.append(np.pad(sign * roots * vectors[:, k], (0, degree)))
        return cls(kernel, direction, tuple(degrees), np.array(functions), reach)

    def inputs(self, X: Array, blocks: Sequence[int] | None = None) -> Inputs[np.ndarray]:
        used = list(range(len(self.degrees)) if blocks is None else blocks)
        S = self.kernel.scale(X)
        xp = namespace(X)
        direction = like(self.direction, X)
        alpha = S @ direction
        unit, radius = directions(S - alpha[:, None] * direction[None, :])
        log_weight = self.kernel.log_weight(S)
        place = (alpha / self.reach)[:, None]
        functions = like(self.functions[used], X)
        weights = 0 * place
        for n in reversed(range(functions.shape[1])):  # Horner's rule: JAX has no gradient of 0⁰
            weights = weights * place + functions[None, :, n]
        degrees = like(np.array(self.degrees, dtype=float)[used], X)
        # where u = 0 the weight of a positive degree does not matter, but for gradients
        length = xp.where(radius > 0, radius, xp.ones_like(radius))
        scale = length[:, None] ** degrees[None, :] * xp.exp(log_weight)[:, None]
        scale = scale * square_root(self.kernel.variance)
        return Inputs(unit, weights * scale, radius, alpha, log_weight)


Expansion = MaclaurinExpansion | MeanSplitExpansion | EigenExpansion


def expand(
    kernel: ExpandedKernel,
    max_degree: int,
    sample: np.ndarray,
    mean: np.ndarray,
    *,
    mean_split: bool = False,
) -> Expansion:
    """The expansion of a resolved kernel, for data with that sample (m, d) and mean (d,)."""
    if not kernel.has_terms(max_degree):
        raise ValueError(
            f"{kernel} has no term up to max_degree={max_degree}: raise max_degree to its first."
        )
    if not isinstance(kernel, DotProductKernel):  # its coefficients depend on both rows
        return EigenExpansion.fit(kernel, max_degree, sample, mean_split=mean_split)
    if kernel.shift_invariant:  # centred data have no mean to split off
        return MaclaurinExpansion.of(kernel, max_degree, mean)
    if mean_split:
        split = MeanSplitExpansion.fit(kernel, max_degree, sample)
        if split.degrees:  # none where the kernel is zero on the sample
            return split
    return MaclaurinExpansion.of(kernel, max_degree)
