"""What the data of a study decide for Maclaurin features: expansion, moments, given counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...kernels import ExpandedKernel
from ...sketches import separable_sketch
from ..errors import Unsuited
from ..study import Study
from .allocation import Allocation, evaluate, random_projections
from .eigenfunctions import Inputs
from .moments import ExpansionMoments
from .series import Expansion, expand


class MaclaurinDesign(NamedTuple):
    """What the data decide; weights are drawn for it."""

    expansion: Expansion
    allocation: Allocation


class SeriesOptions(NamedTuple):
    """The options on which averages over pairs depend; a study computes each of them once."""

    sketch: str
    output: str
    max_degree: int
    mean_split: bool

    def expansion(self, study: Study) -> Expansion:
        def compute() -> Expansion:
            with np.errstate(over="ignore", invalid="ignore"):  # an error follows
                return expand(
                    study.kernel,
                    self.max_degree,
                    study.fitting,
                    study.mean,
                    mean_split=self.mean_split,
                )

        return study.once(("expansion", *self[2:]), compute)

    def inputs(self, study: Study, rows: str) -> Inputs[np.ndarray]:
        """Of the rows of this name of the study."""

        def compute() -> Inputs[np.ndarray]:
            with np.errstate(over="ignore", invalid="ignore"):  # an error follows
                return self.expansion(study).inputs(getattr(study, rows))

        return study.once(("inputs", *self[2:], rows), compute)

    def moments(self, study: Study, rows: str) -> ExpansionMoments:
        """Averages over pairs of the rows "fitting", "sample" or "outermost" of the study."""
        if not self.knows_moments(study, rows):
            _add_moments(study, rows, [self])
        return study.known["moments", self, _first_name(study, rows)]

    def knows_moments(self, study: Study, rows: str) -> bool:
        return ("moments", self, _first_name(study, rows)) in study.known


def _first_name(study: Study, rows: str) -> str:
    """One name for rows that are the same."""
    names = ("fitting", "sample", "outermost")
    return next(name for name in names if getattr(study, name) is getattr(study, rows))


def _add_moments(study: Study, rows: str, chosen: list[SeriesOptions]) -> None:
    """The moments of options with the same expansion."""
    rows = _first_name(study, rows)
    found = ExpansionMoments.of(
        chosen[0].inputs(study, rows),
        chosen[0].expansion(study).degrees,
        study.kernel,
        [
            (
                separable_sketch(one.sketch, "real" if one.output == "real" else "complex"),
                "complex" if one.output == "complex" else "real",
            )
            for one in chosen
        ],
    )
    keys = (("moments", one, rows) for one in chosen)
    study.known.update(zip(keys, found, strict=True))


def median_share(
    kernel: ExpandedKernel, sample: np.ndarray, inputs: Inputs[np.ndarray], allocation: Allocation
) -> float:
    """The median over rows of E[k̂(x, x)] / k(x, x), where E[k̂(x, x)] = Σ_b θ_b ω_b(x)²."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = kernel.diag(sample)
        held = inputs.weights**2 @ allocation.coefficients
        share = np.divide(held, exact, out=np.ones_like(exact), where=exact > 0)
    return float(np.median(share))


def drawn_degrees(moments: ExpansionMoments, budget: int, rng: np.random.Generator) -> Allocation:
    """Degrees n drawn with probabilities ∝ 2^−(n+1), beside the constant (Kar and Karnick)."""
    degrees = moments.degrees
    rest = budget - int(np.sum(degrees == 0))
    if rest < 0 or (rest == 0 and np.any(degrees > 0)):
        raise Unsuited(
            f"{budget} projections leave none to draw: the constant takes {budget - rest}; raise "
            "n_components."
        )
    projections, theta = random_projections(degrees, rest, 2.0, rng)
    found = evaluate(moments, projections, np.zeros(len(degrees), dtype=bool), theta)
    return replace(found, unused=budget - int(projections.sum()))


def given_projections(
    counts: Any, degrees: np.ndarray, budget: int
) -> tuple[np.ndarray, np.ndarray]:
    """Projections of every block from a list for the degrees 1, 2, …"""
    given, counts = counts, np.asarray(counts)
    if counts.ndim != 1 or counts.dtype.kind not in "iu" or np.any(counts < 0):
        raise ValueError(f"allocation must be a list of counts ≥ 0; got {given!r}.")
    padded = np.zeros(max(int(degrees.max()), len(counts)) + 1, dtype=int)
    padded[1 : len(counts) + 1] = counts
    missing = [n for n in np.flatnonzero(padded).tolist() if n not in degrees]
    if missing:
        raise ValueError(
            f"allocation gives projections to degrees without a term: {missing}. Give them 0, or "
            "raise max_degree."
        )
    padded[0] = 1
    projections = padded[degrees]
    if projections.sum() != budget:
        raise ValueError(
            f"allocation has {projections.sum()} projections with the constant, and n_components "
            f"gives {budget}: they must be equal."
        )
    return projections, np.zeros(len(degrees), dtype=bool)
