"""What `fit` writes and `predict` reads: a scikit-learn pipeline with some facts about it.

The steps are those of the encoder, then the Gaussian process. `dotsketch.load(path)` gives the
pipeline, which predicts from a DataFrame with the same columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline

from ..persistence import PersistenceError, load, save
from .errors import UserMistake


def save_model(path: str, encoder: Pipeline, gp: Any, facts: dict[str, Any]) -> None:
    steps = gp.steps if isinstance(gp, Pipeline) else [("gp", gp)]
    pipeline = Pipeline([*encoder.steps, *steps])
    pipeline.facts_ = facts  # what `info` shows
    save(pipeline, path)


def load_model(path: str) -> Pipeline:
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
    return pipeline
