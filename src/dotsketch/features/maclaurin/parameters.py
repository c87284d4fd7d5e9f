"""What the parameters of Maclaurin features may be."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import is_foreign
from ..._support.parameters import one_of, positive_integer
from ...kernels import DotProductKernel, ExpandedKernel
from ..base import NO_SERIES
from ..errors import Unsuited
from ..study import check_kernel
from .search import COEFFICIENTS, SOLVERS


def check_parameters(features: Any) -> None:
    """Raise unless the parameters of a `MaclaurinFeatures` mean something together."""
    check_kernel(features.kernel, ExpandedKernel, NO_SERIES)
    parameters = features.kernel.get_params()
    for name in features.kernel.constants:
        if is_foreign(parameters[name]):
            raise TypeError(
                f"{name} is a constant of the series, to which no gradient flows here: give a "
                "number, or use PolynomialSketch or NystromFeatures."
            )
    for name in ("min_degree", "max_degree", "n_pairs_sample"):
        positive_integer(name, getattr(features, name))
    one_of("coefficients", features.coefficients, COEFFICIENTS)
    one_of("solver", features.solver, SOLVERS)
    if not isinstance(features.exact_monomials, (bool, np.bool_)):
        positive_integer("exact_monomials, unless it is True or False,", features.exact_monomials)
    if features.min_degree > features.max_degree:
        raise ValueError(
            f"min_degree must not exceed max_degree; got {features.min_degree} and "
            f"{features.max_degree}."
        )
    if isinstance(features.allocation, str) and features.allocation not in ("optimal", "random"):
        raise ValueError(
            f'allocation must be "optimal", "random" or a list of projections for the '
            f"degrees 1, 2, …; got {features.allocation!r}."
        )
    if not isinstance(features.allocation, str) or features.allocation == "random":
        if features.coefficients == "fitted":
            raise ValueError('coefficients="fitted" is for allocation="optimal".')
        if features.mean_split and isinstance(features.allocation, str):
            raise ValueError('mean_split is for allocation="optimal".')
        if not isinstance(features.kernel, DotProductKernel):
            raise Unsuited(
                f'{features.kernel} has several terms of every degree: use allocation="optimal".'
            )
