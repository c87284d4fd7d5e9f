"""Sums and products of kernels: `k1 + k2`, `k1 * k2` and `2.0 * k`.

Sums and products of kernels are kernels. Those of dot product kernels have a Maclaurin series again
if both see the same dot product up to a factor, ⟨s₂(x), s₂(y)⟩ = ρ ⟨s₁(x), s₁(y)⟩:

- a product has the weights w₁ w₂ and the Cauchy product of the series, b_n = Σ_k a_k ρⁿ⁻ᵏ c_{n−k};
- a sum has the series a_n + ρⁿ c_n, if the weights w₁ = w₂ are the same. (The Gaussian and the
  exponential kernel have the same series and different weights: their sum has no such form.)

All others can be evaluated, which is all that Nyström features and exact Gaussian processes need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays import ArrayT, FloatArray, host
from .base import DotProductKernel, Kernel, Pullback
from .maclaurin import Maclaurin


class Composite(Kernel):
    """A kernel made of others, its parts: what is asked of it is asked of them, in their order.

    It has no variance of its own. Parameters of the parts are `left__lengthscale`,
    `right__variance`, …
    """

    part_names: tuple[str, ...] = ("left", "right")

    def __init__(self, left: Kernel, right: Kernel):
        self.left = left
        self.right = right
        self.validate()

    def of(self, *parts: Any) -> Any:
        """The same of other parts."""
        return type(self)(*parts)

    def seen(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n, d')
        """What the parts see of rows X."""
        return X

    @property
    def parts(self) -> list[Any]:
        return [getattr(self, name) for name in self.part_names]

    def _each(self, change: Callable[[Any], Any]) -> Any:
        """The same of changed parts; itself if no part changes."""
        after = [change(part) for part in self.parts]
        same = all(new is old for new, old in zip(after, self.parts, strict=True))
        return self if same else self.of(*after)

    def validate(self) -> None:
        for name, part in zip(self.part_names, self.parts, strict=True):
            if not isinstance(part, Kernel):
                raise TypeError(f"{name} must be a kernel, such as Gaussian(); got {part!r}.")
            part.validate()

    @property
    def shift_invariant(self) -> bool:  # type: ignore[override]
        return all(part.shift_invariant for part in self.parts)

    @property
    def nonnegative(self) -> bool:  # type: ignore[override]
        return any(part.nonnegative for part in self.parts)

    @property
    def is_differentiable(self) -> bool:
        return any(part.is_differentiable for part in self.parts)

    def resolve(self, X: ArrayT) -> Any:
        return self._each(lambda part: part.resolve(self.seen(X)))

    def named(self, names: Any = None) -> Any:
        return self._each(lambda part: part.named(names))

    def detached(self) -> Any:
        return self._each(lambda part: part.detached())

    def per_column(self, dimension: int) -> Any:
        return self._each(lambda part: part.per_column(dimension))

    @property
    def logarithms(self) -> FloatArray:
        return np.concatenate([part.logarithms for part in self.parts])

    def with_logarithms(self, logarithms: FloatArray) -> Any:
        ends = np.cumsum([len(part.logarithms) for part in self.parts])[:-1]
        pieces = zip(self.parts, np.split(logarithms, ends), strict=True)
        return self.of(*(part.with_logarithms(piece) for part, piece in pieces))

    def search_range(self, X: FloatArray) -> FloatArray:
        return np.concatenate([part.search_range(self.seen(X)) for part in self.parts])


class Sum(Composite):
    """k(x, y) = left(x, y) + right(x, y); write `left + right`.

    >>> import numpy as np
    >>> from dotsketch import Gaussian, Matern
    >>> kernel = Gaussian(lengthscale=1.0) + 0.5 * Matern(1.5, lengthscale=2.0)
    >>> kernel.diag(np.eye(2))
    array([1.5, 1.5])
    >>> kernel.set_params(left__lengthscale=3.0)
    Gaussian(lengthscale=3.0) + Matern(lengthscale=2.0, variance=0.5)
    """

    def __call__(self, X: ArrayT, Y: ArrayT | None = None) -> ArrayT:
        return self.left(X, Y) + self.right(X, Y)

    def diag(self, X: ArrayT) -> ArrayT:
        return self.left.diag(X) + self.right.diag(X)

    def of(self, *parts: Any) -> Any:
        """left + right, which may be a dot product kernel, or no longer."""
        return add(*parts)

    def times(self, factor: Any) -> Any:
        return type(self)(self.left.times(factor), self.right.times(factor))

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:
        (K, left), (L, right) = self.left.with_pullback(X, Y), self.right.with_pullback(X, Y)
        return K + L, lambda M: np.concatenate([left(M), right(M)])

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        right = f"({self.right!r})" if isinstance(self.right, Sum) else repr(self.right)
        return f"{self.left!r} + {right}"


class Product(Composite):
    """k(x, y) = left(x, y) · right(x, y); write `left * right`.

    >>> from dotsketch import Gaussian, Polynomial
    >>> Gaussian() * (Polynomial(2) + Polynomial(3))
    Gaussian() * (Polynomial(degree=2) + Polynomial())
    """

    def __call__(self, X: ArrayT, Y: ArrayT | None = None) -> ArrayT:
        return self.left(X, Y) * self.right(X, Y)

    def diag(self, X: ArrayT) -> ArrayT:
        return self.left.diag(X) * self.right.diag(X)

    def of(self, *parts: Any) -> Any:
        """left · right, which may be a dot product kernel, or no longer."""
        return multiply(*parts)

    def times(self, factor: Any) -> Any:
        return type(self)(self.left.times(factor), self.right)

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:
        (K, left), (L, right) = self.left.with_pullback(X, Y), self.right.with_pullback(X, Y)
        return K * L, lambda M: np.concatenate([left(M * L), right(M * K)])

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        left = f"({self.left!r})" if isinstance(self.left, Sum) else repr(self.left)
        is_simple = not isinstance(self.right, (Sum, Product))
        return f"{left} * {self.right!r}" if is_simple else f"{left} * ({self.right!r})"


class DotProductComposite(Composite, DotProductKernel):
    """Two dot product kernels that see the same dot product up to the factor `ratio`."""

    left: DotProductKernel
    right: DotProductKernel

    @property
    def ratio(self) -> float:
        """ρ with ⟨s₂(x), s₂(y)⟩ = ρ ⟨s₁(x), s₁(y)⟩."""
        ratio = common_ratio(self.left, self.right)
        if ratio is None:
            raise ValueError(
                f"{self.left} and {self.right} see different dot products, which differ by more "
                "than a factor: give them the same lengthscales, or features of their own."
            )
        return ratio

    @property
    def metric(self) -> tuple[str, Any]:
        return self.left.metric

    @property
    def constants(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.get_params())  # of both: they decide the series and its ratio

    def scale(self, X: ArrayT) -> ArrayT:
        self.right.scale(X)
        return self.left.scale(X)

    def _right_series(self, max_degree: int) -> FloatArray:
        powers = self.ratio ** np.arange(max_degree + 1.0)
        return powers * self.right.coefficients(max_degree)


class DotProductSum(Sum, DotProductComposite):
    """The sum of two dot product kernels with the same weight, which is one as well.

    >>> from dotsketch import Exponential, Polynomial
    >>> kernel = Polynomial(2) + Exponential()
    >>> kernel.coefficients(3) * [1, 1, 2, 6]
    array([2., 3., 3., 1.])
    """

    def validate(self) -> None:
        super().validate()
        if not have_common_weight(self.left, self.right):
            raise ValueError(
                f"{self.left} and {self.right} have different weights: their sum has no Maclaurin "
                "series. Write left + right for their sum."
            )

    @property
    def decay(self) -> float:  # type: ignore[override]
        return self.left.decay

    def series(self, max_degree: int) -> FloatArray:
        return self.left.coefficients(max_degree) + self._right_series(max_degree)

    @property
    def last_degree(self) -> int | None:
        left, right = self.left.last_degree, self.right.last_degree
        return None if left is None or right is None else max(left, right)

    def profile(self, t: ArrayT) -> ArrayT:
        return self.left.profile(t) + self.right.profile(self.ratio * t)

    def value(self, t: ArrayT, log_weights: ArrayT) -> ArrayT:
        return self.left.value(t, log_weights) + self.right.value(self.ratio * t, log_weights)


class DotProductProduct(Product, DotProductComposite):
    """The product of two dot product kernels, which is one as well.

    >>> from dotsketch import Polynomial
    >>> (Polynomial(1) * Polynomial(2)).coefficients(4)
    array([1., 3., 3., 1., 0.])
    """

    @property
    def decay(self) -> float:  # type: ignore[override]
        return self.left.decay + self.ratio * self.right.decay

    def series(self, max_degree: int) -> FloatArray:
        left = self.left.coefficients(max_degree)
        return np.convolve(left, self._right_series(max_degree))[: max_degree + 1]

    @property
    def last_degree(self) -> int | None:
        left, right = self.left.last_degree, self.right.last_degree
        return None if left is None or right is None else left + right

    def profile(self, t: ArrayT) -> ArrayT:
        return self.left.profile(t) * self.right.profile(self.ratio * t)

    def value(self, t: ArrayT, log_weights: ArrayT) -> ArrayT:
        # Each kernel with its own part of the weight: profiles alone overflow for large norms
        share = self.left.decay / self.decay if self.decay else 1.0
        left = self.left.value(t, share * log_weights)
        return left * self.right.value(self.ratio * t, (1 - share) * log_weights)


def common_ratio(left: DotProductKernel, right: DotProductKernel) -> float | None:
    """The number ρ with ⟨s₂(x), s₂(y)⟩ = ρ ⟨s₁(x), s₁(y)⟩ for all rows; None if there is none.

    NaN as long as a lengthscale is to be set from data.
    """
    (kind, gamma), (other, delta) = left.metric, right.metric
    gamma, delta = np.ravel(host(gamma)).astype(float), np.ravel(host(delta)).astype(float)
    if kind != other or (len(gamma) != len(delta) and 1 not in (len(gamma), len(delta))):
        return None
    if np.isnan(gamma).all() and np.isnan(delta).all():
        return 1.0  # both are set to the same
    ratios = delta / gamma
    # quotients of equal lengthscales differ by rounding
    return None if np.ptp(ratios) > 1e-12 * np.max(ratios) else float(ratios[0])


def have_common_weight(left: DotProductKernel, right: DotProductKernel) -> bool:
    """Whether w₁ = w₂, which is exp(−decay |s(x)|²) for every kernel."""
    if left.decay == 0 or right.decay == 0:
        return left.decay == right.decay
    ratio = common_ratio(left, right)
    return ratio is not None and abs(left.decay - ratio * right.decay) <= 1e-12 * left.decay


def add(left: Kernel, right: Kernel) -> Composite:
    """left + right, as a dot product kernel if it is one."""
    if _share_dot_product(left, right) and have_common_weight(left, right):
        return DotProductSum(left, right)
    return Sum(left, right)


def multiply(left: Kernel, right: Kernel) -> Composite:
    """left · right, as a dot product kernel if it is one."""
    return (DotProductProduct if _share_dot_product(left, right) else Product)(left, right)


def _share_dot_product(left: Kernel, right: Kernel) -> bool:
    return (
        isinstance(left, DotProductKernel)
        and isinstance(right, DotProductKernel)
        and common_ratio(left, right) is not None
    )


def multiple(kernel: Kernel, factor: Any) -> Composite:
    """factor · kernel, for a kernel without a variance: its product with a constant."""
    return multiply(kernel, Maclaurin([1.0], variance=factor))


Kernel.sum_of, Kernel.product_of = staticmethod(add), staticmethod(multiply)
Kernel.multiple_of = staticmethod(multiple)
