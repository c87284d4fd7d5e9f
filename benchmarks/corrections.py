"""What to do about variance that features do not carry: `variance_correction`, by family.

    python -m benchmarks.corrections --data DIR [--sets kin8nm protein concrete]

Gaussian process regression on at most 2000 rows with a Gaussian kernel at 0.3, 0.6 and 1 times the
median distance, 64 and 256 columns. For every correction the mean KL(approximate ‖ exact) of the
predictive distributions of y at held-out rows, with the noise of the exact process (0.1) given to
both; and the mean negative log likelihood of held-out rows with variances that are chosen by the
marginal likelihood of the features. DIR is a folder of data sets.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dotsketch import (
    ExactGPRegressor,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    gaussian_kl,
    mean_negative_log_likelihood,
)
from dotsketch.datasets import load_dataset

from .common import data_parser

SETS = ("kin8nm", "protein", "concrete")
CORRECTIONS = (None, "posterior", "fitc", "auto")
NOISE = 0.1


def split(name: str) -> tuple[np.ndarray, ...]:
    """At most 2000 training and 500 test rows, columns and target of mean 0 and deviation 1."""
    data = load_dataset(name)
    chosen = np.random.default_rng(0).permutation(len(data.X))[:2500]
    X, y = np.asarray(data.X, float)[chosen], np.asarray(data.y, float)[chosen]
    scale = X.std(axis=0)
    X, y = (X - X.mean(axis=0)) / np.where(scale > 0, scale, 1.0), (y - y.mean()) / y.std()
    n = len(X) * 4 // 5
    return X[:n], y[:n], X[n:], y[n:]


def families(kernel: Gaussian, columns: int) -> dict[str, Any]:
    shared = {"n_components": columns, "random_state": 0}
    return {
        "nystrom": NystromFeatures(kernel, landmarks="uniform", **shared),
        "maclaurin": MaclaurinFeatures(kernel, output="complex_to_real", **shared),
        "fourier": FourierFeatures(kernel, **shared),
    }


def main() -> None:
    parser = data_parser("Corrections of posterior variances, by family.")
    parser.add_argument("--sets", nargs="*", default=SETS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # short lengthscales are part of the comparison
    names = "".join(f"{c!s:>11s}" for c in CORRECTIONS)
    print(f"{'':35s}{'KL, given noise':41s}   | likelihood, chosen noise")
    print(f"{'':32s}{names}   |{names}")
    found: dict[str, list[list[float]]] = {}
    for name in options.sets:
        X, y, test, target = split(name)
        median = Gaussian().resolve(X).lengthscale
        for factor in (0.3, 0.6, 1.0):
            kernel = Gaussian(lengthscale=factor * median)
            exact = ExactGPRegressor(kernel, noise_variance=NOISE, prior_variance=1.0)
            mean, std = exact.fit(X, y).predict(test, return_std=True, include_noise=True)
            for columns in (64, 256):
                for family, features in families(kernel, columns).items():
                    divergences, likelihoods = [], []
                    for correction in CORRECTIONS:
                        gp = FeatureGPRegressor(features, variance_correction=correction)
                        given = gp.set_params(noise_variance=NOISE, prior_variance=1.0).fit(X, y)
                        m, s = given.predict(test, return_std=True, include_noise=True)
                        divergences.append(gaussian_kl(m, s**2, mean, std**2) / len(test))
                        gp.set_params(noise_variance="auto", prior_variance="auto").fit(X, y)
                        m, s = gp.predict(test, return_std=True, include_noise=True)
                        likelihoods.append(mean_negative_log_likelihood(target, m, s**2))
                    found.setdefault(family, []).append(likelihoods)
                    texts = ("".join(f"{v:11.4f}" for v in vs) for vs in (divergences, likelihoods))
                    print(
                        f"{name:9s} {factor:3.1f} {columns:5d} {family:10s}  " + "   |".join(texts),
                        flush=True,
                    )
    for family, rows in found.items():
        none, posterior, fitc, auto = np.array(rows).T
        print(
            f"{family}: likelihoods of {len(rows)} cases. posterior better than None in "
            f"{np.sum(posterior < none)}, fitc in {np.sum(fitc < none)}, auto in "
            f"{np.sum(auto < none)} (largest gain {np.max(none - auto):.3f}, largest loss "
            f"{np.max(auto - none):.3f}); auto better than posterior in "
            f"{np.sum(auto < posterior)} (largest gain {np.max(posterior - auto):.3f}, largest "
            f"loss {np.max(auto - posterior):.3f})"
        )


if __name__ == "__main__":
    main()
