"""The noise of y around f: as a function of x, with heavier tails than Gaussian; warped targets.

    w(y) = f(x) + σ √v(x) ε

- v is exp(g) with a second process g on the same features (Kersting et al., 2007): its targets are
  log r² of the residuals r of rows that are left out, and its level makes these rows most likely.
- ε is Gaussian, or Student's t where the left-out residuals ask for it, and the level of σ² and of
  the variance of f is that of these residuals.
- w is the identity or a monotone function of y; densities have its slope as a factor.

All choices are made by left-out rows: v, tails and w must raise their likelihood by more than
chance. Left-out rows also give the intervals of the jackknife+ (Barber et al., 2021).
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import stdtrit
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PowerTransformer, StandardScaler

from .._arrays import is_foreign, like, namespace
from .._support.stored import array, stored
from .algebra import left_out, left_out_of_kernel, likelihood_of_sums, posterior_of_sums
from .posterior import Posterior, evaluate
from .sums import SufficientStatistics, positive_rows

FEW_ROWS = 100  # say too little of v and of the tails: their scale itself is uncertain


# -- rows that are left out ------------------------------------------------------------------------


class LeftOut(NamedTuple):
    """Rows that are predicted from all others, in units of the model; (n, m) each."""

    residuals: np.ndarray
    variances: np.ndarray  # of f without the row
    noise: np.ndarray  # of y when it is predicted
    learnt: np.ndarray  # the noise that the row was learnt with
    lack: np.ndarray  # the variance of f that predictions add

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        Z: np.ndarray,
        Y: np.ndarray,
        learnt: np.ndarray,
        is_all: bool,
        *,
        noise: Any = None,
        lack: Any = 0.0,
    ) -> LeftOut:  # (n, D), (n, m), (n, m)
        """Of training rows; `is_all` if there are no others."""
        Z = np.asarray(Z, dtype=posterior.coefficients.dtype)
        if is_all and len(Z) <= Z.shape[1]:
            # as many columns as rows: 1 − v/σ² would be a small difference of large numbers
            residuals, variances = left_out_of_kernel(
                Z @ Z.conj().T, posterior.prior_variances, Y, learnt
            )
        else:
            residuals, variances = left_out(
                Y - posterior.mean(Z), np.minimum(posterior.variance(Z), learnt), learnt
            )
        of_y = learnt if noise is None else noise
        variances = np.maximum(variances - learnt, 0)
        return cls(residuals, variances, of_y, learnt, np.zeros(Y.shape) + lack)

    def of_outputs(self, which: np.ndarray) -> LeftOut:  # (m,) bool
        return LeftOut(*(part[:, which] for part in self))

    @property
    def deviations(self) -> np.ndarray:  # -> (n, m)
        """The standard deviations of y."""
        return np.sqrt(self.variances + self.lack + self.noise)

    def at_level(self, levels: np.ndarray) -> LeftOut:  # (m,)
        """With all variances times the levels."""
        return LeftOut(self.residuals, *(levels * part for part in self[1:]))

    def log_densities(self, tails: Tails) -> np.ndarray:  # -> (n,)
        """With their own level."""
        values = tails.log_density(self.residuals / self.deviations) - np.log(self.deviations)
        return np.asarray(np.sum(values, axis=1))

    def best_log_densities(self) -> np.ndarray:  # -> (n,)
        """With the level and the tails that suit them."""
        tails = best_tails(self)
        return self.at_level(tails.levels).log_densities(tails)


def is_gain(differences: np.ndarray) -> bool:  # (n,)
    """Whether a gain of log-likelihood is more than chance: twice its standard error."""
    return float(np.mean(differences)) > 2 * float(np.std(differences)) / np.sqrt(len(differences))


def is_better(rows: LeftOut, others: LeftOut) -> bool:
    """Whether left-out rows are more likely by more than chance, and their errors not greater.

    Where v(x) is large because f is hard to follow, weights help the likelihood and harm f.
    """
    gain = rows.best_log_densities() - others.best_log_densities()
    harm = np.sum(rows.residuals**2 - others.residuals**2, axis=1)
    return is_gain(gain) and not is_gain(harm)


# -- noise as a function of x ----------------------------------------------------------------------


@stored
@dataclass(frozen=True, eq=False)
class Noise:
    """The variances of the noise in units of the model: σ² of every output, times v(x)."""

    variances: Annotated[Any, array("f", "m")]  # None if they were given by row
    is_chosen: bool  # and so contains what the features lack at the training rows
    function: NoiseFunction | None = None

    def at(self, Z: Any, by_row: Any = None) -> Any:  # (n, D), (n,) -> (n, m), (n, 1) or (m,)
        """Those of rows to predict, in the array library of their columns."""
        if by_row is not None:
            positive_rows("noise_variance by row", by_row, len(Z))
            by_row = np.asarray(by_row, dtype=np.float64)[:, None]
        elif self.variances is None:
            raise ValueError(
                "The noise was given by row in fit: give that of these rows as noise_variance=."
            )
        values = self.variances if by_row is None else by_row
        if by_row is None and self.function is not None:
            v = self.function(Z)[:, None]
            return v * like(values, v)
        return like(values, Z) if is_foreign(Z) else values


@stored
@dataclass(frozen=True, eq=False)
class NoiseFunction:
    """v(x) = exp(level + z(x)ᵀc): the variance of the noise at x relative to `noise_variance_`.

    Far from the data features vanish, and v goes to exp(level), a mean in logarithms.
    """

    coefficients: Annotated[np.ndarray, array("f", "D", 1)]
    level: float
    least: float  # of the logarithms of the training rows
    most: float
    weighs_rows: bool = False  # whether rows were learnt from with this noise, or with a constant
    factor: float = 1.0  # of new rows: v was learnt from residuals of the rows that it weighs

    def __call__(self, Z: Any) -> Any:  # (n, D) -> (n,)
        """For new rows, in the array library of the features."""
        return self.factor * self.typical(Z)

    def typical(self, Z: Any) -> Any:  # (n, D) -> (n,)
        """That by which rows are weighted."""
        values = evaluate(Z, self.coefficients)[:, 0] + self.level
        xp = namespace(values)
        return xp.exp(xp.clip(values, self.least, self.most))

    def check_stored(self) -> None:
        numbers = (self.least, self.most, self.level, self.factor)
        if self.least > self.most or not all(abs(number) < 1e3 for number in numbers):
            raise ValueError("The range of a noise function is not one of logarithms.")


def noise_of_x(Z: np.ndarray, rows: LeftOut) -> tuple[NoiseFunction, np.ndarray]:  # -> (n,)
    """v(x) by regression on log r² of rows left out, and v at these rows as if left out, too.

    Several outputs share v, from the mean of their logarithms.
    """
    squares = rows.residuals**2
    squares = squares / np.maximum(np.mean(squares, axis=0), np.finfo(float).tiny)
    t = np.mean(np.log(np.maximum(squares, 1e-6)), axis=1)
    sums = SufficientStatistics.of(Z, t)
    means, ones = sums.means(), np.ones(1)
    noise, prior = likelihood_of_sums(sums, means, ones).best_variances()
    posterior = posterior_of_sums(sums, means, ones, noise, prior)
    centred, every = t[:, None] - means, np.full((len(t), 1), noise[0])
    unseen = (centred - LeftOut.of(posterior, Z, centred, every, is_all=True).residuals)[:, 0]
    least, most = float(centred.min()), float(centred.max())
    unseen = np.exp(np.clip(unseen, least, most))
    level = np.log(best_factor(rows._replace(noise=unseen[:, None] * rows.noise)))
    function = NoiseFunction(
        posterior.coefficients, float(level), float(level + least), float(level + most)
    )
    return function, np.exp(level) * unseen


def best_factor(rows: LeftOut) -> float:
    """What their noise is multiplied by for left-out rows to be most likely."""
    gaussian = Tails.gaussian(rows.residuals.shape[1])

    def loss(logarithm: float) -> float:
        noise = np.exp(logarithm) * rows.noise
        return -float(np.mean(rows._replace(noise=noise).log_densities(gaussian)))

    # 10 is beyond the logarithm of a ratio of the largest residual to a typical one
    return float(np.exp(minimize_scalar(loss, bounds=(-10, 10), method="bounded").x))


# -- tails and levels ------------------------------------------------------------------------------


@stored
@dataclass(frozen=True, eq=False)
class Tails:
    """ε has variance one and, where residuals ask for it, Student's t distribution.

    A level multiplies the noise and the prior variance that the marginal likelihood chose, which
    leaves all means as they are.
    """

    degrees: Annotated[np.ndarray, array("f", "m")]  # of freedom; infinite ones are a Gaussian
    levels: Annotated[np.ndarray, array("f", "m")]

    @classmethod
    def gaussian(cls, m: int) -> Tails:
        """Of m outputs."""
        return cls(np.full(m, np.inf), np.ones(m))

    def among(self, which: np.ndarray) -> Tails:  # (m,) bool
        """These as the tails of some of m outputs; a Gaussian for others."""
        all_of = Tails.gaussian(len(which))
        all_of.degrees[which], all_of.levels[which] = self.degrees, self.levels
        return all_of

    def log_density(self, values: np.ndarray) -> np.ndarray:  # (n, m, …)
        """Of values in standard deviations of the model."""
        return _log_density(values, self.degrees.reshape(-1, *(values.ndim - 2) * [1]))

    def quantiles(self, levels: np.ndarray) -> np.ndarray:  # (q,) -> (m, q)
        degrees = np.minimum(self.degrees, 1e8)[:, None]  # as good as infinite
        return np.asarray(np.sqrt(1 - 2 / degrees) * stdtrit(degrees, levels))


def _log_density(values: np.ndarray, degrees: Any) -> np.ndarray:
    unit = np.sqrt(1 - 2 / degrees)
    return np.asarray(student.logpdf(values / unit, degrees) - np.log(unit))


def best_tails(rows: LeftOut, *, is_few: bool = False) -> Tails:
    """The degrees of freedom and the level of every output that suit the left-out rows best.

    The marginal likelihood chooses a ratio of noise and prior variance, and a level by the mean
    square of all residuals: too high a level where few rows are far from the rest. Instead, 90 % of
    the left-out rows shall lie in their intervals of 90 %, with the degrees of freedom that make
    them most likely, unless this gains less than the information criterion of Schwarz asks for two
    parameters. If the rows are so few that their scale is uncertain (`is_few`), n of them give y
    n − 1 degrees of freedom at most, and a level above one is taken in any case.
    """
    chosen = [_tails_of(values, is_few) for values in (rows.residuals / rows.deviations).T]
    degrees, levels = np.array(chosen).reshape(-1, 2).T
    return Tails(degrees.copy(), levels.copy())


def _tails_of(values: np.ndarray, is_few: bool) -> tuple[float, float]:  # (n,)
    """Degrees and level, from residuals of one output in standard deviations."""
    n = len(values)
    rank = min(int(np.ceil(0.9 * (n + 1))), n)  # a new row is one of n + 1: as in `Jackknife`
    reach = float(np.sort(np.abs(values))[rank - 1]) or 1.0

    def at(degrees: float) -> tuple[float, float, float]:
        """The log density of all rows, and the tails."""
        level = (reach / stdtrit(degrees, 0.95)) ** 2 / (1 - 2 / degrees)
        density = _log_density(values / np.sqrt(level), degrees) - np.log(level) / 2
        return float(np.sum(density)), degrees, level

    gaussian = float(np.sum(_log_density(values, np.inf)))
    usual = at(max(n - 1.0, 3.0)) if is_few else (gaussian, np.inf, 1.0)
    # from 3 degrees, below which variances are hardly numbers, to 57, almost a Gaussian
    end = minimize_scalar(lambda x: -at(2 + np.exp(x))[0], bounds=(0, 4), method="bounded").x
    heavy = at(2 + np.exp(end))
    if heavy[1] < usual[1] and heavy[0] - usual[0] > np.log(n):
        return heavy[1:]
    return usual[1], max(usual[2], 1.0)  # few rows, or copies of rows, do not narrow intervals


# -- warped targets --------------------------------------------------------------------------------


def check_transform(value: Any) -> None:
    methods = ("fit", "transform", "inverse_transform")
    if value is None or (isinstance(value, str) and value == "auto"):
        return
    if not all(hasattr(value, method) for method in methods) or isinstance(value, type):
        raise TypeError(
            'target_transform must be None, "auto" or a transformer with an inverse, such as '
            f"PowerTransformer(); got {value!r}."
        )


@stored
@dataclass(frozen=True, eq=False)
class Warp:
    """u = w(y), a fitted transformer of scikit-learn; increasing in every output.

    The inverse keeps to the range of the training targets, and their width on both sides (in u, or
    in y where the inverse of so wide a range does not exist).
    """

    transformer: Any
    bounds: Annotated[np.ndarray, array("f", 2, "m")]  # of u

    @classmethod
    def of(cls, transformer: Any, Y: np.ndarray) -> Warp:  # (n, m)
        """Fitted to some targets; "auto" is Yeo and Johnson's power of y / std."""
        if isinstance(transformer, str):
            transformer = make_pipeline(
                StandardScaler(with_mean=False), PowerTransformer(standardize=False)
            )
        fitted = clone(transformer).fit(Y)
        ends = np.stack([Y.min(axis=0), Y.max(axis=0)])
        own = np.asarray(fitted.transform(ends), dtype=np.float64)
        # the width of constant targets is one
        widths, of_y = (np.where(v[1] > v[0], v[1] - v[0], 1.0) for v in (own, ends))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            wide = own + np.outer([-1, 1], widths)
            far = fitted.transform(ends + np.outer([-1, 1], of_y))
            bounds = own
            for wider in (np.asarray(far, dtype=np.float64), wide):
                back = fitted.transform(
                    fitted.inverse_transform(np.where(np.isnan(wider), own, wider))
                )
                agrees = np.isfinite(wider) & (np.abs(back - wider) <= 1e-6 * widths)
                bounds = np.where(agrees, wider, bounds)  # each side of each output
        if not np.all(np.isfinite(bounds)) or np.any(bounds[0] > bounds[1]):
            raise ValueError(
                f"target_transform must be an increasing function of y; {transformer!r} gives "
                f"{bounds.tolist()} at the least and greatest targets."
            )
        return cls(fitted, bounds)

    def forward(self, Y: np.ndarray) -> np.ndarray:  # (n, m) -> (n, m)
        values = np.asarray(self.transformer.transform(Y), dtype=np.float64)
        if values.shape != Y.shape or not np.all(np.isfinite(values)):
            raise ValueError("target_transform gives values of y that are not finite numbers.")
        return values

    def extended(self, Y: np.ndarray) -> np.ndarray:  # (k, m) -> (k, m)
        """w(y) at any points; NaN where it does not exist."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                return np.asarray(self.transformer.transform(Y), dtype=np.float64)
            except ValueError:  # of points outside of its domain, such as Box and Cox's
                if len(Y) == 1:
                    return np.full(Y.shape, np.nan)
                return np.concatenate([self.extended(Y[k : k + 1]) for k in range(len(Y))])

    def inverse(self, values: np.ndarray) -> np.ndarray:  # (..., m) -> (..., m)
        inside = np.clip(values, *self.bounds).reshape(-1, values.shape[-1])
        return np.asarray(self.transformer.inverse_transform(inside)).reshape(values.shape)

    def log_slope(self, Y: np.ndarray) -> np.ndarray:  # (n, m) -> (n, m)
        """log w'(y), by a difference."""
        # a millionth of the spread, if y has so many digits
        step = 1e-6 * np.ptp(self.inverse(self.bounds), axis=0) + 1e-10 * np.abs(Y)
        rise = self.extended(Y + step) - self.extended(Y - step)
        slope = np.where(np.isfinite(rise) & (rise > 0), rise / (2 * step), np.finfo(float).tiny)
        return np.asarray(np.log(slope))


