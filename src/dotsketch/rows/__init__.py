"""Where rows come from, and one fold over blocks of them.

- `sources`: `Rows` over arrays, sparse matrices, memory maps, h5py, zarr, streams
- `mapped`: blocks that went through a function, for many folds
- `parquet`: batches of a Parquet file, which need not fit in memory
- `fold`: sums over blocks in a fixed order, with a progress bar; `checkpoint`: and a file
- `dask`: the same fold on Dask collections (`dask_columns`: their partitions; `dask_map`: lazy
  results of methods; `dask_tasks`: what workers do; `dask_run`: the scheduler and its errors)
- `copies`: rows with weights as so many copies, for what is fitted to rows
- `collections`: what chooses between them
"""

from .checkpoint import Checkpoint
from .parquet import ParquetBatches, parquet_batches
from .sources import Rows

__all__ = ["Checkpoint", "ParquetBatches", "Rows", "parquet_batches"]
