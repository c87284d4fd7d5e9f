"""The experiments of the paper, one file each; the names are the paper's numbers."""

from ..experiment import Experiment
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
