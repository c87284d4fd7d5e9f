"""The methods that the paper compares, and those that go beyond it: one line each.

A method makes the features of a kernel for a budget D, counted as the paper counts: a complex
feature is one, and the constant of a Maclaurin series is not counted. `columns` says how many
real numbers a row then takes, which is what memory and time depend on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from dotsketch.features import (
    FourierFeatures,
    MaclaurinFeatures,
    NystromFeatures,
    PolynomialDesign,
    PolynomialSketch,
    SphericalFeatures,
    Study,
)
from dotsketch.kernels import DotProductKernel
from dotsketch.planning import AutoFeatures
from dotsketch.sketches import Sketch, TreeSketch

# The paper's optimised Maclaurin features: truncation up to 10, nothing written out in monomials
PAPER = {"max_degree": 10, "allocation": "sketched"}


def published(sketch: Sketch) -> Sketch:
    """A sketch as the authors ran it: their trees project the product of the root once more.

    Their text does not say so. The closed form of such trees agrees with all of their 72 cells of
    Figure 6, and that of ours, whose errors are smaller, does not.
    """
    return replace(sketch, projects_root=True) if isinstance(sketch, TreeSketch) else sketch


class PublishedSketch(PolynomialSketch):
    """`PolynomialSketch` with the authors' trees."""

    def design(self, study: Study) -> PolynomialDesign:
        design = super().design(study)
        return replace(design, sketch=published(design.sketch))


@dataclass(frozen=True)
class Method:
    """A name for tables, a label for figures, and the parameters of its features.

    Parameters
    ----------
    family : "sketch", "maclaurin", "tree", "spherical", "fourier" or "beyond"
    features : the class of features
    options : its parameters
    times, constant : n_components = times · D + constant
    reference : columns of the authors' results that select this method (`compare`)
    """

    name: str
    label: str
    family: str
    features: Any
    options: dict[str, Any] = field(default_factory=dict)
    times: int = 1
    constant: int = 0
    reference: dict[str, str] = field(default_factory=dict)

    def make(self, kernel: DotProductKernel, n_features: int, seed: int) -> Any:
        """The features of a kernel with a budget of D = n_features."""
        options = self.options | {
            "n_components": self.times * n_features + self.constant,
            "random_state": seed,
        }
        if not issubclass(self.features, PolynomialSketch):
            return self.features(kernel, **options)
        return self.features(kernel.degree, gamma=kernel.gamma, coef0=kernel.coef0, **options)

    def columns(self, n_features: int) -> int:
        """Real numbers a row."""
        return self.times * n_features * (2 if self.is_complex else 1)

    @property
    def is_complex(self) -> bool:
        return self.options.get("output") == "complex"


def _pair(
    name: str,
    label: str,
    family: str,
    features: Any,
    options: dict[str, Any],
    reference: dict[str, str],
    **more: Any,
) -> list[Method]:
    """A method with real and with complex features."""
    return [
        Method(
            f"{name}{suffix}",
            f"{label}{note}",
            family,
            features,
            options | {"output": output},
            reference={"tree": "False", "complex": is_complex} | reference,
            **more,
        )
        for suffix, note, output, is_complex in (
            ("", "", "real", "False"),
            ("_complex", ", complex", "complex", "True"),
        )
    ]


def _sketch(name: str, label: str, projection: str) -> list[Method]:
    family = "tree" if name.startswith("tree") else "sketch"
    reference = {"method": "poly_sketch", "projection": projection, "tree": str(family == "tree")}
    return _pair(name, label, family, PublishedSketch, {"sketch": name}, reference)


def _maclaurin(sketch: str, label: str, projection: str) -> list[Method]:
    reference = {"method": "maclaurin", "projection": projection}
    return _pair(
        f"maclaurin_{sketch}",
        f"Opt. Maclaurin, {label}",
        "maclaurin",
        MaclaurinFeatures,
        PAPER | {"sketch": sketch},
        reference,
        constant=1,
    )


