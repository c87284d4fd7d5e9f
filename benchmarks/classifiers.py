"""Classifiers on the same columns: softmax, Dirichlet labels, logistic regression.

    python -m benchmarks.classifiers --data DIR [--sets letter adult …] [--columns 400]
                                     [--rows 12000]

Errors, mean negative log likelihoods (NLL) and processor seconds of a fit; a quarter of the rows is
held out. Columns of X are scaled to unit variance. The features are Nyström columns of a Gaussian
kernel with the median distance as lengthscale; "searched" is `FeatureGPClassifier()` itself, with
its search. `LogisticRegressionCV` chooses among five strengths by the likelihood of three folds.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import DirichletGPClassifier, FeatureGPClassifier, Gaussian, NystromFeatures
from dotsketch.datasets import load_dataset
from dotsketch.metrics import error_rate, mean_negative_log_likelihood

from .common import data_parser


def main() -> None:
    parser = data_parser("Classifiers on the same columns.")
    sets = ("letter", "eeg", "adult", "covertype", "magic")
    parser.add_argument("--sets", nargs="*", default=sets)
    parser.add_argument("--columns", type=int, default=400)
    parser.add_argument("--rows", type=int, default=12_000)
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.sets:
        data = load_dataset(name)
        chosen = np.random.default_rng(0).permutation(len(data.X))[: options.rows]
        X, y = np.asarray(data.X[chosen], dtype=np.float64), np.asarray(data.y)[chosen]
        n = 3 * len(X) // 4
        X = StandardScaler().fit(X[:n]).transform(X)
        features = NystromFeatures(Gaussian(), n_components=options.columns, random_state=0)
        logistic = LogisticRegressionCV(
            Cs=(1.0, 10.0, 100.0, 1e3, 1e4),
            cv=3,
            scoring="neg_log_loss",
            solver="newton-cholesky" if len(np.unique(y)) == 2 else "lbfgs",
            max_iter=200,
        )
        models: dict[str, Any] = {
            "searched": FeatureGPClassifier(),
            "softmax": FeatureGPClassifier(features),
            "Dirichlet labels": DirichletGPClassifier(features),
            "logistic": make_pipeline(features, logistic),
        }
        for label, model in models.items():
            start = time.process_time()
            model.fit(X[:n], y[:n])
            seconds = time.process_time() - start
            p = model.predict_proba(X[n:])
            error = error_rate(y[n:], model.classes_[p.argmax(axis=1)])
            nll = mean_negative_log_likelihood(y[n:], p, classes=model.classes_)
            print(f"{name:10s} {label:17s} error {error:.4f}  NLL {nll:.4f}  {seconds:6.1f} s")


if __name__ == "__main__":
    main()
