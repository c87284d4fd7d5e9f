"""What the paper claims, each with a check of our own rows: yes or no, with the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .data import PAPER_NAMES
from .experiment import Row
from .plots import column, mean, select, values

GRID = ("preprocessing", "degree", "times")  # a cell of Figure 6


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds (None: nothing to judge by), and the numbers.

    A claim that fails in some cells, and in each by less than three standard errors of the
    difference (there are many cells and few seeds), is not refuted by them: "within noise".
    """

    holds: bool | None
    numbers: str
    within_noise: bool = False

    def __str__(self) -> str:
        if self.within_noise:
            return "within noise"
        return {True: "yes", False: "no", None: "no data"}[self.holds]


def cells(rows: list[Row], *keys: str) -> list[dict[str, Any]]:
    """The different combinations of values of some columns."""
    found = dict.fromkeys(tuple(row.get(key) for key in keys) for row in rows)
    return [dict(zip(keys, cell, strict=True)) for cell in found]


def in_every_cell(
    rows: list[Row], better: str, worse: str, metric: str, *keys: str, **only: Any
) -> Verdict:
    """Whether the mean of one method is below that of another in every cell."""
    chosen = [row for row in rows if all(row.get(k) == v for k, v in only.items())]
    ratios, failures, significant = [], [], 0
    for cell in cells(chosen, *keys):
        low, high = (column(select(chosen, method=m, **cell), metric) for m in (better, worse))
        if not len(low) or not len(high):
            continue
        ratios.append(low.mean() / high.mean())
        if low.mean() >= high.mean():
            noise = float(np.hypot(standard_error(low), standard_error(high)))
            significant += bool(low.mean() - high.mean() > 3 * noise)
            failures.append(
                f"{_name(cell)}: {low.mean():.4g} against {high.mean():.4g} "
                f"(difference {low.mean() - high.mean():.2g} ± {noise:.2g})"
            )
    if not ratios:
        return Verdict(None, "not run")
    text = (
        f"{len(ratios) - len(failures)} of {len(ratios)} cells; ratio of errors "
        f"{min(ratios):.2f} to {max(ratios):.2f}"
    )
    text = "; ".join([text, *failures[:5]])
    return Verdict(not failures, text, within_noise=bool(failures) and not significant)


def _name(cell: dict[str, Any]) -> str:
    marks = {"degree": "p={}", "times": "{}d"}
    return " ".join(marks.get(key, "{}").format(value) for key, value in cell.items())


def standard_error(found: np.ndarray) -> float:
    """Of the mean; infinite for a single value."""
    return float(found.std(ddof=1) / np.sqrt(len(found))) if len(found) > 1 else float("inf")


def lower_error(better: str, worse: str, **only: Any) -> Callable[[list[Row]], Verdict]:
    """A check of measured errors in every cell of Figure 6, followed by errors in closed form."""

    def check(rows: list[Row]) -> Verdict:
        measured = in_every_cell(rows, better, worse, "frobenius_error_complex", *GRID, **only)
        exact = in_every_cell(rows, better, worse, "expected_error", *GRID, **only)
        numbers = f"{measured.numbers}. Expected errors: {exact}, {exact.numbers}"
        return replace(measured, numbers=numbers)

    return check


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
        if len(degrees) < 4:
            return Verdict(None, f"{len(degrees)} degrees are too few")
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
    if not len(found):
        return Verdict(None, "not run")
    return Verdict(bool(found.max() < 1e-12), f"largest variance at D = kd: {found.max():.1e}")


def surrogate_is_convex(rows: list[Row]) -> Verdict:
    second = [
        np.diff(column(select(rows, **cell), "surrogate"), 2)
        for cell in cells(rows, "degree", "field")
    ]
    if not all(map(len, second)):
        return Verdict(None, "convexity needs at least 3 numbers of features")
    worst = min(differences.min() for differences in second)
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


def maclaurin_mean_closer(rows: list[Row]) -> Verdict:
    """Figure 5: near x = 0 the Maclaurin posterior mean is closer to the exact one."""
    pairs = []
    for cell in cells(rows, "frequency"):
        errors = [
            mean(select(rows, method=method, **cell), "mean_error_near_zero")
            for method in ("maclaurin", "rff")
        ]
        pairs.append((cell["frequency"], *errors))
    text = "; ".join(f"a = {a:g}: {m:.2g} against {r:.2g}" for a, m, r in pairs)
    return Verdict(all(m < r for _, m, r in pairs), text)


def edge_ratio(rows: list[Row], method: str) -> float:
    """Approximate over exact standard deviation at the edge, for the fastest function."""
    fast = select(rows, frequency=max(values(rows, "frequency")))
    return mean(select(fast, method=method), "deviation_ratio_at_edge")


