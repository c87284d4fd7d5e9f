"""Predictions of a Gaussian process on rows with known targets, and how good they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..gp import Tails

INTERVAL = 1.959964  # standard deviations, 95 % of a normal distribution


@dataclass(frozen=True)
class NumberPrediction:
    """Means and standard deviations of y (n,), noise included."""

    mean: np.ndarray
    standard_deviation: np.ndarray
    tails: Tails = field(default_factory=lambda: Tails.gaussian(1))
    task = "regression"

    @property
    def values(self) -> np.ndarray:  # -> (n,)
        return self.mean

    def losses(self, y: np.ndarray) -> np.ndarray:  # (n,) -> (n,)
        """−log p(y) of every row."""
        values = (y - self.mean) / self.standard_deviation
        return np.log(self.standard_deviation) - self.tails.log_density(values[:, None])[:, 0]

    def at(self, rows: np.ndarray) -> NumberPrediction:
        """Of these rows only."""
        return NumberPrediction(self.mean[rows], self.standard_deviation[rows], self.tails)

    def columns(self, levels: Sequence[float] = ()) -> dict[str, np.ndarray]:
        """What is written to a file, with the quantiles at these levels."""
        mean, deviation = self.mean, self.standard_deviation
        [reach] = self.tails.quantiles(np.array(levels))
        columns = {
            f"quantile_{p:g}": mean + q * deviation for p, q in zip(levels, reach, strict=True)
        }
        return {"mean": mean, "standard_deviation": deviation} | columns


@dataclass(frozen=True)
class ClassPrediction:
    """Probabilities (n, C) of the classes (C,)."""

    probabilities: np.ndarray
    classes: np.ndarray
    task = "classification"

    @property
    def values(self) -> np.ndarray:  # -> (n,)
        """The class of the greatest probability."""
        return self.classes[np.argmax(self.probabilities, axis=1)]

    def losses(self, y: np.ndarray) -> np.ndarray:  # (n,) -> (n,)
        """−log p(y) of every row; infinite for a class that the model never saw."""
        chosen = np.sum(self.probabilities * (y[:, None] == self.classes[None, :]), axis=1)
        with np.errstate(divide="ignore"):
            result: np.ndarray = -np.log(chosen)
        return result

    def at(self, rows: np.ndarray) -> ClassPrediction:
        """Of these rows only."""
        return ClassPrediction(self.probabilities[rows], self.classes)

    def columns(self, levels: Sequence[float] = ()) -> dict[str, np.ndarray]:
        """What is written to a file; classes have no quantiles."""
        named = zip(self.classes, self.probabilities.T, strict=True)
        return {"predicted": self.values} | {
            f"probability_{label}": np.ascontiguousarray(column) for label, column in named
        }


Prediction = NumberPrediction | ClassPrediction


def predict_rows(gp: Any, X: np.ndarray) -> Prediction:
    """The predictions of a Gaussian process."""
    if hasattr(gp, "predict_proba"):
        return ClassPrediction(gp.predict_proba(X), np.asarray(gp.classes_))
    mean, deviation = gp.predict(X, return_std=True, include_noise=True)
    return NumberPrediction(mean, deviation, gp.outputs_.tails)


@dataclass
class Score:
    """Sums over rows from which the scores follow, so that chunks can be added one by one."""

    task: str
    n: int = 0
    loss: float = 0.0
    hits: float = 0.0
    squared_error: float = 0.0
    sum: float = 0.0
    squares: float = 0.0
    covered: float = 0.0
    shift: float | None = None  # squares are taken of y − shift, so that no digits are lost

    def add(self, prediction: Prediction, y: np.ndarray) -> Score:
        if not len(y):
            return self
        self.n += len(y)
        self.loss += float(np.sum(prediction.losses(y)))
        if self.task == "classification":
            self.hits += float(np.sum(prediction.values == y))
            return self
        if self.shift is None:
            self.shift = float(np.mean(y))
        distance = np.abs(y - prediction.values)
        if isinstance(prediction, NumberPrediction):
            self.covered += float(np.sum(distance <= INTERVAL * prediction.standard_deviation))
        self.squared_error += float(np.sum((y - prediction.values) ** 2))
        self.sum += float(np.sum(y - self.shift))
        self.squares += float(np.sum((y - self.shift) ** 2))
        return self

    def figures(self) -> dict[str, float | None]:
        """R², root mean squared error and how much the 95 % intervals cover, or accuracy; and the
        mean negative log likelihood."""
        loss = self.loss / self.n
        if self.task == "classification":
            return {"accuracy": self.hits / self.n, "mnll": loss}
        spread = self.squares - self.sum**2 / self.n
        return {
            "r2": 1 - self.squared_error / spread if spread > 0 else None,
            "rmse": float(np.sqrt(self.squared_error / self.n)),
            "mnll": loss,
            "coverage": self.covered / self.n,
        }


def describe_figures(figures: dict[str, Any]) -> str:
    """The figures in words, and the rows that they are of, if these are stated."""
    names = {"r2": "R²", "rmse": "RMSE", "accuracy": "accuracy", "mnll": "MNLL"}
    words = [f"{names[key]} {figures[key]:.4g}" for key in names if figures.get(key) is not None]
    if figures.get("coverage") is not None:
        words.append(f"95 % intervals cover {figures['coverage']:.1%}")
    rows = f" ({figures['rows']:,} rows, {figures['how']})" if "how" in figures else ""
    return ", ".join(words) + rows