def _frequencies(
    name: str, label: str, orthogonal_label: str, family: str, features: Any
) -> list[Method]:
    orthogonal = {"method": name, "projection": "srht"}
    plain = {"method": name, "projection": "gaussian"}
    return [
        *_pair(name, label, family, features, {"projection": "independent"}, plain),
        *_pair(
            f"{name}_orthogonal",
            orthogonal_label,
            family,
            features,
            {"projection": "sorf"},
            orthogonal,
        ),
    ]


SKETCH_METHODS = [
    *_sketch("gaussian", "Gaussian", "gaussian"),
    *_sketch("rademacher", "Rademacher", "rademacher"),
    *_sketch("tensor_srht", "TensorSRHT", "srht"),
    _sketch("tensor_sketch", "TensorSketch", "countsketch_scatter")[0],
]
TREE_METHODS = [
    *_sketch("tree_rademacher", "Tree, Rademacher", "rademacher"),
    *_sketch("tree_srht", "Tree, SRHT", "srht"),
]
RANDOM_MACLAURIN = Method(
    "random_maclaurin_rademacher",
    "Rnd. Maclaurin, Rademacher",
    "maclaurin",
    MaclaurinFeatures,
    PAPER | {"sketch": "rademacher", "allocation": "random", "output": "real"},
    constant=1,
    reference={
        "method": "maclaurin_p",
        "projection": "rademacher",
        "complex": "False",
        "tree": "False",
    },
)
MACLAURIN_METHODS = [
    *_maclaurin("rademacher", "Rademacher", "rademacher"),
    *_maclaurin("tensor_srht", "TensorSRHT", "srht"),
]
SPHERICAL_METHODS = _frequencies("srf", "SRF", "SRF, orthogonal", "spherical", SphericalFeatures)
FOURIER_METHODS = _frequencies("rff", "RFF", "SORF", "fourier", FourierFeatures)

FITTED = {
    "sketch": "tensor_srht",
    "coefficients": "fitted",
    "output": "complex",
}
BEYOND_SKETCHES = [
    Method(
        "balanced_tensor_sketch",
        "Balanced TensorSketch",
        "beyond",
        PolynomialSketch,
        {"sketch": "balanced_tensor_sketch"},
    )
]
PACKED_MACLAURIN = [
    Method(
        "maclaurin_packed",
        "Opt. Maclaurin, [Re, Im]",
        "beyond",
        MaclaurinFeatures,
        PAPER | {"sketch": "tensor_srht", "output": "complex_to_real"},
        times=2,
        constant=2,
    )
]
BEYOND_METHODS = [
    Method(
        "maclaurin_fitted_complex",
        "Maclaurin, fitted, complex",
        "beyond",
        MaclaurinFeatures,
        FITTED,
        constant=1,
    ),
    Method("auto", "AutoFeatures", "beyond", AutoFeatures),
    Method("auto_twice", "AutoFeatures, 2D columns", "beyond", AutoFeatures, times=2),
    Method("nystrom", "Nyström", "beyond", NystromFeatures, {"n_landmarks": 1.0}),
    Method(
        "nystrom_twice",
        "Nyström, 2D columns",
        "beyond",
        NystromFeatures,
        {"n_landmarks": 1.0},
        times=2,
    ),
]

METHODS: dict[str, Method] = {
    method.name: method
    for method in [
        *SKETCH_METHODS,
        *TREE_METHODS,
        RANDOM_MACLAURIN,
        *MACLAURIN_METHODS,
        *SPHERICAL_METHODS,
        *FOURIER_METHODS,
        *BEYOND_SKETCHES,
        *PACKED_MACLAURIN,
        *BEYOND_METHODS,
    ]
}


def names(*groups: list[Method]) -> tuple[str, ...]:
    """Names of all methods of the groups, for a configuration."""
    return tuple(method.name for group in groups for method in group)


def without(methods: tuple[str, ...], *left_out: str) -> tuple[str, ...]:
    """The methods that quick settings can afford."""
    return tuple(name for name in methods if name not in left_out)
