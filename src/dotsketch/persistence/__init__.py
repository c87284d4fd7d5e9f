"""Fitted estimators in files, without pickle: arrays and plain values only.

`save(estimator, path)` writes one file, whole or not at all; `load(path)` gives an estimator with
the same values, to the bit. Loading executes nothing that the file chooses: it builds values from a
fixed list of kinds (`values`), instances of a fixed list of classes (`registry`: those of
dotsketch, and some of scikit-learn), and arrays whose sizes are checked first. A file that is
truncated, changed or of a newer format is refused with a `PersistenceError`.

The file (`container`) is an ordinary zip without compression, so that it can be looked at with any
tool: `model.json` is the tree of values, `arrays/*.npy` are its arrays, and the comment at the end
is the format and the sha256 of everything before it.

docs/persistence.md specifies the format, and says why it is not that of skops: save estimators of
scikit-learn that are not on our list, and functions, with skops.

>>> import os, tempfile
>>> import numpy as np
>>> from dotsketch import Gaussian, MaclaurinFeatures
>>> from dotsketch.persistence import load, save
>>> X = np.random.default_rng(0).normal(size=(20, 4))
>>> features = MaclaurinFeatures(Gaussian(), n_components=64, random_state=0).fit(X)
>>> with tempfile.TemporaryDirectory() as folder:
...     save(features, os.path.join(folder, "features.dotsketch"))
...     again = load(os.path.join(folder, "features.dotsketch"))
>>> np.array_equal(features.transform(X), again.transform(X))
True
"""

from .container import FORMAT, PersistenceError
from .files import load, read_info, save

__all__ = ["FORMAT", "PersistenceError", "load", "read_info", "save"]
