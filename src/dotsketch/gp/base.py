"""What the Gaussian processes on features share: data from anywhere, features, prediction in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_array
from sklearn.utils.validation import _check_n_features, validate_data

from .._arrays import Array, host
from ..chunks import Rows, is_on_disk, is_stream
from ..features import MaclaurinFeatures
from .checkpoint import Sums, accumulate, fingerprint

SAMPLE_ROWS = 10_000  # features are fitted on so many rows of data that are not in memory
BLOCK_BYTES = 1 << 26
DTYPES = [np.float64, np.float32]


class FeatureGP(BaseEstimator):
    """A Gaussian process with the kernel of a feature map; see the two estimators."""

    features: Any
    posterior: str
    variance_correction: str | None
    chunk_rows: int | None
    verbose: bool

    def _check_shared(self, corrections: tuple) -> None:
        if not hasattr(self.features, "fit") or not hasattr(self.features, "transform"):
            raise TypeError(
                "features must be a transformer, such as MaclaurinFeatures(Gaussian()); got "
                f"{self.features!r}."
            )
        if self.posterior not in ("real", "complex"):
            raise ValueError(f'posterior must be "real" or "complex"; got {self.posterior!r}.')
        if self.variance_correction not in corrections:
            raise ValueError(
                f"variance_correction must be one of {corrections}; got "
                f"{self.variance_correction!r}."
            )
        rows = self.chunk_rows
        if rows is not None and (not isinstance(rows, Integral) or rows < 1):
            raise ValueError(f"chunk_rows must be a positive integer or None; got {rows!r}.")

    def _rows(self, X: Any, *columns: Any) -> Rows:
        """The training rows; arrays in memory are validated already, others block by block."""
        if not is_stream(X):
            return Rows((X, *columns))
        if any(column is not None for column in columns):
            raise ValueError("A stream gives batches (X, y): leave y and noise_variance out.")
        return Rows(stream=X)

    def _fit_features(self, rows: Rows, features: Any) -> None:
        """Fit a clone of `features` on all rows in memory, or on a sample of the others."""
        in_memory = rows.columns is not None and not is_on_disk(rows.columns[0])
        X = rows.columns[0] if in_memory and rows.columns else rows.sample(SAMPLE_ROWS)[0]
        if not in_memory:
            X = check_array(X, accept_sparse="csr", dtype=DTYPES, estimator=self)
            _check_n_features(self, X, reset=True)
        self.features_ = clone(features).fit(X)
        probe = self._map(X[:8])
        self.n_columns_ = probe.shape[1]
        self._probe = probe

    def _map(self, X: Array) -> np.ndarray:  # (n, d) -> (n, n_columns_)
        """The features of validated rows: real, or complex for the complex posterior."""
        Z = host(self.features_.transform(X))
        Z = Z.toarray() if hasattr(Z, "toarray") else np.asarray(Z)
        if np.iscomplexobj(Z) and self.posterior == "real":
            return np.concatenate([Z.real, Z.imag], axis=1)
        return Z

    @property
    def _dtype(self) -> Any:
        return np.complex128 if np.iscomplexobj(self._probe) else np.float64

    def _block_rows(self, n_groups: int = 1) -> int:
        """Blocks of about 64 MB, with enough rows in each group for fast rank-k updates."""
        if self.chunk_rows is not None:
            return int(self.chunk_rows)
        row = self.n_columns_ * np.dtype(self._dtype).itemsize
        return max(min(max(BLOCK_BYTES // row, 1024 * n_groups), 8 * BLOCK_BYTES // row), 64)

    def _accumulate(self, rows: Rows, sums: Sums, checkpoint: Any, n_groups: int = 1) -> None:
        """One pass over the rows."""
        block_rows = self._block_rows(n_groups)
        # Writing the sums takes about as long as adding 400 rows to them
        chunk = 1 if self.chunk_rows is not None else -(-4096 * n_groups // block_rows)
        columns = None if rows.columns is None else [getattr(c, "shape", None) for c in rows.columns]
        accumulate(
            rows,
            sums,
            block_rows=block_rows,
            chunk_blocks=chunk,
            checkpoint=checkpoint,
            fingerprint=fingerprint([type(self).__name__, self.posterior, columns, self._probe]),
            verbose=bool(self.verbose),
        )

    def _check_block(self, X: Array) -> Array:
        X = check_array(X, accept_sparse="csr", dtype=DTYPES, estimator=self)
        _check_n_features(self, X, reset=False)
        return X

    def _prediction_blocks(self, X: Array) -> Iterator[tuple[slice, Array, np.ndarray]]:
        """Validated rows of X in blocks: where they stand, themselves, their features."""
        if not is_on_disk(X):
            X = validate_data(self, host(X), accept_sparse="csr", dtype=DTYPES, reset=False)
        start = 0
        for (rows,) in Rows((X,)).blocks(self._block_rows()):
            rows = self._check_block(rows)
            yield slice(start, start + rows.shape[0]), rows, self._map(rows)
            start += rows.shape[0]

    def _deficit(self, X: Array, Z: np.ndarray) -> np.ndarray:  # (n, d), (n, D) -> (n,)
        """k(x, x) − E k̂(x, x) ≥ 0: the prior variance that the features do not carry.

        The expectation is known for `MaclaurinFeatures`; for others k̂(x, x) = |z(x)|² stands in.
        """
        kernel = getattr(self.features_, "kernel_", None)
        if not hasattr(kernel, "diag"):
            raise ValueError(
                "variance_correction compares with k(x, x): the features need a fitted kernel_, "
                f"which {type(self.features_).__name__} has not."
            )
        if isinstance(self.features_, MaclaurinFeatures):
            expected = expected_diagonal(self.features_, X)
        else:
            expected = np.sum(np.abs(Z) ** 2, axis=1)
        return np.maximum(np.asarray(kernel.diag(X), dtype=np.float64) - expected, 0)


def expected_diagonal(features: MaclaurinFeatures, X: Array) -> np.ndarray:  # (n, d) -> (n,)
    """E k̂(x, x) of Maclaurin features: Σ over the blocks in use of coefficient · ω(x)² |u(x)|²ⁿ."""
    X = np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
    inputs = features.expansion_.inputs(X)
    lengths = np.sum(inputs.unit**2, axis=1)  # one, or zero for a zero row
    total = np.zeros(len(X))
    for block in features.blocks_:
        degree = 0 if block.sketch is None else block.sketch.degree
        total += (block.root * inputs.weights[:, block.number]) ** 2 * lengths**degree
    return total


def check_positive(name: str, value: Any, words: tuple[str, ...]) -> None:
    """Raise unless the value is a positive finite number or one of the words."""
    if isinstance(value, str) and value in words:
        return
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not np.isfinite(value) or value <= 0:
        options = "".join(f' or "{word}"' for word in words)
        raise ValueError(f"{name} must be a positive number{options}; got {value!r}.")
