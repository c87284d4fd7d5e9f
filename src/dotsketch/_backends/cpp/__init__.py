"""Compiled CPU kernels: the hot loops of `dotsketch._backends`, in C++17.

The functions write into arrays that the caller gives, release the GIL, and check every argument:

- `largest_entry(X)`, which returns a number
- `fwht(X, out)`
- `prepare_tensor_srht(turns, places, columns, is_complex, is_single)`,
  `prepare_sign_projection(turns, is_complex, is_single)` and, for a number of columns that
  `has_small_factors`, `prepare_tensor_sketch(buckets, turns, columns, is_complex, is_single)`: they
  copy, check and lay out weights once, for float32 (is_single) or float64, and return functions
  `(X, scale, out_re, out_im=None, row_scale=None)`, which any number of threads may share
- `count_sketch(X, buckets, turns, out_re, out_im=None)`
- `sorf(X, signs, out)`
- `waves(X, scale, out_cos, out_sin=None, frequencies=None, phases=None)`, in quarter turns
- `pair_gram(dot, values, left, right, degrees, skip_diagonal, gram, tail, squares_out)`
- `pair_terms(dot, squares, left, right, degrees, left_lengths, right_lengths, straight, crossed,
  shared, order, skip_diagonal, terms)`
- `add_adjoint(Z, R, total)`: total += RᵀZ in single precision

`X` is (n, d) float32 or float64 with contiguous rows; outputs have its type and any strides, for
instance the `.real` and `.imag` views of one complex array; X and the output may not overlap
(`fwht` works in place, too). Weights are `i**turns`, int8. A row's
result has the same bits in any batch, on any number of threads and for any instruction set; only
`add_adjoint` fuses products with sums where the machine can.

`AVAILABLE` says whether the extension could be imported and `ISA` which of its versions this CPU
runs. The environment variable `DOTSKETCH_FAST=0` turns the extension off; `DOTSKETCH_ISA` names
another version (`baseline`, `v3`, `v4`: levels of x86-64).
"""

import os

AVAILABLE: bool = False
ISA: str = "none"
LARGEST_HADAMARD = 1 << 20  # the longest Walsh–Hadamard transform
WAVE_BLOCK = 16  # columns of a block of frequencies

if os.environ.get("DOTSKETCH_FAST", "1") != "0":
    try:
        from ._kernels import ISA as _isa
        from ._kernels import (
            add_adjoint,
            count_sketch,
            fwht,
            has_small_factors,
            largest_entry,
            pair_gram,
            pair_terms,
            prepare_sign_projection,
            prepare_tensor_sketch,
            prepare_tensor_srht,
            sorf,
            waves,
        )
    except ImportError:  # not built for this platform: fall back to portable code
        if os.environ.get("DOTSKETCH_ISA"):  # who names a version wants it, or to know why not
            raise
    else:
        AVAILABLE, ISA = True, _isa

__all__ = [
    "AVAILABLE",
    "ISA",
    "LARGEST_HADAMARD",
    "WAVE_BLOCK",
    "add_adjoint",
    "count_sketch",
    "fwht",
    "has_small_factors",
    "largest_entry",
    "pair_gram",
    "pair_terms",
    "prepare_sign_projection",
    "prepare_tensor_sketch",
    "prepare_tensor_srht",
    "sorf",
    "waves",
]
