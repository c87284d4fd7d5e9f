"""The contract of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator

from .._arrays import ArrayT, FloatArray, dense, host, is_foreign, is_traced, namespace, plain
from .inputs import matching, row_squares, zero_per_row

# Of the products of entries in a product of two matrices: where more are not zero, dense matrices
# are faster
MOST_SHARED = 0.01

# The gradient of a number f with respect to the logarithms of the searched parameters, from the
# matrix ∂f/∂K, symmetric if K is
Pullback = Callable[[FloatArray], FloatArray]  # (n, m) -> (number of logarithms,)


class Kernel(BaseEstimator):
    """A positive definite function of two rows, with scikit-learn's protocol of parameters.

    A subclass needs `__call__` and `diag`; Nyström features, exact Gaussian processes and plans
    then take it. Methods take arrays of any library: X (n, d), Y (m, d). A parameter `variance`
    multiplies the kernel. A search of other parameters needs `searched`, `range_of` and
    `with_pullback`. The guide "Kernels" has an example.
    """

    shift_invariant = False  # whether k(x + c, y + c) = k(x, y): inputs may then be centred
    nonnegative = False  # whether rows must be nonnegative: they must not be standardised
    searched: tuple[str, ...] = ()  # positive parameters that a search may change, variance last
    per_input: tuple[str, ...] = ()  # those that may have one value for every input
    rules: tuple[str, ...] = ()  # words for values that are set from data
    variance: Any = 1.0
    # Set by the modules of what these are: kernels themselves
    sum_of: ClassVar[Callable[[Any, Any], Any]]
    product_of: ClassVar[Callable[[Any, Any], Any]]
    multiple_of: ClassVar[Callable[[Any, Any], Any]]
    on_inputs: ClassVar[Callable[[Any, Any], Any]]

    def __call__(self, X: ArrayT, Y: ArrayT | None = None) -> ArrayT:  # (n, d), (m, d) -> (n, m)
        """The exact Gram matrix between the rows of X and of Y (X if None)."""
        raise self.lacks("__call__(X, Y=None)", "the Gram matrix between rows of X and Y")

    def diag(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n,)
        """k(x, x) for every row."""
        raise self.lacks("diag(X)", "k(x, x) for every row")

    def resolve(self, X: ArrayT) -> Any:
        """This kernel with parameters that depend on data (`"median"`) set from X."""
        by_rule = [name for name in self.per_input if isinstance(getattr(self, name), str)]
        return (
            self.changed(**{name: self.set_by_rule(name, X) for name in by_rule})
            if by_rule
            else self
        )

    def set_by_rule(self, name: str, X: ArrayT) -> Any:
        """The value of a parameter that is set from data by one of `rules`."""
        raise self.lacks("set_by_rule(name, X)", f"the value of {name!r} for rows X")

    def on(self, inputs: Any) -> Any:
        """This kernel of some inputs only: a number or name, or a list of them.

        Names are those of the columns of a data frame, which estimators see when they are fitted.

        >>> from dotsketch import Matern, Periodic
        >>> Matern().on(["x", "y"]) + Periodic(period=24.0).on("hour")
        Matern().on(['x', 'y']) + Periodic(period=24.0).on('hour')
        """
        return Kernel.on_inputs(self, inputs)

    def named(self, names: Any = None) -> Any:
        """This kernel with numbers in the place of the names of its inputs.

        `names` are those of all inputs, None if the rows have none.
        """
        return self

    # -- parameters that can be searched ---------------------------------------------------------

    @property
    def logarithms(self) -> FloatArray:
        """The logarithms of the searched parameters, one after the other."""
        values = [np.ravel(host(getattr(self, name))).astype(float) for name in self.searched]
        return np.log(np.concatenate([np.empty(0), *values]))

    def with_logarithms(self, logarithms: FloatArray) -> Any:
        """This kernel with other searched parameters, of the same shapes."""
        values = np.exp(logarithms)
        parameters: dict[str, Any] = {}
        for name in self.searched:
            shape = np.shape(host(getattr(self, name)))
            size = int(np.prod(shape))
            parameters[name] = values[:size].reshape(shape) if shape else float(values[0])
            values = values[size:]
        return self.changed(**parameters)

    def with_pullback(
        self, X: FloatArray, Y: FloatArray | None = None
    ) -> tuple[FloatArray, Pullback]:  # (n, d), (m, d) -> (n, m)
        """The Gram matrix between X and Y, and what takes derivatives from it to `logarithms`."""
        if self.searched not in ((), ("variance",)):
            raise self.lacks("with_pullback(X, Y=None)", f"which a search of {self.searched} needs")
        K = np.asarray(self(X, Y))
        return K, lambda M: np.full(len(self.searched), np.sum(M * K))

    def per_column(self, dimension: int) -> Any:
        """This kernel with one lengthscale for every column, where it has lengthscales."""
        return self

    def search_range(self, X: FloatArray) -> FloatArray:  # (n, d) -> (number of logarithms, 3)
        """Least, typical and greatest values of the logarithms for rows X.

        The variance is typically such that k(x, x) is 1 on average, as for targets that are
        normalised. It is the last of the parameters.
        """
        if not self.searched:
            return np.empty((0, 3))
        others = [np.log(self.range_of(name, X)) for name in self.searched[:-1]]
        typical = np.concatenate([*(part[:, 1] for part in others), [0.0]])
        level = float(np.mean(self.with_logarithms(typical).diag(X)))
        middle = -np.log(level) if 0 < level < np.inf else 0.0
        return np.concatenate([*others, middle + np.log([[1e-3, 1.0, 1e3]])])

    def range_of(self, name: str, X: FloatArray) -> FloatArray:  # (n, d) -> (size, 3)
        """Least, typical and greatest values of one searched parameter, not the variance."""
        raise self.lacks("range_of(name, X)", f"which a search of {name!r} needs")

    # -- sums, products and multiples ------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return Kernel.sum_of(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Kernel):
            return Kernel.product_of(self, other)
        return self.times(other) if np.ndim(host(other)) == 0 else NotImplemented

    def __rmul__(self, factor: Any) -> Any:
        return self * factor

    def times(self, factor: Any) -> Any:
        """The kernel times a positive number: this one with another variance."""
        check_number("the factor of a kernel", factor)
        if "variance" not in self._get_param_names():
            return Kernel.multiple_of(self, factor)
        return self.changed(variance=factor * self.variance)

    def changed(self, **parameters: Any) -> Any:
        """A copy with other values of these parameters."""
        return type(self)(**{**self.get_params(deep=False), **parameters})

    # -- plumbing --------------------------------------------------------------------------------

    @property
    def is_differentiable(self) -> bool:
        """Whether a parameter is an array of another library, which may have a gradient."""
        values = (v for v in vars(self).values() if not isinstance(v, (float, int, str)))
        return any(map(is_foreign, values))

    def _matching(self, X: ArrayT, Y: ArrayT | None) -> tuple[ArrayT, ArrayT | None]:
        """X and Y as floating arrays of one width; CSR if this is faster, and there are no
        gradients."""
        return matching(X, Y, most_shared=0.0 if self.is_differentiable else MOST_SHARED)

    def detached(self) -> Any:
        """This kernel with plain numbers for parameters."""
        parameters = self.get_params(deep=False)
        return type(self)(**{name: plain(host(value)) for name, value in parameters.items()})

    def validate(self) -> None:
        """Raise ValueError if a parameter has no meaning: those of a search are positive."""
        for name in self.searched:
            value = getattr(self, name)
            if not (isinstance(value, str) and value in self.rules):
                check_number(name, value, most_dimensions=int(name in self.per_input))

    def lacks(self, method: str, what: str) -> NotImplementedError:
        """What to raise where a subclass has left out what is needed."""
        return NotImplementedError(f"{type(self).__name__} needs a method {method}: {what}.")

    def set_params(self, **params: Any) -> Any:
        super().set_params(**params)
        self.validate()
        return self

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(np.array_equal(host(mine[k]), host(theirs[k])) for k in mine)

    def __hash__(self) -> int:
        values = self.get_params(deep=False).values()
        return hash((type(self), *(tuple(np.ravel(host(v)).tolist()) for v in values)))


class ExpandedKernel(Kernel):
    """k(x, y) = f(⟨s(x), s(y)⟩, p(x) + p(y)) with a Taylor series in its first argument.

    p is a number for every row, its trait. The coefficients of the series, c_j(t, p + p')
    (`taylor`), are positive definite functions of (√t, p), so that each is a sum of products of
    weights, ω(x) ω(y): an expansion of the kernel in powers of dot products.
    """

    searched: tuple[str, ...] = ("variance",)
    constants: tuple[str, ...] = ()  # parameters of the series, to which no gradient flows

    def scale(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n, d)
        """s(x), row by row."""
        return X

    def trait(self, S: ArrayT) -> ArrayT:  # (n, d) -> (n,)
        """p(x), row by row, from the scaled inputs S = s(x)."""
        raise self.lacks("trait(S)", "p(x) for every scaled row")

    def value(self, t: ArrayT, traits: ArrayT) -> ArrayT:
        """k(x, y) from t = s(x)·s(y) and p(x) + p(y)."""
        raise self.lacks("value(t, traits)", "the kernel from s(x)·s(y) and p(x) + p(y)")

    def taylor(self, degree: int, t: ArrayT, traits: ArrayT) -> ArrayT:
        """c_j(t, p + p') with f(t + τ, p + p') = variance · Σ_j c_j τʲ."""
        raise self.lacks("taylor(degree, t, traits)", "a coefficient of the series")

    @property
    def last_degree(self) -> int | None:
        """The degree at which the series ends, or None if it does not."""
        return None

    def has_terms(self, max_degree: int) -> bool:
        """Whether the series has a term up to this degree."""
        return True

    def __call__(self, X: ArrayT, Y: ArrayT | None = None) -> ArrayT:  # (n, d), (m, d) -> (n, m)
        X, Y = self._matching(X, Y)
        S = self.scale(X)
        T = S if Y is None else self.scale(Y)
        p = self.trait(S)
        q = p if Y is None else self.trait(T)
        return self.value(dense(S @ T.T), p[:, None] + q[None, :])


class DotProductKernel(ExpandedKernel):
    """k(x, y) = w(x) w(y) Σ_n a_n ⟨s(x), s(y)⟩ⁿ with a_n ≥ 0."""

    decay: float = 0.0  # log w(x) = −decay · |s(x)|²

    @property
    def metric(self) -> tuple[str, Any]:
        """What s does: ("rows", γ) if ⟨s(x), s(y)⟩ = Σ_k γ_k x_k y_k, for one γ or d of them.

        γ is NaN if it is still to be set from data. ("directions", 1.0) are rows over their norms.
        """
        raise self.lacks("metric", 'a property, such as "rows", 1.0, what `scale` does')

    def trait(self, S: ArrayT) -> ArrayT:
        """log w(x): the weight of a pair depends on the sum of both."""
        return self.log_weight(S)

    def has_terms(self, max_degree: int) -> bool:
        return bool(np.any(self.series(max_degree) > 0))

    def log_weight(self, S: ArrayT) -> ArrayT:  # (n, d) -> (n,)
        """log w(x), row by row, from the scaled inputs S = s(x)."""
        if self.decay == 0:
            return zero_per_row(S)
        return -self.decay * row_squares(S)

    def weight(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n,)
        """w(x), row by row."""
        return namespace(X).exp(self.log_weight(self.scale(X)))

    def series(self, max_degree: int) -> FloatArray:  # -> (max_degree + 1,)
        """The Maclaurin coefficients of the kernel of variance 1."""
        raise self.lacks("series(max_degree)", "its Maclaurin coefficients at variance 1")

    def coefficients(self, max_degree: int) -> FloatArray:  # -> (max_degree + 1,)
        """The Maclaurin coefficients a_0 … a_max_degree."""
        return float(host(self.variance)) * self.series(max_degree)

    def profile(self, t: ArrayT) -> ArrayT:
        """Σ_n a_n tⁿ, summed in closed form."""
        raise self.lacks("profile(t)", "the sum of its series, variance · Σ a_n tⁿ")

    def value(self, t: ArrayT, log_weights: ArrayT) -> ArrayT:
        """k(x, y) from t = s(x)·s(y) and log w(x) + log w(y)."""
        return namespace(t).exp(log_weights) * self.profile(t)

    def diag(self, X: ArrayT) -> ArrayT:  # (n, d) -> (n,)
        X, _ = self._matching(X, None)
        S = self.scale(X)
        return self.value(row_squares(S), 2 * self.log_weight(S))


def check_number(
    name: str, value: Any, *, most_dimensions: int = 0, not_negative: str | None = None
) -> None:
    """Raise unless it is a positive number, or one that is `not_negative` for this reason."""
    strict = not_negative is None
    if type(value) in (int, float) and (0 < value < np.inf or (value == 0 and not strict)):
        return  # at once: `transform` asks this again for every batch
    if is_traced(value):
        return
    try:
        values = np.asarray(host(value) if hasattr(value, "shape") else value, dtype=float)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    if not np.all(np.isfinite(values)) or np.any(values < 0) or (strict and np.any(values == 0)):
        kind, why = ("positive", "") if strict else ("nonnegative", f": {not_negative}")
        raise ValueError(f"{name} must be a {kind} number; got {value!r}{why}.")
    if values.ndim > most_dimensions:
        or_more = " or one for every feature" if most_dimensions else ""
        raise ValueError(f"{name} must be one number{or_more}; got shape {values.shape}.")
