"""
Compact bilinear pooling
========================

Compact bilinear pooling: products of all pairs of channels, pooled over an image, compactly.

Bilinear pooling describes an image by Σ_locations x xᵀ, d² numbers for d channels. Its dot products
are Σ Σ (x·y)², the polynomial kernel of degree 2 over all pairs of locations, so the mean of a
degree-2 sketch over the locations can replace it (Gao et al., 2016). Here the channels are patches
of 4 × 4 pixels of scikit-learn's digits, and a constant: 17 channels, 289 products.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.feature_extraction.image import extract_patches_2d
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split

from dotsketch import PolynomialSketch, relative_frobenius_error

DRAWS = 4
images, labels = load_digits().images[:1000] / 16, load_digits().target[:1000]
patches = np.concatenate([extract_patches_2d(image, (4, 4)) for image in images])
channels = np.hstack([patches.reshape(len(patches), -1), np.full((len(patches), 1), 0.5)])


def pooled(local):  # (images · locations, columns) -> (images, columns)
    return local.reshape(len(images), -1, local.shape[1]).mean(axis=1)


def accuracy(descriptors):
    """Of a linear classifier on signed square roots, the usual scaling of bilinear features."""
    rooted = np.sign(descriptors) * np.sqrt(np.abs(descriptors))
    train, test, y_train, y_test = train_test_split(rooted, labels, random_state=0)
    return RidgeClassifier(alpha=0.01).fit(train, y_train).score(test, y_test)


outer = pooled(np.einsum("ni,nj->nij", channels, channels).reshape(len(channels), -1))
exact_gram = outer @ outer.T
print(f"{'':32s} columns   error   accuracy")
print(f"{'mean of the channels':32s} {channels.shape[1]:7d} {accuracy(pooled(channels)):18.3f}")
print(f"{'bilinear pooling':32s} {outer.shape[1]:7d} {0:7.3f} {accuracy(outer):10.3f}")
for sketch in ("tensor_srht", "tensor_sketch", "balanced_tensor_sketch"):
    for n_components in (32, 128):
        errors, scores = [], []
        for seed in range(DRAWS):
            features = PolynomialSketch(
                2, sketch=sketch, n_components=n_components, random_state=seed
            )
            Z = pooled(features.fit_transform(channels))
            errors.append(relative_frobenius_error(exact_gram, Z @ Z.T))
            scores.append(accuracy(Z))
        print(f"{sketch:32s} {n_components:7d} {np.mean(errors):7.3f} {np.mean(scores):10.3f}")
