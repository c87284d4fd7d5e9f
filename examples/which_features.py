"""
Which features for which kernel and data
========================================

Which features for which kernel and data? Predicted and measured errors, one table.

Every family of features that supports a kernel, with its best options by the plan, on the digits
given in five ways: raw (nonnegative), centred, standardised, and at unit norm. All have 256 real
columns; errors are relative, over pairs of rows not seen, the root mean square of some draws.
The table of docs/guide/which.md.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler, normalize

from dotsketch import Exponential, Gaussian, Polynomial, plan

COLUMNS, DRAWS, N_TEST, N_SAMPLE = 256, 10, 300, 300
KERNELS = {
    "(x·y/2 + 1/2)³": Polynomial(3, gamma=0.5, coef0=0.5),
    "(x·y/2 + 1/2)⁷": Polynomial(7, gamma=0.5, coef0=0.5),
    "exp(x·y)": Exponential(),
    "Gaussian, median": Gaussian(),
}
X = load_digits().data
centred, standardised = X - X.mean(axis=0), StandardScaler().fit_transform(X)
DATA = {
    "raw": X / np.linalg.norm(X, axis=1).mean(),
    "centred": centred / np.linalg.norm(centred, axis=1).mean(),
    "standardised": standardised / np.linalg.norm(standardised, axis=1).mean(),
    "raw, unit norm": normalize(X),
    "centred, unit norm": normalize(centred),
}
LEFT_OUT = {("exp(x·y)", "standardised")}  # few rows have |x|² up to 44: one pair would decide
GROUPS = ("polynomial", "maclaurin", "maclaurin+", "nystrom", "fourier", "spherical", "positive")


def group(candidate):
    """The family; "maclaurin+" has fitted coefficients or the mean split."""
    if candidate.family != "maclaurin":
        return candidate.family
    plain = candidate.coefficients == "taylor" and not candidate.mean_split
    return "maclaurin" if plain else "maclaurin+"


def relative_error(K, Z):
    distinct = ~np.eye(len(K), dtype=bool)
    return np.sqrt(np.mean((Z @ Z.T - K)[distinct] ** 2) / np.mean(K[distinct] ** 2))


def measured(row, kernel, train, test):
    """The root mean square over draws of the relative error on the test rows."""
    K = kernel(test)
    errors = []
    for seed in range(DRAWS):
        features = row.candidate.for_kernel(kernel, row.n_components, random_state=seed)
        errors.append(relative_error(K, features.fit(train).transform(test)))
    return float(np.sqrt(np.mean(np.square(errors))))


def cells(kernel, X):
    """group -> the predicted and the measured error of its best candidate."""
    train, test = train_test_split(X, test_size=N_TEST, random_state=0)
    table = plan(kernel, train, n_components=COLUMNS, n_pairs_sample=N_SAMPLE)
    best = {}
    for row in table:  # best first; of landmarks, as many as columns
        plain = getattr(row.candidate, "n_landmarks", 1.0) == 1.0
        if plain and getattr(row.candidate, "allocation", "optimal") == "optimal":
            best.setdefault(group(row.candidate), row)
    resolved = kernel.resolve(train)
    return {
        name: (row.relative_error, measured(row, resolved, train, test))
        for name, row in best.items()
    }


def main():
    errors = {name: [] for name in GROUPS}
    print("| kernel | data | " + " | ".join(GROUPS) + " |")
    print("|" + "---|" * (len(GROUPS) + 2))
    for kernel_name, kernel in KERNELS.items():
        for data_name, X in DATA.items():
            if (kernel_name, data_name) in LEFT_OUT:
                continue
            pairs = cells(kernel, X)
            least = min(error for _, error in pairs.values())
            texts = {}
            for name, (predicted, error) in pairs.items():
                errors[name].append((predicted, error))
                bold = "**" if error == least else ""
                texts[name] = f"{predicted:.2g} / {bold}{error:.2g}{bold}"
            line = " | ".join(texts.get(name, "") for name in GROUPS)
            print(f"| {kernel_name} | {data_name} | {line} |", flush=True)

    axes = plt.figure(figsize=(5, 4), layout="constrained").subplots()
    for name, values in errors.items():
        axes.loglog(*np.array(values).reshape(-1, 2).T, "o", markersize=4, label=name)
    axes.axline((0.1, 0.1), (1, 1), color="gray", lw=0.8)
    axes.set(xlabel="predicted error", ylabel="measured error")
    axes.legend(frameon=False, fontsize=8)


if __name__ == "__main__":
    main()
