"""All the candidates that a plan compares unless it is told otherwise."""

from __future__ import annotations

from ..features.maclaurin.allocation import COEFFICIENTS
from ..frequencies import PROJECTIONS
from ..sketches import SKETCHES
from .candidates import (
    Candidate,
    MaclaurinCandidate,
    NystromCandidate,
    PolynomialCandidate,
)
from .frequency_candidates import FourierCandidate, PositiveCandidate, SphericalCandidate
from .study import Study

FAMILIES: dict[str, type[Candidate]] = {
    candidate.family: candidate
    for candidate in (
        MaclaurinCandidate,
        PolynomialCandidate,
        FourierCandidate,
        SphericalCandidate,
        PositiveCandidate,
        NystromCandidate,
    )
}
SEPARABLE_SKETCHES = (
    "tensor_srht",
    "balanced_tensor_sketch",
    "tensor_sketch",
    "rademacher",
    "gaussian",
)
REAL_OUTPUTS = ("real", "complex_to_real")


def all_candidates(study: Study, family: str = "all") -> list[Candidate]:
    """Every combination of options of a family (or of all) that supports kernel and data."""
    found: list[Candidate] = []
    for output in REAL_OUTPUTS:
        for sketch in SEPARABLE_SKETCHES:
            found.append(MaclaurinCandidate(sketch, output, "random"))
            found += [
                MaclaurinCandidate(sketch, output, "optimal", coefficients, mean_split)
                for coefficients in COEFFICIENTS
                for mean_split in (False, True)
            ]
        found += [PolynomialCandidate(sketch, output) for sketch in SKETCHES]
    for projection in PROJECTIONS:
        found += [FourierCandidate(projection), SphericalCandidate(projection)]
    found += [FourierCandidate("orthogonal", "constant"), FourierCandidate("sorf", "random")]
    for projection in ("independent", "orthogonal"):
        found += [PositiveCandidate(projection, hyperbolic) for hyperbolic in (False, True)]
    found.append(NystromCandidate())
    return [c for c in found if family in ("all", c.family) and c.serves(study)]
