"""`dotsketch compare`: the model that `fit` makes beside others on the same rows held out."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, RidgeCV
from threadpoolctl import threadpool_limits

from ..features import FAMILIES
from ..tables import TableEncoder
from . import modelling as models
from .modelling import HeldOut, Request
from .options import encode_aloud, modelling, open_tables, option, option_words, take, threads
from .output import check_ending, check_output, list_names, progress, show
from .report import comparison_table, write_report
from .schema import Schema
from .scoring import NumberPrediction, Prediction, Score, predict_rows
from .tables import WILDCARDS
from .words import describe_kernel, imports_of, rounded, source_of

EXACT_ROWS = 2000  # the exact process takes n³ operations: seconds with so many rows
AS_GOOD = 0.05  # nats per row, as much as 5 % of the standard deviation: less hardly matters
RELEVANCE_ROWS = 500
RELEVANCE_COLUMNS = 200  # wider tables have no plot of relevances


@click.command()
@click.argument("data")
@option("--test", metavar="FILE", text="Use the rows of this table as held-out rows.")
@option("--report", metavar="FILE", text="The HTML report to write.  [default: NAME.compare.html]")
@option("--no-report", is_flag=True, text="Do not write a report.")
@modelling
def compare(
    data: str, test: str | None, report: str | None, no_report: bool, **options: Any
) -> None:
    """Compare Gaussian processes on DATA with each other and with models of scikit-learn.

    The first row is the model that `fit` makes. Below stand other random features for the same
    kernel, the exact Gaussian process (up to 2000 rows), a linear model and gradient boosting. All
    are fitted to the same rows, and scored on rows held out. Works on a sample of up to 12,000
    rows.

    \b
    Examples:
      dotsketch compare houses.csv --target price
      dotsketch compare houses.csv --target price --kernel poly:3 --components 500
      dotsketch compare digits --json
    """
    chosen = dict(options)
    jobs, as_json, _ = take(options, "jobs", "as_json", "verbose").values()
    request = Request(**take(options, "kernel", "components", "seed"))
    table, test_table = open_tables(data, test, request, options)
    path = None if no_report else Path(report or f"{name_of(data)}.compare.html")
    if path is not None:
        check_output(path, data, test)
        check_ending(path, "the report", ".html", ".htm")
    with threads(jobs):
        rows, request = encode_aloud(table, test_table, request, options)
        split = models.hold_out(rows, request.seed, test_table)
        with progress("Comparing", 1.0) as advance:
            compared = compare_models(split, request, advance)
    best, kernel, schema = best_of(compared), compared[0].gp.kernel_, rows.schema
    chosen |= {"target": schema.target.name, "task": schema.task, "as_json": False}
    words = ["dotsketch", "fit", data, *option_words(chosen)]
    words += [] if best.family == "auto" else ["--features", str(best.family)]
    python = f"{imports_of(best.model)}\nmodel = {source_of(best.model)}"
    summary: dict[str, Any] = {
        "data": summary_of(schema, split),
        "kernel": source_of(rounded(kernel)),
        "kernel_in_short": describe_kernel(kernel),
        "features": models.describe_features(best.gp, split.X),
        "candidates": [model.summary(best) for model in compared],
        "recommended": best.family,
        "recommendation": recommendation(compared),
        "python": python,
        "command": shlex.join([*words, "-o", "MODEL"]),
        "report": None if path is None else str(path),
        "seed": request.seed,
    }
    if path is not None:
        relevance = relevances(best, split, rows.encoder, schema.task)
        write_report(path, summary, compared, best, relevance)
    scaling = "unscaled" if models.is_nonnegative(request) else "standardized"
    text = [f"\n{summary['recommendation']}", f"\nIn Python, on {scaling} columns:\n{python}"]
    text.append(f"\nOn the command line:\n{summary['command']}")
    text += [] if path is None else [f"\nReport: {path}"]
    show(as_json, summary, comparison_table(summary, compared, best), *text)


def name_of(data: str) -> str:
    """What a report is named after: a file, a folder or a data set; the folder of a pattern."""
    path = Path(data).absolute()
    while not path.exists() and any(sign in path.name for sign in WILDCARDS):
        path = path.parent
    return path.name.lstrip(".-").split(".")[0] or "table"


def summary_of(schema: Schema, split: HeldOut) -> dict[str, Any]:
    share = None
    if schema.classes:  # the accuracy of always predicting the most frequent class
        classes, counts = np.unique(split.y, return_counts=True)
        share = float(np.mean(split.y_test == classes[counts.argmax()]))
    return {
        "source": schema.source,
        "rows": schema.n_rows,
        "rows_imputed": schema.n_imputed,
        "numeric": len(schema.numeric),
        "categorical": len(schema.categorical),
        "dimension": split.X.shape[1],
        "target": schema.target.name,
        "task": schema.task,
        "classes": schema.classes,
        "most_frequent_class": share,
        "rows_fitted": len(split.X),
        "rows_held_out": len(split.X_test),
    }


@dataclass(frozen=True)
class Compared:
    """A model and how it does on the rows held out."""

    name: str
    prediction: Prediction
    y: np.ndarray  # targets of the rows held out
    microseconds: float  # of a prediction, per row
    fit_seconds: float
    has_likelihood: bool = True
    family: str | None = None  # what --features takes; None for models that are not ours
    model: Any = None  # unfitted
    gp: Any = None  # fitted
    predicted_error: float | None = None  # of the kernel

    @property
    def figures(self) -> dict[str, float | None]:
        figures = Score(self.prediction.task).add(self.prediction, self.y).figures()
        return figures if self.has_likelihood else figures | {"mnll": None, "coverage": None}

    @property
    def errors(self) -> np.ndarray:
        """Wrong or not (1, 0), or squared errors over the variance of the target."""
        return errors_of(self.prediction.values, self.y, self.prediction.task)

    @property
    def error(self) -> tuple[float, float]:
        """The share that is wrong, or the unexplained variance; and its standard error."""
        return mean_and_error(self.errors)

    @property
    def loss(self) -> float:
        """The mean of −log p(y); infinite without a distribution."""
        return float(np.mean(self.prediction.losses(self.y))) if self.has_likelihood else np.inf

    def above(self, other: Compared) -> tuple[float, float] | None:
        """How much larger the mean loss of the same rows is than that of another model, and its
        standard error; None where one has no losses, or an infinite one."""
        if not np.isfinite(self.loss + other.loss):
            return None
        return mean_and_error(self.prediction.losses(self.y) - other.prediction.losses(self.y))

    def summary(self, best: Compared) -> dict[str, Any]:
        """For machines."""
        above, error = self.above(best) or (None, None)
        return {
            "model": self.name,
            "features": self.family,
            "predicted_error": self.predicted_error,
            **self.figures,
            "mnll_difference": above,
            "mnll_standard_error": error,
            "microseconds_per_row": self.microseconds,
            "fit_seconds": self.fit_seconds,
            "python": None if self.model is None else source_of(self.model),
        }


def best_of(compared: list[Compared]) -> Compared:
    """The default, unless another model of ours is better by more than chance."""
    default, *others = ours_of(compared)
    if not np.isfinite(default.loss):  # a class was never seen
        return min([default, *others], key=lambda model: model.error)
    better = [model for model in others if is_worse(default.above(model))]
    return min(better, key=lambda model: model.loss, default=default)


def ours_of(compared: list[Compared]) -> list[Compared]:
    """The models that can be fitted by the command, the default first."""
    return [model for model in compared if model.family is not None]


def mean_and_error(values: np.ndarray) -> tuple[float, float]:  # (n,)
    """The mean, and its standard error."""
    n = len(values)
    error = float(np.std(values, ddof=1) / np.sqrt(n)) if n > 1 else np.inf
    return float(np.mean(values)), error


def is_worse(difference: tuple[float, float] | None) -> bool:
    """Whether a difference, with its standard error, is positive by more than chance."""
    return difference is not None and difference[0] > 2 * difference[1]


def is_as_good(difference: tuple[float, float] | None) -> bool:
    """Whether the rows are enough to tell that a difference is small."""
    return difference is not None and difference[0] + 2 * difference[1] < AS_GOOD


def errors_of(predicted: np.ndarray, y: np.ndarray, task: str) -> np.ndarray:  # -> (n,)
    if task == "classification":
        return (predicted != y).astype(float)
    result: np.ndarray = (y - predicted) ** 2 / (float(np.var(y)) or 1.0)
    return result


def compare_models(
    split: HeldOut, request: Request, advance: Callable[[float], None] = lambda fraction: None
) -> list[Compared]:
    """The default model, one model per other family with the same kernel, and references: the exact
    process and models of scikit-learn."""
    base = measure("default", models.base_model(request, split.X), split, family="auto")
    kernel = base.gp.kernel_
    columns = request.components or models.n_columns(base.gp, split.X)
    compared = [base]
    families = [family for family in FAMILIES if family != "nystrom"]  # the default has landmarks
    for number, family in enumerate(families):
        advance((number + 1) / (len(families) + 3))
        model = models.family_model(request._replace(features=family), kernel, columns)
        try:
            compared.append(measure(family, model, split, family=family))
        except (ValueError, TypeError):  # not for this kernel, these rows or so few columns
            continue
    if len(split.X) <= EXACT_ROWS:
        exact = models.exact_model(request.task, kernel)
        compared.append(measure("exact process", exact, split))
    return [*compared, *baselines(split, request)]


def measure(name: str, model: Any, split: HeldOut, family: str | None = None) -> Compared:
    """Fit a Gaussian process, and predict the rows held out."""
    start = time.perf_counter()
    gp = clone(model).fit(split.X, split.y)
    seconds = time.perf_counter() - start
    chosen = getattr(getattr(gp, "features_", None), "chosen_", None)
    prediction, microseconds = timed(lambda: predict_rows(gp, split.X_test), split)
    return Compared(
        name if chosen is None else chosen.label,
        prediction,
        split.y_test,
        microseconds,
        seconds,
        family=family,
        model=model,
        gp=gp,
        predicted_error=None if chosen is None else float(chosen.relative_error),
    )


def baselines(split: HeldOut, request: Request) -> list[Compared]:
    """A linear and a tree model of scikit-learn, not tuned, on the same rows."""
    is_class, seed = request.task == "classification", request.seed
    linear: tuple[str, Any] = ("ridge", RidgeCV(alphas=np.logspace(-3, 3, 13)))
    trees: Any = HistGradientBoostingRegressor(random_state=seed)
    if is_class:
        linear = ("logistic regression", LogisticRegression(max_iter=1000))
        trees = HistGradientBoostingClassifier(random_state=seed)
    results = []
    for name, model in (linear, ("gradient boosting", trees)):
        start = time.perf_counter()
        # One thread: on a busy machine those of OpenMP wait for each other (digits: 29 s, not 2)
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(split.X, split.y)
        seconds = time.perf_counter() - start

        def predict(model: Any = model) -> Prediction:
            if is_class:
                return predict_rows(model, split.X_test)
            mean = model.predict(split.X_test)
            return NumberPrediction(mean, np.ones_like(mean))  # no deviation, and no likelihood

        prediction, microseconds = timed(predict, split)
        name = f"{name} (scikit-learn)"
        results.append(Compared(name, prediction, split.y_test, microseconds, seconds, is_class))
    return results


def timed(predict: Callable[[], Prediction], split: HeldOut) -> tuple[Prediction, float]:
    """Predictions, and the microseconds per row of the fastest of three calls."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        prediction = predict()
        seconds.append(time.perf_counter() - start)
    return prediction, 1e6 * min(seconds) / len(split.y_test)


