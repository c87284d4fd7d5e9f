"""Gaussian process regression on features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._arrays import as_generator, host, is_foreign, like, namespace
from .._support.parameters import check_positive, one_of, positive_integer
from .._support.stored import array, stored
from .._support.threads import suited_blas_threads
from ..rows import (
    Block,
    Checkpoint,
    Rows,
    fingerprint,
    is_collection,
    lazy,
    split_target,
)
from .algebra import (
    likelihood_of_kernel,
    likelihood_of_sums,
    log_evidence,
    posterior_of_sums,
)
from .base import (
    SAMPLE_ROWS,
    Begun,
    GaussianProcess,
    TrainingRows,
    begin,
    check_mergeable,
    check_optimize,
    checked,
    column_blocks,
    input_names,
    kept,
    row_noise,
    search_alternatives,
    searchable,
    targets,
    test_rows,
    without_sums,
)
from .columns import Columns, KernelPlace, check_features, digest_of
from .conjugate_gradients import (
    ConjugateGradients,
    Iteration,
    RowBlock,
    check_solver,
    chosen_solver,
    solve_by_passes,
)
from .noise import (
    FEW_ROWS,
    GAUSSIAN,
    Jackknife,
    LeftOut,
    NoiseFunction,
    Warp,
    best_factor,
    best_tails,
    check_transform,
    is_better,
    is_gain,
    noise_of_x,
    tails_of_few,
)
from .posterior import SampledFunctions, evaluate
from .search import Search, best_kernel
from .sums import SufficientStatistics
from .targets import (
    NORMALIZATIONS,
    Targets,
    check_levels,
    chosen_variances,
    noise_at,
    number_of,
)

CORRECTIONS = ("auto", "posterior", None)
DIRECT_ROWS = 4096  # that the variances of "cg" are chosen on, by their Gram matrix
NODES = 200  # of integrals over a predictive distribution
JACKKNIFE_ROWS = 1000  # left out for intervals: their coverage has a standard error of 1 %


@stored
class FeatureGPRegressor(RegressorMixin, MultiOutputMixin, GaussianProcess):
    """Gaussian process regression with the kernel of a feature map, in one pass over the rows.

    The features of a block of rows are reduced to sums of D² numbers (`SufficientStatistics`), so
    that memory does not grow with the number of rows, and time is linear in it. All algebra is
    D-dimensional and in double precision.

    Parameters
    ----------
    features : "auto", int, kernel or transformer, default="auto"
        "auto" uses `NystromFeatures` with 2048 columns, or one per row if there are fewer rows, of
        a Matérn kernel whose parameters are searched (see `optimize`). An int is another number of
        columns, a kernel another kernel. A transformer is any feature map of this library or
        transformer of scikit-learn, with real or complex output. A clone is fitted: to X if it is
        in memory, to 10,000 random rows of a memory map, a data set, a Dask collection or a stream
        that can be read again, or to the first 10,000 rows of an iterator. Wrap features that are
        already fitted in scikit-learn's `FrozenEstimator`.
    noise_variance : float, "auto", "constant" or "varying", default="auto"
        Variance of the noise. "constant" is the same everywhere, with the greatest marginal
        likelihood, for every output. "varying" multiplies it by a function v(x) for predictions,
        which a second process on the same features learns from up to 10,000 random rows that are
        left out. One more pass weighs the rows by it, if they can be read again and left-out rows
        are then predicted better. "auto" takes v(x), and tails heavier than a Gaussian's, where
        the likelihood of left-out rows gains more than chance; the noise is constant for fewer than
        100 rows, complex columns and "cg".
    prior_variance : float or "auto", default="auto"
        Multiplies the kernel (which also has a variance); "auto" maximises the marginal
        likelihood, for every output. If y is constant, "auto" is 1 for both variances.
    posterior : {"real", "complex"}, default="real"
        For complex features: the Gaussian process with the kernel Re k̂, on the columns [Re, Im]; or
        the real part of the complex Gaussian process (the paper's). The latter is overconfident,
        because it assumes that the imaginary part was observed to be zero; it takes 3/4 of the
        time for the sums and half of that for the factorisation. For real features both are the
        same.
    variance_correction : "auto", "posterior" or None, default="auto"
        Nyström features and truncated series cannot carry all of k(x, x). "posterior" adds the
        rest, k(x, x) − E k̂(x, x), to the variance of every prediction (Section 5.6 of the paper).
        "auto" does the same for Nyström features; if the noise is chosen, it contains what the
        training rows lack already, and "auto" adds what a row lacks beyond their mean. None adds
        nothing.
    normalize_y : {"standard", "mean", None}, default="standard"
        "standard" subtracts the mean of every output (all rows count alike) and divides by its
        standard deviation, like `normalize_y=True` in scikit-learn. Variances that you give, also
        per row, then refer to the normalised y: 0.01 is 1 % of the variance of y. "mean" only
        subtracts the mean, and None leaves y unchanged: variances are then in the squared units of
        y.
    target_transform : None, "auto" or transformer, default=None
        A warp of y before everything else: an increasing transformer of scikit-learn with an
        inverse. "auto" fits the model with Yeo and Johnson's power transform and without, and keeps
        the one under which left-out rows are more likely. Means, quantiles, intervals and densities
        are those of y: the mean is an integral over the predictive distribution, not the inverse of
        a mean.
    trend : None or "linear", default=None
        "linear" adds explicit weights of the standardised inputs, with a wide prior, so that
        predictions far from the data continue a line instead of returning to the mean.
    solver : {"auto", "cholesky", "cg"} or ConjugateGradients, default="auto"
        "cholesky" needs one pass over the rows and N D² operations. "cg", conjugate gradients,
        needs one pass for every iteration and N D operations in each; memory grows with D, not with
        D², and variances are estimated from draws (see `ConjugateGradients`). Variances that are
        "auto" are then chosen on a sample of the rows. "auto" is "cg" beyond 8192 columns if the
        rows can be read more than once and the columns are real.
    optimize : "auto", True or False, default="auto"
        Whether the parameters of the kernel are searched by the marginal likelihood before the
        pass: one lengthscale for each of up to 300 inputs. "auto" searches where `features` is
        "auto" or an int, and also compares Matérn kernels of smoothness 1/2, 3/2 and 5/2 with the
        Gaussian kernel; True searches the kernel of the features that you give. The search sees
        rows, not their weights.
    random_state : int, RandomState, Generator or None, default=0
        For the rows that are drawn (landmarks, the search) and the draws of "cg".
    verbose : bool, default=False
        Whether to show a progress bar (needs rich) and the steps of a search.

    Attributes
    ----------
    features_ : the fitted feature map
    kernel_ : the kernel of the features; of a pipeline, that of its last step
    statistics_ : SufficientStatistics of all rows seen; not with "cg"
    posterior_ : Posterior of the coefficients
    noise_variance_, prior_variance_ : floats, or arrays (m,) for m outputs, in the squared units of
        y as it is normalised (of y / `scales_`); the noise is None if given by row
    means_, scales_ : (m,), what is subtracted from y (after a warp), and what it is divided by
    noise_function_ : v(x) as a function of features, or None if the noise is constant
    tails_ : degrees of freedom and scale of the noise; infinite degrees are a Gaussian
    warp_ : the fitted warp of y, or None
    solver_ : "cholesky" or "cg", the solver that was used
    n_iterations_, residuals_ : with "cg", the number of iterations and the relative residual after
        0, 1, … of them
    relevances_ : (d,), 1/lengthscale of every input in units of its standard deviation, summing to
        one
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

    means_: Annotated[np.ndarray, array("f", "m")]
    scales_: Annotated[np.ndarray, array("f", "m")]
    _noise: Annotated[Any, array("f", "m")]  # None if given by row
    _prior: Annotated[Any, array("f", "m")]
    residuals_: Annotated[np.ndarray, array("f", "iterations")]

    def __init__(
        self,
        features: Any = "auto",
        *,
        noise_variance: float | str = "auto",
        prior_variance: float | str = "auto",
        posterior: str = "real",
        variance_correction: str | None = "auto",
        normalize_y: str | None = "standard",
        target_transform: Any = None,
        trend: str | None = None,
        solver: Any = "auto",
        optimize: bool | str = "auto",
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.features = features
        self.noise_variance = noise_variance
        self.prior_variance = prior_variance
        self.posterior = posterior
        self.variance_correction = variance_correction
        self.normalize_y = normalize_y
        self.target_transform = target_transform
        self.trend = trend
        self.solver = solver
        self.optimize = optimize
        self.random_state = random_state
        self.verbose = verbose

    # -- fit ---------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: Any = None,
        noise_variance: Any = None,
        checkpoint: Any = None,
    ) -> FeatureGPRegressor:
        """Fit in one pass, or in one for every iteration of `solver="cg"`.

        Parameters
        ----------
        X : array, memory map, data set with slices (h5py, zarr), iterator of batches (X, y) or
            (X, y, noise_variance, sample_weight), or a function that returns such an iterator; or a
            Dask array (chunks of rows) or data frame, whose partitions are reduced to sums where
            they are
        y : array (n,) or (n, m), or None if X is an iterator or has the column `target`
        sample_weight : array (n,) or None
            How often every row counts in the sums: a weight of 3 is three copies of the row; 0
            leaves the row out. Landmarks, medians and the search see rows, not weights.
        target : str, list of str or None
            The columns of a data frame X that are y.
        noise_variance : array (n,) or None
            The variance of the noise of every row, instead of the parameter and in its units:
            divide variances in the units of y by `y.var()`, or set `normalize_y="mean"`.
        checkpoint : path or None
            Sums are written there after every few thousand rows, or the state of "cg" after every
            iteration; a later fit with the same path goes on.
        """
        self._check_parameters()
        X, y = split_target(X, y, target)
        training = TrainingRows.of(type(self), X, y, noise_variance, sample_weight)
        with suited_blas_threads(training.rows.n_rows):
            values = self._best_fit(training, checkpoint)
        return self._assign(training.inputs, **values)

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
        if self.solver == "cg" or isinstance(self.solver, ConjugateGradients):
            raise ValueError(NO_SUMS.format("partial_fit"))
        if not hasattr(self, "columns_"):
            training = TrainingRows.of(type(self), X, y, noise_variance, sample_weight)
            values = self._best_fit(training, None, is_direct=True)
            return self._assign(training.inputs, **values)
        sums = self._sums("partial_fit")
        training = TrainingRows.of(type(self), X, y, noise_variance, sample_weight, inputs=self)
        more = self._model().sums(training.rows, None, None, self.verbose)
        return self._resolved(sums + more)

    def refit(self) -> FeatureGPRegressor:
        """The posterior for changed parameters (noise, prior, normalisation), without the rows."""
        check_is_fitted(self)
        self._check_parameters()
        return self._resolved(self._sums("refit"))

    def merge(self, other: FeatureGPRegressor) -> FeatureGPRegressor:
        """Add the rows that another regressor with the same features has seen.

        The result is that of one fit to the rows of both, whatever their means. Both take features
        that were fitted once, in scikit-learn's `FrozenEstimator`.
        """
        check_is_fitted(self)
        self._check_parameters()
        check_mergeable(self, other)
        models = self._model(), other._model()
        if len({(m.by_row, digest_of(m.noise), digest_of(m.warp)) for m in models}) > 1:
            raise ValueError(
                "Both must have the noise of their rows in the same way, by row or not, and the "
                "same functions of noise and targets: merge processes with "
                'noise_variance="constant" and target_transform=None.'
            )
        return self._resolved(self._sums("merge") + other._sums("merge"))

    def _check_parameters(self) -> None:
        check_features(self.features)
        check_positive("noise_variance", self.noise_variance, "auto", "constant", "varying")
        check_positive("prior_variance", self.prior_variance, "auto")
        check_transform(self.target_transform)
        one_of("trend", self.trend, (None, "linear"))
        one_of("posterior", self.posterior, ("real", "complex"))
        one_of("variance_correction", self.variance_correction, CORRECTIONS)
        one_of("normalize_y", self.normalize_y, NORMALIZATIONS)
        check_solver(self.solver)
        check_optimize(self.optimize)

    def _searched(
        self, warp: Warp | None, features: Any, sample: Block, rng: np.random.Generator
    ) -> tuple[Any, Search]:
        """The features with the kernel of the greatest marginal likelihood, and what was tried."""
        place, (Y, _) = KernelPlace.of(features), targets(sample[1])
        Y = Y if warp is None else warp.forward(Y)
        kernel, rows = searchable(place, sample[0])
        scales = Targets.of(Y.mean(axis=0), Y.std(axis=0), self.normalize_y, True).scales
        noise = None
        if sample[2] is not None:
            noise = row_noise(sample[2], True, len(Y)) * np.mean(scales**2)
        elif not isinstance(self.noise_variance, str):
            noise = np.full(len(Y), float(self.noise_variance)) * np.mean(scales**2)
        search = best_kernel(
            kernel,
            rows,
            Y,
            noise=noise,
            alternatives=search_alternatives(self.features, kernel),
            rng=rng,
            verbose=self.verbose,
        )
        return place.with_kernel(search.kernel), search

    def _best_fit(
        self, training: TrainingRows, checkpoint: Any, is_direct: bool = False
    ) -> dict[str, Any]:
        """The attributes of a fit; of two with "auto", the one that left-out rows prefer."""
        if not isinstance(self.target_transform, str):
            return self._fitted(training, self.target_transform, checkpoint, is_direct)[0]
        if not training.rows.repeatable:
            raise ValueError(
                'target_transform="auto" reads the rows more than once: give a function that '
                "returns a fresh iterator."
            )
        plain, densities = self._fitted(training, None, checkpoint, is_direct)
        path = None if checkpoint is None else f"{checkpoint}.warped"
        warped, others = self._fitted(training, self.target_transform, path, is_direct)
        if densities is None or others is None:
            raise ValueError(
                'target_transform="auto" compares left-out rows: use solver="cholesky".'
            )
        return warped if is_gain(others - densities) else plain

    def _fitted(
        self, training: TrainingRows, transform: Any, checkpoint: Any, is_direct: bool
    ) -> tuple[dict[str, Any], np.ndarray | None]:
        """The attributes of one fit, and the log density of every left-out row of a sample."""
        warp = None
        if transform is not None:
            some = training.sample(SAMPLE_ROWS, np.random.default_rng(0))
            warp = Warp.of(transform, targets(some[1])[0])
        begun = begin(self, training, partial(self._searched, warp))
        self._check_kernel_of(begun.columns)
        Y, is_flat = targets(begun.sample[1])
        by_row = begun.sample[2] is not None
        model = Model(begun.columns, training.inputs, by_row, Y.shape[1], warp)
        solver = None if is_direct else chosen_solver(self.solver, training.rows, begun.columns)
        if solver is not None:
            if self.noise_variance == "varying":
                raise ValueError('noise_variance="varying" needs solver="cholesky".')
            solved = self._by_passes(model, training.rows, begun, is_flat, solver, checkpoint)
            return {**begun.attributes, **solved}, None
        sums = model.sums(training.rows, begun.sample[1], checkpoint, self.verbose)
        solved = self._solved(sums, model, is_flat)
        Z, Y, _, counts = some = model.block(begun.sample)
        is_all = len(Y) == training.rows.n_rows
        rows, learnt, lack = self._left_out(solved, model, begun.sample[0], some, is_all)
        changes = np.ptp(Y, axis=0) > 1e-12 * np.max(np.abs(Y), axis=0)  # outputs
        if self._varies(begun.columns, by_row, len(Y)) and np.any(changes):
            function, v = noise_of_x(Z, rows.of_outputs(changes))
            varied = rows._replace(noise=v[:, None] * rows.noise)
            constant, varying = (
                part.log_densities(best_tails(part))
                for part in (rows.of_outputs(changes), varied.of_outputs(changes))
            )
            if self.noise_variance == "varying" or is_gain(varying - constant):
                solved["noise_function_"], rows = function, varied
                if training.rows.repeatable:
                    function = replace(function, weighs_rows=True)
                    weighted = model._replace(noise=function)
                    path = None if checkpoint is None else f"{checkpoint}.varying"
                    sums = weighted.sums(training.rows, begun.sample[1], path, self.verbose)
                    other = self._solved(sums, weighted, is_flat)
                    some = Z, Y, 1 / function.typical(Z), counts
                    left, *more = self._left_out(other, weighted, begun.sample[0], some, is_all)
                    left = left._replace(noise=v[:, None] * other["_noise"])
                    factor = best_factor(left.of_outputs(changes))
                    left = left._replace(noise=factor * left.noise)
                    if is_better(left.of_outputs(changes), rows.of_outputs(changes)):
                        solved, (learnt, lack), rows = other, more, left
                        solved["noise_function_"] = replace(function, factor=factor)
        tails = GAUSSIAN
        if self.noise_variance in ("auto", "varying") and not by_row and np.any(changes):
            tails = best_tails(rows.of_outputs(changes), isinstance(self.prior_variance, str))
        solved["tails_"] = tails
        if counts is None:  # a row of weight w is w rows, which are left out one by one
            few = slice(JACKKNIFE_ROWS)
            first = LeftOut(*(part[few] for part in rows))
            solved["jackknife_"] = Jackknife.of(Z[few], first, learnt[few], lack[few])
        densities = rows._replace(variances=rows.variances + lack).log_densities(tails)
        densities = densities - float(np.sum(np.log(solved["scales_"])))
        if warp is not None:
            densities = densities + np.sum(warp.log_slope(targets(begun.sample[1])[0]), axis=1)
        return {**begun.attributes, **solved}, densities

    def _varies(self, columns: Columns, by_row: bool, n: int) -> bool:
        """Whether noise that depends on x is asked for, or may be tried."""
        if self.noise_variance not in ("auto", "varying"):
            return False
        reasons = {
            "is for real columns": columns.is_complex,
            "needs rows without a noise of their own": by_row,
            f"needs {FEW_ROWS} rows": n < FEW_ROWS,
        }
        reason = next((text for text, holds in reasons.items() if holds), None)
        if reason is not None and self.noise_variance == "varying":
            raise ValueError(f'noise_variance="varying" {reason}.')
        return reason is None

    def _left_out(
        self, solved: dict[str, Any], model: Model, X: Any, some: tuple[Any, ...], is_all: bool
    ) -> tuple[LeftOut, np.ndarray, np.ndarray]:
        """Rows of a sample left out, the noise they were learnt with, and the variance they lack.

        All in units of the model.
        """
        Z, Y, weights, counts = some
        noise = np.ones((1, Y.shape[1])) if solved["_noise"] is None else solved["_noise"][None]
        noise = np.broadcast_to(noise, Y.shape)
        noise = noise if weights is None else noise / weights[:, None]
        learnt = noise if counts is None else noise / counts[:, None]
        normal = (Y - solved["means_"]) / solved["scales_"]
        rows = LeftOut.of(solved["posterior_"], Z, normal, learnt, is_all)._replace(noise=noise)
        lack = self._lack(model.columns, X, Z, solved["_noise_holds_lack"], solved["_prior"])
        return rows, learnt, np.zeros(Y.shape) + lack

    def _check_kernel_of(self, columns: Columns) -> None:
        if self.variance_correction == "posterior" and columns.kernel() is None:
            raise ValueError(
                'variance_correction="posterior" compares with k(x, x): the features need a fitted '
                f"kernel_, which {type(columns.features).__name__} does not have."
            )

    def _solved(self, sums: SufficientStatistics, model: Model, is_flat: bool) -> dict[str, Any]:
        """From the sums to everything that predictions need."""
        normal = Targets.of(sums.means(), sums.deviations(), self.normalize_y, is_flat)
        noise, prior = chosen_variances(
            partial(likelihood_of_sums, sums, normal.means, normal.scales),
            self.noise_variance,
            self.prior_variance,
            model.by_row,
            normal,
            model.columns.vanishing_level,
        )
        posterior = posterior_of_sums(sums, normal.means, normal.scales, noise, prior)
        described = self._described(normal, posterior, noise, prior, model)
        return {"statistics_": sums, "solver_": "cholesky", **described}

    def _described(
        self, normal: Targets, posterior: Any, noise: np.ndarray, prior: np.ndarray, model: Model
    ) -> dict[str, Any]:
        """The attributes of a solution."""
        by_row = model.by_row
        return {
            "means_": normal.means,
            "scales_": normal.scales,
            "posterior_": posterior,
            "_noise": None if by_row else noise,
            "_prior": prior,
            "_flat": normal.is_flat,
            "_noise_holds_lack": not by_row and isinstance(self.noise_variance, str),
            "noise_function_": model.noise,  # unless it serves predictions only
            "warp_": model.warp,
            "tails_": GAUSSIAN,
            "jackknife_": None,
        }

    def _model(self) -> Model:
        """How further rows become sums."""
        noise, by_row = self.noise_function_, self.noise_variance_ is None
        noise = noise if noise is not None and noise.weighs_rows else None
        return Model(self.columns_, self, by_row, len(self.means_), self.warp_, noise)

    def _resolved(self, sums: SufficientStatistics) -> FeatureGPRegressor:
        """This model with other sums, or other parameters."""
        self._check_kernel_of(self.columns_)
        if self.columns_.joins_parts != (self.posterior == "real"):
            raise ValueError(f"posterior={self.posterior!r} needs other columns: fit again.")
        model, same = self._model(), dict[str, Any]()
        if self.noise_variance in ("auto", "varying"):
            tails = self.tails_ if self.tails_.deviation == 1 else tails_of_few(sums.n)
            same = {"noise_function_": self.noise_function_, "tails_": tails}
        elif model.noise is not None:
            raise ValueError(
                "The sums have the weights of noise that depends on x: fit again for other noise."
            )
        solved = self._solved(sums, model, self._flat)
        return self._assign(self, **kept(self), **{**solved, **same})

    def _sums(self, method: str) -> SufficientStatistics:
        """The sums over the rows seen so far, which conjugate gradients do not have."""
        if not hasattr(self, "statistics_"):
            raise ValueError(NO_SUMS.format(method))
        return self.statistics_

    def _by_passes(
        self,
        model: Model,
        rows: Rows,
        begun: Begun,
        is_flat: bool,
        solver: ConjugateGradients,
        checkpoint: Any,
    ) -> dict[str, Any]:
        """The posterior by iterations over the rows, which leave no sums."""
        some = tuple(None if column is None else column[:DIRECT_ROWS] for column in begun.sample)
        Z, Y, weights, counts = model.block(some)
        zero = partial(SufficientStatistics.zeros, 0, model.n_outputs, np.float64, Y.mean(axis=0))
        plain = rows.fold(zero, model.add_targets, block_rows=1 << 16)
        normal = Targets.of(plain.means(), plain.deviations(), self.normalize_y, is_flat)
        with np.errstate(over="ignore", invalid="ignore"):  # the solver looks at its sums
            low = np.asarray(Z, dtype=np.float32)
            K = np.asarray(np.nan_to_num(low @ low.T), dtype=np.float64)
        likelihood = partial(
            likelihood_of_kernel,
            K,
            (Y - normal.means) / normal.scales,
            None if weights is None else 1 / weights,
            np.ones(len(Y)) if counts is None else counts,
        )
        noises, priors = chosen_variances(
            likelihood,
            self.noise_variance,
            self.prior_variance,
            model.by_row,
            normal,
            model.columns.vanishing_level,
        )
        settings = [solver, *(values.tolist() for values in (noises, priors, *normal[:2]))]
        posterior, history = solve_by_passes(
            rows,
            partial(model.row_block, normal, noises),
            model.columns.n_columns,
            priors,
            solver,
            seed=begun.seed,
            checkpoint=model.checkpoint(checkpoint, settings, Iteration.restored),
            verbose=self.verbose,
        )
        described = self._described(normal, posterior, noises, priors, model)
        iterations = {"n_iterations_": len(history) - 1, "residuals_": history}
        return {"solver_": "cg", **iterations, **described}

    # -- predictions -------------------------------------------------------------------------------

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
    ) -> Any:  # (n, d) -> (n,) or (n, m); std of the same shape; covariance (n, n) or (n, n, m)
        """Mean of f at the rows of X, and its standard deviation or covariance.

        They describe f unless `include_noise` adds the noise variance, for the spread of y; all
        other methods describe y. If the noise was given by row in `fit`, `noise_variance` (n,) is
        that of these rows. With `target_transform`, the mean is that of y, and the standard
        deviation that of w⁻¹(f), or of y.

        Rows of PyTorch and JAX give results of the same library, with gradients to X. Predictions
        for a Dask collection are Dask collections, computed when they are asked for.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise RuntimeError("At most one of return_std or return_cov can be requested.")
        if is_collection(X):
            if return_cov or noise_variance is not None:
                raise ValueError(
                    "return_cov and noise_variance are for rows in memory; a collection has "
                    "return_std."
                )
            return self._lazy_prediction(X, return_std, include_noise)
        if noise_variance is not None and not include_noise:
            raise ValueError("noise_variance is the noise of y: set include_noise=True, too.")
        if return_cov and (is_foreign(X) or self.warp_ is not None):
            raise ValueError(
                "return_cov is for NumPy rows and targets without a warp; return_std has gradients."
            )
        if return_cov:
            return self._prediction_with_covariance(X, include_noise, noise_variance)
        if self.warp_ is not None:
            # without the noise of these rows, the mean of w⁻¹(f)
            is_known = self._noise is not None or include_noise
            mean, variance, noise = self._moments(X, noise_variance, with_noise=is_known)
            noise = noise if is_known else np.zeros_like(variance)
            mean, deviation = self._unwarped(mean, variance, noise, include_noise)
            return (mean, deviation) if return_std else mean
        mean, variance, noise = self._moments(
            X, noise_variance, with_variance=return_std, with_noise=include_noise
        )
        mean = self._shaped(mean * like(self.scales_, mean) + like(self.means_, mean))
        if not return_std:
            return mean
        total = variance + noise if include_noise else variance
        factor = self.scales_ * (self.tails_.deviation if include_noise else 1.0)
        return mean, self._shaped(namespace(total).sqrt(total) * like(factor, total))

    def predict_quantiles(
        self,
        X: Any,
        quantiles: Any = (0.025, 0.5, 0.975),
        *,
        include_noise: bool = True,
        noise_variance: Any = None,
    ) -> Any:  # (n, d) -> (n, q) or (n, m, q)
        """Quantiles of y at the rows of X, or of f without the noise."""
        levels = check_levels("quantiles", quantiles)
        mean, variance, noise = self._moments(X, noise_variance, with_noise=include_noise)
        tails = self.tails_ if include_noise else GAUSSIAN
        total = variance + noise if include_noise else variance
        reach = namespace(total).sqrt(total)[..., None] * like(tails.quantiles(levels), total)
        return self._in_units(mean[..., None] + reach)

    def predict_density(
        self, X: Any, points: Any, *, noise_variance: Any = None
    ) -> np.ndarray:  # (n, d), (k,) -> (n, k) or (n, m, k)
        """The density of y at given points, for every row of X."""
        points = np.asarray(points, dtype=np.float64)
        if points.ndim != 1 or not np.all(np.isfinite(points)):
            raise ValueError(f"points must be finite numbers (k,); got the shape {points.shape}.")
        mean, variance, noise = map(host, self._moments(X, noise_variance))
        places = np.repeat(points[:, None], len(self.means_), axis=1)  # (k, m)
        slopes = np.zeros_like(places)
        if self.warp_ is not None:
            slopes = self.warp_.log_slope(places)
            places = self.warp_.extended(places)
        places = ((places - self.means_) / self.scales_).T
        deviation = np.sqrt(variance + noise)[..., None]
        density = self.tails_.log_density((places - mean[..., None]) / deviation)
        density = density - np.log(deviation) + (slopes - np.log(self.scales_)).T
        return self._shaped(np.where(np.isfinite(density), np.exp(density), 0.0), axis=1)

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        method: str = "posterior",
        *,
        noise_variance: Any = None,
    ) -> np.ndarray:  # (n, d) -> (n, 2) or (n, m, 2)
        """An interval for y at every row of X.

        "posterior" is the central interval of the predictive distribution. "jackknife+" holds for
        any distribution (Barber, Candès, Ramdas and Tibshirani, 2021): from up to 1,000 random
        training rows that are left out in closed form, without a refit, normalised by the predicted
        standard deviation so that widths follow x. If training and new rows are exchangeable, the
        new y lies inside with a probability of at least 1 − 2(1 − coverage), and usually of about
        `coverage`, on average over rows. It promises nothing for rows of another distribution, nor
        for every x separately. What the left-out rows have taken part in choosing, the features,
        the kernel's parameters, the variances and v(x), is not chosen again without each of them.
        """
        one_of("method", method, ("posterior", "jackknife+"))
        [level] = check_levels("coverage", coverage)
        if method == "posterior":
            levels = (0.5 - level / 2, 0.5 + level / 2)
            return np.asarray(
                host(self.predict_quantiles(X, levels, noise_variance=noise_variance))
            )
        check_is_fitted(self)
        if self.jackknife_ is None:
            raise ValueError(
                'method="jackknife+" needs rows left out: fit with solver="cholesky", all rows at '
                "once and without sample_weight."
            )
        X, bounds = host(X), []
        if noise_variance is not None:
            noise_at(self._noise, noise_variance, np.shape(X)[0])
        for start, (rows, Z) in self._blocks(X):
            stop = start + len(Z)
            own = None if noise_variance is None else np.asarray(noise_variance)[start:stop]
            mean, variance = self.posterior_.mean(Z), self.posterior_.variance(Z)
            total = variance + self._missing(rows, Z) + self._noise_at(Z, own)
            parts = self.jackknife_.interval(self.posterior_, Z, mean, total, float(level))
            bounds.append(np.stack(parts, axis=-1))
        return self._in_units(np.concatenate(bounds))

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: Any = 0
    ) -> np.ndarray:  # (n, d) -> (n, n_samples) or (n, m, n_samples)
        """Draws of f at the rows of X: `sample_functions`, and the variance that they lack.

        Where features lack some of k(x, x) and predictions add it (`variance_correction`), it is
        white noise: drawn for every row, not part of a function.
        """
        check_is_fitted(self)
        n, rng = positive_integer("n_samples", n_samples), as_generator(random_state)
        coefficients = self.posterior_.sample(n, rng)
        draws = []
        for rows, Z in column_blocks(self, X):
            values, lack = host(evaluate(Z, coefficients)), host(self._missing(rows, Z))
            if np.any(lack):
                values = values + np.sqrt(lack)[:, :, None] * rng.standard_normal(values.shape)
            draws.append(values)
        return self._in_units(np.concatenate(draws))

    def sample_functions(self, n_functions: int = 1, random_state: Any = None) -> SampledFunctions:
        """Functions drawn from the posterior: an object `f` with `f(X)` (n, n_functions).

        Every call of `f` evaluates the same functions, in NumPy, PyTorch or JAX, with gradients to
        X: they can be maximised (Thompson sampling) or integrated. Their mean and covariance are
        those of `predict` as far as the features carry them: the variance that predictions add
        where features lack some of k(x, x) (`variance_correction`) is not part of any function;
        `sample_y` adds it. With m outputs `f(X)` is (n, m, n_functions).
        """
        check_is_fitted(self)
        n = positive_integer("n_functions", n_functions)
        coefficients = self.posterior_.sample(n, as_generator(random_state))
        return SampledFunctions(
            self.columns_,
            coefficients,
            self.means_,
            self.scales_,
            self._flat,
            input_names(self),
            self.warp_,
        )

    def log_marginal_likelihood(self) -> float:
        """log p of the training targets (after a warp) at the fitted variances, in their units."""
        check_is_fitted(self)
        sums = self._sums("log_marginal_likelihood")
        noise = np.ones(len(self.means_)) if self._noise is None else self._noise
        density = log_evidence(sums, self.means_, self.scales_, noise, self.posterior_)
        units = float(sums.n * np.sum(np.log(self.scales_)))
        return density - units * (2 if self.columns_.is_complex else 1)

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
        check_is_fitted(self)
        sums = self._sums("leave_one_out")
        means, variances, noises = [], [], []
        rows = Rows.of(test_rows(self, X), y, noise_variance)
        is_weighted = not isinstance(sums.n, int)
        is_all = not is_weighted and rows.n_rows == sums.n
        in_dual = is_all and rows.n_rows <= self.columns_.n_columns
        for block in rows.blocks(int(sums.n) if in_dual else self.columns_.block_rows):
            Y, by_row = targets(block[1])[0], block[2] if len(block) > 2 else None
            Y = Y if self.warp_ is None else self.warp_.forward(Y)
            own = row_noise(by_row, self._noise is None, len(Y))
            normal = (Y - self.means_) / self.scales_
            Z = self.columns_(checked(self, block[0]))
            at_rows = np.broadcast_to(self._noise_at(Z, own), normal.shape)
            function, noise = self._model().noise, at_rows
            if own is None:
                noise = (
                    self._noise if function is None else self._noise * function.typical(Z)[:, None]
                )
                noise = np.broadcast_to(noise, normal.shape)
            if is_weighted and np.any(self.posterior_.variance(Z) >= noise):
                raise ValueError(
                    "Rows with a sample_weight below one cannot lose a copy: fit with weights "
                    "of one at least for leave_one_out."
                )
            left = LeftOut.of(self.posterior_, Z, normal, noise, in_dual)
            means.append(normal - left.residuals)
            variances.append(left.variances + self._missing(block[0], Z))
            noises.append(at_rows)
        mean, variance, noise = map(np.concatenate, (means, variances, noises))
        if self.warp_ is not None:
            return self._unwarped(mean, variance, noise, True)
        deviations = np.sqrt(variance + noise) * self.scales_ * self.tails_.deviation
        return self._shaped(mean * self.scales_ + self.means_), self._shaped(deviations)

    # -- moments, in units of the model ------------------------------------------------------------

    def _blocks(self, X: Any) -> Iterator[tuple[int, tuple[Any, Any]]]:
        """The number of the first row of every block, its rows and their columns."""
        start = 0
        for rows, Z in column_blocks(self, X):
            yield start, (rows, Z)
            start += len(Z)

    def _moments(
        self,
        X: Any,
        noise_variance: Any = None,
        *,
        with_variance: bool = True,
        with_noise: bool = True,
    ) -> tuple[Any, Any, Any]:  # (n, d) -> (n, m), (n, m), (n, m)
        """Means of f, variances of f, and of the noise, in the array library of X."""
        check_is_fitted(self)
        if noise_variance is not None:  # every row has its own
            noise_at(self._noise, noise_variance, np.shape(X)[0])
        means, variances, noises = [], [], []
        for start, (rows, Z) in self._blocks(X):
            mean = self.posterior_.mean(Z)
            means.append(mean)
            if with_variance:
                variances.append(self.posterior_.variance(Z) + self._missing(rows, Z))
            if with_noise:
                own = noise_variance
                if own is not None:
                    own = np.asarray(own)[start : start + len(Z)]
                noises.append(self._noise_at(Z, own) + 0 * mean)
        mean, *others = (_joined(part) if part else None for part in (means, variances, noises))
        return mean, others[0], others[1]

    def _noise_at(self, Z: Any, by_row: Any = None) -> Any:  # (n, D), (n,) -> (n, m) or (m,)
        """The variances of the noise of rows."""
        noise = noise_at(self._noise, by_row, len(Z))
        if by_row is not None or self.noise_function_ is None:
            return like(np.asarray(noise), Z) if is_foreign(Z) else noise
        v = self.noise_function_(Z)[:, None]
        return v * like(np.asarray(noise), v)

    def _missing(self, X: Any, Z: Any) -> Any:  # (n, d), (n, D) -> (n, m)
        """The variance that predictions add."""
        return self._lack(self.columns_, X, Z, self._noise_holds_lack, self._prior)

    def _lack(self, columns: Columns, X: Any, Z: Any, in_noise: bool, prior: np.ndarray) -> Any:
        if self.variance_correction is None:
            return 0.0
        if self.variance_correction == "posterior":
            lack = columns.deficit(X, Z)
        else:
            lack = columns.missing(X, Z, in_noise=in_noise)
        return lack[:, None] * like(np.ascontiguousarray(prior), lack)

    def _prediction_with_covariance(
        self, X: Any, include_noise: bool, noise_variance: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        rows = test_rows(self, X)
        Z = self.columns_(rows)
        mean = self.posterior_.mean(Z) * self.scales_ + self.means_
        covariance = self.posterior_.covariance(Z)
        places = np.arange(len(covariance))
        covariance[places, places] += self._missing(rows, Z)
        if include_noise:
            covariance[places, places] += self._noise_at(Z, noise_variance)
            covariance *= self.tails_.deviation**2
        covariance *= self.scales_**2
        return self._shaped(mean), covariance[:, :, 0] if self._flat else covariance

    def _shaped(self, values: Any, axis: int = -1) -> Any:
        """Without the axis of outputs, if y had none."""
        if not self._flat:
            return values
        return values[:, 0] if axis in (1, -1) and values.ndim == 2 else values[:, 0, ...]

    def _in_units(self, values: Any) -> Any:  # (n, m, k) -> (n, k) or (n, m, k)
        """Values of the model in units of y."""
        values = values * like(self.scales_, values)[:, None] + like(self.means_, values)[:, None]
        if self.warp_ is not None:
            if is_foreign(values):
                raise ValueError("target_transform computes with NumPy only: give NumPy rows.")
            values = np.moveaxis(self.warp_.inverse(np.moveaxis(values, 1, -1)), -1, 1)
        return self._shaped(values, axis=1)

    def _unwarped(
        self, mean: Any, variance: Any, noise: Any, include_noise: bool
    ) -> tuple[Any, Any]:  # (n, m) each
        """Mean of y, and its standard deviation or that of w⁻¹(f), by quadrature."""
        # midpoints of equally likely intervals: exact to 1e-3 of a standard deviation
        levels = (np.arange(NODES) + 0.5) / NODES
        with_noise = mean[..., None] + np.sqrt(variance + noise)[..., None] * (
            self.tails_.quantiles(levels)
        )
        values = self._in_units(with_noise)
        center = values.mean(axis=-1)
        if not include_noise:
            deviations = np.sqrt(variance)[..., None] * GAUSSIAN.quantiles(levels)
            values = self._in_units(mean[..., None] + deviations)
        return center, values.std(axis=-1)

    def _lazy_prediction(self, X: Any, return_std: bool, include_noise: bool) -> Any:
        call = partial(
            without_sums(self).predict, return_std=return_std, include_noise=include_noise
        )
        labels = ("mean", "std") if return_std else ("mean",)
        names = [
            None if self._flat else [f"{label}{k}" for k in range(len(self.means_))]
            for label in labels
        ]
        results = lazy(call, X, dtypes=len(labels) * [np.float64], names=names)
        return results if return_std else results[0]


class Model(NamedTuple):
    """How blocks of rows become sums: it may be sent to where the rows are."""

    columns: Columns
    inputs: Any
    by_row: bool
    n_outputs: int
    warp: Warp | None = None
    noise: NoiseFunction | None = None

    def block(self, block: Block) -> tuple[Any, ...]:
        """Columns, targets, weights and counts of a block of rows."""
        X, y, noise, counts = [*block, None, None][:4]
        Y, _ = targets(y)
        if Y.shape[1] != self.n_outputs:
            raise ValueError(f"y has {Y.shape[1]} outputs; {self.n_outputs} are expected.")
        Y = Y if self.warp is None else self.warp.forward(Y)
        noise = row_noise(noise, self.by_row, len(Y))
        Z = self.columns(checked(self.inputs, X))
        if self.noise is not None:
            noise = self.noise.typical(Z)
        return Z, Y, None if noise is None else 1 / noise, counts

    def add(self, sums: SufficientStatistics, block: Block, first: int) -> SufficientStatistics:
        sums.update(*self.block(block))
        return sums

    def add_targets(
        self, sums: SufficientStatistics, block: Block, first: int
    ) -> SufficientStatistics:
        """The sums of targets alone, for their means and deviations."""
        Y, _ = targets(block[1])
        Y = Y if self.warp is None else self.warp.forward(Y)
        sums.update(np.empty((len(Y), 0)), Y, None, block[3] if len(block) > 3 else None)
        return sums

    def row_block(self, normal: Targets, noise: np.ndarray, block: Block) -> RowBlock:
        """What conjugate gradients see of a block: every output is a system."""
        Z, Y, weights, counts = self.block(block)
        total = np.ones(len(Y)) if weights is None else weights
        total = total if counts is None else total * counts
        return RowBlock(Z, (Y - normal.means) / normal.scales, total[:, None] / noise)

    def checkpoint(self, path: Any, settings: Any, restore: Any) -> Checkpoint | None:
        """A checkpoint that other features or settings do not take for theirs."""
        if path is None:
            return None
        own = self.columns.digest(), digest_of(self.warp), digest_of(self.noise)
        configuration = fingerprint([self.n_outputs, self.by_row, settings, *own])
        return Checkpoint(path, restore, fingerprint=configuration)

    def sums(self, rows: Rows, some: Any, path: Any, verbose: bool) -> SufficientStatistics:
        """The sums over all rows, in one pass, about the mean of some targets."""
        columns = self.columns
        offset = np.zeros(self.n_outputs)
        if some is not None:
            Y, _ = targets(some)
            offset = (Y if self.warp is None else self.warp.forward(Y)).mean(axis=0)
        zero = partial(
            SufficientStatistics.zeros, columns.n_columns, self.n_outputs, columns.dtype, offset
        )
        # writing the sums takes about as long as adding 400 rows to them
        group = max(4096 // columns.block_rows, 1)
        return rows.fold(
            zero,
            self.add,
            block_rows=columns.block_rows,
            group_blocks=group,
            checkpoint=self.checkpoint(path, offset.tolist(), SufficientStatistics.restored),
            progress="rows" if verbose else None,
        )


NO_SUMS = (
    '{} needs sums over the rows, which solver="cg" does not compute: use solver="cholesky", or '
    "call fit with all rows."
)


def _joined(blocks: list[Any]) -> Any:
    return blocks[0] if len(blocks) == 1 else namespace(blocks[0]).concat(blocks, axis=0)
