"""The experiments of the paper, one file each; the names are the paper's numbers."""

from ..experiment import Experiment
from . import (
    allocations,
    datasets,
    distances,
    frobenius,
    mean_squared_error,
    objective_terms,
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
        frobenius,
        distances,
        surrogate,
        allocations,
        variances,
        datasets,
    )
}
