"""Other libraries, as their users call them.

A function here returns the call that is timed: features of all rows of X. It raises Unavailable
where the library has no such features for the case.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .cases import Case

Transform = Callable[[], Any]

LARGEST_NYSTROEM = 1024  # its fit decomposes a D × D matrix, which takes minutes beyond


class Unavailable(Exception):
    """The library cannot do this case; the message says why."""


def blas_rademacher(case: Case, X: np.ndarray, threads: int, path: Path | None) -> Transform:
    """The product over the degrees of dense ±1 projections, one matrix product each."""
    shape = (case.degree, case.dimension, case.n_components)
    weights = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.float32), shape)
    scale = np.float32(case.n_components**-0.5)

    def transform() -> np.ndarray:
        Z = X @ weights[0]
        for degree in range(1, case.degree):
            Z *= X @ weights[degree]
        Z *= scale
        return Z

    return transform


def blas_complex_rademacher(
    case: Case, X: np.ndarray, threads: int, path: Path | None
) -> Transform:
    """The same with weights in {1, i, −1, −i}: two real matrix products a degree."""
    shape = (case.degree, case.dimension, case.n_components)
    weights = np.random.default_rng(0).choice(np.array([1, 1j, -1, -1j], dtype=np.complex64), shape)
    real, imaginary = weights.real.copy(), weights.imag.copy()
    scale = np.float32(case.n_components**-0.5)

    def project(degree: int) -> np.ndarray:
        Z = np.empty((case.n_rows, case.n_components), dtype=np.complex64)
        Z.real = X @ real[degree]
        Z.imag = X @ imaginary[degree]
        return Z

    def transform() -> np.ndarray:
        Z = project(0)
        for degree in range(1, case.degree):
            Z *= project(degree)
        Z *= scale
        return Z

    return transform


def count_sketch(case: Case, X: np.ndarray, threads: int, path: Path | None) -> Transform:
    from sklearn.kernel_approximation import PolynomialCountSketch

    features = PolynomialCountSketch(
        degree=case.degree, n_components=case.n_components, random_state=0
    ).fit(X)
    return lambda: features.transform(X)


def nystroem(case: Case, X: np.ndarray, threads: int, path: Path | None) -> Transform:
    from sklearn.kernel_approximation import Nystroem

    if case.n_components > min(LARGEST_NYSTROEM, case.n_rows):
        raise Unavailable(f"left out for more than {LARGEST_NYSTROEM} landmarks")
    features = Nystroem(
        kernel="poly",
        gamma=1.0,
        coef0=0.0,
        degree=case.degree,
        n_components=case.n_components,
        random_state=0,
    ).fit(X)
    return lambda: features.transform(X)


def rbf_sampler(case: Case, X: np.ndarray, threads: int, path: Path | None) -> Transform:
    from sklearn.kernel_approximation import RBFSampler

    features = RBFSampler(n_components=case.n_components, random_state=0).fit(X)
    return lambda: features.transform(X)


def xgpr(case: Case, X: np.ndarray, threads: int, path: Path | None) -> Transform:
    from xGPR.kernel_fgen import KernelFGen

    features = KernelFGen(
        num_rffs=case.n_components,
        hyperparams=np.array([1.0]),
        num_features=case.dimension,
        kernel_choice="RBF",
        verbose=False,
    )
    return lambda: features.predict(X)


def gpytorch(case: Case, X: np.ndarray, threads: int, path: Path | None) -> Transform:
    import torch
    from gpytorch.kernels import RFFKernel

    features = RFFKernel(num_samples=case.n_components // 2, num_dims=case.dimension)
    tensor = torch.from_numpy(X)
    return without_gradient(lambda: features._featurize(tensor, normalize=True))


DP_RFS_PROJECTIONS = {
    "srht": "hadamard",
    "rademacher": "dense",
    "countsketch_scatter": "count sketch",
}


def dp_rfs(
    case: Case, X: np.ndarray, threads: int, path: Path | None, *, projection: str, is_complex: bool
) -> Transform:
    """The repository of the paper's authors."""
    import torch

    sys.path.insert(0, str(path))
    from random_features.polynomial_sketch import PolynomialSketch

    torch.manual_seed(0)
    features = PolynomialSketch(
        case.dimension,
        case.n_components,
        degree=case.degree,
        bias=0,
        lengthscale=1.0,
        projection_type=projection,
        complex_weights=is_complex,
    )
    features.resample()
    tensor = torch.from_numpy(X)
    return without_gradient(lambda: features.forward(tensor))


def pyrfm_tensor_sketch(case: Case, X: np.ndarray, threads: int, path: Path | None) -> Transform:
    sys.path.insert(0, str(path))
    from pyrfm import TensorSketch

    features = TensorSketch(n_components=case.n_components, degree=case.degree, random_state=0).fit(
        X
    )
    return lambda: features.transform(X)


def pyrfm_hadamard(case: Case, X: np.ndarray, threads: int, path: Path | None) -> Transform:
    """pyrfm has no TensorSRHT: the product of its signed Hadamard projections, one a degree."""
    sys.path.insert(0, str(path))
    from pyrfm import SubsampledRandomHadamard

    if case.n_components > 1 << (case.dimension - 1).bit_length():
        raise Unavailable("at most as many columns as the padded dimension")
    projections = [
        SubsampledRandomHadamard(n_components=case.n_components, random_state=seed).fit(X)
        for seed in range(case.degree)
    ]

    def transform() -> np.ndarray:
        Z = projections[0].transform(X)
        for projection in projections[1:]:
            Z *= projection.transform(X)
        return Z

    return transform


def without_gradient(function: Transform) -> Transform:
    """The call in torch's inference mode."""
    import torch

    def transform() -> Any:
        with torch.inference_mode():
            return function()

    return transform
