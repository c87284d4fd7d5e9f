"""Description → design → weights → apply: what every family of features is made of.

An estimator's parameters are the description. `FeatureMap.design(study)` is what the data decide: a
`Design`, a frozen value that has drawn nothing. `sample` draws its weights, and `apply` evaluates
them, a pure function of rows and weights. With k̂(x, y) = z(x) · conj z(y),

    E k̂ = k + bias,    E|k̂ − E k̂|² = variance,

both known in closed form for most families before anything is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np

from .._arrays import OUTPUTS, Array, ArrayT, host, is_traced
from .._backends import Prepared
from .._support.parameters import check_even, one_of, positive_integer
from .._support.stored import MOST_COLUMNS, Count

if TYPE_CHECKING:
    from .study import Study


class Unsuited(ValueError):
    """The features do not suit the kernel, the data, or the number of columns; it says why."""


@dataclass(frozen=True, eq=False)
class Design:
    """What the data decide of a feature map.

    Parameters
    ----------
    kernel : Kernel, with its parameters resolved; gradients may flow to them
    dimension : d, the number of inputs
    n_components : D ≥ 1, the number of columns that are returned
    output : "real", "complex" or "complex_to_real"
    """

    outputs: ClassVar[tuple[str, ...]] = OUTPUTS
    kernel: Any
    dimension: int
    n_components: Annotated[int, Count(MOST_COLUMNS)]
    output: str = "real"

    def __post_init__(self) -> None:
        D = positive_integer("n_components", self.n_components)
        object.__setattr__(self, "n_components", D)
        one_of("output", self.output, self.outputs)
        if self.output == "complex_to_real":
            check_even(D, "complex_to_real returns pairs of columns")

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles have the fields, not what was computed from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    # -- what a family defines -------------------------------------------------------------------

    @property
    def cost(self) -> float:
        """About how many arithmetic operations the features of one row take."""
        raise NotImplementedError

    @property
    def weight_bytes(self) -> float:
        """About how much memory the weights take: eight bytes for every two operations."""
        return 4.0 * self.cost

    def sample(self, rng: np.random.Generator, rows: Array | None = None) -> Any:
        """Random weights: named tuples of NumPy arrays. Landmarks are chosen from `rows` (n, d)."""
        raise NotImplementedError

    def check_weights(self, weights: Any) -> None:
        """Raise ValueError unless `sample` could have drawn these weights."""
        raise NotImplementedError

    def prepare(self, weights: Any, rows: Array) -> Prepared:
        """The weights as a function of chunks of rows like these."""
        raise NotImplementedError

    # What the prepared weights take, from a chunk of rows; None: the rows themselves
    inputs: ClassVar[Any] = None

    def cautions(self, study: Study) -> Iterator[str]:
        """What a fit warns of: features that represent next to nothing of the kernel."""
        kernel, rows = self.kernel, study.few_rows
        if len(rows) and hasattr(kernel, "lengthscale") and not is_traced(kernel.lengthscale):
            lengthscale = np.asarray(host(kernel.lengthscale), dtype=np.float64)
            inputs = rows if self.inputs is None else np.asarray(self.inputs(rows))
            with np.errstate(over="ignore", invalid="ignore", under="ignore"):
                if lengthscale.ndim == 0:
                    yield from uneven(inputs)
                if share_of_near_pairs(np.unique(inputs, axis=0) / lengthscale) <= 1e-3:
                    yield (
                        f"{kernel} is nearly zero between all pairs of different rows, or almost "
                        "all: they are many lengthscales apart, its matrix is close to the "
                        "identity, and its features are zero or noise. Use a larger lengthscale "
                        "(Gaussian() takes the median distance), or scale X down."
                    )

    def checked(self, Z: ArrayT, X: Array) -> ArrayT:
        """The features Z of rows X, unless they left the range of their dtype."""
        return Z

    # -- closed forms ----------------------------------------------------------------------------

    has_formula = False  # whether `variance` and `bias` are exact; otherwise errors are measured

    def variance(self, A: np.ndarray, B: np.ndarray, part: str) -> np.ndarray:
        """Of k̂ between rows (n, d) and (m, d), in float64; of its real part, or ("complex") of k̂
        itself."""
        raise NotImplementedError(f"The variance of {type(self).__name__} has no closed form.")

    def bias(self, A: np.ndarray, B: np.ndarray) -> np.ndarray:  # (n, d), (m, d) -> (n, m)
        """E k̂ − k."""
        return np.zeros((len(A), len(B)))

    def expected_diagonal(self, rows: Array, Z: Array) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """E k̂(x, x) on the host; |z(x)|² stands in for it where no better expression is known."""
        return squared_norms(host(Z))

    # -- what every family shares ----------------------------------------------------------------

    @cached_property
    def is_differentiable(self) -> bool:
        """Whether gradients may flow to parameters of the kernel."""
        return bool(self.kernel.is_differentiable)

    @property
    def n_projections(self) -> int:
        """Complex columns count once where they are returned as pairs."""
        return self.n_components // (2 if self.output == "complex_to_real" else 1)

    @property
    def part(self) -> str:
        """Whose variance a user sees: that of the complex value, or of its real part."""
        return "complex" if self.output == "complex" else "real"

    @property
    def n_rows_wanted(self) -> int:
        """How many rows `sample` would look at; 0 if it looks at none."""
        return 0

    def for_rows(self, n_rows: int) -> Self:
        """The design that is possible with so many rows: landmarks may have to be fewer."""
        return self

    def apply(
        self, X: ArrayT, weights: Any, n_jobs: int | None = None
    ) -> ArrayT:  # (n, d) -> (n, n_components)
        """The features of all rows, chunk by chunk, in the library, dtype and device of X."""
        with np.errstate(over="ignore", invalid="ignore"):  # `checked` raises
            prepared = self.prepare(weights, X)
            Z = prepared.map(X, self.output, self.n_projections, self.inputs, n_jobs)
            return self.checked(Z, X)


def squared_norms(Z: np.ndarray) -> np.ndarray:  # (n, D) -> (n,)
    """|z|² of every row, in float64."""
    return np.asarray(np.sum(np.abs(Z) ** 2, axis=1, dtype=np.float64))


def share_of_near_pairs(rows: np.ndarray) -> float:  # (n, d), different rows over lengthscales
    """The share of pairs of rows whose kernel is not zero relative to the diagonal.

    k(x, y) / √(k(x, x) k(y, y)) = exp(−|x − y|²/2) for the Gaussian and the exponential kernel, so
    that rows more than 5.3 lengthscales apart are not near.
    """
    S = rows - rows.mean(axis=0)
    squares = np.sum(S * S, axis=1)
    distances = squares[:, None] + squares - 2 * (S @ S.T)
    return float(np.mean(np.exp(-distances[np.triu_indices(len(S), 1)] / 2) > 1e-6))


def uneven(rows: np.ndarray) -> Iterator[str]:  # (n, d)
    """What to warn of if scales of inputs differ by orders of magnitude, and the kernel has one
    lengthscale: distances are those of the largest.

    Inputs that have one value in half of the rows say little about a scale (pixels at the edge,
    categories as 0 and 1).
    """
    scales = np.std(rows, axis=0)
    varied = np.mean(rows == np.median(rows, axis=0), axis=0) < 0.5
    used = np.flatnonzero(varied & (scales > 0) & np.isfinite(scales))
    order = used[np.argsort(scales[used])]
    if len(used) > 1 and scales[order[-1]] > 100 * scales[order[0]]:
        yield (
            f"The scales of the columns differ by orders of magnitude (the standard deviation of "
            f"column {order[-1]} is {scales[order[-1]]:.2g}, that of column {order[0]} "
            f"{scales[order[0]]:.2g}), and the kernel has one lengthscale for all: columns with "
            "small scales hardly count. Standardise them, as in make_pipeline(StandardScaler(), "
            "...), or give one lengthscale per column."
        )