# -- intervals of left-out rows --------------------------------------------------------------------


@stored
@dataclass(frozen=True, eq=False)
class Jackknife:
    """k random training rows, and what the process predicts without each of them.

    With c the posterior covariance of f, and the residual r_i, the variance v_i of f and the noise
    σ_i² of row i that is left out, the process without it has

        μ_i(x) = μ(x) − c(x, x_i) r_i / σ_i²,    Var_i y = Var y + c(x, x_i)² (σ_i² + v_i) / σ_i⁴.
    """

    features: Annotated[np.ndarray, array("fc", "k", "D")]
    pulls: Annotated[np.ndarray, array("f", "k", "m")]  # r_i / σ_i²
    stretches: Annotated[np.ndarray, array("f", "k", "m")]  # (σ_i² + v_i) / σ_i⁴
    scores: Annotated[np.ndarray, array("f", "k", "m")]  # |r_i| in standard deviations of y

    @classmethod
    def of(cls, Z: np.ndarray, rows: LeftOut, judges: LeftOut) -> Jackknife:  # (k, D)
        """From the columns of rows that are left out, and what their scores are taken from."""
        return cls(
            Z,
            rows.residuals / rows.learnt,
            (rows.learnt + rows.variances) / rows.learnt**2,
            np.abs(judges.residuals) / judges.deviations,
        )

    def interval(
        self, posterior: Any, Z: np.ndarray, mean: np.ndarray, variance: np.ndarray, coverage: float
    ) -> tuple[np.ndarray, np.ndarray]:  # (n, D), (n, m), (n, m) -> (n, m), (n, m)
        """Bounds of y from its mean and variance, in units of the model."""
        k = len(self.scores)
        rank = int(np.ceil(coverage * (k + 1)))
        if rank > k:
            raise ValueError(
                f"With {k} rows left out, jackknife+ has a coverage of {k / (k + 1):.3g} at most; "
                f"got coverage={coverage}."
            )
        parts = []
        for start in range(0, len(Z), 1024):  # (1024, k, m) at a time
            rows = slice(start, start + 1024)
            cross = posterior.covariance(Z[rows], self.features)
            centres = mean[rows, None] - cross * self.pulls
            reach = self.scores * np.sqrt(variance[rows, None] + cross**2 * self.stretches)
            low = np.partition(centres - reach, k - rank, axis=1)[:, k - rank]
            high = np.partition(centres + reach, rank - 1, axis=1)[:, rank - 1]
            parts.append((low, high))
        low, high = map(np.concatenate, zip(*parts, strict=True))
        return low, high
