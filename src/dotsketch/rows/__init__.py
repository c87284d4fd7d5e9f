"""Where rows come from, and one fold over blocks of them.

`Rows.of(X, y, noise_variance, sample_weight)` gives the same blocks, samples and sums for arrays,
sparse matrices, data frames, memory maps, h5py and zarr data sets, streams of batches and Dask
collections:

>>> import numpy as np
>>> rows = Rows.of(np.arange(10.0)[:, None])
>>> [block[0].shape for block in rows.blocks(4)]
[(4, 1), (4, 1), (2, 1)]
>>> float(rows.fold(float, lambda total, block, first: total + block[0].sum(), block_rows=4))
45.0

- `sources`: `Rows` of arrays, files and streams
- `fold`: the sum over groups of blocks in a fixed order, and its checkpoint in a file
- `dask`: the same on Dask collections, computed where the rows are, and lazy results

A new kind of rows is a subclass of `Rows` in a file of its own, and two lines in `Rows.of`.
"""

from .._typing import Block
from .dask import DaskRows, lazy
from .fold import Checkpoint, digest, fingerprint
from .sources import (
    Rows,
    float_type,
    is_collection,
    is_on_disk,
    is_stream,
    split_target,
    take,
)

__all__ = ["Checkpoint", "DaskRows", "Rows", "digest", "fingerprint", "float_type"]
__all__ += [
    "Block",
    "is_collection",
    "is_on_disk",
    "is_stream",
    "lazy",
    "split_target",
    "take",
]
