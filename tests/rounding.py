"""Equality of what BLAS, LAPACK or libm computes.

Their bits depend on the CPU, on the shapes and the addresses of the arrays and on the number of
threads, so that only our own kernels are compared by `np.testing.assert_array_equal`.
"""

import numpy as np


def assert_same_to_rounding(found, expected, *, roundings=256, condition=1.0):
    """Raise unless two arrays differ by less than rounding explains.

    `roundings` is the number of roundings behind one entry. Each is at most eps / 2 of what is
    rounded, in either array, so that they differ by `roundings` times eps (Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1). It is relative to the largest entry, since a
    sum that cancels keeps the errors of its terms. The default is enough for a sum over a hundred
    rows of products of features, each of which is a product of up to five sums of up to ten terms
    (100 + 2 · 5 · 11 roundings), and for a Cholesky factor and solve with up to 80 columns (three
    for each column: theorem 10.4 there). The error of a solution is multiplied by `condition`, the
    condition number of the system.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
        return
    largest = np.max(np.abs(expected), initial=0)
    tolerance = roundings * condition * np.finfo(expected.dtype).eps * largest
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def nystrom_condition(features, *, refitted=False):
    """What multiplies the roundings of k(B, x) in Nyström features Wᵀ k(B, x), for k(x, x) = 1.

    The norm of W. A new fit also has the roundings of W itself: those of L, enlarged by |L⁻¹|
    (|W| or more, with all landmarks; for as many landmarks as columns, |W| again).
    """
    size = np.linalg.norm(features.normalization_, 2)
    return size**2 if refitted else size
