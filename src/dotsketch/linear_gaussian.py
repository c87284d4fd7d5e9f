"""Gaussian processes with finitely many features, as Bayesian linear regression.

The model: f(x) = Re z(x)ᴴ v with weights v ~ N(0, s I), and y_i = f(x_i) + ε_i, Var ε_i = 1/w_i.
The kernel of f is s Re k̂ with k̂(x, x') = z(x)ᵀ conj z(x'). Everything the data say is in

    M = Σ w_i z_i z_iᴴ (D, D),   Σ w_i z_i [y_i, 1] (D, m + 1),   Σ w_i [y_i, 1]ᵀ[y_i, 1]

which are sums over rows: they are computed in chunks, on many machines, and merged with `+`. From
there on nothing depends on the number of rows: with B = I + s M and B = L Lᴴ,

    v = s B⁻¹ Σ w_i z_i y_i,   Var f(x) = s |L⁻¹ z(x)|²   (Appendix D of the paper).

Data flow: Z, y, w → `SufficientStatistics` → `posterior` → `predict_mean`, `predict_variance`.
Sums and factors are in double precision, whatever the features are in.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any

import numpy as np
from array_api_compat import device, is_numpy_array

from . import _packed
from ._arrays import Array, double, host, namespace

JITTERS = (0.0, *(10.0**power for power in range(-15, -3)))


@dataclass
class SufficientStatistics:
    """What n rows of features Z and targets y (m columns) with weights w say about the weights v.

    `a + b` merges statistics of disjoint rows, `a - b` takes rows out, `update` adds rows in place.
    M = conj(ZᴴWZ) is kept by one triangle (see `_packed`); `gram()` gives ZᴴWZ in full.

    >>> import numpy as np
    >>> Z, y = np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([3.0, 5.0])
    >>> statistics = SufficientStatistics.of(Z[:1], y[:1]) + SufficientStatistics.of(Z[1:], y[1:])
    >>> statistics.n, statistics.gram()
    (2, array([[2., 2.],
           [2., 4.]]))
    """

    n: int
    second_moment: np.ndarray  # M, packed
    cross: np.ndarray  # (D, m + 1): Σ w z [y, 1]
    targets: np.ndarray  # (m + 1, m + 1): Σ w [y, 1]ᵀ[y, 1]
    plain: np.ndarray  # (2, m): Σ y and Σ y², without weights
    log_weights: float  # Σ log w

    @classmethod
    def zeros(
        cls, n_features: int, n_outputs: int, dtype: Any = np.float64
    ) -> SufficientStatistics:
        """The statistics of no rows; dtype float64 or complex128, as the features are."""
        return cls(
            0,
            _packed.zeros(n_features, dtype),
            np.zeros((n_features, n_outputs + 1), dtype=dtype),
            np.zeros((n_outputs + 1, n_outputs + 1)),
            np.zeros((2, n_outputs)),
            0.0,
        )

    @classmethod
    def of(
        cls, Z: Array, y: Array | None = None, weights: Array | None = None
    ) -> SufficientStatistics:
        """The statistics of the rows of Z (n, D) with targets y (n,), (n, m) or none."""
        Z = np.asarray(host(Z))
        m = 0 if y is None else 1 if np.ndim(y) == 1 else np.shape(y)[1]
        dtype = np.complex128 if np.iscomplexobj(Z) else np.float64
        statistics = cls.zeros(Z.shape[1], m, dtype)
        statistics.update(Z, y, weights)
        return statistics

    def update(self, Z: Array, y: Array | None = None, weights: Array | None = None) -> None:
        """Add rows in place: Z (n, D), y (n,) or (n, m) or None, weights (n,) or None for ones."""
        Z = np.asarray(host(Z))
        if Z.ndim != 2 or Z.shape[1] != self.n_features:
            raise ValueError(f"Rows of {self.n_features} features are expected; got {Z.shape}.")
        n, m = len(Z), self.n_outputs
        targets = np.empty((n, 0)) if y is None else np.asarray(host(y), dtype=np.float64)
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.shape != (n, m):
            raise ValueError(
                f"The targets have shape {targets.shape}; {n} rows of {m} outputs are expected."
            )
        Y = np.concatenate([targets, np.ones((n, 1))], axis=1)
        roots = None
        if weights is not None:
            weights = np.asarray(host(weights), dtype=np.float64)
            if weights.shape != (n,) or not np.all(weights > 0) or not np.all(np.isfinite(weights)):
                raise ValueError(
                    f"weights must be {n} positive numbers, one for every row; their shape is "
                    f"{weights.shape}."
                )
            roots = np.sqrt(weights)[:, None]
            Y = Y * roots
            self.log_weights += float(np.sum(np.log(weights)))
        for rows, part in _double_rows(Z, roots, self.cross.dtype):
            _packed.add_outer_products(self.second_moment, part)
            self.cross += part.T @ Y[rows]
        self.targets += Y.T @ Y
        self.plain += np.stack([targets.sum(axis=0), (targets**2).sum(axis=0)])
        self.n += n

    def __add__(self, other: SufficientStatistics) -> SufficientStatistics:
        return self._combined(other, 1)

    def __sub__(self, other: SufficientStatistics) -> SufficientStatistics:
        return self._combined(other, -1)

    def __radd__(self, other: int) -> SufficientStatistics:
        """For `sum(parts)`, which starts from zero."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def _combined(self, other: SufficientStatistics, sign: int) -> SufficientStatistics:
        if not isinstance(other, SufficientStatistics):
            return NotImplemented
        if self.cross.shape != other.cross.shape or self.cross.dtype != other.cross.dtype:
            raise ValueError(
                "Only statistics of the same features and outputs can be merged; got "
                f"{self.n_features} features ({self.cross.dtype}), {self.n_outputs} outputs and "
                f"{other.n_features} features ({other.cross.dtype}), {other.n_outputs} outputs."
            )
        mine, theirs = self.arrays(), other.arrays()
        return SufficientStatistics(**{name: mine[name] + sign * theirs[name] for name in mine})

    @property
    def n_features(self) -> int:
        return self.cross.shape[0]

    @property
    def n_outputs(self) -> int:
        return self.cross.shape[1] - 1

    def arrays(self) -> dict[str, Any]:
        """The fields by name, for saving."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def restored(cls, arrays: dict[str, Any]) -> SufficientStatistics:
        """The way back from `arrays`, also from a file of arrays."""
        return cls(**{**arrays, "n": int(arrays["n"]), "log_weights": float(arrays["log_weights"])})

    def gram(self) -> np.ndarray:  # -> (D, D)
        """ZᴴWZ in full."""
        lower = _packed.unpack(self.second_moment)
        return np.conj(lower + np.tril(lower, -1).conj().T)

    def means(self) -> np.ndarray:  # -> (m,)
        """The mean of every output; all rows count alike, whatever their weights."""
        return self.plain[0] / self.n

    def deviations(self) -> np.ndarray:  # -> (m,)
        """The standard deviation of every output."""
        return np.sqrt(np.maximum(self.plain[1] / self.n - self.means() ** 2, 0))

    def shifted(self, amounts: np.ndarray) -> SufficientStatistics:  # (m,)
        """The statistics of the targets y + amounts, of the same rows."""
        m = self.n_outputs
        shift = np.eye(m + 1)  # [y + amounts, 1] = [y, 1] shift
        shift[m, :m] = amounts
        plain = np.stack(
            [
                self.plain[0] + self.n * amounts,
                self.plain[1] + 2 * amounts * self.plain[0] + self.n * amounts**2,
            ]
        )
        return replace(
            self,
            second_moment=self.second_moment.copy(),  # `update` writes into it
            cross=self.cross @ shift,
            targets=shift.T @ self.targets @ shift,
            plain=plain,
        )

    def centred(
        self, means: np.ndarray, scales: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:  # (m,), (m,) -> (D, m), (m,)
        """Σ w z y' and Σ w y'² of the targets y' = (y − mean) / scale."""
        m = self.n_outputs
        T = self.targets
        cross = (self.cross[:, :m] - self.cross[:, m:] * means) / scales
        squares = np.diag(T)[:m] - 2 * means * T[:m, m] + means**2 * T[m, m]
        return cross, np.maximum(squares, 0) / scales**2


