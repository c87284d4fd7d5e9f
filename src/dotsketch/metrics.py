"""How good an approximation is: of a Gram matrix, of a posterior, of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import norm

from ._arrays import Array, FloatArray, IntArray, double, host, namespace


def relative_frobenius_error(K: Array, K_approx: Array) -> Array:
    """‖K − K̂‖_F / ‖K‖_F of an exact and an approximate Gram matrix, (n, m) each.

    A complex K̂ is taken as it is: pass its real part to drop the imaginary one.

    >>> import numpy as np
    >>> relative_frobenius_error(np.eye(2), np.diag([1.0, 0.0])).round(4)
    np.float64(0.7071)
    """
    xp = namespace(K, K_approx)
    if K.shape != K_approx.shape or 0 in K.shape:
        raise ValueError(f"K has shape {K.shape} and K_approx has {K_approx.shape}.")
    K, K_approx = (double(A) if xp.isdtype(A.dtype, "integral") else A for A in (K, K_approx))
    largest = xp.max(xp.abs(K))
    if not 0 < largest < float("inf"):
        raise ValueError("K is zero (or not finite): a relative error has no meaning.")
    # Entries are divided before they are squared, which would overflow in single precision
    difference, norm = (xp.sqrt(xp.sum(xp.abs(A / largest) ** 2)) for A in (K - K_approx, K))
    if not difference < float("inf"):
        raise ValueError("K_approx is not finite.")
    return difference / norm


def gaussian_kl(mean: Array, variance: Array, other_mean: Array, other_variance: Array) -> float:
    """KL(N(mean, variance) ‖ N(other_mean, other_variance)), summed over independent points.

        ½ Σ [v/v' + log(v'/v) − 1 + (μ − μ')²/v']

    Points are rows: arrays are (n,), or (n, m) for m outputs or classes, over which the sums are
    averaged. With the approximate posterior first this is KL(approximate ‖ exact), which the
    authors' code computes; exchange the two pairs for KL(exact ‖ approximate). The formula printed
    in the paper has the sign of its logarithm wrong: it is not a divergence and can be negative.

    >>> gaussian_kl([0.0], [1.0], [1.0], [1.0]), gaussian_kl([0.0], [4.0], [0.0], [1.0])
    (0.5, 0.8068528194400546)
    """
    names = ("mean", "variance", "other_mean", "other_variance")
    m, v, m0, v0 = map(_matrix, names, (mean, variance, other_mean, other_variance))
    if not m.shape == v.shape == m0.shape == v0.shape:
        raise ValueError(
            f"The arrays must have one shape; got {m.shape}, {v.shape}, {m0.shape}, {v0.shape}."
        )
    if not (np.all(v > 0) and np.all(v0 > 0)):
        raise ValueError("Variances must be positive: add the noise variance, or a floor.")
    terms = v / v0 - np.log(v / v0) - 1 + (m - m0) ** 2 / v0
    return float(np.mean(np.sum(terms, axis=0)) / 2)


def mean_negative_log_likelihood(
    y: Array, prediction: Array, variance: Array | None = None, *, classes: Any = None
) -> float:
    """−(1/n) Σ log p(y_i), of a regression or of a classification; smaller is better.

    - Regression: `prediction` and `variance` (noise included) are the Gaussian's, of y's shape:
      the mean of ½ log(2πv) + (y − μ)²/(2v), over rows and outputs.
    - Classification: `prediction` (n, C) holds probabilities, and y the index of the class, or its
      label if `classes` (C,) is given. A probability of zero for what happened is infinite loss.

    >>> round(mean_negative_log_likelihood([1.0], [0.0], [1.0]), 4)
    1.4189
    >>> mean_negative_log_likelihood(["b", "a"], [[0.5, 0.5], [1, 0]], classes=["a", "b"])
    0.34657359027997264
    """
    if variance is not None:
        y, mean, v = map(_array, ("y", "prediction", "variance"), (y, prediction, variance))
        if not y.shape == mean.shape == v.shape:
            raise ValueError(
                f"y, prediction and variance must have one shape; got {y.shape}, {mean.shape} and "
                f"{v.shape}."
            )
        if not np.all(v > 0):
            raise ValueError("Variances must be positive: add the noise variance.")
        return float(np.mean(np.log(2 * np.pi * v) + (y - mean) ** 2 / v) / 2)
    probabilities, labels = _probabilities(y, prediction, classes)
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(probabilities[np.arange(len(labels)), labels])))


def normalized_mean_squared_error(y: Array, prediction: Array) -> float:
    """mean (y − ŷ)² / Var y, averaged over outputs: 1 for predicting the mean of y.

    >>> normalized_mean_squared_error([0.0, 2.0], [1.0, 1.0])
    1.0
    """
    y, prediction = _matrix("y", y), _matrix("prediction", prediction)
    if y.shape != prediction.shape:
        raise ValueError(f"y has shape {y.shape} and prediction has {prediction.shape}.")
    spread = np.var(y, axis=0)
    if not np.all(spread > 0):
        raise ValueError("y is constant: its error cannot be measured relative to its variance.")
    return float(np.mean(np.mean((y - prediction) ** 2, axis=0) / spread))


def error_rate(y: Array, prediction: Array) -> float:
    """The share of labels that are wrong.

    >>> error_rate(["a", "b", "c", "c"], ["a", "b", "c", "a"])
    0.25
    """
    y, prediction = np.asarray(host(y)), np.asarray(host(prediction))
    if y.shape != prediction.shape or y.size == 0:
        raise ValueError(f"y has shape {y.shape} and prediction has {prediction.shape}.")
    return float(np.mean(y != prediction))


def expected_calibration_error(
    y: Array, probabilities: Array, *, n_bins: int = 15, classes: Any = None
) -> float:
    """Σ_b (n_b/n) |accuracy_b − confidence_b| over bins of equal width of the top probability.

    `probabilities` (n, C); y the index of the class, or its label if `classes` is given.

    >>> expected_calibration_error([0, 0, 0, 1], [[0.75, 0.25]] * 4)
    0.0
    >>> expected_calibration_error([0, 1], [[1.0, 0.0]] * 2)
    0.5
    """
    p, labels = _probabilities(y, probabilities, classes)
    if n_bins < 1:
        raise ValueError(f"n_bins must be positive; got {n_bins}.")
    confidence = p.max(axis=1)
    right = p.argmax(axis=1) == labels
    bins = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    gaps = np.bincount(bins, weights=right - confidence, minlength=n_bins)
    return float(np.sum(np.abs(gaps)) / len(labels))


def _array(name: str, values: Array) -> FloatArray:
    """Finite numbers in double precision, one at least."""
    A = np.asarray(host(values), dtype=np.float64)
    if A.size == 0 or not np.all(np.isfinite(A)):
        raise ValueError(f"{name} must hold finite numbers and not be empty; its shape: {A.shape}.")
    return A


def _matrix(name: str, values: Array) -> FloatArray:
    """Rows as points, columns as outputs."""
    A = _array(name, values)
    if A.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions; got {A.shape}.")
    return A[:, None] if A.ndim == 1 else A


def _probabilities(y: Array, p: Array, classes: Any) -> tuple[FloatArray, IntArray]:
    """Probabilities (n, C) and the index of the class of every row."""
    p, y = _array("probabilities", p), np.asarray(host(y))
    if p.ndim != 2 or y.shape != p.shape[:1]:
        raise ValueError(
            f"Probabilities must be (n, classes) and y (n,); got {p.shape} and {y.shape}."
        )
    if np.any(p < 0) or not np.allclose(p.sum(axis=1), 1, rtol=0, atol=1e-2):
        raise ValueError("Probabilities must not be negative, and add up to one in every row.")
    if classes is not None:
        classes = np.asarray(host(classes))
        if len(classes) != p.shape[1]:
            raise ValueError(f"{len(classes)} classes are given for {p.shape[1]} columns.")
        order = np.argsort(classes)
        places = np.searchsorted(classes, y, sorter=order)
        labels = order[np.minimum(places, len(classes) - 1)]
        if np.any(classes[labels] != y):
            raise ValueError("Every label of y must be one of classes, one for every column.")
        return p, labels
    if y.dtype.kind not in "iub" or y.min() < 0 or y.max() >= p.shape[1]:
        raise ValueError("y must hold indices of the columns; give classes for other labels.")
    return p, y.astype(int)


def crps_gaussian(y: Array, mean: Array, std: Array) -> FloatArray:
    """The continuous ranked probability score of N(mean, std²) for every y; smaller is better.

        ∫ (F(t) − [y ≤ t])² dt = σ (z (2Φ(z) − 1) + 2φ(z) − 1/√π),   z = (y − μ)/σ

    In units of y; of a point (σ → 0) it is |y − μ| (Gneiting and Raftery, 2007).

    >>> float(crps_gaussian([0.0], [0.0], [1.0]).round(4)[0])
    0.2337
    """
    y, mean, std = map(_array, ("y", "mean", "std"), (y, mean, std))
    if not y.shape == mean.shape == std.shape:
        raise ValueError(
            f"y, mean and std must have one shape; got {y.shape}, {mean.shape}, {std.shape}."
        )
    if not np.all(std > 0):
        raise ValueError("Standard deviations must be positive: add the noise (include_noise).")
    z = (y - mean) / std
    return np.asarray(
        std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)), dtype=float
    )


def crps_of_quantiles(y: Array, quantiles: Array, levels: Array) -> FloatArray:
    """The same score from quantiles (n, q) at levels (q,): ∫ 2 (q_τ − y)([y < q_τ] − τ) dτ.

    The mean pinball loss, by trapezoids over the levels: take them close to 0 and 1.

    >>> levels = np.linspace(0.001, 0.999, 999)
    >>> from scipy.stats import norm
    >>> float(crps_of_quantiles([0.0], norm.ppf(levels)[None], levels).round(3)[0])
    0.234
    """
    y, values, levels = map(_array, ("y", "quantiles", "levels"), (y, quantiles, levels))
    if values.shape != (*y.shape, len(levels)) or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(
            f"quantiles must be (n, q) for q levels between 0 and 1; got {values.shape} and "
            f"{levels.shape}."
        )
    _check_ascending("levels", levels)
    losses = 2 * (values - y[..., None]) * ((y[..., None] < values) - levels)
    widths = np.diff(np.concatenate([[0.0], (levels[1:] + levels[:-1]) / 2, [1.0]]))
    return np.asarray(losses @ widths, dtype=float)


def crps_of_density(y: Array, points: Array, density: Array) -> FloatArray:
    """The same score from densities (n, k) at ascending points (k,), which hold all of the mass."""
    y, points, density = map(_array, ("y", "points", "density"), (y, points, density))
    if density.shape != (len(y), len(points)):
        raise ValueError(f"density must be {(len(y), len(points))}; got {density.shape}.")
    _check_ascending("points", points)
    if not np.all(np.sum(density, axis=1) > 0):
        raise ValueError("A density is zero at all points: take points that hold its mass.")
    steps = 0.5 * (density[:, 1:] + density[:, :-1]) * np.diff(points)
    cdf = np.concatenate([np.zeros((len(y), 1)), np.cumsum(steps, axis=1)], axis=1)
    cdf = np.clip(cdf / cdf[:, -1:], 0, 1)
    outside = np.maximum(points[0] - y, 0) + np.maximum(y - points[-1], 0)
    return np.asarray(np.trapezoid((cdf - (points >= y[:, None])) ** 2, points, axis=1) + outside)


def interval_score(y: Array, low: Array, high: Array, coverage: float = 0.9) -> FloatArray:
    """Width of an interval, and 2/α times what y lies outside of it, with α = 1 − coverage.

    Smaller is better; the best interval is that of the quantiles α/2 and 1 − α/2 (Gneiting and
    Raftery, 2007).

    >>> interval_score([0.0, 3.0], [-1.0, -1.0], [1.0, 1.0], 0.9)
    array([ 2., 42.])
    """
    y, low, high = map(_array, ("y", "low", "high"), (y, low, high))
    if not y.shape == low.shape == high.shape or np.any(low > high):
        raise ValueError("y, low and high must have one shape, and low must not exceed high.")
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return np.asarray(high - low + 2 / (1 - coverage) * outside, dtype=float)


def coverage_by_width(y: Array, low: Array, high: Array, n_groups: int = 10) -> FloatArray:
    """The share of y in its interval, in `n_groups` groups of rows of ascending width.

    Intervals that are right on average may be too narrow where they are narrow, and too wide where
    they are wide: here all groups should have the coverage of the intervals.
    """
    y, low, high = map(_array, ("y", "low", "high"), (y, low, high))
    if not y.shape == low.shape == high.shape or y.ndim != 1:
        raise ValueError(f"y, low and high must be (n,); got {y.shape}, {low.shape}, {high.shape}.")
    inside = (y >= low) & (y <= high)
    order = np.argsort(high - low, kind="stable")
    return np.array([np.mean(inside[part]) for part in np.array_split(order, n_groups)])


def pit_histogram(
    y: Array, quantiles: Array, levels: Array, n_bins: int = 10
) -> FloatArray:  # (n,), (n, q), (q,) -> (n_bins,)
    """The shares of rows by F(y), the probability integral transform, in bins of equal width.

    F is interpolated between quantiles (n, q) at ascending levels (q,). All shares are 1/n_bins if
    predictions are calibrated; a hump in the middle says that they are too wide, horns at the ends
    that they are too narrow.
    """
    y, values, levels = map(_array, ("y", "quantiles", "levels"), (y, quantiles, levels))
    _check_ascending("levels", levels)
    transformed = [
        np.interp(v, row, levels, left=0.0, right=1.0) for v, row in zip(y, values, strict=True)
    ]
    counts, _ = np.histogram(transformed, bins=n_bins, range=(0, 1))
    return counts / len(y)


def _check_ascending(name: str, values: FloatArray) -> None:
    if values.ndim != 1 or not np.all(np.diff(values) > 0):
        raise ValueError(f"{name} must be ascending numbers (k,).")


def plot_calibration(model: Any, X: Any, y: Array, ax: Any = None) -> Any:
    """How often y lies in the intervals of a model, against their nominal coverage; the axes.

    `model` has `predict_quantiles`. The diagonal is perfect; a curve below it is overconfident.
    """
    import matplotlib.pyplot as plt

    y = _array("y", y)
    nominal = np.linspace(0.05, 0.95, 19)
    levels = np.concatenate([0.5 - nominal / 2, 0.5 + nominal / 2])
    values = _array("quantiles", host(model.predict_quantiles(X, levels)))
    low, high = np.split(values, 2, axis=-1)
    inside = (y[..., None] >= low) & (y[..., None] <= high)
    if ax is None:
        ax = plt.subplots(figsize=(4, 4), layout="constrained")[1]
    ax.plot([0, 1], [0, 1], color="#9aa5b1", lw=1)
    ax.plot(nominal, np.mean(inside, axis=tuple(range(y.ndim))), color="#3b6ea5", marker="o", ms=3)
    ax.set(xlabel="nominal coverage", ylabel="share of rows inside", xlim=(0, 1), ylim=(0, 1))
    return ax


def plot_predictions(
    model: Any, X: Any, y: Array | None = None, *, coverage: float = 0.9, ax: Any = None
) -> Any:
    """What a regression predicts for rows X (n, d), with its intervals; the matplotlib axes.

    For one input a curve with its band, and y as points if it is there. For more inputs the
    predictions against y, which is then needed, with a bar for every interval.
    """
    import matplotlib.pyplot as plt

    mean = np.ravel(host(model.predict(X)))
    low, high = np.asarray(host(model.predict_interval(X, coverage))).reshape(len(mean), 2).T
    if ax is None:
        ax = plt.subplots(figsize=(6, 4), layout="constrained")[1]
    color, label = "#3b6ea5", f"{coverage:.0%} of y"
    inputs = np.asarray(host(X))
    if inputs.shape[1] == 1:
        order = np.argsort(inputs[:, 0])
        ax.fill_between(
            inputs[order, 0], low[order], high[order], color=color, alpha=0.2, lw=0, label=label
        )
        ax.plot(inputs[order, 0], mean[order], color=color, label="mean")
        if y is not None:
            ax.plot(inputs[:, 0], _array("y", y), ".", color="#555555", ms=3)
        ax.set(xlabel="input", ylabel="y")
    else:
        if y is None:
            raise ValueError("With more than one input, predictions are drawn against y: give it.")
        y = np.ravel(_array("y", y))
        ax.vlines(y, low, high, color=color, alpha=0.2, label=label)
        ax.plot(y, mean, ".", color=color, ms=3, label="mean")
        ax.plot([y.min(), y.max()], [y.min(), y.max()], color="#9aa5b1", lw=1)
        ax.set(xlabel="y", ylabel="prediction")
    ax.legend(frameon=False)
    return ax
