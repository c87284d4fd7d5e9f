"""Gaussian process regression on features."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .._arrays import Array, as_generator, positive_integer
from ..features.base import check_fitted
from ..rows.sources import Block, Rows, is_on_disk, is_stream, sample_weights
from ..spectrum import Spectrum, best_variances
from .base import SAMPLE_ROWS, FeatureGP, check_test_rows
from .evidence import CorrectedRows, log_evidence, spectrum_of_features
from .functions import SampledFunctions
from .iterative import (
    DIRECT_ROWS,
    MOST_COLUMNS,
    RowPasses,
    check_direct,
    check_solver,
    chosen_solver,
    compressed,
    forget,
)
from .posterior import Posterior, evaluate
from .search import Score, tuned_features
from .solvers import ConjugateGradients, RowBlock, System
from .sums import SufficientStatistics
from .targets import GaussianRegressor, check_noise, check_targets, moments

CORRECTIONS = ("auto", None, "posterior", "fitc")
SCORED_ROWS = 50_000  # a common factor of the lengthscales is chosen on so many
CORRECTED_ROWS = 2000  # variances are chosen on so many rows if those are corrected
# Noise that the marginal likelihood chose holds what the features lack on most training rows: this
# quantile over so many of them. (Coverage of 95 % intervals on pol, elevators, kin40k and protein
# was 0.94 to 0.96; 0.97 to 1.00 where all that is missing is added to that noise again.)
USUAL, DEFICIT_ROWS = 0.9, 500


class FeatureGPRegressor(GaussianRegressor, FeatureGP):
    """Gaussian process regression with the kernel of a feature map, in one pass over the rows.

    The features of a block of rows are reduced to sums of D² numbers (`SufficientStatistics`), so
    that memory does not grow with the number of rows, and time is linear in it. All algebra is
    D-dimensional and in double precision.

    Parameters
    ----------
    features : transformer
        Any feature map of this library or transformer of scikit-learn, with real or complex
        output. A clone is fitted: on X if it is in memory, on 10000 evenly spaced rows of a memory
        map or data set, on the first 10000 rows of a stream. scikit-learn's `FrozenEstimator`
        keeps features that are fitted already.
    noise_variance : float or "auto", default="auto"
        Variance of the noise; "auto" maximises the marginal likelihood, which one
        spectrum gives for all values.
    prior_variance : float or "auto", default="auto"
        Multiplies the kernel (which has a variance of its own); "auto" as for the noise, from the
        same spectrum. If y is constant, "auto" is 1 for both.
    posterior : {"real", "complex"}, default="real"
        For complex features: the Gaussian process with the kernel Re k̂, on the columns [Re, Im]; or
        the real part of the complex Gaussian process (the paper's). The latter also learns that the
        imaginary part is zero, which makes its variances too small; it costs 3/4 of the sums and
        half of the factorisation. For real features they are the same.
    variance_correction : "auto", None, "posterior" or "fitc", default="auto"
        Nyström features and truncated series cannot carry all of k(x, x). "posterior" adds
        k(x, x) − E k̂(x, x) to the variance of every prediction (Section 5.6 of the paper); "fitc"
        adds it to the noise of the training rows too (variances that are "auto" are then chosen on
        at most 2000 rows, before the pass). "auto" is "posterior" for Nyström features, also at the
        end of a pipeline, and None for all others. Noise that the marginal likelihood chose holds
        already what Nyström features lack on the training rows: with "auto", predictions then add
        only what a row lacks beyond nine of ten training rows, up to all of k(x, x) for rows unlike
        all landmarks.
    solver : {"auto", "cholesky", "cg"} or ConjugateGradients, default="auto"
        "cholesky" needs one pass over the rows and N D² operations. "cg", conjugate gradients,
        needs one pass for every iteration and N D operations in each; memory grows with D, not with
        D², and variances are estimated from draws (see `ConjugateGradients`). Variances that are
        "auto" are then chosen on at most 2000 rows. "auto" is "cg" beyond 4096 columns if the rows
        can be read more than once and the columns are real.
    normalize_y : {"standard", "mean", None}, default="standard"
        "standard" subtracts the mean of every output (all rows count alike) and divides by its
        standard deviation, as `normalize_y=True` of scikit-learn does. Variances that you give,
        also by row, are in the squared units of y as it is normalised: 0.01 is 1 % of the variance
        of y. "mean" only subtracts the mean, and None takes y as it is: variances are then in the
        squared units of y, and several outputs share them.
    optimize : bool, "ard" or "common", default=False
        True searches for the parameters of the features' kernel by the marginal likelihood before
        the pass, and chooses both variances whatever the parameters say. "ard" searches one
        lengthscale for every column, "common" those that the kernel has (one, usually), and True
        is "ard" if there are more than 20 rows for every column and at most 200 columns. See
        docs/guide/tuning.md for what it does and what it costs.
    time_budget : float or None, default=None
        Seconds after which the search ends with the best it has found (the pass is not counted).
        What is found then depends on the speed of the machine.
    chunk_rows : int or None, default=None
        Rows of a block, and between two checkpoints; None chooses blocks of about 64 MB.
    verbose : bool, default=False
        A progress bar (needs rich), and the steps of a search as they are done.

    Attributes
    ----------
    features_ : the fitted feature map
    statistics_ : SufficientStatistics of all rows seen (targets less `offset_`); not with "cg"
    posterior_ : Posterior of the weights
    noise_variance_, prior_variance_ : floats, in the squared units of y as it is normalised (of
        y / `scales_`); the noise is None if given by row
    jitter_ : float, relative jitter that the factorisation took (0 in good health)
    solver_ : "cholesky" or "cg", the solver that was used
    n_iterations_, residuals_ : with "cg", the number of iterations and the relative residual after
        0, 1, … of them
    kernel_ : the kernel of the features, with the parameters that were found
    relevances_ : (d,), 1/lengthscale of every column, summing to one
    search_ : Search, the table of what was tried, or None without a search

    Examples
    --------
    >>> import numpy as np
    >>> from dotsketch import FeatureGPRegressor, Gaussian, MaclaurinFeatures
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (500, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500)
    >>> features = MaclaurinFeatures(Gaussian(lengthscale=1.0), n_components=20, random_state=0)
    >>> gp = FeatureGPRegressor(features).fit(X, y)
    >>> mean, std = gp.predict(np.array([[0.5]]), return_std=True)
    >>> bool(abs(mean[0] - np.sin(0.5)) < 3 * std[0]), gp.noise_variance_ < 0.03  # of var(y)
    (True, True)
    """

    statistics_: SufficientStatistics

    def __init__(
        self,
        features: Any,
        *,
        noise_variance: float | str = "auto",
        prior_variance: float | str = "auto",
        posterior: str = "real",
        variance_correction: str | None = "auto",
        solver: Any = "auto",
        normalize_y: str | None = "standard",
        optimize: bool | str = False,
        time_budget: float | None = None,
        chunk_rows: int | None = None,
        verbose: bool = False,
    ):
        self.features = features
        self.noise_variance = noise_variance
        self.prior_variance = prior_variance
        self.posterior = posterior
        self.variance_correction = variance_correction
        self.solver = solver
        self.normalize_y = normalize_y
        self.optimize = optimize
        self.time_budget = time_budget
        self.chunk_rows = chunk_rows
        self.verbose = verbose

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        noise_variance: Any = None,
        optimize: bool | str | None = None,
        checkpoint: Any = None,
    ) -> FeatureGPRegressor:
        """Fit in one pass, or in one for every iteration of `solver="cg"`.

        Parameters
        ----------
        X : array, memory map, data set with slices (h5py, zarr, dask), iterator of batches (X, y)
            or (X, y, noise_variance) or {"X": …, "y": …, "noise_variance": …, "sample_weight": …},
            or a function that returns such an iterator
        y : array (n,) or (n, m), or None if X is an iterator
        sample_weight : array (n,) or None
            How often every row counts: a weight of 3 is three copies of the row, in everything that
            is computed from it; 0 leaves the row out. Features are fitted to the rows with
            positive weights, each once.
        noise_variance : array (n,) or None
            The variance of the noise of every row, instead of the parameter and in its units:
            divide variances in the units of y by `y.var()`, or set `normalize_y="mean"`.
        optimize : bool, "ard", "common" or None
            Takes the place of the parameter if it is not None.
        checkpoint : path or None
            Sums are written there after every chunk, or the state of "cg" after every iteration; a
            later fit with the same path goes on.
        """
        self._check_parameters()
        rows = self._training_rows(X, y, noise_variance, sample_weight, reset=True)
        self._begin(rows, self._asked(optimize))
        solver = chosen_solver(self.solver, rows, self.n_columns_, np.iscomplexobj(self._probe))
        if solver is not None:
            return self._fit_by_passes(rows, solver, checkpoint)
        self.solver_ = "cholesky"
        forget(self, "n_iterations_", "residuals_")
        self.statistics_ = self._sums(rows, checkpoint)
        return self._finish()

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, noise_variance: Any = None
    ) -> FeatureGPRegressor:
        """Add rows to those seen before. The features are fitted by the first call.

        So is a kernel that is searched for (`optimize`): on the rows of the first call.
        The posterior is computed anew by every call: give `fit` a generator for many batches.
        Rows are reduced to sums, so `solver="auto"` is "cholesky" here.
        """
        self._check_parameters()
        check_direct(self, "partial_fit")
        first = not hasattr(self, "statistics_")
        rows = self._training_rows(X, y, noise_variance, sample_weight, reset=first)
        if first:
            self._begin(rows, self._asked(None))
            self.solver_ = "cholesky"
            self.statistics_ = self._no_rows()
        self.statistics_ = self.statistics_ + self._sums(rows)
        return self._finish()

    def refit(self, *, optimize: bool | None = None) -> FeatureGPRegressor:
        """The posterior for changed parameters (noise, prior, normalisation), without the rows.

        `optimize` chooses both variances whatever the parameters say; None does as `fit` did.
        """
        check_fitted(self)
        self._check_parameters()
        check_direct(self, "refit")
        if optimize is not None:
            self.optimized_ = bool(optimize)
        if self._corrects_rows or self.variance_correction == "fitc":
            raise ValueError('variance_correction="fitc" changes the sums: fit again.')
        return self._finish()

    def merge(self, other: FeatureGPRegressor) -> FeatureGPRegressor:
        """Add the rows that another regressor with the same features has seen.

        The result is that of one fit to the rows of both, whatever their means. Both take features
        that were fitted once, in scikit-learn's `FrozenEstimator`.
        """
        check_fitted(self)
        self._check_parameters()
        check_direct(self, "merge")
        self._check_mergeable(other)
        check_direct(other, "merge")
        if (self._noise_by_row, self._row_variances) != (other._noise_by_row, other._row_variances):
            raise ValueError(
                "Both must have the noise of their rows in the same way: by row or not, and with "
                'variance_correction="fitc" of the same noise_variance and prior_variance, given '
                "as numbers."
            )
        if len(self.offset_) != len(other.offset_):
            raise ValueError(
                f"They have {len(self.offset_)} and {len(other.offset_)} outputs, which must agree."
            )
        theirs = other.statistics_.shifted(other.offset_ - self.offset_)
        self.statistics_ = self.statistics_ + theirs
        return self._finish()

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        include_noise: bool = False,
    ) -> Any:  # (n, d) -> (n,) or (n, m); std of the same shape; covariance (n, n) or (n, n, m)
        """Mean of f at the rows of X, and its standard deviation or covariance.

        `include_noise` adds the noise variance, for the spread of y instead of f.
        """
        check_fitted(self)
        self._check_request(return_std, return_cov)
        means, variances, parts = [], [], []
        for rows, Z in self._prediction_blocks(X):
            means.append(self.posterior_.mean(Z))
            if return_std:
                extra = self._extra_variance(rows, Z, include_noise)
                variances.append(self.posterior_.variance(Z) + extra)
            if return_cov:
                parts.append((Z, self._extra_variance(rows, Z, include_noise)))
        mean = self._shaped(np.concatenate(means) * self.scales_ + self.means_)
        if return_std:
            deviations = np.sqrt(np.concatenate(variances))
            return mean, self._shaped(deviations[:, None] * self.scales_)
        if return_cov:
            covariance = self.posterior_.covariance(np.concatenate([Z for Z, _ in parts]))
            covariance[np.diag_indices(len(covariance))] += np.concatenate([e for _, e in parts])
            return mean, self._shaped(covariance[:, :, None] * self.scales_**2)
        return mean

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0
    ) -> np.ndarray:  # (n, d) -> (n, n_samples) or (n, m, n_samples)
        """Draws of f at the rows of X: `sample_functions`, and the variance that they lack.

        Where features lack some of k(x, x) and predictions add it (`variance_correction`), it is
        white noise: drawn for every row, not part of a function.
        """
        rng = as_generator(random_state)
        functions = self.sample_functions(n_samples, rng)
        draws = []
        for rows, Z in self._prediction_blocks(X):
            values = evaluate(Z, functions.weights)
            extra = self._extra_variance(rows, Z, False)
            if np.any(extra):
                values = values + np.sqrt(extra)[:, None, None] * rng.standard_normal(values.shape)
            draws.append(values)
        return functions.in_units(np.concatenate(draws))

    def sample_functions(self, n_functions: int = 1, random_state: Any = None) -> SampledFunctions:
        """Functions drawn from the posterior: an object `f` with `f(X)` (n, n_functions).

        Every call of `f` evaluates the same functions, in NumPy, PyTorch or JAX, with gradients to
        X: they can be maximised (Thompson sampling) or integrated. Their mean and covariance are
        those of `predict` as far as the features carry them: the variance that predictions add
        where features lack some of k(x, x) (`variance_correction`) is not part of any function;
        `sample_y` adds it. With m outputs `f(X)` is (n, m, n_functions).
        """
        check_fitted(self)
        n = positive_integer("n_functions", n_functions)
        weights = self.posterior_.sample_weights(n, as_generator(random_state))
        return SampledFunctions(
            self.features_, weights, self.means_, self.scales_, self._joins_parts, self._flat
        )

    def log_marginal_likelihood(self) -> float:
        """log p(y) of the training targets at the fitted variances, in units of y."""
        check_fitted(self)
        check_direct(self, "log_marginal_likelihood")
        statistics, noise = self.statistics_, self._unit_noise
        cross, squares = statistics.centred(self.means_ - self.offset_, self.scales_)
        system = System(statistics.second_moment, cross / noise)
        log_noise = statistics.n * np.log(noise) - statistics.log_weights
        square = float(np.sum(squares)) / noise
        density = log_evidence(system, self.posterior_, square, log_noise, statistics.n)
        units = statistics.n * np.sum(np.log(self.scales_))
        return density - float(units) * (2 if np.iscomplexobj(cross) else 1)

    def leave_one_out(
        self, X: Any, y: Any, *, noise_variance: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:  # (n, d), (n,) or (n, m) -> twice the shape of y
        """Mean and standard deviation of y at training rows, each predicted from all the others.

        Nearly free: with the posterior mean μ and variance v of f at a row, and the noise σ² of its
        target, the posterior without this row has the mean y − (y − μ)/(1 − v/σ²) and the variance
        v/(1 − v/σ²); the noise is added. Features, variances, mean and scale of y stay those of all
        rows. X and y are the training rows or some of them, noise_variance (n,) theirs if it was
        given by row; a row with a sample_weight loses one of its copies. Needs the variances of
        solver="cholesky".

        Examples
        --------
        >>> import numpy as np
        >>> from dotsketch import FeatureGPRegressor, Gaussian, NystromFeatures
        >>> X = np.linspace(0, 6, 60)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).standard_normal(60)
        >>> gp = FeatureGPRegressor(NystromFeatures(Gaussian(), n_components=9, random_state=0))
        >>> mean, std = gp.fit(X, y).leave_one_out(X, y)
        >>> bool(np.mean(np.abs(y - mean) < 2 * std) > 0.9)
        True
        """
        check_fitted(self)
        if self.solver_ != "cholesky":
            raise ValueError(
                f"leave_one_out needs exact variances, and those of solver={self.solver_!r} are "
                'estimates: fit with solver="cholesky".'
            )
        means, variances = [], []
        for columns in Rows((check_test_rows(self, X), y, noise_variance)).blocks(
            self._block_rows()
        ):
            rows, Y, row_noise, _ = self._columns(columns)
            # in double precision: what a row of its own leaves of its noise is a small difference
            Z = self._map(rows).astype(self._dtype, copy=False)
            weights = self._row_weights(rows, Z, row_noise)
            noise = self._unit_noise / (np.ones(len(Y)) if weights is None else weights)
            # rounding alone may leave nothing of a row that has the model to itself
            rest = np.maximum(1 - self.posterior_.variance(Z) / noise, np.finfo(np.float64).eps)
            residuals = (Y - self.means_) / self.scales_ - self.posterior_.mean(Z)
            means.append(Y - self.scales_ * residuals / rest[:, None])
            variance = noise / rest
            if not self._corrects_rows:  # with "fitc" the noise of a row holds what is missing
                variance += self.prior_variance_ * self._missing(rows, Z)
            variances.append(variance)
        deviations = np.sqrt(np.concatenate(variances))[:, None] * self.scales_
        return self._shaped(np.concatenate(means)), self._shaped(deviations)

    def _check_parameters(self) -> None:
        self._check_features(CORRECTIONS)
        self._check_regressor()
        check_solver(self.solver)

    def _training_rows(
        self, X: Any, y: Any, noise_variance: Any, sample_weight: Any, *, reset: bool
    ) -> Rows:
        if not is_stream(X) and not is_on_disk(X):
            X, y = self._check_rows(X, y, reset=reset)
        return self._rows(X, y, noise_variance, sample_weight)

    def _begin(self, rows: Rows, optimize: bool | str) -> None:
        """Fit the features, and note what the sums depend on."""
        self.optimized_ = bool(optimize)
        sample = rows.sample(SAMPLE_ROWS)
        Y, self._flat = check_targets(sample[1])
        self.offset_ = Y.mean(axis=0)  # sums of squares lose no digits to a large mean
        self._noise_by_row = len(sample) > 2 and sample[2] is not None
        self._corrects_rows = self.variance_correction == "fitc"
        self._row_variances: tuple[float, float] | None = None  # what the sums assume, for fitc
        self.search_ = None
        features = self._tuned_features(rows, sample, optimize) if optimize else self.features
        self._fit_features(rows, features)
        self._usual_lack = self._measured_deficit(sample[0])
        if self._corrects_rows:
            # the corrected noise of a row holds both variances: they are chosen before the pass
            self._row_variances = self._corrected_variances(sample)

    def _measured_deficit(self, X: Any) -> float:
        """The share of k(x, x) that features usually lack on training rows, if it counts."""
        if self.variance_correction != "auto" or self._correction is None:
            return 0.0
        if self._unseen_level is not None:
            return 0.0
        rows = self._check_block(Rows((X,)).sample(DEFICIT_ROWS)[0])
        shares = self._deficit(rows, self._map(rows)) / self._positive_diagonal(rows)
        return float(np.quantile(shares, USUAL))

    def _positive_diagonal(self, X: Array) -> np.ndarray:  # (n, d) -> (n,)
        result: np.ndarray = np.maximum(np.asarray(self._prior_diagonal(X)), np.finfo(float).tiny)
        return result

    def _missing(self, X: Array, Z: np.ndarray) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """What predictions add: nothing of what the chosen noise holds, all of it at zero rows."""
        missing = super()._missing(X, Z)
        if not self._noise_holds_lack:
            return missing
        prior, usual = self._positive_diagonal(X), min(self._usual_lack, 1 - 1e-6)
        result: np.ndarray = prior * np.clip((missing / prior - usual) / (1 - usual), 0, 1)
        return result

    def _corrected_variances(self, sample: Block) -> tuple[float, float]:
        """Noise and prior variance for rows with corrections, on some of the sample."""
        noise_variance, prior = self._given_variances(self._noise_by_row, self.optimized_)
        if noise_variance is not None and prior is not None:
            return noise_variance, prior
        X, Y, noise, counts = self._columns(Rows(sample).sample(CORRECTED_ROWS))
        Z, counts = self._map(X), np.ones(len(Y)) if counts is None else counts
        means, scales = self._normalisation(*moments(Y, counts))
        Y, deficits = (Y - means) / scales, self._deficit(X, Z)
        rows = CorrectedRows(compressed(Z), Y, deficits, noise, counts)
        return rows.best_variances(noise_variance, prior)

    def _columns(
        self, block: Block
    ) -> tuple[Array, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Validated rows, targets, noise variances and sample weights of a block."""
        X, (Y, _) = self._check_block(block[0]), check_targets(block[1])
        if Y.shape[1] != len(self.offset_):
            raise ValueError(f"y has {Y.shape[1]} outputs; {len(self.offset_)} are expected.")
        noise = block[2] if len(block) > 2 else None
        return X, Y, check_noise(noise, self._noise_by_row, len(Y)), sample_weights(block)

    def _sums(self, rows: Rows, checkpoint: Any = None) -> SufficientStatistics:
        assumed = self.offset_.tolist(), self._row_variances
        result: SufficientStatistics = self._gather(
            rows, self._block, self._no_rows, assumed=assumed, path=checkpoint
        )
        return result

    def _block(self, columns: Block, first: int = 0) -> tuple[Any, ...]:
        """Features, targets, weights and counts of a block."""
        X, Y, noise, counts = self._columns(columns)
        Z = self._map(X)
        return Z, Y - self.offset_, self._row_weights(X, Z, noise), counts

    def _no_rows(self) -> SufficientStatistics:
        return SufficientStatistics.zeros(self.n_columns_, len(self.offset_), self._dtype)

    def _tuned_features(self, rows: Rows, sample: Block, optimize: bool | str) -> Any:
        """The features with the kernel of the greatest marginal likelihood."""
        in_memory = rows.columns is not None and not is_on_disk(rows.columns[0])
        X = sample[0] if in_memory else self._check_sample(sample[0])
        (Y, _), noise = check_targets(sample[1]), sample[2] if self._noise_by_row else None
        scored = rows.sample(SCORED_ROWS) if in_memory else (X, *sample[1:])
        recorder = self._recorder()
        features, message = tuned_features(
            self.features,
            X,
            Y / self._normalisation(Y.mean(axis=0), Y.std(axis=0))[1],
            check_noise(noise, self._noise_by_row, len(Y)),
            sample_weights(sample),
            score=lambda features: self._score(features, Rows(scored)),
            n_scored=scored[0].shape[0],
            per_column=self._per_column(optimize),
            rng=np.random.default_rng(0),
            recorder=recorder,
        )
        self.search_ = recorder.finish(message)
        return features

    def _score(self, features: Any, rows: Rows) -> Score:
        """What features reach on rows: the evidence at the best variances, and those."""
        self._fit_features(rows, features, is_final=False)
        if self.n_columns_ > MOST_COLUMNS:  # too many for sums over all rows
            statistics = self._sample_sums(rows.sample(DIRECT_ROWS))
        else:
            statistics = self._no_rows()
            for block in rows.blocks(self._block_rows()):
                statistics.update(*self._block(block))
        spectrum = self._spectrum(statistics)
        free = self._given_variances(self._noise_by_row, True)
        noise, prior = best_variances(lambda: spectrum, *free)
        return spectrum.log_likelihood(noise, prior) / spectrum.n, noise, prior

    def _finish(self) -> FeatureGPRegressor:
        """From the sums to the posterior."""
        statistics = self.statistics_
        self.means_, self.scales_ = self._units(statistics)
        if self._row_variances is None:
            noise, prior = self._choose_variances(statistics)
        else:
            noise, prior = 1.0, self._row_variances[1]
        system = statistics.system(self.means_ - self.offset_, self.scales_, noise)
        [posterior] = self._solver.solve([system], prior)
        return self._set_posterior(posterior, noise, prior)

    def _fit_by_passes(
        self, rows: Rows, solver: ConjugateGradients, checkpoint: Any
    ) -> FeatureGPRegressor:
        """The posterior by iterations over the rows, which leave no sums."""
        given = solver, self.noise_variance, self.prior_variance, self.normalize_y
        assumed = self.offset_.tolist(), self._row_variances, given
        passes = RowPasses(self, rows, checkpoint, assumed)
        targets = SufficientStatistics.zeros(0, len(self.offset_))

        def add(columns: Block) -> None:
            _, Y, _, counts = self._columns(columns)
            targets.update(np.empty((len(Y), 0)), Y - self.offset_, counts=counts)

        def block(columns: Block, exact: bool) -> RowBlock:
            X, Y, row_noise, counts = self._columns(columns)
            X = passes.single(X, exact)
            Z = self._map(X)
            weights = self._row_weights(X, Z, row_noise)
            weights = np.ones(len(Y)) if weights is None else weights
            weights = weights if counts is None else weights * counts
            Y = (Y - self.means_) / self.scales_
            return RowBlock(Z, Y[:, None, :], weights[:, None] / noise)

        passes.targets(add)
        self.means_, self.scales_ = self._units(targets)
        if self._row_variances is None:
            noise, prior = self._variances_on_sample(rows)
        else:
            noise, prior = 1.0, self._row_variances[1]
        [posterior] = passes.solve(solver, block, 1, len(self.offset_), prior)
        self.solver_ = "cg"
        forget(self, "statistics_")
        return self._set_posterior(posterior, noise, prior)

    def _variances_on_sample(self, rows: Rows) -> tuple[float, float]:
        """Noise and prior variance: given, or chosen by the direct path on some rows."""
        noise, prior = self._given_variances(self._noise_by_row, self.optimized_)
        if noise is not None and prior is not None:
            return noise, prior
        return self._choose_variances(self._sample_sums(rows.sample(DIRECT_ROWS)))

    def _sample_sums(self, sample: Block) -> SufficientStatistics:
        """The sums over some rows, in as few columns as these rows need."""
        Z, *others = self._block(sample)
        return SufficientStatistics.of(compressed(Z), *others)

    def _set_posterior(
        self, posterior: Posterior, noise: float, prior: float
    ) -> FeatureGPRegressor:
        self.posterior_: Any = posterior
        self.jitter_ = posterior.jitter
        self._unit_noise = noise
        self.prior_variance_ = prior
        is_chosen = self._given_variances(self._noise_by_row, self.optimized_)[0] is None
        is_automatic = self.variance_correction == "auto"
        self._noise_holds_lack = is_automatic and is_chosen and self._usual_lack > 0
        shared = noise if self._row_variances is None else self._row_variances[0]
        self.noise_variance_ = None if self._noise_by_row else shared
        return self

    def _units(self, statistics: SufficientStatistics) -> tuple[np.ndarray, np.ndarray]:
        """What is subtracted from every output, and what it is divided by."""
        return self._normalisation(statistics.means() + self.offset_, statistics.deviations())

    def _choose_variances(self, statistics: SufficientStatistics) -> tuple[float, float]:
        """Noise and prior variance: given, or of the greatest marginal likelihood."""
        noise, prior = self._given_variances(self._noise_by_row, self.optimized_)
        means, deviations = statistics.means() + self.offset_, statistics.deviations()
        if self._is_constant(means, deviations):
            return noise or 1.0, prior or 1.0
        spectrum = cache(lambda: self._spectrum(statistics))
        found = best_variances(spectrum, noise, prior)
        if prior is not None or self._unseen_level is None:
            return found
        # features that vanish say nothing about s, which multiplies all of k(x, x) in predictions:
        # f does not vary by more than y
        squares = (deviations**2 + (means - self.means_) ** 2) / self.scales_**2
        largest = (float(np.mean(squares)) or 1.0) / self._unseen_level
        return found if found[1] <= largest else best_variances(spectrum, noise, largest)

    def _spectrum(self, statistics: SufficientStatistics) -> Spectrum:
        means, scales = self._units(statistics)
        return spectrum_of_features(statistics, *statistics.centred(means - self.offset_, scales))

    def _row_weights(self, X: Array, Z: np.ndarray, noise: np.ndarray | None) -> np.ndarray | None:
        """The inverse noise variances of training rows, or None if all are the same."""
        if self._row_variances is not None:
            base, prior = self._row_variances
            noise = (base if noise is None else noise) + prior * self._deficit(X, Z)
        return None if noise is None else 1 / noise

    def _extra_variance(self, X: Array, Z: np.ndarray, include_noise: bool) -> np.ndarray:
        """What is added to the variance of f at rows to predict (in normalised units)."""
        extra = self.prior_variance_ * self._missing(X, Z)
        return extra + self._shared_noise() if include_noise else extra
