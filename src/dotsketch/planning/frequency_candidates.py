"""Candidates whose features are functions of random frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..features import FourierFeatures, PositiveFeatures, SphericalFeatures
from ..features.base import FeatureMap
from ..features.fourier import NORMS, FourierMap
from ..features.positive import PositiveMap
from ..features.spherical.density import is_nearly_uniform, predicted_errors
from ..features.waves import Waves
from ..frequencies import PROJECTIONS, Frequencies
from ..kernels import DotProductKernel, Exponential, Gaussian, Polynomial
from .candidates import Candidate, Setup, check_option
from .study import Study
from .table import PlannedCandidate


class _FrequencyCandidate(Candidate):
    """What candidates with random frequencies share: `projection` says how they are drawn."""

    projection: str

    def setup(self, study: Study, n_components: int) -> Setup:
        """Of orthogonal frequencies: QR decompositions of blocks of d; others are drawn only."""
        D, d = float(n_components), study.dimension
        if self.projection != "orthogonal":
            return Setup()
        return Setup(4 * D * d * min(D, d), 16 * D * d)


@dataclass(frozen=True)
class FourierCandidate(_FrequencyCandidate):
    """Parameters of `FourierFeatures`, for the Gaussian kernel.

    The error is known for independent and for orthogonal frequencies, and measured for "sorf".
    Columns are real: [Re, Im] of complex features are the same numbers.
    """

    family: ClassVar[str] = "fourier"
    estimator: ClassVar[Any] = FourierFeatures

    projection: str = "orthogonal"
    norms: str = "auto"

    def __post_init__(self) -> None:
        check_option("projection", self.projection, PROJECTIONS)
        check_option("norms", self.norms, NORMS)

    def __str__(self) -> str:
        norms = "" if self.norms == "auto" else f", {self.norms} norms"
        return f"fourier: {self.projection}{norms}"

    def serves(self, study: Study) -> bool:
        return isinstance(study.kernel, Gaussian)

    @property
    def is_measured(self) -> bool:
        return self.projection == "sorf"

    def predict(self, study: Study, n_components: int) -> PlannedCandidate | None:
        if n_components < 1:
            return None
        features = FourierMap(n_components, self.projection, norms=self.norms)
        cost = features.cost(study.dimension)
        if self.is_measured:
            return self._measured(study, n_components, cost)
        scale = float(study.kernel.variance) ** 2
        squares = study.scaled_distances**2
        return self._planned(
            study,
            n_components,
            scale * float(np.mean(features.bias(squares, study.dimension) ** 2)),
            scale * float(np.mean(features.variance(squares, study.dimension))),
            cost=cost,
        )


@dataclass(frozen=True)
class SphericalCandidate(_FrequencyCandidate):
    """Parameters of `SphericalFeatures`, for polynomial kernels on rows of unit norm.

    Kernels with coef0 < gamma become negative, or grow again, for opposite rows: no mixture of
    cosines that fits them well is known, so they are not supported. Features are built with
    normalize=False: rows of another norm, of which the plan knows nothing, are refused by them.
    """

    family: ClassVar[str] = "spherical"
    estimator: ClassVar[Any] = SphericalFeatures

    projection: str = "orthogonal"

    def __post_init__(self) -> None:
        check_option("projection", self.projection, PROJECTIONS)

    def __str__(self) -> str:
        return f"spherical: {self.projection}"

    def build(
        self, kernel: DotProductKernel, n_components: int, random_state: Any = None, **options: Any
    ) -> FeatureMap:
        options = {"normalize": False} | options
        return super().build(kernel, n_components, random_state, **options)

    def serves(self, study: Study) -> bool:
        kernel = study.kernel
        fits = isinstance(kernel, Polynomial) and kernel.coef0 >= kernel.gamma
        ambient = Frequencies(1, self.projection).ambient_dimension(study.dimension)
        converges = self.projection != "sorf" or is_nearly_uniform(ambient)
        return fits and converges and study.has_unit_rows

    @property
    def is_measured(self) -> bool:
        return self.projection == "sorf"

    def predict(self, study: Study, n_components: int) -> PlannedCandidate | None:
        if n_components < 1:
            return None
        cost = Waves(n_components, self.projection).cost(study.dimension)
        if self.is_measured:
            return self._measured(study, n_components, cost)
        squared_bias, variance = predicted_errors(
            study.kernel,
            study.distances,
            study.dimension,
            n_components=n_components,
            projection=self.projection,
        )
        return self._planned(
            study,
            n_components,
            float(np.mean(squared_bias)),
            float(np.mean(variance)),
            cost=cost,
        )


@dataclass(frozen=True)
class PositiveCandidate(_FrequencyCandidate):
    """Parameters of `PositiveFeatures`, for the exponential kernel.

    The error has heavy tails: a few draws would nearly always flatter it. So it is never measured,
    and "sorf" gets the closed form of orthogonal frequencies.
    """

    family: ClassVar[str] = "positive"
    estimator: ClassVar[Any] = PositiveFeatures

    projection: str = "orthogonal"
    hyperbolic: bool = False

    def __post_init__(self) -> None:
        check_option("projection", self.projection, PROJECTIONS)

    def __str__(self) -> str:
        return f"positive: {self.projection}{', hyperbolic' if self.hyperbolic else ''}"

    def serves(self, study: Study) -> bool:
        return isinstance(study.kernel, Exponential)

    @property
    def columns_at_once(self) -> int:
        return 2 if self.hyperbolic else 1

    def predict(self, study: Study, n_components: int) -> PlannedCandidate | None:
        n_components = self._projections(n_components) * self.columns_at_once
        if n_components < 1:
            return None
        features = PositiveMap(n_components, self.projection, self.hyperbolic)
        relative = features.relative_variance(study.scaled_sums**2, study.dimension)
        with np.errstate(over="ignore", invalid="ignore"):
            variances = study.kernel_values**2 * relative
        # 0 · ∞: a kernel that underflows, times a variance that overflows
        variance = float(np.mean(np.where(np.isnan(variances), np.inf, variances)))
        return self._planned(
            study, n_components, 0.0, variance, cost=features.cost(study.dimension)
        )
