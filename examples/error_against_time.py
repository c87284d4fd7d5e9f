"""
Test error against seconds
==========================

Test error against seconds: features of dotsketch and of scikit-learn, with the same ridge model.

``python examples/error_against_time.py [figure.svg]``

Fashion-MNIST (20,000 training rows) if it is at hand: in the folder `DOTSKETCH_DATA`, or in the
cache after `dotsketch datasets fetch fashion_mnist`; otherwise scikit-learn's digits. Seconds are
those of the processor for everything: fit of the features, features of all rows, ridge regression,
prediction; one thread, the least of two runs.
"""

import sys
import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch, RBFSampler
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from dotsketch import FourierFeatures, Gaussian, PolynomialSketch
from dotsketch.datasets import DatasetError, load_dataset

COLUMNS = (256, 512, 1024, 2048, 4096)
N_TRAIN, REPEATS = 20_000, 2

try:
    data, name = load_dataset("fashion_mnist"), f"Fashion-MNIST, {N_TRAIN} rows"
except DatasetError:
    data, name = load_dataset("digits"), "digits"
    print("Fashion-MNIST is not at hand: these are the digits, where features take less time than")
    print("ridge regression, and differences in speed hardly show.")
X, X_test, y, y_test = train_test_split(
    normalize(data.X), data.y, train_size=min(N_TRAIN, int(0.9 * len(data.X))), random_state=0
)
LENGTHSCALE = 0.4  # about half the median distance between the unit rows
gamma = 1 / (2 * LENGTHSCALE**2)
polynomial = {"degree": 3, "gamma": 0.5, "coef0": 0.5}

METHODS = {
    "dotsketch, polynomial (TensorSRHT)": lambda D: PolynomialSketch(
        **polynomial, n_components=D, random_state=0
    ),
    "scikit-learn, polynomial (PolynomialCountSketch)": lambda D: PolynomialCountSketch(
        **polynomial, n_components=D, random_state=0
    ),
    "dotsketch, Gaussian (SORF)": lambda D: FourierFeatures(
        Gaussian(lengthscale=LENGTHSCALE), projection="sorf", n_components=D, random_state=0
    ),
    "scikit-learn, Gaussian (RBFSampler)": lambda D: RBFSampler(
        gamma=gamma, n_components=D, random_state=0
    ),
    "scikit-learn, Gaussian (Nystroem)": lambda D: Nystroem(
        gamma=gamma, n_components=min(D, len(X)), random_state=0
    ),
}


def measure(features):
    """Seconds and test error of a ridge classifier on these features."""
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        model = make_pipeline(features, RidgeClassifier(alpha=0.01, solver="cholesky"))
        wrong = np.mean(model.fit(X, y).predict(X_test) != y_test)
        seconds.append(time.process_time() - start)
    return min(seconds), wrong


found = {}
print(name)
print(f"{'seconds / test error':50s}", *(f"{D:>15d}" for D in COLUMNS))
with threadpool_limits(1):
    for method, build in METHODS.items():
        found[method] = [measure(build(D)) for D in COLUMNS]
        print(f"{method:50s}", *(f"{s:7.2f} /{e:6.4f}" for s, e in found[method]), flush=True)

# %%
# The figure
# ----------

figure, ax = plt.subplots(figsize=(7.2, 4.0), layout="constrained")
for number, (method, pairs) in enumerate(found.items()):
    ours = method.startswith("dotsketch")
    seconds, errors = np.array(pairs).T
    colour = plt.get_cmap("tab10")(number)
    ax.plot(seconds, errors, "o-" if ours else "s--", color=colour, label=method, markersize=4)
ax.set_xscale("log")
ax.set_xlabel("processor seconds for features, ridge regression and prediction (one thread)")
ax.set_ylabel("test error")
columns = f"{COLUMNS[0]} to {COLUMNS[-1]} columns"
ax.set_title(f"{name}, {columns}, the same linear model", fontsize=10)
ax.grid(alpha=0.3)
ax.legend(frameon=False, fontsize=8)
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
