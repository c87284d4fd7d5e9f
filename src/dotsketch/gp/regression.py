"""Gaussian process regression on features."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..features.validation import check_fitted
from ..rows.collections import split_target
from ..rows.copies import copies
from ..rows.sources import SAMPLE_ROWS, Block, Rows, is_on_disk, is_stream
from .corrections import CORRECTIONS
from .iterative import RowPasses, check_direct, check_solver, chosen_solver, forget
from .posterior import Posterior
from .predictions import RegressionPredictions
from .solvers import ConjugateGradients, RowBlock
from .sums import SufficientStatistics
from .targets import check_targets
from .tuning import TunedRegression


class FeatureGPRegressor(TunedRegression, RegressionPredictions):
    """Gaussian process regression with the kernel of a feature map, in one pass over the rows.

    The features of a block of rows are reduced to sums of D² numbers (`SufficientStatistics`), so
    that memory does not grow with the number of rows, and time is linear in it. All algebra is
    D-dimensional and in double precision.

    Parameters
    ----------
    features : transformer or "auto", default="auto"
        Any feature map of this library or transformer of scikit-learn, with real or complex
        output. "auto" scales the columns of dense rows to unit variance and uses `NystromFeatures`
        of a Matérn kernel with 2048 columns, or one per row if there are fewer rows. A clone is
        fitted: on X if it is in memory, on 10,000 evenly spaced rows of a memory map or data set,
        or on the first 10,000 rows of a stream. Wrap features that are already fitted in
        scikit-learn's `FrozenEstimator`.
    noise_variance : float or "auto", default="auto"
        Variance of the noise; "auto" maximises the marginal likelihood.
    prior_variance : float or "auto", default="auto"
        Multiplies the kernel (which also has a variance); "auto" maximises the marginal
        likelihood. If y is constant, "auto" is 1 for both variances.
    posterior : {"real", "complex"}, default="real"
        For complex features: the Gaussian process with the kernel Re k̂, on the columns [Re, Im]; or
        the real part of the complex Gaussian process (the paper's). The latter is overconfident,
        because it assumes that the imaginary part was observed to be zero; it takes 3/4 of the
        time for the sums and half of that for the factorisation. For real features both are the
        same.
    variance_correction : "auto", None, "posterior" or "fitc", default="auto"
        Nyström features and truncated series cannot carry all of k(x, x). "posterior" adds
        k(x, x) − E k̂(x, x) to the variance of every prediction (Section 5.6 of the paper); "fitc"
        adds it to the noise of the training rows too (variances that are "auto" are then chosen on
        at most 2000 rows, before the pass). "auto" is "posterior" for Nyström features, also at the
        end of a pipeline, and None for all others. If the noise is chosen by the marginal
        likelihood, it already contains what Nyström features lack on most training rows: "auto"
        then adds only what a row lacks beyond the 90 % quantile of the training rows.
    solver : {"auto", "cholesky", "cg"} or ConjugateGradients, default="auto"
        "cholesky" needs one pass over the rows and N D² operations. "cg", conjugate gradients,
        needs one pass for every iteration and N D operations in each; memory grows with D, not with
        D², and variances are estimated from draws (see `ConjugateGradients`). Variances that are
        "auto" are then chosen on 2000 rows, and corrected by 20,000 rows with fewer columns. "auto"
        is "cg" beyond 4096 columns if the rows can be read more than once and the columns are real.
    normalize_y : {"standard", "mean", None}, default="standard"
        "standard" subtracts the mean of every output (all rows count alike) and divides by its
        standard deviation, like `normalize_y=True` in scikit-learn. Variances that you give, also
        per row, then refer to the normalised y: 0.01 is 1 % of the variance of y. "mean" only
        subtracts the mean, and None leaves y unchanged: variances are then in the squared units of
        y, and several outputs share them.
    optimize : bool, "ard" or "common", default=False
        True searches for the parameters of the features' kernel by the marginal likelihood before
        the pass, and chooses both variances, even if they are given. "ard" searches one lengthscale
        per column, "common" the lengthscales that the kernel has (usually one), and True is "ard"
        if there are more than 20 rows per column and at most 200 columns. See the guide, "Tuning
        the kernel".
    time_budget : float or None, default=None
        Seconds after which the search ends with the best parameters so far, not counting the final
        pass. The result then depends on the speed of the machine.
    chunk_rows : int or None, default=None
        The number of rows in a block, and between two checkpoints; None chooses blocks of about
        64 MB.
    verbose : bool, default=False
        Whether to show a progress bar (needs rich) and the steps of a search.

    Attributes
    ----------
    features_ : the fitted feature map
    statistics_ : SufficientStatistics of all rows seen (targets less `offset_`); not with "cg"
    posterior_ : Posterior of the weights
    noise_variance_, prior_variance_ : floats, in the squared units of y as it is normalised (of
        y / `scales_`); the noise is None if given by row
    jitter_ : float, relative jitter that was added for the factorisation (usually 0)
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
    >>> bool(FeatureGPRegressor().fit(X, y).score(X, y) > 0.97)
    True

    With features of your choice:

    >>> features = MaclaurinFeatures(Gaussian(lengthscale=1.0), n_components=20, random_state=0)
    >>> gp = FeatureGPRegressor(features).fit(X, y)
    >>> mean, std = gp.predict(np.array([[0.5]]), return_std=True)
    >>> bool(abs(mean[0] - np.sin(0.5)) < 3 * std[0]), gp.noise_variance_ < 0.03  # of var(y)
    (True, True)
    """

    def __init__(
        self,
        features: Any = "auto",
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
        target: Any = None,
        noise_variance: Any = None,
        optimize: bool | str | None = None,
        checkpoint: Any = None,
    ) -> FeatureGPRegressor:
        """Fit in one pass, or in one for every iteration of `solver="cg"`.

        Parameters
        ----------
        X : array, memory map, data set with slices (h5py, zarr), iterator of batches (X, y) or
            (X, y, noise_variance) or {"X": …, "y": …, "noise_variance": …, "sample_weight": …}, or
            a function that returns such an iterator; or a Dask array (chunks of rows) or data
            frame, whose partitions are reduced to sums where they are
        y : array (n,) or (n, m), or None if X is an iterator or has the column `target`
        sample_weight : array (n,) or None
            How often every row counts: a weight of 3 is three copies of the row, in everything that
            is computed from it; 0 leaves the row out. Features are fitted to the copies, for which
            memory is taken: to all of them if there are at most 10,000 or as many as rows,
            otherwise to that many of them, evenly spaced. For this, weights that are not whole
            numbers are rounded to multiples of a tenth of their mean, and at least one of them:
            every row counts there. Weights that are all equal leave the features as they are.
            Features of a stream or a Dask collection are fitted to copies of a sample of its rows.
            Landmarks are drawn from the rows themselves, whatever their weights.
        target : str, list of str or None
            The columns of a data frame X that are y.
        noise_variance : array (n,) or None
            The variance of the noise of every row, instead of the parameter and in its units:
            divide variances in the units of y by `y.var()`, or set `normalize_y="mean"`.
        optimize : bool, "ard", "common" or None
            Takes the place of the parameter if it is not None.
        checkpoint : path or None
            Sums are written there after every chunk, or the state of "cg" after every iteration; a
            later fit with the same path goes on. The steps of a search are kept in a file beside
            it, which ends in ".search".
        """
        self._check_parameters()
        X, y = split_target(X, y, target)
        rows = self._training_rows(X, y, noise_variance, sample_weight, reset=True)
        self._begin(rows, self._asked(optimize), checkpoint)
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

        So is a kernel that is searched for (`optimize`): on the rows of the first call. With
        features="auto" these rows also decide the number of columns: begin with 2048 or more.
        Every call recomputes the posterior: pass a generator to `fit` for many batches.
        Rows are reduced to sums, so `solver="auto"` is "cholesky" here.
        """
        self._check_parameters()
        check_direct(self, "partial_fit")
        first = not hasattr(self, "statistics_")
        rows = self._training_rows(X, y, noise_variance, sample_weight, reset=first)
        if first:
            self._begin(rows, self._asked(None))
            self._check_first_rows()
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

    def _begin(self, rows: Rows, optimize: bool | str, checkpoint: Any = None) -> None:
        """Fit the features, and note what the sums depend on."""
        self.optimized_ = bool(optimize)
        sample = rows.sample(SAMPLE_ROWS)
        Y, self._flat = check_targets(sample[1])
        self.offset_ = Y.mean(axis=0)  # sums of squares lose no digits to a large mean
        self._noise_by_row = len(sample) > 2 and sample[2] is not None
        self._corrects_rows = self.variance_correction == "fitc"
        self._row_variances = None
        self.search_ = None
        features = self._unfitted_features(rows)
        if optimize:
            features = self._tuned_features(features, rows, sample, optimize, checkpoint)
        self._fit_features(rows, features)
        self._usual_lack = self._measured_deficit(copies(sample)[0])
        if self._corrects_rows:
            # the corrected noise of a row holds both variances: they are chosen before the pass
            self._row_variances = self._corrected_variances(sample)

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

        def outputs(columns: Block, first: int) -> tuple[Any, ...]:
            _, Y, _, counts = self._columns(columns)
            return np.empty((len(Y), 0)), Y - self.offset_, None, counts

        def block(columns: Block, exact: bool) -> RowBlock:
            X, Y, row_noise, counts = self._columns(columns)
            X = passes.single(X, exact)
            Z = self._map(X)
            weights = self._row_weights(X, Z, row_noise)
            weights = np.ones(len(Y)) if weights is None else weights
            weights = weights if counts is None else weights * counts
            Y = (Y - self.means_) / self.scales_
            return RowBlock(Z, Y[:, None, :], weights[:, None] / noise)

        targets = passes.targets(partial(SufficientStatistics.zeros, 0, len(self.offset_)), outputs)
        self.means_, self.scales_ = self._units(targets)
        if self._row_variances is None:
            noise, prior = self._variances_on_sample(rows)
        else:
            noise, prior = 1.0, self._row_variances[1]
        [posterior] = passes.solve(solver, block, 1, len(self.offset_), prior)
        self.solver_ = "cg"
        forget(self, "statistics_")
        return self._set_posterior(posterior, noise, prior)

    def _set_posterior(
        self, posterior: Posterior, noise: float, prior: float
    ) -> FeatureGPRegressor:
        self.posterior_ = posterior
        self.jitter_ = posterior.jitter
        self._unit_noise = noise
        self.prior_variance_ = prior
        is_chosen = self._given_variances(self._noise_by_row, self.optimized_)[0] is None
        is_automatic = self.variance_correction == "auto"
        self._noise_holds_lack = is_automatic and is_chosen and self._usual_lack > 0
        shared = noise if self._row_variances is None else self._row_variances[0]
        self.noise_variance_ = None if self._noise_by_row else shared
        return self
