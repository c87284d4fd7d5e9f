"""What the Gaussian processes share: rows that are validated once, targets, and one assignment.

An estimator is a thin shell. `fit` computes values and hands all of them to `assign` at its end: an
exception or an interrupt before that leaves the estimator as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.utils import check_array, column_or_1d, estimator_html_repr
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from .._arrays import Array, as_generator, host, is_foreign
from .._support.html import html_table
from .._support.parameters import one_of
from ..features import check_foreign, is_valid
from ..kernels import Gaussian, Kernel, Matern
from ..rows import Block, Rows, is_collection, is_on_disk, is_stream, take
from .columns import Columns, described_features, is_default, searchable, with_kernel, with_names
from .search import Search
from .sums import positive_rows

DTYPES = [np.float64, np.float32]
SAMPLE_ROWS = 10_000  # features of rows that are not in memory are fitted to a sample of these
LARGEST = 1e140  # whose square is a number of double precision


# -- what estimators are made of ------------------------------------------------------------------


def assign(estimator: Any, inputs: Any, **values: Any) -> Any:
    """Replace everything that an earlier fit has left, in one step that nothing interrupts."""
    names = ("n_features_in_", "feature_names_in_")
    seen = {name: getattr(inputs, name) for name in names if hasattr(inputs, name)}
    # scikit-learn has private attributes of its own; ours are always assigned together
    private = {name: value for name, value in vars(estimator).items() if name.startswith("_")}
    estimator.__dict__ = {**estimator.get_params(deep=False), **private, **seen, **values}
    return estimator


def relevances(model: Any) -> np.ndarray:  # -> (d,)
    """How fast the function may vary along every input: 1/lengthscale, summing to one.

    Lengthscales are taken in units of the standard deviations of the inputs. One common lengthscale
    gives the same relevance to all. An input of large relevance need not matter much for
    predictions; one of small relevance does not matter.
    """
    values = getattr(model.kernel_, "lengthscale", None)
    if values is None:
        raise AttributeError(f"{model.kernel_!r} has no lengthscale, and so no relevances.")
    inverse = model.columns_.input_scales / np.asarray(host(values), dtype=float)
    return inverse / (np.sum(inverse) or 1.0)


def plot_relevances(model: Any, ax: Any = None, *, n_inputs: int = 30) -> Any:
    """Bars of `relevances_`, the greatest `n_inputs` of them; the matplotlib axes."""
    import matplotlib.pyplot as plt

    values = model.relevances_
    order = np.argsort(values, kind="stable")[::-1][:n_inputs][::-1]
    names = getattr(model, "feature_names_in_", None)
    if names is None or len(names) != len(values):
        names = [f"input {k}" for k in range(len(values))]
    if ax is None:
        ax = plt.subplots(figsize=(5, 0.6 + 0.25 * len(order)), layout="constrained")[1]
    ax.barh([str(names[k]) for k in order], values[order], color="#3b6ea5")
    ax.set_xlabel("relevance (1 / lengthscale, summing to 1)")
    return ax


def fitted_html(model: Any) -> str:
    """What scikit-learn shows of an estimator, and below it a small table of what a fit chose."""
    html = estimator_html_repr(model)
    if not hasattr(model, "columns_"):
        return html
    search = model.search_
    facts = [
        ("kernel", repr(model.kernel_)),
        ("columns", model.columns_.n_columns),
        *model._facts(),
    ]
    if search is not None:
        facts.append(("search", f"{len(search.steps)} steps, {search.seconds:.1f} s: see search_"))
    return html + html_table(("fitted", ""), facts)


def mimebundle(model: Any, **options: Any) -> dict[str, str]:
    """What a notebook shows."""
    plain = {"text/plain": repr(model)}
    is_diagram = get_config()["display"] == "diagram"
    return plain | {"text/html": fitted_html(model)} if is_diagram else plain


# -- rows ------------------------------------------------------------------------------------------


class TrainingRows(NamedTuple):
    """Rows to learn from, and the estimator-like value that holds the names of their inputs."""

    rows: Rows
    inputs: Any

    @classmethod
    def of(
        cls,
        estimator: type[Any],
        X: Any,
        y: Any,
        noise_variance: Any = None,
        sample_weight: Any = None,
        *,
        labels: bool = False,
        inputs: Any = None,
    ) -> TrainingRows:
        """Rows in memory are validated at once, others block by block (`checked`).

        `inputs` are those of an earlier fit, which these rows must have.
        """
        is_first, inputs = inputs is None, estimator() if inputs is None else inputs
        if y is None and not is_stream(X):
            raise ValueError(
                f"{estimator.__name__} requires y to be passed, but the target y is None."
            )
        _refuse_masks(X, y)
        if not (is_stream(X) or is_collection(X) or is_on_disk(X)):
            options = {} if labels else {"multi_output": True, "y_numeric": True}
            X, y = validate_data(
                inputs,
                host(X),
                host(y),
                accept_sparse="csr",
                dtype=DTYPES,
                reset=is_first,
                **options,
            )
            y = labels_of(y) if labels else y
        return cls(Rows.of(X, y, noise_variance, sample_weight), inputs)

    def sample(self, size: int, rng: np.random.Generator) -> Block:
        """At most `size` validated random rows, in the order of the rows: X, y, noise, weight."""
        X, *others = self.rows.sample(size, rng)
        if not hasattr(self.inputs, "n_features_in_"):  # the first rows that are seen of the data
            _check_feature_names(self.inputs, X, reset=True)
            _check_n_features(self.inputs, check_array(X, accept_sparse="csr"), reset=True)
        return (checked(self.inputs, X), *others)

    def fitting(self, sample: Block) -> tuple[Array, Any]:
        """The rows that features are fitted to: all of them in memory, or the sample."""
        if self.rows.in_memory and self.rows.columns is not None:
            return self.rows.columns[0], self.rows.columns[1]
        return sample[0], sample[1]


def checked(inputs: Any, X: Any) -> Any:
    """Rows of a block as a real floating array or CSR matrix with the inputs of the first rows."""
    if is_valid(inputs, X):
        return X
    if hasattr(X, "iloc"):  # the names of a batch must be those of the first
        _check_feature_names(inputs, X, reset=False)
    X = check_array(X, accept_sparse="csr", dtype=DTYPES, estimator=inputs)
    _check_n_features(inputs, X, reset=False)
    return X


def test_rows(estimator: Any, X: Any) -> Any:
    """Rows to predict: of a foreign array library as they are, so that gradients flow."""
    if is_valid(estimator, X):
        return X
    if is_collection(X):
        raise TypeError(
            "This method takes rows in memory: call it with X.compute(), or block by block. "
            "`predict` and `predict_proba` take Dask collections."
        )
    if is_foreign(X):
        return check_foreign(estimator, X, reset=False)
    _refuse_masks(X)
    return validate_data(estimator, X, accept_sparse="csr", dtype=DTYPES, reset=False)


def column_blocks(model: Any, X: Any) -> Iterator[tuple[Any, Any]]:
    """Validated rows of X and their columns, in blocks; foreign rows in one block."""
    if is_foreign(X):
        rows = test_rows(model, X)
        yield rows, model.columns_(rows)
        return
    source = X if is_on_disk(X) else test_rows(model, X)
    for rows, *_ in Rows.of(source).blocks(model.columns_.block_rows):
        rows = checked(model, rows)
        yield rows, model.columns_(rows)


def check_mergeable(model: Any, other: Any) -> None:
    """Raise unless the sums of another process are those of the same features."""
    if type(other) is not type(model):
        raise TypeError(f"Only a {type(model).__name__} can be merged; got {other!r}.")
    check_is_fitted(other)
    if not model.columns_.same_as(other.columns_):
        raise ValueError(
            "The two were fitted with different features: fit the features once, and give both of "
            "them FrozenEstimator(features) of sklearn.frozen."
        )


def input_names(model: Any) -> tuple[str, ...] | None:
    """The names of the inputs, if the rows had some."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else tuple(map(str, names))


