"""From f to y: y = w⁻¹(mean + scale (f + noise)) for every output, and functions drawn from f."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from .._arrays import Array, is_foreign, like, namespace
from .._support.stored import array, stored
from .algebra import Likelihood
from .columns import Columns
from .noise import Tails, Warp
from .posterior import evaluate

NORMALIZATIONS = ("standard", "mean", None)
NODES = 200  # of integrals over a predictive distribution: exact to 1e-3 of a standard deviation


@stored
@dataclass(frozen=True, eq=False)
class Outputs:
    """How y follows from the model: its mean and scale, its warp w and the tails of its noise.

    Methods take values (n, m) in units of the model and return them in units of y, without the axis
    of outputs if y had none.
    """

    means: Annotated[np.ndarray, array("f", "m")]
    scales: Annotated[np.ndarray, array("f", "m")]
    constant: Annotated[np.ndarray, array("b", "m")]  # zero in units of the model
    is_flat: bool  # whether y was (n,)
    tails: Tails
    warp: Warp | None = None

    @classmethod
    def of(
        cls, means: np.ndarray, deviations: np.ndarray, normalize: str | None, is_flat: bool
    ) -> Outputs:
        """Of targets with these means and standard deviations (m,)."""
        # constant up to the rounding of their mean
        constant = deviations <= 10 * np.finfo(np.float64).eps * np.abs(means)
        scales = np.where(constant | (normalize != "standard"), 1.0, deviations)
        if normalize is None:
            means, constant = np.zeros_like(means), np.zeros_like(constant)
        return cls(means, scales, constant, is_flat, Tails.gaussian(len(means)))

    @classmethod
    def plain(cls, means: np.ndarray) -> Outputs:  # (C,)
        """Latent functions with these means."""
        return cls(
            means,
            np.ones_like(means),
            np.zeros(len(means), dtype=bool),
            False,
            Tails.gaussian(len(means)),
        )

    def normal(self, Y: np.ndarray) -> np.ndarray:  # (n, m) -> (n, m)
        """Warped targets in units of the model."""
        return (Y - self.means) / self.scales

    def shaped(self, values: Any, axis: int = -1) -> Any:
        """Without the axis of outputs, if y had none."""
        if not self.is_flat:
            return values
        return values[..., 0] if axis == -1 else values[:, 0]

    def values(self, values: Any) -> Any:  # (n, m, k) -> (n, k) or (n, m, k)
        """The values of y that belong to values of the model."""
        values = values * like(self.scales, values)[:, None] + like(self.means, values)[:, None]
        if self.warp is not None:
            if is_foreign(values):
                raise ValueError("target_transform computes with NumPy only: give NumPy rows.")
            values = np.moveaxis(self.warp.inverse(np.moveaxis(values, 1, -1)), -1, 1)
        return self.shaped(values, axis=1)

    def moments(
        self, mean: Any, variance: Any, noise: Any, include_noise: bool
    ) -> tuple[Any, Any]:  # (n, m) or None
        """Mean, and the standard deviation of f, or of y (`include_noise`), if there are variances.

        With a warp they are integrals over equally likely intervals: the mean is that of y in any
        case, and the standard deviation of f is that of w⁻¹(f).
        """
        if self.warp is not None:
            levels = (np.arange(NODES) + 0.5) / NODES
            values = self.quantiles(mean, variance, noise, levels)
            center = values.mean(axis=-1)
            if not include_noise:
                values = self.quantiles(mean, variance, None, levels)
            return center, values.std(axis=-1)
        center = self.shaped(mean * like(self.scales, mean) + like(self.means, mean))
        if variance is None:
            return center, None
        total = variance + noise if include_noise else variance
        return center, self.shaped(namespace(total).sqrt(total) * like(self.scales, total))

    def quantiles(
        self, mean: Any, variance: Any, noise: Any, levels: np.ndarray
    ) -> Any:  # (n, m) each, (q,) -> (n, q) or (n, m, q)
        """Quantiles of y, or of f without noise."""
        total = variance if noise is None else variance + noise
        tails = Tails.gaussian(len(self.means)) if noise is None else self.tails
        reach = namespace(total).sqrt(total)[..., None] * like(tails.quantiles(levels), total)
        return self.values(mean[..., None] + reach)

    def density(
        self, mean: np.ndarray, total: np.ndarray, points: np.ndarray
    ) -> np.ndarray:  # (n, m), (n, m), (k,) -> (n, k) or (n, m, k)
        """The density of y at points, from the mean and the variance of the model."""
        places = np.repeat(points[:, None], len(self.means), axis=1)  # (k, m)
        slopes = np.zeros_like(places)
        if self.warp is not None:
            slopes, places = self.warp.log_slope(places), self.warp.extended(places)
        deviation = np.sqrt(total)[..., None]
        density = self.tails.log_density((self.normal(places).T - mean[..., None]) / deviation)
        density = density - np.log(deviation) + (slopes - np.log(self.scales)).T
        return self.shaped(np.where(np.isfinite(density), np.exp(density), 0.0), axis=1)


def chosen_variances(
    likelihood: Callable[[], Likelihood],
    noise_variance: Any,
    prior_variance: Any,
    outputs: Outputs,
    level: float | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # -> (m,), (m,)
    """Noise and prior variance of every output: a number, or of the greatest likelihood (str).

    Those of constant outputs are 1: their likelihood grows without bound as the variances vanish.
    `level` is the mean k(x, x) of features that vanish, and so say nothing about s, which
    multiplies all of k(x, x) in predictions: f then varies like y.
    """
    constant = outputs.constant
    noise, prior = (
        None if isinstance(v, str) else float(v) for v in (noise_variance, prior_variance)
    )
    if np.all(constant):
        noise, prior = noise or 1.0, prior or 1.0
    if noise is not None and prior is not None:
        return np.full(len(constant), noise), np.full(len(constant), prior)
    solved = likelihood()
    vanishing = level is not None and prior is None
    noises, priors = solved.best_variances(noise, 1.0 if vanishing else prior)
    if vanishing and level is not None:
        priors = np.where(solved.energies > 0, solved.energies, 1.0) / level
    noises = np.where(constant & (noise is None), 1.0, noises)
    return noises, np.where(constant & (prior is None), 1.0, priors)


@stored
@dataclass(frozen=True, eq=False)
class SampledFunctions:
    """Functions x ↦ w⁻¹(mean + scale · Re z(x)ᴴ v) with coefficients v drawn from a posterior.

    `f(X)` evaluates all of them at rows X (n, d): an array (n, k) of k functions, or (n, m, k) for
    m outputs. X may be an array of NumPy, a sparse matrix, a data frame, or an array of PyTorch or
    JAX (with gradients to X), which is also what comes back. The functions hold their coefficients
    and the fitted features and nothing else of the process, so that they are small;
    `dotsketch.save` and pickle keep them.

    Gaussian processes make them: see `FeatureGPRegressor.sample_functions`.

    >>> import numpy as np
    >>> from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian
    >>> X = np.linspace(0, 3, 50)[:, None]
    >>> features = FourierFeatures(Gaussian(lengthscale=1.0), n_components=40, random_state=0)
    >>> gp = FeatureGPRegressor(features).fit(X, np.sin(X[:, 0]))
    >>> f = gp.sample_functions(3, random_state=0)
    >>> f(X).shape
    (50, 3)
    >>> bool(np.allclose(f(X[:5]), f(X)[:5]))
    True
    """

    columns: Columns
    coefficients: Annotated[np.ndarray, array("fc", "D", "m", "k")]
    outputs: Outputs
    input_names: tuple[str, ...] | None = None  # that rows of a data frame must have

    def __post_init__(self) -> None:
        if self.coefficients.ndim != 3 or self.coefficients.shape[:2] != (
            self.columns.n_columns,
            len(self.outputs.means),
        ):
            raise ValueError(
                "Coefficients, columns and outputs of functions do not fit each other."
            )

    @property
    def n_functions(self) -> int:
        """The number of functions."""
        return self.coefficients.shape[2]

    def __call__(self, X: Any) -> Array:  # (n, d) -> (n, k) or (n, m, k)
        """The values of all functions at the rows of X."""
        names = list(getattr(X, "columns", self.input_names or ()))
        if self.input_names is not None and tuple(map(str, names)) != self.input_names:
            raise ValueError(f"The inputs must be {list(self.input_names)}; got {names}.")
        X = X.to_numpy() if hasattr(X, "to_numpy") else X
        blocks = [evaluate(Z, self.coefficients) for _, Z in self.columns.blocks(X)]
        return self.outputs.values(joined(blocks))


def joined(blocks: list[Any]) -> Any:
    """Blocks of rows as one array, in their array library."""
    return blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concat(blocks, axis=0)


def check_levels(name: str, levels: Any) -> np.ndarray:  # -> (q,)
    """Probabilities between 0 and 1."""
    values = np.atleast_1d(np.asarray(levels, dtype=np.float64))
    if values.ndim != 1 or not np.all((values > 0) & (values < 1)):
        raise ValueError(f"{name} must lie between 0 and 1; got {levels!r}.")
    return values


def number_of(values: np.ndarray) -> Any:  # (m,) -> a number for one output
    return float(values[0]) if len(values) == 1 else values
