"""Gaussian process classification on features, by a softmax likelihood or Dirichlet labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from .._arrays import as_generator, host
from .._support.parameters import positive_integer
from ..rows.collections import split_target
from ..rows.sources import SAMPLE_ROWS, Rows, is_on_disk, is_stream, sample_weights
from .base import DTYPES
from .class_fits import ClassFits
from .class_kernels import LAST_ROWS, tuned_for_classes
from .dirichlet import check_two_classes
from .functions import SampledFunctions
from .iterative import check_direct, check_solver, chosen_solver, forget
from .solvers import ConjugateGradients

LIKELIHOODS = ("auto", "softmax", "dirichlet")


class FeatureGPClassifier(ClassFits):
    """Gaussian process classification with the kernel of a feature map.

    Every class has a latent Gaussian process, and the softmax of all of them gives probabilities.
    With `likelihood="dirichlet"`, labels become targets of a regression (Milios et al., 2018). Its
    posterior has a closed form: one pass over the rows gives sums that are shared by all classes
    and all values of α. `likelihood="softmax"` uses the likelihood of the labels themselves, which
    predicts better with many rows and takes further passes.

    Parameters
    ----------
    features : transformer or "auto", default="auto"
        As for `FeatureGPRegressor`.
    likelihood : {"auto", "softmax", "dirichlet"}, default="auto"
        "softmax" finds the mode of the posterior under the likelihood of the labels, by up to 100
        further passes over the rows (features of rows in memory are kept if they take at most a
        quarter of what the machine has, and others up to 512 MB). The covariance of the weights is
        the same for all classes, by Böhning's bound of the curvature. It needs all rows in `fit`,
        and rows that can be read again: `partial_fit`, `merge`, `refit` and one-shot iterators are
        for "dirichlet" only, and so are solver="cg" and posterior="complex" with complex features.
        "auto" is "softmax" in a `fit` to at least 2000 rows if all of these conditions hold, unless
        `alpha` or `prior_variance="labels"` request Dirichlet labels; otherwise it is "dirichlet".
        `likelihood_` is the one that was used.
    alpha : float, "auto" or "evidence", default="auto"
        Concentration of the Dirichlet distribution. "auto" picks the best of 10⁻⁵, …, 1, downhill
        from 10⁻³, for the log-likelihood of up to 1000 rows, a tenth of all at most, which are
        taken out of the sums for it. With more than 512 columns, 512 of them are drawn for this
        choice. "evidence" maximises the marginal likelihood of the labels: no rows are held out,
        but the noise of the model depends on the labels.
    prior_variance : float, "auto" or "labels", default="auto"
        Multiplies the kernel; "labels" is the variance of the transformed labels (as the authors).
        "auto" is the best of 0.01, 0.1, …, 10⁴ times that, chosen together with α; for a softmax,
        the best for a fifth of the rows (of 20,000 at most, and with 512 columns at most).
    temperature : float or "auto", default="auto"
        Divides the latent functions before the softmax: values above 1 make probabilities less
        certain. "auto" is the best value for the same held-out rows, and 1 for a softmax
        likelihood; 1 is the model of the authors. `predict` and `predict_latent` do not depend on
        it.
    posterior : {"real", "complex"}, default="real"
        As for `FeatureGPRegressor`.
    variance_correction : "auto", None or "posterior", default="auto"
        "posterior" adds what the features lack of k(x, x) to the variances of the latent functions.
        "auto" adds nothing: α, prior variance and temperature are chosen for rows held out as the
        features see them.
    solver : {"auto", "cholesky", "cg"} or ConjugateGradients, default="auto"
        As for `FeatureGPRegressor`; all classes share the passes of "cg". Parameters that are
        "auto" are then chosen on at most 2000 rows.
    class_weight : dict, "balanced" or None, default=None
        How often each row of a class counts.
    probabilities : {"monte_carlo", "closed_form"}, default="monte_carlo"
        How `predict_proba` averages the softmax over the latent functions.
    n_samples : int, default=128
        Draws of the Monte Carlo average (evenly spread Sobol points).
    optimize : bool, "ard" or "common", default=False
        True searches for the parameters of the features' kernel before the fit. A regression on the
        columns [y = c] finds candidates, like `FeatureGPRegressor`. These and the given kernel are
        fitted to at most 15,000 rows and predict 5000 others (half as many of rows that are not in
        memory), and the given kernel is kept unless another predicts better. All lengthscales of
        the best one then become shorter or longer as long as that predicts better. "ard" tries one
        lengthscale per column, "common" the lengthscales that the kernel has, and True is "ard" if
        there are more than 20 rows per column and at most 200 columns. See the guide, "Tuning the
        kernel".
    time_budget : float or None, default=None
        As for `FeatureGPRegressor`.
    chunk_rows, verbose : as for `FeatureGPRegressor`
    random_state : int, RandomState or None, default=0
        For the Monte Carlo average and the rows that are held out.

    Attributes
    ----------
    classes_ : array (C,)
    likelihood_ : "softmax" or "dirichlet"
    alpha_, prior_variance_, temperature_ : floats; α is None for a softmax likelihood
    labels_ : DirichletLabels, the targets and noise variances; None for a softmax likelihood
    statistics_ : list of SufficientStatistics, one for every class; not with "cg"
    posteriors_ : list of Posterior, one for every class
    jitter_ : float, the largest relative jitter that a factorisation took
    solver_, n_iterations_, residuals_ : as for `FeatureGPRegressor`; a softmax likelihood has a
        number of iterations too
    kernel_, relevances_, search_ : as for `FeatureGPRegressor`; the likelihoods of the stage
        "factor" are those of rows held out, and there is no noise (NaN)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dotsketch import FeatureGPClassifier, Gaussian, MaclaurinFeatures
    >>> X, y = load_iris(return_X_y=True)
    >>> features = MaclaurinFeatures(Gaussian(), n_components=40, random_state=0)
    >>> gp = FeatureGPClassifier(features).fit(X, y)
    >>> bool(gp.score(X, y) > 0.95)
    True
    >>> gp.predict_proba(X[:1]).round(1)
    array([[1., 0., 0.]])
    """

    def __init__(
        self,
        features: Any = "auto",
        *,
        likelihood: str = "auto",
        alpha: float | str = "auto",
        prior_variance: float | str = "auto",
        temperature: float | str = "auto",
        posterior: str = "real",
        variance_correction: str | None = "auto",
        solver: Any = "auto",
        class_weight: Any = None,
        probabilities: str = "monte_carlo",
        n_samples: int = 128,
        optimize: bool | str = False,
        time_budget: float | None = None,
        chunk_rows: int | None = None,
        verbose: bool = False,
        random_state: Any = 0,
    ):
        self.features = features
        self.likelihood = likelihood
        self.alpha = alpha
        self.prior_variance = prior_variance
        self.temperature = temperature
        self.posterior = posterior
        self.variance_correction = variance_correction
        self.solver = solver
        self.class_weight = class_weight
        self.probabilities = probabilities
        self.n_samples = n_samples
        self.optimize = optimize
        self.time_budget = time_budget
        self.chunk_rows = chunk_rows
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        target: Any = None,
        classes: Any = None,
        optimize: bool | str | None = None,
        checkpoint: Any = None,
    ) -> FeatureGPClassifier:
        """Fit in one pass, and in one for every iteration of a softmax or of `solver="cg"`.

        X, y, `sample_weight`, `target` and `checkpoint` are as for `FeatureGPRegressor.fit`, with
        labels of any kind (n,). Rows that are held out to choose α, prior variance and temperature
        count by their weights, but are held out with all their copies: repeated rows are separate
        rows there, some of which may be held out.
        `classes` may name the classes of a stream, of which some may have no rows. `optimize` takes
        the place of the parameter if it is not None.
        """
        self._check_parameters()
        X, y = split_target(X, y, target)
        rows = self._training_rows(X, y, sample_weight, reset=True)
        self._begin(rows, classes, self._asked(optimize))
        solver = self._chosen_solver(rows)
        if solver is not None:
            return self._fit_by_passes(rows, solver, checkpoint)
        self.solver_ = "cholesky"
        forget(self, "n_iterations_", "residuals_")
        return self._fit_sums(rows, checkpoint)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> FeatureGPClassifier:
        """Add rows to those seen before; the first call fits the features.

        The likelihood is that of Dirichlet labels, also if `fit` came first. The first call may
        name all `classes`; otherwise they are those of the rows seen so far, and later rows may add
        some.
        """
        self._check_parameters()
        self._check_sums("partial_fit")
        first = not hasattr(self, "_sums")
        rows = self._training_rows(X, y, sample_weight, reset=first)
        if first:
            self._begin(rows, classes, self._asked(None))
            self._check_first_rows()
            self.solver_ = "cholesky"
            self._sums = self._no_rows()
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the rows seen so far, {self.classes_}.")
        self._sums = self._sums + self._gather_classes(rows, seen=self._sums.held.n_rows)
        return self._finish()

    def refit(self, alpha: float | str | None = None) -> FeatureGPClassifier:
        """The posterior for another α (or other changed parameters), without the rows.

        Dirichlet labels only: a softmax likelihood needs the rows.
        """
        check_is_fitted(self)
        if alpha is not None:
            self.alpha = alpha
        self._check_parameters()
        self._check_sums("refit")
        return self._finish()

    def merge(self, other: FeatureGPClassifier) -> FeatureGPClassifier:
        """Add the rows that another classifier with the same features has seen.

        The sums are those of one fit to the rows of both; see `FeatureGPRegressor.merge`. The
        likelihood is that of Dirichlet labels.
        """
        check_is_fitted(self)
        self._check_parameters()
        self._check_sums("merge")
        self._check_mergeable(other)
        check_direct(other, "merge")
        self._check_named(list(other._sums.by_label))
        self._sums = self._sums + other._sums
        return self._finish()

    def sample_functions(self, n_functions: int = 1, random_state: Any = None) -> SampledFunctions:
        """Latent functions of all classes drawn from their posteriors: `f(X)` (n, C, n_functions).

        As `FeatureGPRegressor.sample_functions`; a softmax over the classes gives probabilities.
        """
        check_is_fitted(self)
        n, rng = positive_integer("n_functions", n_functions), as_generator(random_state)
        weights = np.concatenate([p.sample_weights(n, rng) for p in self.posteriors_], axis=1)
        shifts = self._latent_means
        return SampledFunctions(
            self.features_, weights, shifts, np.ones_like(shifts), self._joins_parts, False
        )

    @property
    def likelihood_(self) -> str:
        """The likelihood of the fit: "softmax" or "dirichlet"."""
        check_is_fitted(self)
        return "softmax" if self.labels_ is None else "dirichlet"

    @property
    def _correction(self) -> str | None:
        """None for "auto": a prior variance that suits rows held out may be several hundred.

        With the missing variance added to that, 2000 rows of letter had a negative log-likelihood
        of 1.11 instead of 0.36 (3000 training rows, 300 Nyström columns).
        """
        return None if self.variance_correction == "auto" else self.variance_correction

    def _check_parameters(self) -> None:
        self._check_features(("auto", None, "posterior"))
        self._check_classifier()
        check_solver(self.solver)
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(f"likelihood must be one of {LIKELIHOODS}; got {self.likelihood!r}.")
        if self.likelihood == "softmax" and (
            self.alpha != "auto" or self.prior_variance == "labels"
        ):
            raise ValueError(
                'likelihood="softmax" has no Dirichlet labels: leave alpha as "auto" and '
                'prior_variance as "auto" or a number, or use likelihood="dirichlet".'
            )

    def _check_sums(self, what: str) -> None:
        """Raise where sums over the rows are not enough."""
        check_direct(self, what)
        if self.likelihood == "softmax":
            raise ValueError(
                f'{what} has sums over the rows only, and likelihood="softmax" needs the rows: '
                'call fit with all of them, or use likelihood="dirichlet".'
            )

    def _chosen_solver(self, rows: Rows) -> ConjugateGradients | None:
        """The iterative solver, or None for sums over the rows, which a softmax needs."""
        is_complex = np.iscomplexobj(self._probe)
        if self.likelihood != "softmax":
            return chosen_solver(self.solver, rows, self.n_columns_, is_complex)
        if self.solver not in ("auto", "cholesky"):
            raise ValueError(
                'likelihood="softmax" needs solver="cholesky"; use likelihood="dirichlet" with '
                'solver="cg".'
            )
        if not rows.repeatable:
            raise ValueError(
                'likelihood="softmax" reads the rows many times, and an iterator gives them once: '
                'pass a function that returns a fresh iterator, or use likelihood="dirichlet".'
            )
        if is_complex:
            raise ValueError(
                'likelihood="softmax" works with real columns: use posterior="real" or '
                'likelihood="dirichlet".'
            )
        return None

    def _training_rows(self, X: Any, y: Any, sample_weight: Any, *, reset: bool) -> Rows:
        if not is_stream(X) and not is_on_disk(X):
            X, y = validate_data(
                self, host(X), host(y), accept_sparse="csr", dtype=DTYPES, reset=reset
            )
            y = column_or_1d(y, warn=True)
            check_classification_targets(y)
        return self._rows(X, y, None, sample_weight)

    def _begin(self, rows: Rows, classes: Any, optimize: bool | str) -> None:
        """Fit the features, and note which classes are known by now."""
        self._named = None if classes is None else np.unique(classes)
        known = self._named
        if known is None:
            known = rows.distinct(1)
        if known is not None:
            check_two_classes(known)
        self.search_ = None
        features = self._unfitted_features(rows)
        if optimize:
            features = self._tuned_features(features, rows, optimize)
        self._fit_features(rows, features)
        self._known = [] if known is None else known.tolist()
        self._seed = self._draw_seed()

    def _feature_targets(self, y: Any) -> np.ndarray:  # (n,) -> (n, C)
        """Classes as columns of 0 and 1: they have no order."""
        y = np.asarray(host(y))
        return np.asarray(y[:, None] == np.unique(y), dtype=np.float64)

    def _tuned_features(self, features: Any, rows: Rows, optimize: bool | str) -> Any:
        """These features with the kernel that predicts rows held out best."""
        sample = rows.sample(LAST_ROWS if rows.in_memory else SAMPLE_ROWS)
        X = sample[0] if rows.in_memory else self._check_sample(sample[0])
        # Trials have the likelihood of the fit: the best kernel for Dirichlet labels may be another
        iterates = self.solver == "cg" or isinstance(self.solver, ConjugateGradients)
        likelihood = "dirichlet" if iterates or self._asks_for_labels else self.likelihood
        options = {"posterior": self.posterior, "random_state": self.random_state}
        recorder = self._recorder()
        found, message = tuned_for_classes(
            features,
            X,
            self._labels(sample[1]),
            sample_weights(sample),
            fitting=self._fitting_rows(rows)[1],
            make=lambda features: FeatureGPClassifier(
                features, likelihood=likelihood, probabilities="closed_form", **options
            ),
            per_column=self._per_column(optimize),
            recorder=recorder,
        )
        self.search_ = recorder.finish(message)
        return found
