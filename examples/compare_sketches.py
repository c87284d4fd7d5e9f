"""
All sketches compared
=====================

The kernel (1/2 + x·y/2)³ of scikit-learn's digits, with rows scaled to unit norm, is approximated
by every sketch with real and with complex weights, at equal numbers of columns. The predicted error
needs no random draw: it is the root of the summed closed-form variances over the norm of K, the
root mean square over all draws. The measured error is the root mean square over some draws.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from dotsketch import Polynomial, PolynomialSketch, relative_frobenius_error
from dotsketch.sketches import SKETCHES

OUTPUTS = {"real": "real", "complex_to_real": "complex"}  # output= and the weights it means
COLUMNS = (64, 128, 256, 512)
N_ROWS = 200  # the Gram matrix is of these; times are of all rows
N_DRAWS = 64
KERNEL = Polynomial(3, gamma=0.5, coef0=0.5)

X = normalize(load_digits().data)
rows = X[:N_ROWS]
K = KERNEL(rows)

# %%
# Predicted and measured errors
# -----------------------------
# ``variance`` is a closed form, so the prediction takes one call.


def compare(sketch, output, n_components):
    """Predicted error, measured error, standard error of it, microseconds per row."""
    squares = np.empty(N_DRAWS)
    for seed in range(N_DRAWS):
        features = PolynomialSketch(
            KERNEL.degree,
            gamma=KERNEL.gamma,
            coef0=KERNEL.coef0,
            sketch=sketch,
            output=output,
            n_components=n_components,
            random_state=seed,
        )
        Z = features.fit_transform(rows)
        squares[seed] = relative_frobenius_error(K, Z @ Z.T) ** 2
    predicted = np.sqrt(features.variance(rows).sum()) / np.linalg.norm(K)
    measured = np.sqrt(squares.mean())
    start = time.perf_counter()
    features.transform(X)
    microseconds = 1e6 * (time.perf_counter() - start) / len(X)
    standard_error = squares.std(ddof=1) / np.sqrt(N_DRAWS) / (2 * measured)
    return predicted, measured, standard_error, microseconds


results = {}
print(f"{COLUMNS[-1]} columns, {N_DRAWS} draws, one thread")
print(f"{'sketch':24s} {'weights':8s} predicted  measured          µs per row")
with threadpool_limits(1):
    for sketch in SKETCHES:
        for output, weights in OUTPUTS.items():
            found = np.array([compare(sketch, output, n) for n in COLUMNS])
            results[sketch, output] = found
            predicted, measured, error, microseconds = found[-1]
            print(
                f"{sketch:24s} {weights:8s} {predicted:9.3f}  {measured:.3f} ± {error:.3f}"
                f"  {microseconds:12.1f}",
                flush=True,
            )

# %%
# Error against columns
# ---------------------
# Lines are predicted, points measured.

figure, panels = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
for panel, (output, weights) in zip(panels, OUTPUTS.items(), strict=True):
    for number, sketch in enumerate(SKETCHES):
        predicted, measured, error, _ = results[sketch, output].T
        colour = plt.get_cmap("tab10")(number)
        panel.plot(COLUMNS, predicted, color=colour, label=sketch)
        panel.errorbar(COLUMNS, measured, error, fmt="o", markersize=4, color=colour)
    panel.set(xscale="log", yscale="log", xlabel="columns", title=f"{weights} weights")
    panel.set_xticks(COLUMNS, [str(n) for n in COLUMNS])
    panel.minorticks_off()
    panel.grid(alpha=0.3)
panels[0].set_ylabel("relative Frobenius error")
panels[1].legend(frameon=False, fontsize=8)
