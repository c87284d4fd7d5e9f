"""How a budget of projections is spread over the degrees of an expansion.

The mean squared error over pairs of data is, for coefficients θ_b (1 is the Taylor coefficient)
and projections D_b of every block b,

    E (k − Σ_b θ_b t_b)² + Σ_b θ_b² V_b(D_b),    t_b = ω_b(x) ω_b(y) ⟨u(x), u(y)⟩^{n_b},

squared bias plus variance. `ExpansionMoments` holds the averages that this depends on;
`search.allocate` minimises it over the truncation, the projections, and (if asked) the
coefficients, without looking at the data again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.optimize import nnls

from ..._support.stored import array, stored
from ..errors import relative_error
from .moments import ExpansionMoments


@stored
@dataclass(frozen=True)
class Allocation:
    """Blocks with their degree, projections, coefficient and share of the error.

    `coefficients` multiply the Taylor coefficients: 1 throughout unless they were fitted or the
    degrees drawn at random. `exact` marks blocks that are written out in monomials.
    """

    degrees: Annotated[np.ndarray, array("iu", "blocks")]
    projections: Annotated[np.ndarray, array("iu", "blocks")]
    coefficients: Annotated[np.ndarray, array("f", "blocks")]
    exact: Annotated[np.ndarray, array("b", "blocks")]
    variances: Annotated[np.ndarray, array("f", "blocks")]
    squared_bias: float
    kernel_square: float
    unused: int = 0  # projections that nothing is left to spend on: zero columns

    @property
    def variance(self) -> float:
        return float(self.variances.sum())

    @property
    def expected_squared_error(self) -> float:
        """Mean of E(k − k̂)² over pairs of distinct rows."""
        return self.squared_bias + self.variance

    @property
    def expected_relative_error(self) -> float:
        """√(E(k − k̂)² / E k²): the relative Frobenius error to expect."""
        return relative_error(self.expected_squared_error, self.kernel_square)

    @property
    def max_degree(self) -> int:
        return int(self.degrees[self.projections > 0].max(initial=0))

    def to_dict(self) -> dict[str, list[Any]]:
        """The table by columns."""
        share = self.variances / (self.expected_squared_error or 1.0)
        return {
            "degree": self.degrees.tolist(),
            "projections": self.projections.tolist(),
            "coefficient": self.coefficients.tolist(),
            "exact": self.exact.tolist(),
            "share_of_error": share.tolist(),
        }

    def __repr__(self) -> str:
        lines = ["degree  projections  coefficient  share of error"]
        for n, D, theta, exact, share in zip(*self.to_dict().values(), strict=True):
            if D == 0:
                continue
            note = "  exact" if exact else ""
            lines.append(f"{n:6d}  {D:11d}  {theta:11.4g}  {share:14.1%}{note}")
        bias = self.squared_bias / (self.expected_squared_error or 1.0)
        lines.append(f"truncation bias: {bias:.1%} of the squared error")
        lines.append(f"expected relative error: {self.expected_relative_error:.4g}")
        return "\n".join(lines)


def evaluate(
    moments: ExpansionMoments,
    projections: np.ndarray,
    exact: np.ndarray,
    coefficients: np.ndarray | None = None,
) -> Allocation:
    """The predicted error of given projections (0 leaves a block out) and coefficients."""
    used = projections > 0
    theta = used * (1.0 if coefficients is None else coefficients)
    sketched = used & ~exact & (moments.degrees > 0)
    variances = np.zeros(len(projections))
    for b in np.flatnonzero(sketched).tolist():
        variances[b] = theta[b] ** 2 * moments.variance(b, int(projections[b]))
    return Allocation(
        degrees=moments.degrees,
        projections=projections,
        coefficients=theta,
        exact=exact,
        variances=variances,
        squared_bias=moments.squared_bias(theta),
        kernel_square=moments.kernel_square,
    )


def highest_exact(moments: ExpansionMoments, exact: bool | int) -> int:
    """The largest degree that may be written out."""
    if isinstance(exact, (bool, np.bool_)):
        return int(moments.degrees.max()) if exact else 0
    return int(exact)


def fitted_coefficients(
    moments: ExpansionMoments, projections: np.ndarray, exact: np.ndarray
) -> np.ndarray:
    """argmin over θ ≥ 0 of the squared error: nonnegative least squares, diagonal penalty."""
    used = np.flatnonzero(projections > 0).tolist()
    if not used:
        return np.zeros(len(projections))
    variances = np.array(
        [
            0.0 if exact[b] or moments.degrees[b] == 0 else moments.variance(b, int(projections[b]))
            for b in used
        ]
    )
    quadratic = moments.gram[np.ix_(used, used)] + np.diag(variances)
    linear = moments.gram[used].sum(axis=1) + moments.tail[used]
    scale = 1 / np.sqrt(np.maximum(np.diag(quadratic), np.finfo(float).tiny))
    quadratic = scale[:, None] * quadratic * scale
    theta = np.zeros(len(projections))
    for jitter in (0.0, 1e-14, 1e-12, 1e-10):
        try:
            L = cholesky(quadratic + jitter * np.eye(len(used)), lower=True)
        except LinAlgError:
            continue
        target = solve_triangular(L, scale * linear, lower=True)
        theta[used] = scale * nnls(L.T, target)[0]
        return theta
    theta[used] = 1.0  # as good as singular: the Taylor coefficients
    return theta


def random_projections(
    degrees: np.ndarray, budget: int, base: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Kar and Karnick: degrees n ≥ 1 drawn with probability ∝ base^−(n+1).

    Returns the projections of every block and the coefficients D_n/(D μ(n)) that make the
    approximation unbiased for the series up to the largest degree.
    """
    constant = degrees == 0
    measure = np.where(degrees > 0, float(base) ** -(degrees + 1.0), 0.0)
    if not measure.any():
        return constant.astype(int), np.where(constant, 1.0, 0.0)
    measure = measure / measure.sum()
    projections = rng.multinomial(budget, measure)
    theta = np.divide(projections, budget * measure, out=np.zeros(len(measure)), where=measure > 0)
    return projections + constant, np.where(constant, 1.0, theta)
