"""The features of a Gaussian process that is given none."""

from __future__ import annotations

from typing import Any

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from .._arrays import Array, is_sparse
from ..features import NystromFeatures
from ..kernels import Matern

# As many as the landmarks that fewer columns would be cut from: 2048 columns take about as long as
# 1024 and err less (`benchmarks.frontier`). With 4096 a fit takes half a minute.
MOST_COLUMNS = 2048


def usual_features(X: Array, n_rows: int) -> Any:  # (n, d)
    """Landmarks of a Matérn kernel, on columns of unit variance if the rows are dense.

    Up to 2048 rows are all landmarks, and the process is then exact. Both the smoothness of the
    kernel and the rule of the landmarks are left to a search (`optimize`), if there is one.
    """
    n_columns = min(n_rows, MOST_COLUMNS)
    features = NystromFeatures(Matern(), n_components=n_columns, random_state=0)
    # Columns of sparse rows have one scale already (words, fingerprints), and a mean is not sparse
    return features if is_sparse(X) else make_pipeline(StandardScaler(), features)
