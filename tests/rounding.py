"""Equality of what BLAS, LAPACK or libm computes.

Their bits depend on the CPU, on the shapes and the addresses of the arrays and on the number of
threads, so that only our own kernels are compared by `np.testing.assert_array_equal`.
"""

import numpy as np


def assert_same_to_rounding(found, expected, *, roundings=256):
    """Raise unless two arrays differ by less than `roundings` units in the last place.

    The unit is that of the largest entry, since a sum that cancels keeps the errors of its terms.
    The default covers products of a few sums with tens of terms each; what solves a linear system
    multiplies it by the condition number.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
        return
    largest = np.max(np.abs(expected), initial=0)
    tolerance = roundings * np.finfo(expected.dtype).eps * largest
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
