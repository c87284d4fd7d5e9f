"""What the paper claims, each with a check of our own rows: yes or no, with the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .checks import (
    Verdict,
    centring_helps,
    complex_below_real,
    complex_below_tensor_sketch,
    complex_maclaurin_below_real,
    complex_pays_in_time,
    degree_one_exact,
    in_most_cells,
    low_degrees_first,
    maclaurin_mean_closer,
    median_ratio_falls,
    optimised_below_random,
    percentages,
    ratio_falls_with_degree,
    spherical_worse_where_spread,
    stable_allocation,
    surrogate_is_convex,
    terms_decay,
    tree_worse_at_low_degree,
    variance_collapses,
)
from .experiment import Row

Results = dict[str, list[Row]]  # rows of every experiment


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and its check."""

    experiment: str
    text: str
    check: Callable[[list[Row]], Verdict]

    def judge(self, results: Results) -> Verdict:
        rows = [row for row in results.get(self.experiment, []) if not row.get("error")]
        return self.check(rows) if rows else Verdict(None, "not run")


CLAIMS = [
    Claim("fig2", "The complex/real ratio of errors falls as the degree grows.",
          ratio_falls_with_degree),
    Claim("fig2", "For degrees 2 and 3 the Rademacher sketch beats the tree.",
          tree_worse_at_low_degree),
    Claim("fig3", "For (almost) all pairs complex TensorSRHT has less variance than real.",
          percentages),
    Claim("fig3", "The ratio of variances is smaller for larger degrees.", median_ratio_falls),
    Claim("fig4", "Bias and variance terms decay with the degree.", terms_decay),
    Claim("fig5", "Near x = 0 optimised Maclaurin approximates the exact mean better than RFF.",
          maclaurin_mean_closer),
    Claim("fig5", "Far from 0 its posterior variance collapses; the correction prevents it.",
          variance_collapses),
    Claim("fig6", "Optimised Maclaurin has smaller errors than random Maclaurin in every cell.",
          optimised_below_random),
    Claim("fig6", "Complex TensorSRHT has smaller errors than real TensorSRHT in every cell on "
          "raw data.", complex_below_real),
    Claim("fig6", "Complex TensorSRHT has smaller errors than TensorSketch in every cell.",
          complex_below_tensor_sketch),
    Claim("fig6", "Optimised Maclaurin with complex TensorSRHT has smaller errors than with real "
          "in every cell.", complex_maclaurin_below_real),
    Claim("fig7", "In the same time complex features reach equal or lower KL divergence.",
          complex_pays_in_time),
    Claim("fig8", "Optimised Maclaurin with TensorSRHT has lower Frobenius errors than SRF in most "
          "cells.", in_most_cells("maclaurin_tensor_srht", "srf", "frobenius_error")),
    Claim("fig8", "Its complex form has lower KL divergence than complex orthogonal SRF in most "
          "cells.", in_most_cells("maclaurin_tensor_srht_complex", "srf_orthogonal_complex", "kl")),
    Claim("fig8", "It has equal or lower test errors than SRF in most cells.",
          in_most_cells("maclaurin_tensor_srht", "srf", "test_error", slack=0.01)),
    Claim("fig8", "It has equal or lower MNLL than SRF in most cells.",
          in_most_cells("maclaurin_tensor_srht", "srf", "mnll", slack=0.01)),
    Claim("fig10", "With a Gaussian kernel it has lower Frobenius errors than RFF in most cells.",
          in_most_cells("maclaurin_tensor_srht", "rff", "frobenius_error")),
    Claim("fig10", "Its complex form has lower Frobenius errors than complex SORF in most cells.",
          in_most_cells(
              "maclaurin_tensor_srht_complex", "rff_orthogonal_complex", "frobenius_error")),
    Claim("fig10", "It has lower KL divergence than RFF in most cells.",
          in_most_cells("maclaurin_tensor_srht", "rff", "kl")),
    Claim("table3", "Centring improves the MNLL on most data sets.", centring_helps),
    Claim("fig11", "Spherical features are worse than optimised Maclaurin where distances are "
          "spread, and better where they concentrate near 0.", spherical_worse_where_spread),
    Claim("fig12", "TensorSRHT has no variance for degree 1 at D = kd.", degree_one_exact),
    Claim("fig12", "The surrogate is convex.", surrogate_is_convex),
    Claim("fig18", "Most features go to low degrees on centred data.", low_degrees_first),
    Claim("fig18", "The distribution over degrees is stable for few rows.", stable_allocation),
]  # fmt: skip


def judge_all(results: Results) -> list[tuple[Claim, Verdict]]:
    """Every claim whose experiment was asked for."""
    return [(claim, claim.judge(results)) for claim in CLAIMS if claim.experiment in results]
