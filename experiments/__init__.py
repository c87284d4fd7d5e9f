"""The figures and tables of the paper: one file each, named by the paper's numbers, one harness.

Run from the root of the repository by `python -m experiments fig5 --quick` or
`make reproduce OPTIONS='fig5 --quick'`; not part of the installed package.
"""

from . import (
    allocations,
    centring,
    datasets,
    distances,
    frobenius,
    gp_gaussian,
    gp_polynomial,
    kl_against_time,
    mean_squared_error,
    objective_terms,
    sinc,
    surrogate,
    variance_ratio,
    variances,
    weights,
)
from .harness.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        weights,
        mean_squared_error,
        variance_ratio,
        objective_terms,
        sinc,
        frobenius,
        kl_against_time,
        gp_polynomial,
        gp_gaussian,
        distances,
        surrogate,
        allocations,
        variances,
        datasets,
        centring,
    )
}
