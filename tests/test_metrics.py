"""The metrics on cases computed by hand."""

import numpy as np
import pytest

from dotsketch import relative_frobenius_error


def test_relative_frobenius_error_by_hand(library):
    K, K_approx = (
        library.asarray([[3.0, 0.0], [0.0, 4.0]]),
        library.asarray([[3.0, 1.0], [0.0, 2.0]]),
    )
    error = relative_frobenius_error(K, K_approx)
    assert float(library.numpy(error)) == pytest.approx(np.sqrt(5) / 5)
    assert float(library.numpy(relative_frobenius_error(K, K))) == 0


def test_imaginary_part_counts():
    K = np.eye(2)
    assert relative_frobenius_error(K, K + 1j * K) == pytest.approx(1)


def test_error_is_scale_free(X):
    K = X @ X.T
    K_approx = K + 0.1
    assert relative_frobenius_error(7 * K, 7 * K_approx) == pytest.approx(
        relative_frobenius_error(K, K_approx)
    )


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"K has shape \(2, 2\) and K_approx has \(3, 3\)"):
        relative_frobenius_error(np.eye(2), np.eye(3))


@pytest.mark.parametrize("value", [0.0, np.nan])
def test_zero_kernel_has_no_relative_error(value):
    with pytest.raises(ValueError, match="relative error has no meaning"):
        relative_frobenius_error(np.full((2, 2), value), np.eye(2))
