"""What is measured: for every library a function from a case to the call that is timed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from . import peers
from .cases import Case
from .peers import Transform, Unavailable

Build = Callable[[Case, np.ndarray, int, Path | None], Transform]


@dataclass(frozen=True)
class Adapter:
    """One way to compute features.

    `method` names the algorithm, for comparison with others that use the same one: "hadamard",
    "dense", "count sketch", "tree", "landmarks" or "fourier".
    """

    library: str
    name: str
    method: str
    output: str
    build: Build
    kernel: str = "polynomial"
    environment: tuple[tuple[str, str], ...] = ()
    needs_path: str | None = None  # the option that gives the path of a clone

    @property
    def key(self) -> str:
        return f"{self.library}: {self.name}, {self.output}"

    @property
    def is_ours(self) -> bool:
        return self.library.startswith("dotsketch")


def build_ours(
    case: Case, X: np.ndarray, threads: int, path: Path | None, *, sketch: str, output: str
) -> Transform:
    from dotsketch import PolynomialSketch

    parameters = {"n_jobs": threads}
    known = inspect.signature(PolynomialSketch).parameters
    features = PolynomialSketch(
        case.degree,
        sketch=sketch,
        n_components=case.n_components,
        output=output,
        random_state=0,
        **{name: value for name, value in parameters.items() if name in known},
    ).fit(X)
    return lambda: features.transform(X)


def build_compiled(case: Case, X: np.ndarray, threads: int, path: Path | None, **kw) -> Transform:
    from dotsketch._backends import cpp

    if not cpp.AVAILABLE:
        raise Unavailable("the compiled kernels are not built")
    return build_ours(case, X, threads, path, **kw)


METHODS = {
    "tensor_srht": "hadamard",
    "tensor_sketch": "count sketch",
    "rademacher": "dense",
    "tree_srht": "tree",
}


def our_adapters() -> list[Adapter]:
    portable = (("DOTSKETCH_FAST", "0"),)
    return [
        Adapter(library, sketch, method, output, partial(build, sketch=sketch, output=output), **kw)
        for sketch, method in METHODS.items()
        for output in ("real", "complex")
        for library, build, kw in (
            ("dotsketch", build_compiled, {}),
            ("dotsketch portable", build_ours, {"environment": portable}),
        )
    ]


def peer_adapters() -> list[Adapter]:
    return [
        Adapter("BLAS", "Rademacher", "dense", "real", peers.blas_rademacher),
        Adapter("BLAS", "Rademacher", "dense", "complex", peers.blas_complex_rademacher),
        Adapter(
            "scikit-learn", "PolynomialCountSketch", "count sketch", "real", peers.count_sketch
        ),
        Adapter("scikit-learn", "Nystroem", "landmarks", "real", peers.nystroem),
        Adapter("scikit-learn", "RBFSampler", "fourier", "real", peers.rbf_sampler, "gaussian"),
        Adapter("xGPR", "KernelFGen", "fourier", "real", peers.xgpr, "gaussian"),
        Adapter("GPyTorch", "RFFKernel", "fourier", "real", peers.gpytorch, "gaussian"),
        *(
            Adapter(
                "dp-rfs",
                projection,
                method,
                output,
                partial(peers.dp_rfs, projection=projection, is_complex=output == "complex"),
                needs_path="dp_rfs",
            )
            for projection, method in peers.DP_RFS_PROJECTIONS.items()
            for output in ("real", "complex")
        ),
        Adapter(
            "pyrfm",
            "TensorSketch",
            "count sketch",
            "real",
            peers.pyrfm_tensor_sketch,
            needs_path="pyrfm",
        ),
        Adapter(
            "pyrfm",
            "SubsampledRandomHadamard",
            "hadamard",
            "real",
            peers.pyrfm_hadamard,
            needs_path="pyrfm",
        ),
    ]


def all_adapters() -> dict[str, Adapter]:
    return {adapter.key: adapter for adapter in [*our_adapters(), *peer_adapters()]}


SCALING_KEYS = (
    "dotsketch: tensor_srht, real",
    "dotsketch: tensor_sketch, real",
    "dotsketch: rademacher, real",
    "dotsketch portable: tensor_srht, real",
    "dotsketch portable: tensor_sketch, real",
    "scikit-learn: PolynomialCountSketch, real",
)
