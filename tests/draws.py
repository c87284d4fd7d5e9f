"""Other draws of fitted features."""

from copy import copy

import numpy as np


def redrawn(features, seed, rows=None):
    """A copy of fitted features with the same design and other random weights."""
    other = copy(features)
    other.weights_ = features.design_.sample(np.random.default_rng(seed), rows)
    return other