def recommendation(compared: list[Compared]) -> str:
    """What to take, and why; others only where the rows can tell that they are as good."""
    best, ours = best_of(compared), ours_of(compared)
    text = f"Recommended: {best.name}"
    if best is not ours[0]:
        text += f", with a better likelihood on rows held out than {ours[0].name}"
    elif len(ours) > 1:
        text += ": no other features are better by more than chance"
    equal = [model for model in ours if model is not best and is_as_good(model.above(best))]
    if equal:
        times = (f"{model.name} ({model.microseconds:.1f} µs per row)" for model in equal)
        text += f". As good: {list_names(times)}; {best.name} takes {best.microseconds:.1f}"
    text += "."
    baselines = [model for model in compared if model.model is None]
    for model in sorted(baselines, key=lambda model: model.error)[:1]:
        if is_worse(mean_and_error(best.errors - model.errors)):
            name, key = ("accuracy", "accuracy") if "accuracy" in best.figures else ("R²", "r2")
            theirs, mine = model.figures[key] or 0.0, best.figures[key] or 0.0
            text += f" {model.name} predicts better here: {name} {theirs:.3f} against {mine:.3f}."
    return text


def relevances(
    best: Compared, split: HeldOut, encoder: TableEncoder, task: str
) -> dict[str, float]:
    """How much R² or accuracy falls on rows held out when the values of a column go to other rows;
    the largest first. Empty for very wide tables and few rows."""
    X, y = split.X_test[:RELEVANCE_ROWS], split.y_test[:RELEVANCE_ROWS]
    if len(encoder.columns_) > RELEVANCE_COLUMNS or len(X) < 10:
        return {}
    before = errors_of(best.gp.predict(X), y, task)
    order = np.random.default_rng(0).permutation(len(X))
    falls = {}
    for name, columns in encoder.slices_.items():
        shuffled = X.copy()
        shuffled[:, columns] = X[order, columns]
        after = errors_of(best.gp.predict(shuffled), y, task)
        falls[name] = float(np.mean(after - before))
    return dict(sorted(falls.items(), key=lambda item: -item[1]))
