"""Gaussian processes: on features, at scale, and exact ones as the reference."""

from .classification import FeatureGPClassifier
from .exact import ExactGPClassifier, ExactGPRegressor
from .regression import FeatureGPRegressor

__all__ = ["ExactGPClassifier", "ExactGPRegressor", "FeatureGPClassifier", "FeatureGPRegressor"]
