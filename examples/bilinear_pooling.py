"""
Compact bilinear pooling
========================

Describe an image by products of all pairs of channels, pooled over its locations, in few columns.

Bilinear pooling describes an image by Σ x xᵀ over its locations, d² numbers for d channels.
`CompactBilinearPooling` is a TensorSketch of these products, summed over the locations: dot
products of its columns estimate those of the d² numbers (Gao et al., 2016). Here the channels are
the pixels of a patch of 4 × 4 of scikit-learn's digits, and a constant: 17 channels, 289 products.
Needs torch.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split

from dotsketch import relative_frobenius_error
from dotsketch.nn import CompactBilinearPooling

DRAWS, COLUMNS = 4, (16, 32, 64, 128, 256)

torch.set_num_threads(1)
digits = load_digits()
images = torch.tensor(digits.images[:1000] / 16, dtype=torch.float32)[:, None]
labels = digits.target[:1000]
patches = torch.nn.functional.unfold(images, 4)  # (images, 16, 25 locations)
channels = torch.cat([patches, torch.full_like(patches[:, :1], 0.5)], dim=1)


def accuracy(descriptors):
    """Of a linear classifier on signed square roots, the usual scaling of bilinear features."""
    rooted = (descriptors.sign() * descriptors.abs().sqrt()).numpy()
    train, test, y_train, y_test = train_test_split(rooted, labels, random_state=0)
    return RidgeClassifier(alpha=0.01).fit(train, y_train).score(test, y_test)


outer = torch.einsum("nil,njl->nij", channels, channels).flatten(1)
exact_gram = (outer @ outer.T).numpy()
mean_accuracy, full_accuracy = accuracy(channels.mean(dim=2)), accuracy(outer)
print(f"{'':26s} columns   error of dot products   accuracy")
print(f"{'mean of the channels':26s} {17:7d} {mean_accuracy:34.3f}")
print(f"{'bilinear pooling':26s} {outer.shape[1]:7d} {0:23.3f} {full_accuracy:10.3f}")
found = []
for n_columns in COLUMNS:
    errors, scores = [], []
    for seed in range(DRAWS):
        pool = CompactBilinearPooling(17, 17, n_columns, generator=seed)
        Z = pool(channels)
        errors.append(relative_frobenius_error(exact_gram, (Z @ Z.T).numpy()))
        scores.append(accuracy(Z))
    found.append(sum(scores) / DRAWS)
    error = sum(errors) / DRAWS
    print(f"{'compact bilinear pooling':26s} {n_columns:7d} {error:23.3f} {found[-1]:10.3f}")

plt.plot(COLUMNS, found, "o-", label="compact bilinear pooling")
plt.axhline(full_accuracy, color="black", label="bilinear pooling, 289 columns")
plt.axhline(mean_accuracy, color="gray", linestyle="--", label="mean of the channels")
plt.xscale("log", base=2)
plt.xlabel("columns")
plt.ylabel("accuracy")
plt.legend()
plt.show()
