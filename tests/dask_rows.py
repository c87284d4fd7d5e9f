"""The rows that tests of Dask share: numbers, labels, a data frame of both, chunks of them."""

import numpy as np
import pytest

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pandas = pytest.importorskip("pandas")

N, CHUNK = 430, 10
rng = np.random.default_rng(0)
X = rng.standard_normal((N, 3))
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N)
labels = np.where(y > 0.3, "high", np.where(y < -0.3, "low", "middle"))
data = X, y, labels
frame = pandas.DataFrame(X, columns=[*"abc"], index=0.5 * np.arange(N)).assign(y=y, z=labels)


def chunked(*columns, rows=CHUNK):
    return tuple(da.from_array(c, chunks=(rows, *c.shape[1:])) for c in columns)
