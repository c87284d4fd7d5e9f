"""Measurements behind the tables and figures of the documentation.

- `ratios`, `kernels`, `wave_errors`: speed and accuracy of the compiled code (docs/performance.md)
- `whole_models`: models with everybody's defaults (docs/whole_models.md)
- `columns`, `prediction`, `auto`: errors of features, predicted and measured (docs/columns.md,
  docs/maclaurin.md, docs/auto.md)
- `fourier_errors`, `spherical_density`, `divergences`: beside the authors' results
  (docs/fourier.md, docs/spherical.md, docs/reproduction.md)
- `gp`: the figures of docs/gp.md
- `cluster`, `attention`, `tanimoto`, `molecules`: the guides of the same names
- `fuzz_bytes`, `fuzz_models`, `fuzz_semantics`: damaged model files (docs/persistence.md)

Each is run as `python -m benchmarks.NAME`; its docstring says how. Nothing is asserted, except by
the fuzzers.
"""
