"""What the paper claims, each as a check of our own rows: yes or no, with the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .data import PAPER_NAMES
from .experiment import Row
from .plots import column, mean, select, values

Results = dict[str, list[Row]]  # rows of every experiment


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None: nothing to judge by), and the numbers."""

    holds: bool | None
    numbers: str

    def __str__(self) -> str:
        return {True: "yes", False: "no", None: "no data"}[self.holds]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and its check."""

    experiment: str
    text: str
    check: Callable[[list[Row]], Verdict]

    def judge(self, results: Results) -> Verdict:
        rows = [row for row in results.get(self.experiment, []) if not row.get("error")]
        return self.check(rows) if rows else Verdict(None, "not run")


def cells(rows: list[Row], *keys: str) -> list[dict[str, Any]]:
    """The different combinations of values of some columns."""
    found = dict.fromkeys(tuple(row.get(key) for key in keys) for row in rows)
    return [dict(zip(keys, cell, strict=True)) for cell in found]


def in_every_cell(
    rows: list[Row], better: str, worse: str, metric: str, *keys: str, **only: Any
) -> Verdict:
    """Whether the mean of one method is below that of another in every cell."""
    chosen = [row for row in rows if all(row.get(k) == v for k, v in only.items())]
    ratios, failures = [], []
    for cell in cells(chosen, *keys):
        low = mean(select(chosen, method=better, **cell), metric)
        high = mean(select(chosen, method=worse, **cell), metric)
        if not np.isfinite(low) or not np.isfinite(high):
            continue
        ratios.append(low / high)
        if low >= high:
            failures.append(f"{_name(cell)}: {low:.4g} against {high:.4g}")
    if not ratios:
        return Verdict(None, "not run")
    text = (
        f"{len(ratios) - len(failures)} of {len(ratios)} cells; ratio of errors "
        f"{min(ratios):.2f} to {max(ratios):.2f}"
    )
    return Verdict(not failures, "; ".join([text, *failures[:5]]))


def _name(cell: dict[str, Any]) -> str:
    return " ".join(f"{'p=' if k == 'degree' else ''}{v}{'d' if k == 'times' else ''}"
                    for k, v in cell.items())  # fmt: skip


GRID = ("preprocessing", "degree", "times")


def optimised_below_random(rows: list[Row]) -> Verdict:
    return in_every_cell(
        rows, "maclaurin_rademacher", "random_maclaurin_rademacher", "frobenius_error", *GRID
    )


def complex_below_real(rows: list[Row]) -> Verdict:
    return in_every_cell(
        rows,
        "tensor_srht_complex",
        "tensor_srht",
        "frobenius_error_complex",
        *GRID,
        preprocessing="raw",
    )


def complex_below_tensor_sketch(rows: list[Row]) -> Verdict:
    return in_every_cell(
        rows, "tensor_srht_complex", "tensor_sketch", "frobenius_error_complex", *GRID
    )


def complex_maclaurin_below_real(rows: list[Row]) -> Verdict:
    return in_every_cell(
        rows, "maclaurin_tensor_srht_complex", "maclaurin_tensor_srht", "frobenius_error", *GRID
    )


def ratio_falls_with_degree(rows: list[Row]) -> Verdict:
    """Figure 2: the complex/real ratio of Rademacher sketches falls as p grows."""
    texts, holds = [], True
    for d in sorted(values(rows, "dimension")):
        ratios = []
        for p in sorted(values(rows, "degree")):
            cell = {"dimension": d, "degree": p, "sketch": "rademacher"}
            real = mean(select(rows, field="real", **cell), "mse_predicted")
            ratios.append(mean(select(rows, field="complex", **cell), "mse_predicted") / real)
        holds &= bool(np.all(np.diff(ratios) < 0))
        texts.append(f"d = {d}: {', '.join(f'{r:.2f}' for r in ratios)}")
    return Verdict(holds, "; ".join(texts))


def tree_worse_at_low_degree(rows: list[Row]) -> Verdict:
    """Figure 2: for p = 2, 3 the plain Rademacher sketch beats the tree."""
    pairs = []
    for cell in cells([r for r in rows if r["degree"] in (2, 3)], "dimension", "degree", "field"):
        plain = mean(select(rows, sketch="rademacher", **cell), "mse_predicted")
        pairs.append((plain, mean(select(rows, sketch="tree_rademacher", **cell), "mse_predicted")))
    if not pairs:
        return Verdict(None, "not run")
    wins = sum(plain < tree for plain, tree in pairs)
    ratios = ", ".join(f"{plain / tree:.2f}" for plain, tree in pairs)
    return Verdict(wins == len(pairs), f"{wins} of {len(pairs)}; plain over tree: {ratios}")


def percentages(rows: list[Row]) -> Verdict:
    """Figure 3: the paper has 100 % on EEG, 97.8 % on MNIST (100 % on the two we lack)."""
    paper = {"eeg": 1.0, "mnist": 0.978}
    texts, holds = [], True
    for name in values(rows, "dataset"):
        found = column(select(rows, dataset=name), "share_below_one")
        texts.append(f"{PAPER_NAMES.get(name, name)} {100 * found.mean():.1f} %"
                     f" (least over p: {100 * found.min():.1f} %)")  # fmt: skip
        holds &= found.mean() >= paper.get(name, 0.95) - 0.03
    return Verdict(holds, "; ".join(texts))


def median_ratio_falls(rows: list[Row]) -> Verdict:
    texts, holds = [], True
    for name in values(rows, "dataset"):
        chosen = sorted(select(rows, dataset=name), key=lambda row: row["degree"])
        odd = [row["median_ratio"] for row in chosen if row["degree"] % 2]
        holds &= bool(np.all(np.diff(odd) < 0))
        texts.append(f"{PAPER_NAMES.get(name, name)}: " + ", ".join(f"{r:.3f}" for r in odd))
    return Verdict(holds, "medians at odd p: " + "; ".join(texts))


def terms_decay(rows: list[Row]) -> Verdict:
    """Figure 4: the bias falls with every degree, the variance from degree 3 on."""
    texts, holds = [], True
    for kernel in values(rows, "kernel"):
        degrees = [n for n in sorted(values(rows, "degree")) if n <= 10]
        chosen = [select(rows, kernel=kernel, degree=n) for n in degrees]
        bias = [mean(found, "bias_term") for found in chosen]
        variance = [mean(found, "variance_term") for found in chosen]
        holds &= bool(np.all(np.diff(bias) < 0) and np.all(np.diff(variance[2:]) < 0))
        texts.append(
            f"{kernel}: bias {bias[0]:.2g} → {bias[-1]:.2g}, variance at n = 3 "
            f"{variance[2]:.2g} → {variance[-1]:.2g}"
        )
    return Verdict(holds, "; ".join(texts))


def degree_one_exact(rows: list[Row]) -> Verdict:
    """Figure 12: TensorSRHT has no variance at degree 1 when D is a multiple of d = 2."""
    found = column(
        [row for row in rows if row["degree"] == 1 and row["n_features"] % 2 == 0], "variance"
    )
    return Verdict(bool(found.max() < 1e-12), f"largest variance at D = kd: {found.max():.1e}")


def surrogate_is_convex(rows: list[Row]) -> Verdict:
    worst = min(
        np.diff(column(select(rows, **cell), "surrogate"), 2).min()
        for cell in cells(rows, "degree", "field")
    )
    return Verdict(bool(worst > -1e-12), f"least second difference {worst:.1e}")


def low_degrees_first(rows: list[Row]) -> Verdict:
    """Figures 18, 19: on centred data most features go to degrees 1 to 3."""
    shares = []
    for cell in cells(rows, "sketch", "n_sample"):
        chosen = select(rows, **cell)
        total = column(chosen, "projections").sum()
        low = column([row for row in chosen if row["degree"] <= 3], "projections").sum()
        shares.append((low / total, cell))
    least, where = min(shares, key=lambda pair: pair[0])
    text = f"at least {100 * least:.1f} % ({where['sketch']}, {where['n_sample']} rows)"
    return Verdict(bool(least > 0.5), text)


def stable_allocation(rows: list[Row]) -> Verdict:
    """Figures 18, 19: the features of a degree hardly vary between samples."""
    largest = 0.0
    for cell in cells(rows, "sketch", "n_sample"):
        chosen = select(rows, **cell)
        D = chosen[0]["n_features"]
        for degree in values(chosen, "degree"):
            found = column(select(chosen, degree=degree), "projections")
            largest = max(largest, float(found.std()) / D)
    return Verdict(largest < 0.05, f"largest standard deviation: {100 * largest:.1f} % of D")


def spherical_worse_where_spread(rows: list[Row]) -> Verdict:
    """Figure 11: few small distances: Maclaurin wins; distances near 0: SRF wins."""
    texts, holds = [], True
    for name in values(rows, "dataset"):
        chosen = select(rows, dataset=name)
        ours = mean(select(chosen, method="maclaurin_tensor_srht"), "frobenius_error")
        theirs = mean(select(chosen, method="srf_orthogonal"), "frobenius_error")
        share = mean(chosen, "share_below_half")
        if np.isfinite(ours) and np.isfinite(theirs):
            holds &= (ours < theirs) == (share < 0.1)
            texts.append(f"{PAPER_NAMES.get(name, name)}: {100 * share:.0f} % of distances below "
                         f"½, Maclaurin {ours:.3f}, SRF {theirs:.3f}")  # fmt: skip
    return Verdict(holds, "; ".join(texts)) if texts else Verdict(None, "not run")


CLAIMS = [
    Claim("fig2", "The complex/real ratio of errors falls as the degree grows.",
          ratio_falls_with_degree),
    Claim("fig2", "For degrees 2 and 3 the Rademacher sketch beats the tree.",
          tree_worse_at_low_degree),
    Claim("fig3", "For (almost) all pairs complex TensorSRHT has less variance than real.",
          percentages),
    Claim("fig3", "The ratio of variances is smaller for larger degrees.", median_ratio_falls),
    Claim("fig4", "Bias and variance terms decay with the degree.", terms_decay),
    Claim("fig6", "Optimised Maclaurin has smaller errors than random Maclaurin in every cell.",
          optimised_below_random),
    Claim("fig6", "Complex TensorSRHT has smaller errors than real TensorSRHT in every cell on "
          "raw data.", complex_below_real),
    Claim("fig6", "Complex TensorSRHT has smaller errors than TensorSketch in every cell.",
          complex_below_tensor_sketch),
    Claim("fig6", "Optimised Maclaurin with complex TensorSRHT has smaller errors than with real "
          "in every cell.", complex_maclaurin_below_real),
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
