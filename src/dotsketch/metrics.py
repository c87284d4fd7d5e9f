"""How good an approximation is: of a Gram matrix, of a posterior, of predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

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
