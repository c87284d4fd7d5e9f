"""Nyström features: the kernel with some training rows, whitened.

- `features`: the estimator
- `basis`: what a fit keeps; `..landmarks` chooses the rows, `..whitening` makes the matrix
- `columns`: what `transform` does with it
- `moment`: the second moment that decides which combinations of landmarks are kept
- `measured`: the error of a draw, which has no closed form
- `precision`: float32 or float64, by what roundings cost
"""

from .features import NystromFeatures

__all__ = ["NystromFeatures"]
