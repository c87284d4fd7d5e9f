"""
A linear model on features against the exact kernel
===================================================

A linear model on random features against the exact kernel method, on the digits data.

A support vector machine works on an n × n kernel matrix, which is quick for the few rows here; a
ridge classifier on D random features of the same kernel costs n D² and works for any number of
rows.
"""

import time

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC

from dotsketch import PolynomialSketch

KERNEL = {"degree": 3, "gamma": 1.0, "coef0": 1.0}

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)


results = {}


def report(name, model):
    start = time.perf_counter()
    model.fit(X_train, y_train)
    seconds = time.perf_counter() - start
    results[name] = model.score(X_test, y_test)
    print(f"{name:45s} accuracy {results[name]:.3f}   fit {seconds:5.2f} s")


def pipeline(**parameters):
    sketch = PolynomialSketch(**KERNEL, random_state=0, **parameters)
    return make_pipeline(Normalizer(), sketch, RidgeClassifier(alpha=0.01))


report("linear", make_pipeline(Normalizer(), RidgeClassifier(alpha=0.01)))
for n_components in (64, 256, 1024):
    report(f"tensor_srht, {n_components} columns", pipeline(n_components=n_components))
report(
    "tensor_srht, 1024 columns, complex_to_real",
    pipeline(n_components=1024, output="complex_to_real"),
)
report("exact kernel (SVC)", make_pipeline(Normalizer(), SVC(kernel="poly", C=10.0, **KERNEL)))

# The parameters of a sketch are searched like any others.
search = GridSearchCV(
    pipeline(n_components=256),
    {"polynomialsketch__sketch": ["tensor_srht", "tensor_sketch", "rademacher"]},
    cv=3,
)
report("best sketch of 256 columns, cross-validated", search)
print("chosen:", search.best_params_["polynomialsketch__sketch"])

figure, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
axes.barh(list(results), list(results.values()), color="#2563a8")
axes.invert_yaxis()
axes.set(xlabel="accuracy on rows held out", xlim=(min(results.values()) - 0.01, 1))
