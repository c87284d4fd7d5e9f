"""Gaussian process regression on features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._arrays import as_generator, host
from .._support.parameters import check_positive, one_of, positive_integer
from .._support.stored import stored
from .._support.threads import suited_blas_threads
from ..rows import Block, Checkpoint, Rows, fingerprint, split_target
from .algebra import likelihood_of_kernel, likelihood_of_sums, log_evidence, posterior_of_sums
from .base import (
    SAMPLE_ROWS,
    Begun,
    TrainingRows,
    assign,
    begin,
    check_mergeable,
    check_optimize,
    checked,
    column_blocks,
    drawn_seed,
    input_names,
    row_noise,
    targets,
    test_rows,
)
from .columns import Columns, check_features, digest_of, is_default
from .conjugate_gradients import (
    NO_SUMS,
    ConjugateGradients,
    Iteration,
    RowBlock,
    check_solver,
    chosen_solver,
    solve_by_passes,
)
from .exact import is_few, left_out_of_search
from .noise import (
    FEW_ROWS,
    Jackknife,
    LeftOut,
    Noise,
    NoiseFunction,
    Tails,
    Warp,
    best_factor,
    best_tails,
    check_transform,
    is_better,
    is_gain,
    noise_of_x,
)
from .outputs import NORMALIZATIONS, Outputs, SampledFunctions, chosen_variances
from .posterior import evaluate
from .predictions import RegressionProcess
from .search import Search, best_kernel
from .sums import SufficientStatistics

CORRECTIONS = ("auto", "posterior", None)
DIRECT_ROWS = 4096  # that the variances of "cg" are chosen on, by their Gram matrix
JACKKNIFE_ROWS = 1000  # left out for intervals: their coverage has a standard error of 1 %


@stored
@dataclass(eq=False, repr=False)
class FeatureGPRegressor(RegressionProcess):
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
        that can be read again, or to the first 10,000 rows of an iterator; those of "auto" and of
        an int to four fifths of such a sample, if these are at least as many as the columns. Wrap
        features that are already fitted in scikit-learn's `FrozenEstimator`.
    noise_variance : float, "auto", "constant" or "varying", default="auto"
        Variance of the noise. "constant" is the same everywhere, with the greatest marginal
        likelihood, for every output. "varying" multiplies it by a function v(x) for predictions,
        which a second process on the same features learns from up to 10,000 random rows that are
        left out. One more pass weighs the rows by it, if they can be read again and left-out rows
        are then more likely without greater errors. "auto" takes v(x), and tails heavier than a
        Gaussian's, where the likelihood of left-out rows gains more than chance; the noise is
        constant for fewer than 100 rows, complex columns and "cg". Where up to 400 rows also choose
        the kernel, five folds, each with a search of its own, choose the level of all variances.
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
        y as it is normalised (of y / `outputs_.scales`); the noise is None if given by row
    outputs_ : Outputs: `means` (m,), what is subtracted from y (after its `warp`), `scales` (m,),
        what it is divided by, and the `tails` of the noise (infinite degrees are a Gaussian)
    noise_ : Noise: its `variances`, and v(x) as a `function` of columns, or None
    columns_ : the features as columns of the model
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

    features: Any = "auto"
    _: KW_ONLY
    noise_variance: float | str = "auto"
    prior_variance: float | str = "auto"
    posterior: str = "real"
    variance_correction: str | None = "auto"
    normalize_y: str | None = "standard"
    target_transform: Any = None
    trend: str | None = None
    solver: Any = "auto"
    optimize: bool | str = "auto"
    random_state: Any = 0
    verbose: bool = False
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
        return assign(self, training.inputs, **values)

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
            return assign(self, training.inputs, **self._best_fit(training, None, is_direct=True))
        sums = self._sums("partial_fit")
        training = TrainingRows.of(type(self), X, y, noise_variance, sample_weight, inputs=self)
        more = self._model().sums(training.rows, sums.offset, None, self.verbose)
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

    # -- from rows to values -----------------------------------------------------------------------

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
        # both fits draw the same rows, whatever `random_state` is
        is_fixed = isinstance(self.random_state, Integral)
        seed = self.random_state if is_fixed else drawn_seed(self.random_state)
        model = clone(self).set_params(random_state=seed)
        plain, densities = model._fitted(training, None, checkpoint, is_direct)
        path = None if checkpoint is None else f"{checkpoint}.warped"
        warped, others = model._fitted(training, self.target_transform, path, is_direct)
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
        search = partial(self._searched, warp)
        begun = begin(self, training, search, holds_out=self._is_calibrated)
        self._check_kernel_of(begun.columns)
        model = Model.of(begun, training.inputs, warp)
        shared = {"columns_": begun.columns, "search_": begun.search}
        solver = None if is_direct else chosen_solver(self.solver, training.rows, begun.columns)
        if solver is not None:
            if self.noise_variance == "varying":
                raise ValueError('noise_variance="varying" needs solver="cholesky".')
            return shared | self._by_passes(model, training.rows, begun, solver, checkpoint), None
        Y = targets(begun.sample[1])[0]
        options = {"offset": model.targets(begun.sample[1]).mean(axis=0), "verbose": self.verbose}
        sums = model.sums(training.rows, path=checkpoint, **options)
        sampled = Sampled.of(begun, model, training.rows.n_rows)
        solved = self._solved(sums, model)
        rows = self._left_out_of(sampled, solved, model)
        if self._may_vary(model, len(Y)) and np.any(sampled.varies):
            path = None if checkpoint is None else f"{checkpoint}.varying"
            passes = partial(Model.sums, rows=training.rows, path=path, **options)
            again = passes if training.rows.repeatable else None
            solved, rows = self._with_noise_of_x(solved, rows, sampled, model, again)
        judges, overfits = rows, self._is_overfitted(begun, sampled)
        if overfits:
            Y_normal = solved.outputs.normal(sampled.rows.Y)
            folds = left_out_of_search(model.columns.kernel, sampled.X, Y_normal, begun.rng)
            v = rows.noise / solved.noise.variances
            judges, sampled = folds._replace(noise=v * folds.noise), sampled._replace(n_new=None)
        if overfits or (self._is_calibrated and not model.by_row and len(Y) >= FEW_ROWS):
            tails = best_tails(sampled.new(judges), is_few=overfits).among(sampled.varies)
            rows, judges = (part.at_level(tails.levels) for part in (rows, judges))
            solved = solved.with_tails(tails)
        outputs = solved.outputs
        densities = rows.log_densities(outputs.tails) - float(np.sum(np.log(outputs.scales)))
        if warp is not None:
            densities = densities + np.sum(warp.log_slope(Y), axis=1)
        values = solved.attributes("cholesky", sampled.jackknife(rows, judges))
        return {**shared, **values, "statistics_": solved.sums}, densities[: sampled.n_new]

    def _with_noise_of_x(
        self,
        solved: Solved,
        rows: LeftOut,
        sampled: Sampled,
        model: Model,
        again: Callable[[Model], SufficientStatistics] | None,
    ) -> tuple[Solved, LeftOut]:
        """With v(x), and all rows weighted by it, where left-out rows ask for one or both.

        `again` makes another pass over the rows, if they can be read again.
        """
        Z = sampled.rows.Z
        function, v = noise_of_x(Z, rows.of_outputs(sampled.varies))
        varied = rows._replace(noise=v[:, None] * rows.noise)
        gain = sampled.new(varied).best_log_densities() - sampled.new(rows).best_log_densities()
        if self.noise_variance != "varying" and not is_gain(gain):
            return solved, rows
        if again is not None:
            weighing = replace(function, weighs_rows=True)
            other = self._solved(again(model._replace(noise=weighing)), model)
            left = self._left_out_of(sampled.weighted(1 / weighing.typical(Z)), other, model)
            left = left._replace(noise=v[:, None] * other.noise.variances)
            factor = best_factor(left.of_outputs(sampled.varies))
            left = left._replace(noise=factor * left.noise)
            if is_better(sampled.new(left), sampled.new(varied)):
                return other.with_noise(replace(weighing, factor=factor)), left
        return solved.with_noise(function), varied

    def _searched(
        self, warp: Warp | None, kernel: Any, rows: Any, sample: Block, alternatives: Any, rng: Any
    ) -> Search:
        """The search for the kernel of the greatest marginal likelihood."""
        Y, noise = targets(sample[1])[0], None
        Y = Y if warp is None else warp.forward(Y)
        if sample[2] is not None:
            noise = row_noise(sample[2], True, len(Y))
        elif not isinstance(self.noise_variance, str):
            noise = np.full(len(Y), float(self.noise_variance))
        return best_kernel(
            kernel,
            rows,
            Outputs.of(Y.mean(axis=0), Y.std(axis=0), self.normalize_y, True).normal(Y),
            noise=noise,
            alternatives=alternatives,
            rng=rng,
            verbose=self.verbose,
        )

    def _check_kernel_of(self, columns: Columns) -> None:
        if self.variance_correction == "posterior" and columns.kernel is None:
            raise ValueError(
                'variance_correction="posterior" compares with k(x, x): the features need a fitted '
                f"kernel_, which {type(columns.features).__name__} does not have."
            )

    @property
    def _is_calibrated(self) -> bool:
        """Whether left-out rows choose the level of the variances."""
        is_free = self.noise_variance in ("auto", "varying")
        return is_free and isinstance(self.prior_variance, str)

    def _is_overfitted(self, begun: Begun, sampled: Sampled) -> bool:
        """Whether rows that are few have chosen all parameters, those of the kernel, too."""
        is_searched = begun.search is not None and is_default(self.features)
        _, _, by_row, counts = begun.sample
        is_plain = self.trend is None and by_row is None and counts is None
        return (
            self._is_calibrated
            and is_searched
            and is_plain
            and sampled.is_all
            and is_few(len(sampled.rows.Y))
        )

    def _may_vary(self, model: Model, n: int) -> bool:
        """Whether noise that depends on x is asked for, or may be tried."""
        if self.noise_variance not in ("auto", "varying"):
            return False
        reasons = {
            "is for real columns": model.columns.is_complex,
            "needs rows without a noise of their own": model.by_row,
            f"needs {FEW_ROWS} rows": n < FEW_ROWS,
        }
        reason = next((text for text, holds in reasons.items() if holds), None)
        if reason is not None and self.noise_variance == "varying":
            raise ValueError(f'noise_variance="varying" {reason}.')
        return reason is None

    def _chosen(
        self, likelihood: Any, outputs: Outputs, model: Model
    ) -> tuple[np.ndarray, np.ndarray]:  # -> (m,), (m,)
        """Noise, which is 1 if the weights of the rows hold it, and prior variance of outputs."""
        noise = 1.0 if model.by_row else self.noise_variance
        level = model.columns.vanishing_level
        return chosen_variances(likelihood, noise, self.prior_variance, outputs, level)

    def _noise(self, variances: np.ndarray, model: Model) -> Noise:
        is_chosen = isinstance(self.noise_variance, str) and not model.by_row
        return Noise(None if model.by_row else variances, is_chosen, model.noise)

    def _solved(self, sums: SufficientStatistics, model: Model) -> Solved:
        """What the sums say of the noise, the outputs and f."""
        outputs = model.outputs(sums, self.normalize_y)
        shared = outputs.means, outputs.scales
        noise, prior = self._chosen(partial(likelihood_of_sums, sums, *shared), outputs, model)
        posterior = posterior_of_sums(sums, *shared, noise, prior)
        return Solved(sums, outputs, self._noise(noise, model), posterior)

    def _left_out(
        self,
        solved: Solved,
        model: Model,
        X: Any,
        some: Columned,
        is_all: bool,
        lacks: bool = True,
    ) -> LeftOut:
        """Rows (and their columns) that are predicted from all others."""
        _, outputs, noise, posterior = solved
        variances = np.ones(1) if noise.variances is None else noise.variances
        every = np.broadcast_to(variances, some.Y.shape)
        every = every if some.weights is None else every / some.weights[:, None]
        learnt = every if some.counts is None else every / some.counts[:, None]
        lack: Any = 0.0
        if lacks:
            usual = model.columns.usual_lack if noise.is_chosen else 0.0
            lack = model.columns.added_variance(
                X, some.Z, self.variance_correction, usual, posterior.prior_variances
            )
        Y = outputs.normal(some.Y)
        return LeftOut.of(posterior, some.Z, Y, learnt, is_all, noise=every, lack=lack)

    def _left_out_of(self, sampled: Sampled, solved: Solved, model: Model) -> LeftOut:
        """The rows of the sample, predicted from all others."""
        # rows that the features have seen lack less variance than new ones: it does not count
        lacks = sampled.n_new is not None
        return self._left_out(solved, model, sampled.X, sampled.rows, sampled.is_all, lacks)

    def _by_passes(
        self,
        model: Model,
        rows: Rows,
        begun: Begun,
        solver: ConjugateGradients,
        checkpoint: Any,
    ) -> dict[str, Any]:
        """The posterior by iterations over the rows, which leave no sums."""
        some = model.block(tuple(None if c is None else c[:DIRECT_ROWS] for c in begun.sample))
        zero = partial(
            SufficientStatistics.zeros, 0, model.n_outputs, np.float64, some.Y.mean(axis=0)
        )
        outputs = model.outputs(
            rows.fold(zero, model.add_targets, block_rows=1 << 16), self.normalize_y
        )
        with np.errstate(over="ignore", invalid="ignore"):  # the solver looks at its sums
            low = np.asarray(some.Z, dtype=np.float32)
            K = np.asarray(np.nan_to_num(low @ low.T), dtype=np.float64)
        likelihood = partial(
            likelihood_of_kernel,
            K,
            outputs.normal(some.Y),
            None if some.weights is None else 1 / some.weights,
            np.ones(len(K)) if some.counts is None else some.counts,
        )
        noise, prior = self._chosen(likelihood, outputs, model)
        settings = [solver, *(v.tolist() for v in (noise, prior, outputs.means, outputs.scales))]
        posterior, history = solve_by_passes(
            rows,
            partial(model.row_block, outputs),
            model.columns.n_columns,
            noise,
            prior,
            solver,
            seed=begun.seed,
            checkpoint=model.checkpoint(checkpoint, settings, lambda arrays: Iteration(**arrays)),
            verbose=self.verbose,
        )
        solved = Solved(None, outputs, self._noise(noise, model), posterior)
        iterations = {"n_iterations_": len(history) - 1, "residuals_": history}
        return {**solved.attributes("cg", None), **iterations}

    # -- from sums to other sums -------------------------------------------------------------------

    def _sums(self, method: str) -> SufficientStatistics:
        """The sums over the rows seen so far, which conjugate gradients do not have."""
        if not hasattr(self, "statistics_"):
            raise ValueError(NO_SUMS.format(method))
        return self.statistics_

    def _model(self) -> Model:
        """How further rows become sums."""
        function = self.noise_.function
        function = function if function is not None and function.weighs_rows else None
        outputs, by_row = self.outputs_, self.noise_.variances is None
        return Model(
            self.columns_,
            self,
            by_row,
            len(outputs.means),
            outputs.is_flat,
            outputs.warp,
            function,
        )

    def _resolved(self, sums: SufficientStatistics) -> FeatureGPRegressor:
        """This model with other sums, or other parameters."""
        self._check_kernel_of(self.columns_)
        if self.columns_.joins_parts != (self.posterior == "real"):
            raise ValueError(f"posterior={self.posterior!r} needs other columns: fit again.")
        model = self._model()
        solved = self._solved(sums, model)
        if self.noise_variance in ("auto", "varying"):
            solved = solved.with_noise(self.noise_.function)
        elif model.noise is not None:
            raise ValueError(
                "The sums have the weights of noise that depends on x: fit again for other noise."
            )
        if self._is_calibrated and not model.by_row:
            tails = self.outputs_.tails
            if is_few(self.statistics_.n) and not is_few(sums.n):
                tails = Tails.gaussian(len(tails.degrees))  # what few rows chose is not kept
            solved = solved.with_tails(tails)
        return assign(
            self,
            self,
            columns_=self.columns_,
            search_=self.search_,
            statistics_=sums,
            **solved.attributes("cholesky", None),
        )

    # -- predictions beyond those of every process -------------------------------------------------

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
            values = host(evaluate(Z, coefficients))
            lack = np.asarray(host(self._added_variance(rows, Z)))
            if np.any(lack):
                values = values + np.sqrt(lack)[:, :, None] * rng.standard_normal(values.shape)
            draws.append(values)
        return self.outputs_.values(np.concatenate(draws))

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
        return SampledFunctions(self.columns_, coefficients, self.outputs_, input_names(self))

    def log_marginal_likelihood(self) -> float:
        """log p of the training targets (after a warp) at the fitted variances, in their units."""
        check_is_fitted(self)
        sums, outputs = self._sums("log_marginal_likelihood"), self.outputs_
        variances = self.noise_.variances
        noise = np.ones(len(outputs.means)) if variances is None else variances
        density = log_evidence(sums, outputs.means, outputs.scales, noise, self.posterior_)
        units = float(sums.n * np.sum(np.log(outputs.scales)))
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
        sums, model = self._sums("leave_one_out"), self._model()
        solved = Solved(sums, self.outputs_, self.noise_, self.posterior_)
        rows = Rows.of(test_rows(self, X), y, noise_variance)
        is_weighted = not isinstance(sums.n, int)
        is_all = not is_weighted and rows.n_rows == sums.n
        in_dual = is_all and rows.n_rows <= self.columns_.n_columns
        moments = []
        for block in rows.blocks(int(sums.n) if in_dual else self.columns_.block_rows):
            some = model.block(block)
            left = self._left_out(solved, model, block[0], some, in_dual)
            if is_weighted and np.any(self.posterior_.variance(some.Z) >= left.learnt):
                raise ValueError(
                    "Rows with a sample_weight below one cannot lose a copy: fit with weights "
                    "of one at least for leave_one_out."
                )
            mean = self.outputs_.normal(some.Y) - left.residuals
            noise = self.noise_.at(some.Z, block[2]) + np.zeros(mean.shape)
            moments.append((mean, left.variances + left.lack, noise))
        mean, variance, noise = map(np.concatenate, zip(*moments, strict=True))
        return self.outputs_.moments(mean, variance, noise, True)


class Solved(NamedTuple):
    """The sums over the rows (not with "cg"), and what they say."""

    sums: Any
    outputs: Outputs
    noise: Noise
    posterior: Any

    def with_noise(self, function: NoiseFunction | None) -> Solved:
        return self._replace(noise=replace(self.noise, function=function))

    def with_tails(self, tails: Tails) -> Solved:
        """With these tails, and variances of their level."""
        outputs, noise, posterior = self.outputs, self.noise, self.posterior
        return self._replace(
            outputs=replace(outputs, tails=tails),
            noise=replace(noise, variances=noise.variances * tails.levels),
            posterior=replace(posterior, prior_variances=posterior.prior_variances * tails.levels),
        )

    def attributes(self, solver: str, jackknife: Jackknife | None) -> dict[str, Any]:
        return {
            "outputs_": self.outputs,
            "noise_": self.noise,
            "posterior_": self.posterior,
            "solver_": solver,
            "jackknife_": jackknife,
        }


class Columned(NamedTuple):
    """Rows as a linear model sees them."""

    Z: np.ndarray  # (n, D)
    Y: np.ndarray  # (n, m), warped
    weights: np.ndarray | None  # (n,): one over the variance of their noise
    counts: np.ndarray | None  # (n,): how often they count


class Sampled(NamedTuple):
    """Random rows that judge a fit when they are left out of it."""

    X: Any
    rows: Columned
    is_all: bool  # whether there are no other rows
    n_new: int | None  # the first of them, which the features have not seen; None if there are none
    varies: np.ndarray  # (m,): the outputs that are not constant

    @classmethod
    def of(cls, begun: Begun, model: Model, n_rows: int | None) -> Sampled:
        rows = model.block(begun.sample)
        varies = np.ptp(rows.Y, axis=0) > 1e-12 * np.max(np.abs(rows.Y), axis=0)
        return cls(begun.sample[0], rows, len(rows.Y) == n_rows, begun.n_new or None, varies)

    def new(self, rows: LeftOut) -> LeftOut:
        """Those that stand for new rows, with the outputs that vary."""
        return LeftOut(*(part[: self.n_new, self.varies] for part in rows))

    def weighted(self, weights: np.ndarray) -> Sampled:
        return self._replace(rows=self.rows._replace(weights=weights))

    def jackknife(self, rows: LeftOut, judges: LeftOut) -> Jackknife | None:
        """Left-out rows for intervals, of real columns: residuals of complex ones have two parts.

        None if rows have weights: w copies are left out singly.
        """
        if self.rows.counts is not None or np.iscomplexobj(self.rows.Z):
            return None
        few = slice(min(self.n_new or JACKKNIFE_ROWS, JACKKNIFE_ROWS))
        left, scored = (LeftOut(*(part[few] for part in own)) for own in (rows, judges))
        return Jackknife.of(self.rows.Z[few], left, scored)


class Model(NamedTuple):
    """How blocks of rows become sums: it may be sent to where the rows are."""

    columns: Columns
    inputs: Any
    by_row: bool  # whether rows have a noise of their own
    n_outputs: int
    is_flat: bool
    warp: Warp | None = None
    noise: NoiseFunction | None = None  # that weighs the rows

    @classmethod
    def of(cls, begun: Begun, inputs: Any, warp: Warp | None) -> Model:
        Y, is_flat = targets(begun.sample[1])
        return cls(begun.columns, inputs, begun.sample[2] is not None, Y.shape[1], is_flat, warp)

    def targets(self, y: Any) -> np.ndarray:  # -> (n, m)
        Y, _ = targets(y)
        if Y.shape[1] != self.n_outputs:
            raise ValueError(f"y has {Y.shape[1]} outputs; {self.n_outputs} are expected.")
        return Y if self.warp is None else self.warp.forward(Y)

    def block(self, block: Block) -> Columned:
        X, y, noise, counts = block
        Y = self.targets(y)
        noise = row_noise(noise, self.by_row, len(Y))
        Z = self.columns(checked(self.inputs, X))
        if self.noise is not None:
            noise = self.noise.typical(Z)
        return Columned(Z, Y, None if noise is None else 1 / noise, counts)

    def add(self, sums: SufficientStatistics, block: Block, first: int) -> SufficientStatistics:
        sums.update(*self.block(block))
        return sums

    def add_targets(
        self, sums: SufficientStatistics, block: Block, first: int
    ) -> SufficientStatistics:
        """The sums of targets alone, for their means and deviations."""
        Y = self.targets(block[1])
        sums.update(np.empty((len(Y), 0)), Y, None, block[3])
        return sums

    def outputs(self, sums: SufficientStatistics, normalize: str | None) -> Outputs:
        outputs = Outputs.of(sums.means(), sums.deviations(), normalize, self.is_flat)
        return replace(outputs, warp=self.warp)

    def row_block(self, outputs: Outputs, block: Block) -> RowBlock:
        """What conjugate gradients see of a block: every output is a system."""
        Z, Y, weights, counts = self.block(block)
        total = np.ones(len(Y)) if weights is None else weights
        return RowBlock(Z, outputs.normal(Y), total if counts is None else total * counts)

    def checkpoint(self, path: Any, settings: Any, restore: Any) -> Checkpoint | None:
        """A checkpoint that other features or settings do not take for theirs."""
        if path is None:
            return None
        own = self.columns.digest(), digest_of(self.warp), digest_of(self.noise)
        configuration = fingerprint([self.n_outputs, self.by_row, settings, *own])
        return Checkpoint(path, restore, fingerprint=configuration)

    def sums(
        self, rows: Rows, offset: np.ndarray, path: Any, verbose: bool
    ) -> SufficientStatistics:  # (m,)
        """The sums over all rows, in one pass, about an offset of the targets."""
        columns = self.columns
        zero = partial(
            SufficientStatistics.zeros, columns.n_columns, self.n_outputs, columns.dtype, offset
        )
        return rows.fold(
            zero,
            self.add,
            block_rows=columns.block_rows,
            # writing the sums takes about as long as adding 400 rows to them
            group_blocks=max(4096 // columns.block_rows, 1),
            checkpoint=self.checkpoint(path, offset.tolist(), SufficientStatistics.restored),
            progress="rows" if verbose else None,
        )