def _double_rows(
    Z: np.ndarray, roots: np.ndarray | None, dtype: Any
) -> Iterator[tuple[slice, np.ndarray]]:  # (n, D), (n, 1)
    """Rows of Z in double precision, times the roots of their weights; no copy if none is needed.

    Copies go through one buffer of 16 MB: fresh memory for all rows would cost a fifth of the time.
    """
    if roots is None and Z.dtype == dtype and Z.flags.c_contiguous:
        yield slice(None), Z
        return
    step = max((1 << 24) // (Z.shape[1] * np.dtype(dtype).itemsize), 64)
    buffer = np.empty((min(step, len(Z)), Z.shape[1]), dtype=dtype)
    for start in range(0, len(Z), step):
        rows = slice(start, min(start + step, len(Z)))
        part = buffer[: rows.stop - start]
        np.copyto(part, Z[rows])
        if roots is not None:
            part *= roots[rows]
        yield rows, part


@dataclass(frozen=True)
class Posterior:
    """The weights after the data: mean v (D, m) and covariance s B⁻¹, B = L Lᴴ."""

    factor: np.ndarray  # L, packed
    mean: np.ndarray  # v, (D, m)
    prior_variance: float
    jitter: float  # what was added to the diagonal of B, relative to its mean

    @property
    def log_determinant(self) -> float:
        """log |B|."""
        return _packed.log_determinant(self.factor)


def posterior(
    second_moment: np.ndarray, cross: np.ndarray, prior_variance: float = 1.0
) -> Posterior:  # packed (D, D), (D, m)
    """The posterior of the weights from M and Σ w z y, noise included in the weights w.

    Where B = I + s M is not positive definite to rounding, a jitter that grows tenfold is added to
    its diagonal; a warning says how much, and the result keeps it.
    """
    B = prior_variance * second_moment
    B[_packed.diagonal(_packed.size_of(B))] += 1
    factor, jitter = factorise(B)
    mean = prior_variance * _packed.solve(factor, cross)
    return Posterior(factor, mean, float(prior_variance), jitter)


def check_sums(B: np.ndarray) -> None:  # packed
    """Raise unless the sums, and the mean of their diagonal, are finite."""
    mean = np.mean(B[_packed.diagonal(_packed.size_of(B))].real)
    if not np.isfinite(mean) or not np.all(np.isfinite(B)):
        raise ValueError(
            "The sums over the features overflow or are not finite: scale the features down, or "
            "use a larger noise variance."
        )


def factorise(B: np.ndarray) -> tuple[np.ndarray, float]:  # packed -> packed
    """The Cholesky factor of B and the relative jitter that it took."""
    check_sums(B)
    places = _packed.diagonal(_packed.size_of(B))
    scale = float(np.mean(B[places].real))
    for jitter in JITTERS:
        attempt = B
        if jitter:
            attempt = B.copy()
            attempt[places] += jitter * scale
        factor = _packed.cholesky(attempt)
        if factor is None:
            continue
        if jitter:
            warnings.warn(
                f"The system is not positive definite to rounding: {jitter:.0e} times its mean "
                "diagonal was added. A larger noise variance avoids this.",
                RuntimeWarning,
                stacklevel=3,
            )
        return factor, jitter
    raise ValueError(
        f"The system is not positive definite, even with {JITTERS[-1]:.0e} of its mean diagonal "
        "added: use a larger noise variance or a smaller prior variance."
    )


def predict_mean(Z: np.ndarray, post: Posterior) -> np.ndarray:  # (n, D) -> (n, m)
    """E f(x) = Re z(x)ᴴ v."""
    if np.iscomplexobj(Z):
        return Z.real @ post.mean.real + Z.imag @ post.mean.imag
    return Z @ post.mean.real


def predict_variance(Z: np.ndarray, post: Posterior) -> np.ndarray:  # (n, D) -> (n,)
    """Var f(x) = s |L⁻¹ z(x)|²."""
    half = _half(Z, post).T
    parts = half.view(np.float64) if np.iscomplexobj(half) else half
    return post.prior_variance * np.einsum("ij,ij->i", parts, parts)


def predict_covariance(Z: np.ndarray, post: Posterior) -> np.ndarray:  # (n, D) -> (n, n)
    """Cov(f(x), f(x')) = s Re (L⁻¹ z(x))ᴴ (L⁻¹ z(x'))."""
    half = _half(Z, post)
    return post.prior_variance * (half.conj().T @ half).real


def sample_weights(
    post: Posterior, n_samples: int, rng: np.random.Generator
) -> np.ndarray:  # -> (D, m, n_samples)
    """Draws of v: functions x ↦ Re z(x)ᴴ v with the posterior's mean and covariance.

    With complex features both parts of the white noise have variance one, so that the *real part*
    of the function has the covariance of `predict_covariance`.
    """
    D, m = post.mean.shape
    noise: np.ndarray = rng.standard_normal((D, m * n_samples))
    if np.iscomplexobj(post.factor):
        noise = noise + 1j * rng.standard_normal((D, m * n_samples))
    draws = _packed.half_solve(post.factor, noise, adjoint=True)
    draws = np.sqrt(post.prior_variance) * draws.reshape(D, m, n_samples)
    return post.mean[:, :, None] + draws


def _half(Z: np.ndarray, post: Posterior) -> np.ndarray:  # (n, D) -> (D, n)
    """L⁻¹ z(x), a column for every row of Z."""
    return _packed.half_solve(post.factor, np.ascontiguousarray(Z, dtype=post.factor.dtype).T)


def log_density(log_determinant: Any, square: Any, n: int, is_complex: bool) -> Any:
    """log N(y; 0, C) = −½ (log |C| + yᴴ C⁻¹ y + n log 2π); twice that, with log π, for CN."""
    if is_complex:
        return -(log_determinant + square + n * math.log(math.pi))
    return -(log_determinant + square + n * math.log(2 * math.pi)) / 2


def log_marginal_likelihood(
    Z: Array, y: Array, noise_variance: Any, prior_variance: Any = 1.0
) -> Array:  # (n, D), (n,) or (n, m), number or (n,)
    """log p(y | Z, σ², s) in any array library, differentiable in all four arguments.

    With real features N(y; 0, s Z Zᵀ + diag σ²); with complex ones the proper complex Gaussian
    CN(y; 0, s Z Zᴴ + diag σ²), which is the paper's model. Computed in D dimensions:
    |C| = |I + s Zᴴ W Z| Π σ_i² and the Woodbury identity, W = diag 1/σ². Outputs add up.

    >>> import numpy as np
    >>> round(float(log_marginal_likelihood(np.ones((1, 1)), np.ones(1), 1.0)), 4)
    -1.5155
    """
    xp = namespace(Z, y)
    is_complex = xp.isdtype(Z.dtype, "complex floating")
    Y = double(y)[:, None] if y.ndim == 1 else double(y)
    Z = xp.astype(Z, xp.result_type(Y.dtype, xp.complex64)) if is_complex else double(Z)
    n, D = Z.shape
    variances = noise_variance * xp.ones_like(Y[:, 0])
    if Y.shape[0] != n or variances.shape != (n,):
        raise ValueError(
            f"Z has {n} rows, y has {Y.shape[0]}; noise_variance must be a number or one for every "
            "row."
        )
    for name, value in (("noise_variance", noise_variance), ("prior_variance", prior_variance)):
        if isinstance(value, (Real, np.ndarray)) and not np.all(np.asarray(value) > 0):
            raise ValueError(f"{name} must be positive; got {value!r}.")
    scaled, targets = Z / xp.sqrt(variances)[:, None], Y / xp.sqrt(variances)[:, None]
    adjoint = xp.conj(scaled).T if is_complex else scaled.T
    B = xp.eye(D, dtype=Z.dtype, device=device(Z)) + prior_variance * (adjoint @ scaled)
    factor = _cholesky(B)
    diagonal = xp.linalg.diagonal(factor)
    diagonal = xp.real(diagonal) if is_complex else diagonal
    cross = adjoint @ (xp.astype(targets, Z.dtype) if is_complex else targets)
    solved = xp.linalg.solve(B, cross)
    explained = xp.conj(cross) * solved if is_complex else cross * solved
    explained = prior_variance * xp.sum(xp.real(explained) if is_complex else explained)
    m = Y.shape[1]
    log_determinant = m * (2 * xp.sum(xp.log(diagonal)) + xp.sum(xp.log(variances)))
    square = xp.sum(targets * targets) - explained
    density = log_density(log_determinant, square, n * m, is_complex)
    if is_numpy_array(Z) and not np.isfinite(density):  # others may be traced
        raise ValueError("Z, y and the variances must be finite, and so their squares.")
    return density


def _cholesky(B: Array) -> Array:
    """The Cholesky factor in any array library; every library has an error of its own."""
    try:
        return namespace(B).linalg.cholesky(B)
    except (np.linalg.LinAlgError, RuntimeError) as error:
        if "LinAlgError" not in type(error).__name__:
            raise
        raise ValueError(
            "The system is not positive definite to rounding: use a larger noise variance or a "
            "smaller prior variance."
        ) from error
