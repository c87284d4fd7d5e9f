"""Named data sets: a local folder, scikit-learn's bundled sets, OpenML.

A name is looked for in this order, and the first place that has it is read:

1. the folder given as `folder`, else the one named by the environment variable `DOTSKETCH_DATA`
2. the cache of sets fetched from OpenML (`DOTSKETCH_CACHE`, else the platform's cache folder)
3. the sets that come with scikit-learn

Folder and cache have one format, described in `folder`. Nothing is ever downloaded unless
`fetch_dataset` is called, and no file is ever unpickled.

>>> from dotsketch.datasets import load_dataset, train_test_split
>>> digits = load_dataset("digits")
>>> digits.X.shape, digits.task, digits.n_classes
((1797, 64), 'classification', 10)
>>> split = train_test_split(digits, seed=0)
>>> len(split.X_train), len(split.X_test)
(1617, 180)
"""

from .base import Dataset, DatasetError, DatasetInfo
from .openml import cache_folder, fetch_dataset
from .sources import dataset_path, list_datasets, load_dataset
from .splits import Split, train_test_split

__all__ = [
    "Dataset",
    "DatasetError",
    "DatasetInfo",
    "Split",
    "cache_folder",
    "dataset_path",
    "fetch_dataset",
    "list_datasets",
    "load_dataset",
    "train_test_split",
]