def without_sums(model: Any) -> Any:
    """A copy for predictions, without the sums over the training rows."""
    light = type(model)()
    light.__dict__ = {
        k: v
        for k, v in vars(model).items()
        if k not in ("statistics_", "class_sums_", "jackknife_")
    }
    return light


def _refuse_masks(*columns: Any) -> None:
    """Masked values and dates would be taken as the numbers behind them."""
    for column in columns:
        if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
            raise ValueError(
                "A masked array was given, whose masked values would be taken as they are: fill "
                "them in (X.filled(…)), or use NaN and TableEncoder of dotsketch.tables."
            )
        if getattr(getattr(column, "dtype", None), "kind", None) in ("m", "M"):
            raise TypeError(
                "Dates and durations are not numbers: convert them, for instance to days since "
                "the first date, and to the day of the week or year where these may matter."
            )


def targets(y: Any) -> tuple[np.ndarray, bool]:  # (n,) or (n, m) -> (n, m), was it (n,)
    """Finite targets in double precision, and so their squares."""
    # `check_array` takes longer than the features of a small block
    plain = type(y) is np.ndarray and y.dtype == np.float64 and y.ndim in (1, 2) and y.size
    if not plain or not np.max(np.abs(y)) <= LARGEST:
        y = check_array(host(y), ensure_2d=False, dtype=np.float64, input_name="y")
        if np.max(np.abs(y)) > LARGEST:
            raise ValueError(
                f"y has values beyond {LARGEST:.0e}, whose squares overflow: scale it."
            )
    return (y[:, None], True) if y.ndim == 1 else (y, False)


