"""What `fit` writes and `predict` reads: a scikit-learn pipeline with some facts about it.

`dotsketch.load(path)` gives the pipeline, which predicts from a DataFrame with the same columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from ..persistence import PersistenceError, load, save
from .encoding import Wanted, wanted_of
from .errors import UserMistake


class Model:
    """A fitted pipeline: encoder and Gaussian process, and the facts that `info` shows."""

    def __init__(self, pipeline: Pipeline):
        self.pipeline = pipeline

    @classmethod
    def of(cls, encoder: Pipeline, gp: Any, facts: dict[str, Any]) -> Model:
        pipeline = Pipeline([*encoder.steps, ("gp", gp)])
        pipeline.facts_ = facts
        return cls(pipeline)

    def save(self, path: Path) -> None:
        save(self.pipeline, path)

    @classmethod
    def load(cls, path: str) -> Model:
        if not Path(path).exists():
            raise UserMistake(f"there is no model file {path}.")
        if Path(path).is_dir():
            raise UserMistake(f"{path} is a folder, not a model file.")
        try:
            pipeline = load(path)
        except PersistenceError as error:
            raise UserMistake(str(error)) from error
        if not isinstance(pipeline, Pipeline) or not hasattr(pipeline, "facts_"):
            raise UserMistake(
                f"{path} holds a {type(pipeline).__name__}, not a model that `dotsketch fit` made: "
                "load it in Python."
            )
        return cls(pipeline)

    @property
    def facts(self) -> dict[str, Any]:
        return self.pipeline.facts_

    @property
    def gp(self) -> Any:
        return self.pipeline.steps[-1][1]

    @property
    def encoder(self) -> Pipeline:
        return self.pipeline[:-1]

    @property
    def task(self) -> str:
        return self.facts["task"]

    @property
    def classes(self) -> np.ndarray | None:
        return np.asarray(self.gp.classes_) if self.task == "classification" else None

    @property
    def wanted(self) -> Wanted:
        """The columns that rows to predict must have."""
        return wanted_of(self.encoder)
