"""Settings that must stand before SciPy, scikit-learn and JAX are imported, and shared fixtures."""
# ruff: noqa: E402

import importlib.util
import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # scikit-learn's array API checks need it
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")  # compile fast, run once
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # many tiny products: no threads
    os.environ.setdefault(_variable, "1")

import numpy as np
import pytest
from hypothesis import settings

from libraries import NAMES, Library

settings.register_profile("dotsketch", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("dotsketch")

if importlib.util.find_spec("jax"):
    import jax

    jax.config.update("jax_enable_x64", True)
if importlib.util.find_spec("torch"):
    import torch

    torch.set_num_threads(1)


@pytest.fixture
def rng():
    return np.random.default_rng(20240229)


@pytest.fixture
def X(rng):
    """Rows of about unit norm with entries of both signs, (7, 5)."""
    return rng.standard_normal((7, 5)) / np.sqrt(5)


@pytest.fixture(params=NAMES)
def library(request):
    return Library(request.param)


@pytest.fixture(params=[name for name in NAMES if name != "numpy"])
def foreign(request):
    """A library other than NumPy."""
    return Library(request.param)
