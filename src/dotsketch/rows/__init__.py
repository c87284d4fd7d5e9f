"""Where rows come from, and one fold over blocks of them.

- `sources`: `Rows` over arrays, sparse matrices, memory maps, h5py, zarr, streams, Parquet files
- `fold`: sums over blocks in a fixed order, with a checkpoint and a progress bar
"""

from .fold import Checkpoint
from .sources import Rows, parquet_batches

__all__ = ["Checkpoint", "Rows", "parquet_batches"]