def labels_of(y: Any, named: np.ndarray | None = None) -> np.ndarray:  # (n,)
    """Validated labels of rows; `named` are the classes that they must be among."""
    labels: np.ndarray = column_or_1d(host(y))
    if labels.dtype == object and any(label is None for label in labels):
        raise ValueError("y has labels that are None: remove these rows, or give them a label.")
    check_classification_targets(labels)
    if named is not None and not np.isin(labels, named).all():
        raise ValueError(f"y holds labels that are not among the classes {named}.")
    return labels


def row_noise(noise: Any, expected: bool, n: int) -> np.ndarray | None:
    """Positive variances of the noise of n rows, or None where none are expected."""
    if (noise is not None) != expected:
        raise ValueError("The noise variance must be given for all rows or for none.")
    return positive_rows("noise_variance by row", noise, n)


# -- the search of a model -------------------------------------------------------------------------


class Begun(NamedTuple):
    """The first half of a fit on features: a sample of the rows, the kernel, fitted features."""

    columns: Columns
    sample: Block  # validated random rows, in random order: X, y, noise, sample weight
    n_new: int  # the first of them, which the features have not seen
    search: Search | None
    seed: int
    rng: np.random.Generator


def drawn_seed(random_state: Any) -> int:
    """One number from which all that a fit draws follows."""
    return int(as_generator(random_state).integers(2**31 - 1))


def begin(
    estimator: Any,
    training: TrainingRows,
    search: Callable[..., Search],
    *,
    holds_out: bool = False,
) -> Begun:
    """Describe the features, search their kernel if that is asked for, and fit them.

    `search(kernel, rows, sample, alternatives, rng)` finds the best kernel. With `holds_out`,
    features that the model chooses, of fewer columns than rows, do not see a fifth of the sample:
    they carry k(x, x) of the rows that they are fitted to better than that of new ones.
    """
    seed = drawn_seed(estimator.random_state)
    rng = np.random.default_rng(seed)
    sample = training.sample(SAMPLE_ROWS, rng)
    fitting = training.fitting(sample)
    # in random order, so that the first of them are a sample, too
    sample = take(sample, rng.permutation(sample[0].shape[0]))
    features = described_features(estimator.features, fitting[0], seed)
    names = getattr(training.inputs, "feature_names_in_", None)
    seen: Any = getattr(features, "feature_names_in_", names)  # by features that are frozen
    if names is not None and list(names) != list(seen):
        raise ValueError(f"The features were fitted to the inputs {[*seen]}; got {[*names]}.")
    features = with_names(features, names)
    result, is_auto = None, is_default(estimator.features)
    if wants_search(estimator.optimize, is_auto):
        kernel, rows = searchable(features, sample[0], sample[1])
        result = search(kernel, rows, sample, alternatives_of(kernel, is_auto), rng)
        features = with_kernel(features, result.kernel)
    n, n_new = sample[0].shape[0], 0
    if holds_out and is_auto and n - n // 5 >= features.n_components:
        n_new = n // 5
        fitting = (sample[0][n_new:], sample[1][n_new:]) if n_new else fitting
    columns = Columns.fit(
        features,
        *fitting,
        sample[0],
        joins_parts=getattr(estimator, "posterior", "real") == "real",
        has_trend=getattr(estimator, "trend", None) is not None,
    )
    return Begun(columns, sample, n_new, result, seed, rng)


def check_optimize(value: Any) -> None:
    if not isinstance(value, (bool, np.bool_)):
        one_of("optimize", value, ("auto", True, False))


def wants_search(optimize: Any, is_default: bool) -> bool:
    """Whether a model searches: as asked, or if it chooses its kernel itself ("auto")."""
    return is_default if isinstance(optimize, str) else bool(optimize)


def alternatives_of(kernel: Any, is_default: bool) -> tuple[Kernel, ...]:
    """Other smoothness, where nobody has named a kernel."""
    if not is_default or not isinstance(kernel, Matern):
        return ()
    scale = kernel.lengthscale
    return (
        Matern(0.5, lengthscale=scale),
        Matern(2.5, lengthscale=scale),
        Gaussian(lengthscale=scale),
    )
