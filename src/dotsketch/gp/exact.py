"""Exact Gaussian processes: the reference that the approximations are measured by.

The same interface as the estimators on features: the columns of an exact process are the kernel
with all training rows. Memory grows with n² and time with n³, so a few thousand rows are the limit.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._arrays import Array, as_generator, dense, double, host, is_foreign, like
from .._support.parameters import check_positive, one_of, positive_integer
from .._support.stored import array, stored
from ..kernels import Kernel
from .algebra import factorise, left_out_of_kernel, likelihood_of_kernel, log_density
from .base import (
    TrainingRows,
    alternatives_of,
    assign,
    check_optimize,
    labels_of,
    row_noise,
    targets,
    test_rows,
    wants_search,
)
from .classes import ClassificationProcess, ClassTable, HeldOut
from .columns import BLOCK_BYTES, default_kernel, input_scales
from .dirichlet import DirichletLabels, best_labels, latent_attributes
from .noise import LeftOut, Noise, best_tails
from .outputs import NORMALIZATIONS, Outputs, chosen_variances
from .packed import PackedFactor, PackedMatrix
from .posterior import evaluate, half_squares
from .predictions import RegressionProcess
from .search import FIRST_ROWS, Search, best_kernel
from .softmax import best_class_kernel


@stored
@dataclass(frozen=True, eq=False)
class ExactColumns:
    """k(x, X) for all training rows X."""

    usual_lack = greatest_lack = 0.0
    kernel: Any
    rows: Annotated[Any, array("f", "n", "d", sparse=True)]
    input_scales: Annotated[np.ndarray, array("f", "d")]

    def __call__(self, X: Any) -> Any:  # (n*, d) -> (n*, n)
        if not is_foreign(X):
            with np.errstate(over="ignore", invalid="ignore"):
                K = np.asarray(self.kernel(X.astype(np.float64), self.rows), dtype=np.float64)
            if not np.all(np.isfinite(K)):
                raise ValueError("The kernel of these rows overflows: scale the inputs down.")
            return K
        if not isinstance(self.kernel, Kernel):
            raise ValueError(
                f"{self.kernel!r} computes with NumPy only, so gradients to rows of another array "
                "library would be lost: give NumPy rows, or a kernel of this library."
            )
        X = double(X)
        return self.kernel(X, like(dense(self.rows), X))

    @property
    def n_columns(self) -> int:
        return int(self.rows.shape[0])

    @property
    def block_rows(self) -> int:
        """Rows of a block: 64 MB of columns."""
        return max(BLOCK_BYTES // (8 * self.n_columns), 64)

    def added_variance(
        self, X: Any, Z: Any, correction: Any, usual: float, priors: np.ndarray
    ) -> Any:  # -> (n*, m)
        """s k(x, x): the variance of the posterior is what is subtracted from it."""
        prior = self.kernel.diag(double(X) if is_foreign(X) else X.astype(np.float64))
        return prior[:, None] * like(priors, prior)

    def covariance(self, X: Any) -> np.ndarray:  # (n*, d) -> (n*, n*)
        return np.asarray(self.kernel(X.astype(np.float64)), dtype=np.float64)


@stored
@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """f_j ~ GP(0, s_j k) after targets with noise variances: C_j = s_j K + diag σ_j² = L_j L_jᵀ."""

    coefficients: Annotated[np.ndarray, array("f", "n", "m")]  # C⁻¹ y
    factors: tuple[PackedFactor, ...]  # L
    prior_variances: Annotated[np.ndarray, array("f", "m")]

    @classmethod
    def of(
        cls, K: np.ndarray, Y: np.ndarray, noise: np.ndarray, priors: Any
    ) -> ExactPosterior:  # (n, n), (n, m), (n, m), (m,)
        factors, coefficients = [], []
        for y, own, prior in zip(Y.T, noise.T, priors, strict=True):
            C = float(prior) * PackedMatrix.of(K.T)  # K is symmetric: its transpose is no copy
            C.add_to_diagonal(own)
            factors.append(factorise(C)[0])
            coefficients.append(factors[-1].solve(y[:, None]))
        return cls(np.hstack(coefficients), tuple(factors), np.array(priors, dtype=np.float64))

    def mean(self, cross: Any) -> Any:  # k(x, X) (n*, n) -> (n*, m)
        return evaluate(cross, self.coefficients * self.prior_variances)

    def variance(self, cross: Any) -> Any:  # (n*, n) -> (n*, m)
        """−s² |L⁻¹ k(X, x)|²: what the training rows take away from s k(x, x)."""
        squares = half_squares(self.factors, cross)
        return squares * like(-(self.prior_variances**2), squares)

    def covariance(self, cross: np.ndarray) -> np.ndarray:  # (n*, n) -> (n*, n*, m)
        """The same for pairs of rows."""
        halves = [factor.half_solve(cross.T) for factor in self.factors]
        return -np.stack([half.T @ half for half in halves], axis=2) * self.prior_variances**2

    def log_likelihood(self, Y: np.ndarray) -> float:  # (n, m)
        squares = np.sum(Y * self.coefficients, axis=0)
        determinants = np.array([factor.log_determinant() for factor in self.factors])
        return float(np.sum(log_density(determinants, squares, len(Y))))


def is_few(n: float) -> bool:
    """Whether n rows are so few that a search fits them better than new ones."""
    return 5 <= n <= FIRST_ROWS


def left_out_of_search(
    kernel: Any, X: Array, Y: np.ndarray, rng: np.random.Generator
) -> LeftOut:  # (n, d), (n, m)
    """Rows of five folds, predicted from the others by a kernel that is searched on these alone.

    Rows that have chosen the parameters of a kernel are predicted better than new ones: where one
    lengthscale for each of four inputs is searched, 90 % intervals that suit left-out rows hold
    about 84, 85 and 88 % of new ones for 30, 100 and 200 rows.
    """
    order, parts = rng.permutation(len(Y)), []
    for held in np.array_split(order, 5):
        rest = np.setdiff1d(order, held)
        means = Y[rest].mean(axis=0)
        targets = Y[rest] - means
        own = best_kernel(kernel, X[rest], targets, rng=rng).kernel
        K = np.asarray(own(X[rest]), dtype=np.float64)
        evidence = partial(likelihood_of_kernel, K, targets, None, np.ones(len(rest)))
        # some outputs may be constant on these rows
        outputs = Outputs.of(means, Y[rest].std(axis=0), "mean", False)
        noise, priors = chosen_variances(evidence, "auto", "auto", outputs)
        posterior = ExactPosterior.of(K, targets, np.broadcast_to(noise, targets.shape), priors)
        cross = np.asarray(own(X[held], X[rest]), dtype=np.float64)
        variances = np.asarray(own.diag(X[held]))[:, None] * priors + posterior.variance(cross)
        residuals = Y[held] - means - posterior.mean(cross)
        parts.append((residuals, np.maximum(variances, 0), np.broadcast_to(noise, residuals.shape)))
    back = np.argsort(order)
    residuals, variances, noise = (np.concatenate(p)[back] for p in zip(*parts, strict=True))
    return LeftOut(residuals, variances, noise, noise, np.zeros(residuals.shape))


@stored
@dataclass(eq=False, repr=False)
class ExactGPRegressor(RegressionProcess):
    """Exact Gaussian process regression.

    Parameters
    ----------
    kernel : "auto", kernel of this library, or callable with `diag` (as those of scikit-learn)
        "auto" is a Matérn kernel whose parameters are searched.
    noise_variance : float or "auto", default="auto"
    prior_variance : float or "auto", default="auto"
    normalize_y : {"standard", "mean", None}, default="standard"
    optimize : "auto", True or False, default="auto"
        All as for `FeatureGPRegressor`: "auto" searches if the kernel is "auto". The search is for
        kernels of this library.
    random_state : int, RandomState, Generator or None, default=0
        For the rows of the search.
    verbose : bool, default=False
        Shows the steps of a search.

    Attributes
    ----------
    kernel_, noise_variance_, prior_variance_, posterior_, outputs_, relevances_, search_

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import ExactGPRegressor, Gaussian
    >>> X = np.linspace(0, 3, 20)[:, None]
    >>> gp = ExactGPRegressor(Gaussian(lengthscale=1.0), noise_variance=1e-4)
    >>> gp = gp.fit(X, np.sin(X[:, 0]))
    >>> gp.predict(np.array([[1.5]])).round(2)
    array([1.])
    """

    kernel: Any = "auto"
    _: KW_ONLY
    noise_variance: float | str = "auto"
    prior_variance: float | str = "auto"
    normalize_y: str | None = "standard"
    optimize: bool | str = "auto"
    random_state: Any = 0
    verbose: bool = False

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, noise_variance: Any = None
    ) -> ExactGPRegressor:
        """Fit to X (n, d) and y (n,) or (n, m); see `FeatureGPRegressor.fit`."""
        check_kernel(self.kernel)
        check_positive("noise_variance", self.noise_variance, "auto")
        check_positive("prior_variance", self.prior_variance, "auto")
        one_of("normalize_y", self.normalize_y, NORMALIZATIONS)
        check_optimize(self.optimize)
        training = TrainingRows.of(type(self), X, y, noise_variance, sample_weight)
        X, y, by_row, counts = all_rows(training)
        Y, is_flat = targets(y)
        means = np.average(Y, axis=0, weights=counts)
        deviations = np.sqrt(np.average((Y - means) ** 2, axis=0, weights=counts))
        outputs = Outputs.of(means, deviations, self.normalize_y, is_flat)
        Y = outputs.normal(Y)
        noise = row_noise(by_row, by_row is not None, len(Y))
        fixed = noise
        if noise is None and not isinstance(self.noise_variance, str):
            fixed = np.full(len(Y), float(self.noise_variance))

        def search(kernel: Kernel, alternatives: Any) -> Search:
            rng = as_generator(self.random_state)
            options = {"alternatives": alternatives, "rng": rng, "verbose": self.verbose}
            return best_kernel(kernel, X, Y, noise=fixed, **options)

        kernel, result = chosen_kernel(self, training, X, search)
        K = np.asarray(kernel(X), dtype=np.float64)
        variances, priors = chosen_variances(
            partial(likelihood_of_kernel, K, Y, noise, counts),
            self.noise_variance if noise is None else 1.0,
            self.prior_variance,
            outputs,
        )
        is_free = noise is None and self.noise_variance == self.prior_variance == "auto"
        if is_free and result is not None and is_few(len(Y)) and np.all(counts == 1):
            folds = left_out_of_search(result.kernel, X, Y, as_generator(self.random_state))
            varies = ~outputs.constant
            tails = best_tails(folds.of_outputs(varies), is_few=True).among(varies)
            outputs = replace(outputs, tails=tails)
            variances, priors = variances * outputs.tails.levels, priors * outputs.tails.levels
        by_output = np.broadcast_to(variances if noise is None else noise[:, None], Y.shape)
        posterior = ExactPosterior.of(K, Y, by_output / counts[:, None], priors)
        density = posterior.log_likelihood(Y) + log_density_of_copies(by_output, counts)
        return assign(
            self,
            training.inputs,
            columns_=ExactColumns(kernel, X, input_scales(X)),
            search_=result,
            posterior_=posterior,
            noise_=Noise(None if noise is not None else variances, False),
            outputs_=outputs,
            jackknife_=None,
            _is_weighted=bool(np.any(counts != 1)),
            _log_likelihood=density - float(np.sum(counts) * np.sum(np.log(outputs.scales))),
        )

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of f at the rows of X, (n, n_samples) or (n, m, n_samples)."""
        check_is_fitted(self)
        n, rng = positive_integer("n_samples", n_samples), as_generator(random_state)
        X = test_rows(self, host(X))
        cross = self.columns_(X)
        values, vectors = np.linalg.eigh(np.moveaxis(self._covariance(X, cross), 2, 0))
        roots = vectors * np.sqrt(np.maximum(values, 0))[:, None]  # (m, n*, n*)
        draws = np.moveaxis(roots @ rng.standard_normal((*values.shape, n)), 0, 1)
        return self.outputs_.values(draws + self.posterior_.mean(cross)[:, :, None])

    def log_marginal_likelihood(self) -> float:
        """log p(y) of the training targets at the fitted variances, in units of y."""
        check_is_fitted(self)
        return self._log_likelihood

    def leave_one_out(
        self, X: Any, y: Any, *, noise_variance: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:  # (n, d), (n,) or (n, m) -> twice the shape of y
        """Mean and standard deviation of y at all training rows, each predicted from the others.

        From y − [C⁻¹y]_i/[C⁻¹]_ii, which loses no digits where there is almost no noise. X, y and
        noise_variance are those of `fit`, without weights; see `FeatureGPRegressor.leave_one_out`.
        """
        check_is_fitted(self)
        X, trained = test_rows(self, host(X)).astype(np.float64), self.columns_.rows
        if X.shape != trained.shape or abs(X - trained).max() > 0:
            raise ValueError(
                "leave_one_out of an exact process needs all rows that it was fitted to."
            )
        if self._is_weighted:
            raise ValueError("leave_one_out of an exact process is for rows without sample_weight.")
        Y = self.outputs_.normal(targets(y)[0])
        by_row = row_noise(noise_variance, self.noise_.variances is None, len(Y))
        noise = np.broadcast_to(self.noise_.at(Y, by_row), Y.shape)
        K = self.columns_.covariance(X)
        residuals, variance = left_out_of_kernel(K, self.posterior_.prior_variances, Y, noise)
        return self.outputs_.moments(Y - residuals, variance, None, False)

    def _covariance(self, rows: Any, Z: Any) -> np.ndarray:  # (n, d), (n, D) -> (n, n, m)
        prior = self.columns_.covariance(rows)[:, :, None] * self.posterior_.prior_variances
        return prior + self.posterior_.covariance(Z)


@stored
@dataclass(eq=False, repr=False)
class ExactGPClassifier(ClassificationProcess):
    """Exact Gaussian process classification by Dirichlet labels, one factorisation for every class.

    Parameters
    ----------
    kernel : "auto", kernel of this library, or callable with `diag` (as those of scikit-learn)
    alpha, prior_variance, class_weight, optimize, random_state, verbose :
        As for `DirichletGPClassifier`; "auto" searches if the kernel is "auto".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dotsketch import ExactGPClassifier, Gaussian
    >>> X, y = load_iris(return_X_y=True)
    >>> bool(ExactGPClassifier(Gaussian(), alpha=0.01).fit(X, y).score(X, y) > 0.95)
    True
    """

    kernel: Any = "auto"
    _: KW_ONLY
    alpha: float | str = "auto"
    prior_variance: float | str = "auto"
    class_weight: Any = None
    optimize: bool | str = "auto"
    random_state: Any = 0
    verbose: bool = False

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> ExactGPClassifier:
        """Fit to X (n, d) and labels y (n,); see `DirichletGPClassifier`."""
        check_kernel(self.kernel)
        check_positive("alpha", self.alpha, "auto")
        check_positive("prior_variance", self.prior_variance, "auto", "labels")
        check_optimize(self.optimize)
        training = TrainingRows.of(type(self), X, y, None, sample_weight, labels=True)
        X, y, _, counts = all_rows(training)
        classes, codes = np.unique(labels_of(y), return_inverse=True)
        of_class = dict(zip(classes.tolist(), np.bincount(codes, weights=counts), strict=True))
        table = ClassTable.of(of_class, self.class_weight)
        seed = int(as_generator(self.random_state).integers(2**31 - 1))
        rng = np.random.default_rng(seed)

        def search(kernel: Kernel, alternatives: Any) -> Search:
            return best_class_kernel(self.verbose, kernel, X, (X, y), alternatives, rng)

        kernel, result = chosen_kernel(self, training, X, search)
        K, n = np.asarray(kernel(X), dtype=np.float64), len(codes)

        def solved(rows: np.ndarray, labels: DirichletLabels, prior: float) -> ExactPosterior:
            """From the training rows with these numbers."""
            Y, noise = labels.targets(codes[rows])
            noise = noise / (table.weights[codes[rows]] * counts[rows])[:, None]
            return ExactPosterior.of(K[np.ix_(rows, rows)], Y, noise, len(classes) * [prior])

        held_out = HeldOut.of(codes, counts, rng)

        def predict(k: int, labels: DirichletLabels, prior: float) -> tuple[np.ndarray, np.ndarray]:
            rest, held = held_out.folds[k]
            posterior, cross = solved(rest, labels, prior), K[np.ix_(held, rest)]
            variance = prior * np.diag(K)[held, None] + posterior.variance(cross)
            return posterior.mean(cross) + labels.means, variance

        labels, prior = best_labels(
            self.alpha, self.prior_variance, table.frequencies, held_out, predict
        )
        return assign(
            self,
            training.inputs,
            columns_=ExactColumns(kernel, X, input_scales(X)),
            search_=result,
            **latent_attributes(table, labels, solved(np.arange(n), labels, prior)),
            _seed=seed,
        )


def check_kernel(kernel: Any) -> None:
    is_auto = isinstance(kernel, str) and kernel == "auto"
    is_kernel = callable(kernel) and hasattr(kernel, "diag") and not isinstance(kernel, type)
    if not is_auto and not is_kernel:
        raise TypeError(f'kernel must be "auto" or a kernel, such as Gaussian(); got {kernel!r}.')


def chosen_kernel(
    model: Any, training: TrainingRows, X: Array, search: Any
) -> tuple[Any, Search | None]:
    """The resolved kernel, searched if that is asked for, and what was tried."""
    is_default, result = isinstance(model.kernel, str), None
    kernel = default_kernel(X) if is_default else model.kernel
    if isinstance(kernel, Kernel):
        kernel = kernel.named(getattr(training.inputs, "feature_names_in_", None))
    if wants_search(model.optimize, is_default):
        if not isinstance(kernel, Kernel):
            raise ValueError(
                "optimize=True searches the parameters of kernels of this library; fit the "
                f"parameters of {kernel!r} yourself, or use optimize=False."
            )
        result = search(kernel, alternatives_of(kernel, is_default))
        kernel = result.kernel
    return clone(kernel.resolve(X) if isinstance(kernel, Kernel) else kernel), result


def all_rows(training: TrainingRows) -> tuple[Array, Any, Any, np.ndarray]:
    """All rows in memory, in double precision, and how often they count."""
    if training.rows.columns is None:
        raise ValueError(
            "An exact process needs all rows in memory: use the estimators on features."
        )
    n_rows = int(training.rows.n_rows or 0)
    X, y, noise, counts = training.sample(n_rows, np.random.default_rng(0))
    counts = np.ones(X.shape[0]) if counts is None else np.asarray(counts, dtype=np.float64)
    return X.astype(np.float64), y, noise, counts


def log_density_of_copies(noise: np.ndarray, counts: np.ndarray) -> float:  # (n, m), (n,)
    """log of the density of w copies of every row over that of one row with the noise σ²/w.

    |s K + σ²| of the copies is |s K + σ²/w| Π w σ^(2(w − 1)), and yᵀC⁻¹y is the same.
    """
    copies = (counts - 1)[:, None] * np.log(2 * np.pi * noise) + np.log(counts)[:, None]
    return -0.5 * float(np.sum(copies))
