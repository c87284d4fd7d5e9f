"""Exact Gaussian processes: the reference that the approximations are measured by.

The same interface as the estimators on features, with the Gram matrix of all rows: memory grows
with n² and time with n³, so a few thousand rows are the limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from sklearn.base import ClassifierMixin, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from .._arrays import Array, as_generator, host
from .._support.parameters import check_positive, one_of, positive_integer
from .._support.stored import array, stored
from ..kernels import Kernel
from .algebra import factorise, likelihood_of_kernel, log_density
from .base import (
    GaussianProcess,
    TrainingRows,
    check_optimize,
    input_scales,
    labels_of,
    row_noise,
    search_alternatives,
    targets,
    test_rows,
)
from .class_search import best_class_kernel
from .classes import ClassTable, expected_softmax, folds, mean_loss
from .columns import default_kernel
from .dirichlet import DirichletLabels, choose
from .packed import PackedFactor, PackedMatrix
from .search import best_kernel
from .targets import (
    NORMALIZATIONS,
    Targets,
    chosen_variances,
    gaussian_quantiles,
    left_out_of_kernels,
    noise_at,
    number_of,
)


@stored
@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """f ~ GP(0, s k) after targets (n,) with noise variances (n,): C = s K + diag σ² = L Lᵀ."""

    factor: PackedFactor  # L
    coefficients: Annotated[np.ndarray, array("f", "n")]  # C⁻¹ y
    prior_variance: float
    square: float  # yᵀ C⁻¹ y
    jitter: float

    @classmethod
    def of(
        cls, K: np.ndarray, y: np.ndarray, noise: np.ndarray, prior_variance: float
    ) -> ExactPosterior:  # (n, n), (n,), (n,)
        C = prior_variance * PackedMatrix.of(K.T)  # K is symmetric: its transpose is no copy
        C.add_to_diagonal(noise)
        factor, jitter = factorise(C)
        solved = factor.solve(y[:, None])[:, 0]
        return cls(factor, solved, float(prior_variance), float(y @ solved), jitter)

    def mean(self, cross: np.ndarray) -> np.ndarray:  # k(x, X) (n*, n) -> (n*,)
        return self.prior_variance * (cross @ self.coefficients)

    def half(self, cross: np.ndarray) -> np.ndarray:  # (n*, n) -> (n, n*)
        """s L⁻¹ k(X, x)."""
        return self.prior_variance * self.factor.half_solve(cross.T)

    def variance(self, cross: np.ndarray, diagonal: np.ndarray) -> np.ndarray:  # -> (n*,)
        explained = np.sum(self.half(cross) ** 2, axis=0)
        return np.maximum(self.prior_variance * diagonal - explained, 0)

    def log_likelihood(self) -> float:
        n = len(self.coefficients)
        return float(log_density(self.factor.log_determinant(), self.square, n))


@stored
class ExactGPRegressor(RegressorMixin, MultiOutputMixin, GaussianProcess):
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
    kernel_, noise_variance_, prior_variance_, posteriors_, means_, scales_, relevances_, search_

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

    X_train_: Annotated[Any, array("f", "n", "d", sparse=True)]
    means_: Annotated[np.ndarray, array("f", "m")]
    scales_: Annotated[np.ndarray, array("f", "m")]
    _noise: Annotated[Any, array("f", "m")]  # None if given by row
    _prior: Annotated[Any, array("f", "m")]

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        noise_variance: float | str = "auto",
        prior_variance: float | str = "auto",
        normalize_y: str | None = "standard",
        optimize: bool | str = "auto",
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.prior_variance = prior_variance
        self.normalize_y = normalize_y
        self.optimize = optimize
        self.random_state = random_state
        self.verbose = verbose

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
        noise = row_noise(by_row, by_row is not None, len(Y))
        means = np.average(Y, axis=0, weights=counts)
        deviations = np.sqrt(np.average((Y - means) ** 2, axis=0, weights=counts))
        normal = Targets.of(means, deviations, self.normalize_y, is_flat)
        Y = (Y - normal.means) / normal.scales
        kernel, search = named(self.kernel, training.inputs), None
        if isinstance(kernel, str):
            kernel = default_kernel(X)
        if wants_kernel_search(self.optimize, self.kernel):
            fixed = noise
            if noise is None and not isinstance(self.noise_variance, str):
                fixed = np.full(len(Y), float(self.noise_variance))
            search = best_kernel(
                kernel,
                X,
                Y,
                noise=fixed,
                alternatives=search_alternatives(
                    "auto" if kernel is not self.kernel else None, kernel
                ),
                rng=as_generator(self.random_state),
                verbose=self.verbose,
            )
            kernel = search.kernel
        kernel = resolved(kernel, X)
        K = gram(kernel, X)
        shared, priors = chosen_variances(
            partial(likelihood_of_kernel, K, Y, noise, counts),
            self.noise_variance,
            self.prior_variance,
            noise is not None,
            normal,
        )
        rows = [np.full(len(Y), s2) if noise is None else noise for s2 in shared]
        posteriors = [
            ExactPosterior.of(K, y, own / counts, s)
            for y, own, s in zip(Y.T, rows, priors, strict=True)
        ]
        copies = [log_density_of_copies(own, counts) for own in rows]
        density = sum(p.log_likelihood() + c for p, c in zip(posteriors, copies, strict=True))
        units = float(np.sum(counts) * np.sum(np.log(normal.scales)))
        return self._assign(
            training.inputs,
            kernel_=kernel,
            search_=search,
            X_train_=X,
            input_scales_=input_scales(X),
            means_=normal.means,
            scales_=normal.scales,
            _noise=None if noise is not None else shared,
            _prior=priors,
            posteriors_=posteriors,
            _flat=is_flat,
            _is_weighted=bool(np.any(counts != 1)),
            _log_likelihood=float(density - units),
        )

    @property
    def noise_variance_(self) -> Any:
        """The noise variance, or (m,) for several outputs; None if it was given by row."""
        return None if self._noise is None else number_of(self._noise)

    @property
    def prior_variance_(self) -> Any:
        """What multiplies the kernel, or (m,) for several outputs."""
        return number_of(self._prior)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
        noise_variance: Any = None,
    ) -> Any:
        """Mean of f, and its standard deviation or covariance; see `FeatureGPRegressor.predict`."""
        check_is_fitted(self)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        X = double_rows(test_rows(self, host(X)))
        cross = gram(self.kernel_, X, self.X_train_)
        mean = np.stack([p.mean(cross) for p in self.posteriors_], axis=1)
        mean = self._shaped(mean * self.scales_ + self.means_)
        if noise_variance is not None and not include_noise:
            raise ValueError("noise_variance is the noise of y: set include_noise=True, too.")
        noise = noise_at(self._noise, noise_variance, len(cross)) if include_noise else 0.0
        if return_std:
            diagonal = np.asarray(self.kernel_.diag(X))
            variance = np.stack([p.variance(cross, diagonal) for p in self.posteriors_], axis=1)
            return mean, self._shaped(np.sqrt(variance + noise) * self.scales_)
        if return_cov:
            covariance = self._covariance(X, cross)
            places = np.arange(len(cross))
            covariance[places, places] += noise
            return mean, self._shaped(covariance * self.scales_**2)
        return mean

    def predict_quantiles(
        self,
        X: Any,
        quantiles: Any = (0.025, 0.5, 0.975),
        *,
        include_noise: bool = True,
        noise_variance: Any = None,
    ) -> np.ndarray:  # (n, d) -> (n, q) or (n, m, q)
        """Quantiles of y, or of f without the noise; see `FeatureGPRegressor`."""
        options = {"include_noise": include_noise, "noise_variance": noise_variance}
        mean, std = self.predict(X, return_std=True, **options)
        return gaussian_quantiles(mean, std, quantiles)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of f at the rows of X, (n, n_samples) or (n, m, n_samples)."""
        check_is_fitted(self)
        n, rng = positive_integer("n_samples", n_samples), as_generator(random_state)
        X = double_rows(test_rows(self, host(X)))
        cross = gram(self.kernel_, X, self.X_train_)
        covariance = self._covariance(X, cross)
        draws = []
        for j, posterior in enumerate(self.posteriors_):
            values, vectors = np.linalg.eigh(covariance[:, :, j])
            root = vectors * np.sqrt(np.maximum(values, 0))
            noise = rng.standard_normal((len(root), n))
            draws.append(root @ noise + posterior.mean(cross)[:, None])
        samples = np.stack(draws, axis=1) * self.scales_[:, None] + self.means_[:, None]
        return samples[:, 0] if self._flat else samples

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
        X, (Y, _) = double_rows(test_rows(self, host(X))), targets(y)
        if X.shape != self.X_train_.shape or abs(X - self.X_train_).max() > 0:
            raise ValueError(
                "leave_one_out of an exact process needs all rows that it was fitted to."
            )
        if self._is_weighted:
            raise ValueError("leave_one_out of an exact process is for rows without sample_weight.")
        by_row = row_noise(noise_variance, self._noise is None, len(Y))
        noise = np.broadcast_to(noise_at(self._noise, by_row, len(Y)), Y.shape)
        K, normal = gram(self.kernel_, X), (Y - self.means_) / self.scales_
        residuals, variance = left_out_of_kernels(K, self._prior, normal, noise)
        deviations = np.sqrt(variance) * self.scales_
        return self._shaped(Y - self.scales_ * residuals), self._shaped(deviations)

    def _covariance(self, X: Array, cross: np.ndarray) -> np.ndarray:  # -> (n, n, m)
        K = gram(self.kernel_, X)
        halves = [p.half(cross) for p in self.posteriors_]
        parts = [
            p.prior_variance * K - half.T @ half
            for p, half in zip(self.posteriors_, halves, strict=True)
        ]
        return np.stack(parts, axis=2)

    def _shaped(self, values: np.ndarray) -> np.ndarray:
        return values[..., 0] if self._flat else values


