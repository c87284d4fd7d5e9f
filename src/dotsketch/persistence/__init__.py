"""Fitted estimators in files, without pickle: arrays and plain values only.

`save(estimator, path)` writes one file, whole or not at all; `load(path)` gives an estimator with
the same values, to the bit. Loading executes nothing that the file chooses: it builds values from a
fixed list of kinds (`values`), instances of a fixed list of classes (`registry`: those of
dotsketch, and some of scikit-learn), and arrays whose sizes are checked first. A file that is
truncated, changed or of a newer format is refused with a `PersistenceError`.

The file (`container`) is an ordinary zip without compression, so that it can be looked at with any
tool: `model.json` is the tree of values, `arrays/*.npy` are its arrays, and the comment at the end
is the format and the sha256 of everything before it.

Why not skops, which has the same aim: it names a class by its module, so that moving one breaks the
files, and imports modules that the file names; it calls `__setstate__` and `__reduce__`; its zips
have checksums for each member only, no version check, and a changed byte gives whichever exception
comes first; arrays are allocated at the size that the file claims. Those are what is asked for
here, so a wrapper would have to do again what it does. Estimators of scikit-learn that are not on
our list, and functions, are where skops helps: save such a pipeline with it.

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

from .container import FORMAT
from .errors import PersistenceError
from .files import load, read_info, save

__all__ = ["FORMAT", "PersistenceError", "load", "read_info", "save"]
