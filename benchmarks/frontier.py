"""Error against seconds: Gaussian processes on features compared with other models.

    python -m benchmarks.frontier --data DIR [--sets kin8nm …] [--methods iterative boosting …]
                                  [--columns 1024 4096] [--rows N] [--figure PATH] [--table PATH]
    python -m benchmarks.frontier --drawn TABLE … --figure PATH

The figure of README, and the table behind it:

    python -m benchmarks.frontier --data DIR --sets protein --columns 256 512 1024 2048 4096 \
        --methods median plain landmarks learned nystroem rbf_sampler svgp boosting \
        --figure docs/figures/frontier.svg --table docs/tables/frontier.csv

That of docs/columns.md with all six sets, whose other tables were measured in pieces:

    python -m benchmarks.frontier --drawn docs/tables/frontier.csv docs/tables/frontier_sets.csv \
        --figure docs/figures/frontier_sets.svg

Processor seconds hold set-up, tuning, fit and prediction of the test rows; set OMP_NUM_THREADS=1.
Errors are root mean squares of regressions and shares of wrong classes. Columns are scaled to unit
variance, and pixels to at most one. Every method tunes as its users would:

- `direct`, `iterative`: our Gaussian processes with Fourier features of the Gaussian kernel and
  solver="cholesky" or "cg". Lengthscales maximise the marginal likelihood of 5000 rows (labels as
  columns of 0 and 1) with Nyström features; noise or α are "auto".
- `auto`: the same with the features that `AutoFeatures` chooses, and solver="cholesky".
- `landmarks`: our recipe, Nyström features of the Matérn or Gaussian kernel that fits best
  (`Matern("auto")`) with optimize=True; `learned` moves landmarks as well (up to 1024 columns);
  `median` is Matérn-3/2 with the median lengthscale, without a search, and `plain` the same with
  n_landmarks=1.0.
- `nystroem`, `rbf_sampler`, `count_sketch`: scikit-learn's Nystroem and RBFSampler of a Gaussian
  kernel and PolynomialCountSketch of degree 3, each with ridge regression; gamma and the penalty by
  validation on a tenth of up to 5000 rows, with 500 columns.
- `boosting`: scikit-learn's histogram gradient boosting, 300 iterations with early stopping.
- `svgp`: GPyTorch's variational process with a Matérn-3/2 kernel, one lengthscale per column and
  at most 512 inducing points, 15 epochs of Adam, if installed (regression).
- `xgpr`: xGPR with RBF features, if installed (regression).

Prints a table and asserts nothing; `--figure` draws it (matplotlib), `--table` writes it as CSV.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from sklearn.linear_model import Ridge, RidgeClassifier, RidgeClassifierCV, RidgeCV
from sklearn.pipeline import make_pipeline

from dotsketch import (
    AutoFeatures,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    Matern,
    NystromFeatures,
)

from .common import data_parser
from .solvers import rows_of

ROWS = {"fashion_mnist": 20_000, "covertype": 100_000}
SETS = ("kin8nm", "protein", "letter", "magic", "fashion_mnist", "covertype")
REGRESSIONS = ("kin8nm", "protein")
MOST_LEARNED = 1024  # columns at which landmarks are moved: it pays where these are few
GRID = (0.1, 0.2, 0.35, 0.6, 1.0)  # of the median distance, for methods without a likelihood


def tuned_kernel(X: np.ndarray, y: np.ndarray, task: str) -> Any:
    rows = np.random.default_rng(0).permutation(len(X))[:5000]
    targets = y[rows] if task == "regression" else (y[rows, None] == np.unique(y)).astype(float)
    columns = min(500, len(rows))
    features = NystromFeatures(
        Gaussian(), n_components=columns, landmarks="uniform", random_state=0
    )
    return FeatureGPRegressor(features, optimize=True).fit(X[rows], targets).kernel_


def waves(kernel: Any, X: np.ndarray, columns: int) -> FourierFeatures:
    projection = "sorf" if X.shape[1] > 64 else "orthogonal"
    return FourierFeatures(kernel, projection=projection, n_components=columns, random_state=0)


def planned(kernel: Any, X: np.ndarray, columns: int) -> AutoFeatures:
    return AutoFeatures(kernel, n_components=columns, random_state=0)


def process(solver: str, features: Callable[..., Any]) -> Callable[..., Any]:
    def fit(X: np.ndarray, y: np.ndarray, task: str, columns: int) -> Any:
        make = FeatureGPRegressor if task == "regression" else FeatureGPClassifier
        return make(features(tuned_kernel(X, y, task), X, columns), solver=solver).fit(X, y)

    return fit


def landmarks(optimize: bool, rule: str = "auto", number: Any = "auto") -> Callable[..., Any]:
    def fit(X: np.ndarray, y: np.ndarray, task: str, columns: int) -> Any:
        features = NystromFeatures(
            Matern("auto"),
            n_components=columns,
            n_landmarks=number,
            landmarks=rule,
            random_state=0,
        )
        make = FeatureGPRegressor if task == "regression" else FeatureGPClassifier
        return make(features, optimize=optimize, solver="cholesky").fit(X, y)

    return fit


def nystroem(gamma: float, columns: int) -> Any:
    return Nystroem(gamma=gamma, n_components=columns, random_state=0)


def rbf_sampler(gamma: float, columns: int) -> Any:
    return RBFSampler(gamma=gamma, n_components=columns, random_state=0)


def count_sketch(gamma: float, columns: int) -> Any:
    # a polynomial that is as flat at the median distance as the Gaussian kernels at a tenth of it
    gamma = gamma / 100
    return PolynomialCountSketch(
        degree=3, gamma=gamma, coef0=1.0, n_components=columns, random_state=0
    )


def ridge(features: Callable[..., Any]) -> Callable[..., Any]:
    """scikit-learn's ridge regression on its own features."""

    def fit(X: np.ndarray, y: np.ndarray, task: str, columns: int) -> Any:
        some = np.random.default_rng(0).permutation(len(X))[:5000]
        train, held = some[len(some) // 10 :], some[: len(some) // 10]
        median = float(Gaussian().resolve(X[some[:1000]]).lengthscale)
        is_regression = task == "regression"
        search, final = (RidgeCV, Ridge) if is_regression else (RidgeClassifierCV, RidgeClassifier)
        found = []
        for share in GRID:
            gamma = 1 / (2 * (share * median) ** 2)
            model = search(alphas=np.logspace(-6, 3, 10))
            pipeline = make_pipeline(features(gamma, min(500, len(train))), model)
            score = pipeline.fit(X[train], y[train]).score(X[held], y[held])
            found.append((score, gamma, float(model.alpha_)))
        _, gamma, alpha = max(found)
        model = final(alpha=alpha, solver="cholesky")
        return make_pipeline(features(gamma, min(columns, len(X))), model).fit(X, y)

    return fit


def boosting(X: np.ndarray, y: np.ndarray, task: str, columns: int) -> Any:
    is_regression = task == "regression"
    make = HistGradientBoostingRegressor if is_regression else HistGradientBoostingClassifier
    return make(max_iter=300, early_stopping=True, random_state=0).fit(X, y)


class VariationalProcess:
    """GPyTorch's regression example with inducing points, Adam and minibatches."""

    def __init__(self, n_points: int, epochs: int = 15, batch: int = 1024):
        self.n_points, self.epochs, self.batch = n_points, epochs, batch

    def fit(self, X: np.ndarray, y: np.ndarray) -> VariationalProcess:
        import gpytorch
        import torch

        torch.manual_seed(0)
        self.mean, self.scale = float(y.mean()), float(y.std())
        rows = torch.as_tensor(X)
        targets = torch.as_tensor((y - self.mean) / self.scale, dtype=rows.dtype)
        n_points, dimension = self.n_points, X.shape[1]

        class Model(gpytorch.models.ApproximateGP):
            def __init__(self, points: Any) -> None:
                distribution = gpytorch.variational.CholeskyVariationalDistribution(len(points))
                strategy = gpytorch.variational.VariationalStrategy(
                    self, points, distribution, learn_inducing_locations=True
                )
                super().__init__(strategy)
                self.mean_module = gpytorch.means.ConstantMean()
                self.covar_module = gpytorch.kernels.ScaleKernel(
                    gpytorch.kernels.MaternKernel(nu=1.5, ard_num_dims=dimension)
                )

            def forward(self, x: Any) -> Any:
                return gpytorch.distributions.MultivariateNormal(
                    self.mean_module(x), self.covar_module(x)
                )

        self.model = Model(rows[torch.randperm(len(rows))[:n_points]].clone())
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        loss = gpytorch.mlls.VariationalELBO(likelihood, self.model, len(rows))
        parameters = [*self.model.parameters(), *likelihood.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=0.02)
        for _ in range(self.epochs):
            for chosen in torch.randperm(len(rows)).split(self.batch):
                optimizer.zero_grad()
                (-loss(self.model(rows[chosen]), targets[chosen])).backward()
                optimizer.step()
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        import torch

        self.model.eval()
        with torch.no_grad():
            parts = [self.model(part).mean for part in torch.as_tensor(X).split(4096)]
        return torch.cat(parts).numpy() * self.scale + self.mean


def svgp(X: np.ndarray, y: np.ndarray, task: str, columns: int) -> Any:
    return VariationalProcess(min(columns, 512)).fit(X, y)


def xgpr(X: np.ndarray, y: np.ndarray, task: str, columns: int) -> Any:
    from xGPR import build_regression_dataset, xGPRegression

    data = build_regression_dataset(X.astype(np.float64), y.astype(np.float64))
    model = xGPRegression(num_rffs=columns, variance_rffs=32, kernel_choice="RBF", verbose=False)
    model.tune_hyperparams_crude(data)
    model.fit(data, mode="cg")
    return model


METHODS: dict[str, Callable[..., Any]] = {
    "direct": process("cholesky", waves),
    "iterative": process("cg", waves),
    "auto": process("cholesky", planned),
    "landmarks": landmarks(optimize=True),
    "learned": landmarks(optimize=True, rule="learned"),
    "median": landmarks(optimize=False),
    "plain": landmarks(optimize=False, number=1.0),
    "nystroem": ridge(nystroem),
    "rbf_sampler": ridge(rbf_sampler),
    "count_sketch": ridge(count_sketch),
    "boosting": boosting,
    "svgp": svgp,
    "xgpr": xgpr,
}
NEEDED = {"svgp": "gpytorch", "xgpr": "xGPR"}
LABELS = {
    "direct": "dotsketch: Fourier features, Cholesky",
    "iterative": "dotsketch: Fourier features, conjugate gradients",
    "auto": "dotsketch: AutoFeatures, Cholesky",
    "landmarks": "dotsketch: Nyström GP, kernel searched",
    "learned": "dotsketch: the same, landmarks moved",
    "median": "dotsketch: Nyström GP, median lengthscale",
    "plain": "dotsketch: Nyström GP, median, D landmarks",
    "nystroem": "scikit-learn: Nystroem + ridge",
    "rbf_sampler": "scikit-learn: RBFSampler + ridge",
    "count_sketch": "scikit-learn: PolynomialCountSketch + ridge",
    "boosting": "scikit-learn: gradient boosting",
    "svgp": "GPyTorch: SVGP",
    "xgpr": "xGPR",
}


def sizes(method: str, columns: list[int], most_direct: int) -> list[int]:
    """The numbers of columns that a method is measured with; 0 if it has none."""
    if method == "boosting":
        return [0]
    if method == "svgp":
        return sorted({min(c, 512) for c in columns})
    if method == "learned":
        return [c for c in columns if c <= MOST_LEARNED]
    return columns if method in ("iterative", "xgpr") else [c for c in columns if c <= most_direct]


def measured(options: argparse.Namespace) -> Iterator[tuple[str, str, int, float, float]]:
    """(set, method, columns, seconds, error), as they come."""
    for name in options.sets:
        split, task = rows_of(name, options.rows or ROWS.get(name))
        for method in options.methods:
            is_there = importlib.util.find_spec(NEEDED.get(method, "numpy")) is not None
            if not is_there or (method in NEEDED and task != "regression"):
                continue
            for columns in sizes(method, options.columns, options.direct):
                start = time.process_time()
                model = METHODS[method](split.X_train, split.y_train, task, columns)
                found = model.predict(split.X_test)
                seconds = time.process_time() - start
                wrong = found != split.y_test
                if task == "regression":
                    wrong = (found - split.y_test) ** 2
                error = float(np.mean(wrong))
                yield name, method, columns, seconds, error**0.5 if task == "regression" else error


def draw(rows: list[tuple[str, str, int, float, float]], path: str) -> None:
    """One panel per data set; rows have labels in place of methods."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import NullFormatter

    plt.rcParams["svg.hashsalt"] = "dotsketch"  # the same file for the same table
    names, labels = (list(dict.fromkeys(row[i] for row in rows)) for i in range(2))
    across = min(3, len(names))
    down = -(-len(names) // across)
    size = max(7.2, 4.2 * across), 1.2 + 3.6 * down
    figure, axes = plt.subplots(down, across, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    lines: dict[str, Any] = {}  # by label, for one legend of all panels
    for axis, name in zip(axes.flat, names, strict=False):
        for number, label in enumerate(labels):
            points = [row[3:] for row in rows if row[:2] == (name, label)]
            if not points:
                continue
            style = "o-" if label.startswith("dotsketch") else "s--"
            colour = plt.get_cmap("tab10")(number % 10)
            (line,) = axis.plot(*zip(*points, strict=True), style, color=colour, markersize=4)
            lines.setdefault(label, line)
        axis.set(xscale="log", title=name)
        axis.xaxis.set_minor_formatter(NullFormatter())  # of less than a decade: they overlap
        axis.set_ylabel("test error (RMSE)" if name in REGRESSIONS else "share of wrong classes")
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("processor seconds (tuning, fit, prediction)")
    style = {"loc": "outside lower center", "frameon": False, "fontsize": 8}
    figure.legend(list(lines.values()), list(lines), ncol=min(across + 1, 3), **style)
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)


def from_tables(paths: list[str]) -> list[tuple[str, str, int, float, float]]:
    """The rows of tables that `--table` wrote."""
    rows = []
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            for name, label, columns, seconds, error in list(csv.reader(file))[1:]:
                rows.append((name, label, int(columns or 0), float(seconds), float(error)))
    return rows


def main() -> None:
    parser = data_parser("Error against seconds.", required=False)
    parser.add_argument("--sets", nargs="*", default=SETS[:1], help=" ".join(SETS))
    parser.add_argument("--methods", nargs="*", default=list(METHODS), help=" ".join(METHODS))
    parser.add_argument("--columns", type=int, nargs="*", default=[512, 2048])
    parser.add_argument("--direct", type=int, default=4096, help="most columns of direct solvers")
    parser.add_argument("--rows", type=int, help="at most so many training rows")
    parser.add_argument("--figure", help="where to draw")
    parser.add_argument("--table", help="where to write a CSV file")
    parser.add_argument("--drawn", nargs="*", help="draw these CSV files instead of measuring")
    options = parser.parse_args()
    if options.drawn:
        draw(from_tables(options.drawn), options.figure)
        return
    if not options.data:
        parser.error("--data names the folder of data sets.")
    print("set            method       columns  CPU s   error", flush=True)
    rows = []
    for name, method, *numbers in measured(options):
        print("{:14s} {:12s} {:7d} {:6.1f}  {:.4f}".format(name, method, *numbers), flush=True)
        rows.append((name, LABELS[method], *numbers))
    if options.figure:
        draw(rows, options.figure)
    if options.table:
        with open(options.table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["data", "model", "columns", "seconds", "test error"])
            for name, label, columns, seconds, error in rows:
                writer.writerow([name, label, columns or "", f"{seconds:.1f}", f"{error:.4f}"])


if __name__ == "__main__":
    main()