def variance_collapses(rows: list[Row]) -> Verdict:
    ratio = edge_ratio(rows, "maclaurin")
    return Verdict(ratio < 0.5, f"approximate over exact deviation at the edge: {ratio:.2g}")


def correction_prevents_collapse(rows: list[Row]) -> Verdict:
    """Figure 5: with the correction of Section 5.6 the variance is not underestimated.

    One that is many times too large is not underestimated, but the numbers say so.
    """
    ratio = edge_ratio(rows, "maclaurin_corrected")
    text = f"approximate over exact deviation at the edge: {ratio:.2g}"
    return Verdict(ratio > 0.5, text + (" (it overshoots)" if ratio > 2 else ""))


def complex_pays_in_time(rows: list[Row]) -> Verdict:
    """Figure 7: at equal time, complex features have equal or lower KL divergence."""
    ratios = []
    for cell in cells(rows, "preprocessing", "degree"):
        for name in ("rademacher", "tensor_srht"):
            real = select(rows, method=name, **cell)
            curve = column(real, "seconds"), column(real, "kl")
            for row in select(rows, method=f"{name}_complex", **cell):
                if len(real) > 1 and curve[0].min() <= row["seconds"] <= curve[0].max():
                    ratios.append(row["kl"] / divergence_at(*curve, row["seconds"]))
    if not ratios:
        return Verdict(None, "no times that both reach")
    wins = sum(ratio <= 1.02 for ratio in ratios)
    text = f"{wins} of {len(ratios)} points; KL complex over real {min(ratios):.2f} to "
    return Verdict(wins == len(ratios), f"{text}{max(ratios):.2f}")


def divergence_at(seconds: np.ndarray, divergence: np.ndarray, time: float) -> float:
    """The divergence that a method reaches in a given time, linear in logarithms."""
    order = np.argsort(seconds)
    known = np.log(seconds[order]), np.log(divergence[order])
    return float(np.exp(np.interp(np.log(time), *known)))


def in_most_cells(
    better: str, worse: str, metric: str, slack: float = 0.0
) -> Callable[[list[Row]], Verdict]:
    """A check that the mean of one method is below that of another in most cells."""

    def check(rows: list[Row]) -> Verdict:
        wins = total = 0
        losers = []
        for cell in cells(rows, "dataset", "preprocessing", "degree", "times"):
            low = mean(select(rows, method=better, **cell), metric)
            high = mean(select(rows, method=worse, **cell), metric)
            if np.isfinite(low) and np.isfinite(high):
                total += 1
                wins += low <= high + slack * abs(high)
                if low > high + slack * abs(high):
                    losers.append(PAPER_NAMES.get(cell["dataset"], cell["dataset"]))
        if not total:
            return Verdict(None, "not run")
        text = f"{wins} of {total} cells"
        if losers:
            text += f"; not on {', '.join(sorted(set(losers)))}"
        return Verdict(wins > total / 2, text)

    return check


def centring_helps(rows: list[Row]) -> Verdict:
    """Table 3: centring lowers the MNLL on most data sets."""
    found = []
    for name in values(rows, "dataset"):
        best = []
        for how in ("centred", "raw"):
            chosen = select(rows, dataset=name, preprocessing=how)
            best.append(
                min(mean(select(chosen, method=method), "mnll")
                    for method in ("srf", "maclaurin_rademacher"))
            )  # fmt: skip
        if np.all(np.isfinite(best)):
            found.append((PAPER_NAMES.get(name, name), *best))
    wins = sum(centred < raw for _, centred, raw in found)
    text = "; ".join(f"{name} {raw:.3f} → {centred:.3f}" for name, centred, raw in found)
    return Verdict(wins > len(found) / 2, f"{wins} of {len(found)}: {text}")


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
    Claim("fig5", "Far from 0 its posterior variance collapses.", variance_collapses),
    Claim("fig5", "The correction of Section 5.6 prevents this underestimation.",
          correction_prevents_collapse),
    Claim("fig6", "Optimised Maclaurin has smaller errors than random Maclaurin in every cell.",
          lower_error("maclaurin_rademacher", "random_maclaurin_rademacher")),
    Claim("fig6", "Complex TensorSRHT has smaller errors than real TensorSRHT in every cell on "
          "raw data.", lower_error("tensor_srht_complex", "tensor_srht", preprocessing="raw")),
    Claim("fig6", "Complex TensorSRHT has smaller errors than TensorSketch in every cell.",
          lower_error("tensor_srht_complex", "tensor_sketch")),
    Claim("fig6", "Optimised Maclaurin with complex TensorSRHT has smaller errors than with real "
          "in every cell.", lower_error("maclaurin_tensor_srht_complex", "maclaurin_tensor_srht")),
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