@stored
class ExactGPClassifier(ClassifierMixin, GaussianProcess):
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

    X_train_: Annotated[Any, array("f", "n", "d", sparse=True)]
    classes_: Annotated[np.ndarray, array("biufUO", "C")]
    class_weights_: Annotated[np.ndarray, array("f", "C")]

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        alpha: float | str = "auto",
        prior_variance: float | str = "auto",
        class_weight: Any = None,
        optimize: bool | str = "auto",
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.kernel = kernel
        self.alpha = alpha
        self.prior_variance = prior_variance
        self.class_weight = class_weight
        self.optimize = optimize
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> ExactGPClassifier:
        """Fit to X (n, d) and labels y (n,); see `DirichletGPClassifier`."""
        check_kernel(self.kernel)
        check_positive("alpha", self.alpha, "auto")
        check_positive("prior_variance", self.prior_variance, "auto", "labels")
        check_optimize(self.optimize)
        training = TrainingRows.of(type(self), X, y, None, sample_weight, labels=True)
        X, y, _, counts = all_rows(training)
        classes, codes = np.unique(labels_of(y), return_inverse=True)
        table = ClassTable.of(classes, np.bincount(codes, weights=counts), self.class_weight)
        seed = int(as_generator(self.random_state).integers(2**31 - 1))
        rng = np.random.default_rng(seed)
        kernel, search = named(self.kernel, training.inputs), None
        if isinstance(kernel, str):
            kernel = default_kernel(X)
        if wants_kernel_search(self.optimize, self.kernel):
            alternatives = search_alternatives(
                "auto" if kernel is not self.kernel else None, kernel
            )
            search = best_class_kernel(kernel, X, y, alternatives, rng, self.verbose)
            kernel = search.kernel
        kernel = resolved(kernel, X)
        K, n = gram(kernel, X), len(codes)

        def posteriors(rows: np.ndarray, labels: DirichletLabels, prior: float) -> list[Any]:
            """Those of all classes, from the training rows with these numbers."""
            own = K[np.ix_(rows, rows)]
            return [
                ExactPosterior.of(
                    own, *class_targets(table, labels, codes[rows], counts[rows], c), prior
                )
                for c in range(len(classes))
            ]

        parts = list(folds(n, rng))

        def loss(labels: DirichletLabels, prior: float) -> float:
            values, sizes = [], []
            for held in parts:
                rest = np.setdiff1d(np.arange(n), held)
                solved = posteriors(rest if len(rest) else held, labels, prior)
                cross = K[np.ix_(held, rest if len(rest) else held)]
                mean = np.stack([p.mean(cross) for p in solved], axis=1) + labels.means
                variance = np.stack([p.variance(cross, np.diag(K)[held]) for p in solved], axis=1)
                values.append(mean_loss(mean, variance, codes[held], counts[held]))
                sizes.append(float(np.sum(counts[held])))
            return float(np.average(values, weights=sizes))

        chosen = choose(self.alpha, self.prior_variance, table.frequencies, n, loss)
        solved = posteriors(np.arange(n), *chosen)
        return self._assign(
            training.inputs,
            kernel_=kernel,
            search_=search,
            X_train_=X,
            input_scales_=input_scales(X),
            classes_=classes,
            class_weights_=table.weights,
            alpha_=chosen.labels.alpha,
            labels_=chosen.labels,
            prior_variance_=chosen.prior_variance,
            posteriors_=solved,
            _seed=seed,
        )

    def predict(self, X: Any) -> np.ndarray:  # (n, d) -> (n,)
        """The class of the greatest latent mean."""
        check_is_fitted(self)
        return self.classes_[self.predict_latent(X)[0].argmax(axis=1)]

    def predict_latent(self, X: Any) -> tuple[np.ndarray, np.ndarray]:  # (n, d) -> (n, C), (n, C)
        """Mean and standard deviation of the latent function of every class."""
        check_is_fitted(self)
        X = double_rows(test_rows(self, host(X)))
        cross, diagonal = gram(self.kernel_, X, self.X_train_), np.asarray(self.kernel_.diag(X))
        mean = np.stack([p.mean(cross) for p in self.posteriors_], axis=1) + self.labels_.means
        variance = np.stack([p.variance(cross, diagonal) for p in self.posteriors_], axis=1)
        return mean, np.sqrt(variance)

    def predict_proba(self, X: Any) -> np.ndarray:  # (n, d) -> (n, C)
        """Probabilities of the classes: the softmax averaged over the latent functions."""
        mean, deviation = self.predict_latent(X)
        return expected_softmax(mean, deviation**2, self._seed)


def class_targets(
    table: ClassTable, labels: DirichletLabels, codes: np.ndarray, counts: np.ndarray, c: int
) -> tuple[np.ndarray, np.ndarray]:  # (n,), (n,) -> (n,), (n,)
    """Targets and noise variances of the latent function of class c."""
    inside = codes == c
    values = np.where(inside, labels.inside, labels.outside) - labels.means[c]
    noise = np.where(inside, labels.inside_variance, labels.outside_variance)
    return values, noise / table.weights[codes] / counts


def check_kernel(kernel: Any) -> None:
    is_auto = isinstance(kernel, str) and kernel == "auto"
    is_kernel = callable(kernel) and hasattr(kernel, "diag") and not isinstance(kernel, type)
    if not is_auto and not is_kernel:
        raise TypeError(f'kernel must be "auto" or a kernel, such as Gaussian(); got {kernel!r}.')


def wants_kernel_search(optimize: Any, kernel: Any) -> bool:
    """Whether a model searches: as asked, or if it chooses its kernel itself ("auto")."""
    if isinstance(optimize, str):
        return isinstance(kernel, str)
    if optimize and not isinstance(kernel, (str, Kernel)):
        raise ValueError(
            "optimize=True searches the parameters of kernels of this library; fit the parameters "
            f"of {kernel!r} yourself, or use optimize=False."
        )
    return bool(optimize)


def named(kernel: Any, inputs: Any) -> Any:
    """The kernel with numbers for the names of its inputs (`Kernel.on`)."""
    names = getattr(inputs, "feature_names_in_", None)
    return kernel.named(names) if isinstance(kernel, Kernel) else kernel


def all_rows(training: TrainingRows) -> tuple[Array, Any, Any, np.ndarray]:
    """All rows in memory, in double precision, and how often they count."""
    if training.rows.columns is None:
        raise ValueError(
            "An exact process needs all rows in memory: use the estimators on features."
        )
    n_rows = int(training.rows.n_rows or 0)
    X, y, noise, counts = training.sample(n_rows, np.random.default_rng(0))
    counts = np.ones(X.shape[0]) if counts is None else np.asarray(counts, dtype=np.float64)
    return double_rows(X), y, noise, counts


def log_density_of_copies(noise: np.ndarray, counts: np.ndarray) -> float:  # (n,), (n,)
    """log of the density of w copies of every row over that of one row with the noise σ²/w.

    |s K + σ²| of the copies is |s K + σ²/w| Π w σ^(2(w − 1)), and yᵀC⁻¹y is the same.
    """
    return -0.5 * float(np.sum((counts - 1) * np.log(2 * np.pi * noise) + np.log(counts)))


def gram(kernel: Any, X: Array, Y: Array | None = None) -> np.ndarray:  # -> (n, n) or (n, m)
    """The Gram matrix in double precision."""
    return np.asarray(kernel(X) if Y is None else kernel(X, Y), dtype=np.float64)


def resolved(kernel: Any, X: Array) -> Any:
    """A copy of the kernel with parameters that depend on data set from X."""
    return clone(kernel.resolve(X) if hasattr(kernel, "resolve") else kernel)


def double_rows(X: Any) -> Any:
    """Rows in double precision, dense or sparse."""
    return X.astype(np.float64)
