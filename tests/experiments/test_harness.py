"""Storage, resumption, claims, comparison and the report."""

import base64
import csv
import json
import math
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner

from dotsketch import PolynomialSketch, relative_frobenius_error
from dotsketch.pairs import PairStatistics
from dotsketch.sketches import RademacherSketch
from experiments import EXPERIMENTS
from experiments.command import changed, reproduce
from experiments.harness.claims import CLAIMS, judge_all
from experiments.harness.experiment import Experiment, Setting, Store, attempt, run_units
from experiments.harness.plots import figure
from experiments.harness.processes import expected_error, gram_errors
from experiments.harness.report import (
    compare,
    describe_sizes,
    medians,
    read_reference,
    write_report,
)

ROOT = Path(__file__).parents[2]  # where `experiments` is found


@dataclass(frozen=True)
class Config:
    number: int


def plot(rows):
    canvas, axes = figure()
    axes[0, 0].plot([row["number"] for row in rows], [row["square"] for row in rows])
    return canvas


def square(config, seed):
    return [{"square": config.number**2, "parts": [1, 2]}]


def experiment(run=square, count=4, **options):
    return Experiment(
        name="squares",
        title="Squares & more",
        reproduces="nothing",
        configs=lambda setting: [Config(n) for n in range(count)],
        run=run,
        plot=plot,
        **options,
    )


def units(of, seeds=2):
    return list(of.units(Setting("tiny"), seeds))


def test_a_finished_unit_is_not_run_again(tmp_path):
    calls = []

    def run(config, seed):
        calls.append((config.number, seed))
        return square(config, seed)

    store = Store(tmp_path)
    assert run_units(units(experiment(run))[:3], store) == 0
    assert run_units(units(experiment(run)), store) == 0
    assert sorted(calls) == [(n, s) for n in range(4) for s in range(2)]
    record = store.load(units(experiment(run))[5])
    assert (record["config"], record["seed"]) == ({"number": 2}, 1)
    assert record["seconds"] >= 0
    assert record["started"].startswith("20")
    assert {"dotsketch", "numpy", "blas", "python"} <= set(record["environment"])


def test_an_injected_failure_is_kept_and_tried_again(tmp_path):
    broken = {2}

    def run(config, seed):
        if config.number in broken:
            raise RuntimeError("out of luck")
        return square(config, seed)

    store, work = Store(tmp_path), units(experiment(run))
    assert run_units(work, store) == 2
    failures = [row for row in store.rows(work) if row.get("error")]
    assert [row["error"] for row in failures] == ["RuntimeError: out of luck"] * 2
    assert len(store.rows(work)) == 8
    broken.clear()
    assert run_units(work, store) == 0
    assert not any(row.get("error") for row in store.rows(work))


KILLED = """
import sys, time
from dataclasses import dataclass
from experiments.harness.experiment import Experiment, Setting
from experiments.harness.experiment import run_units
from experiments.harness.experiment import Store

@dataclass(frozen=True)
class Config:
    number: int

def run(config, seed):
    time.sleep(0.05)
    return [{"square": config.number ** 2}]

experiment = Experiment("squares", "t", "r", lambda s: [Config(n) for n in range(40)], run, None)
if __name__ == "__main__":
    run_units(list(experiment.units(Setting("tiny"), 1)), Store(sys.argv[1]), jobs=2)
print("finished")
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    """kill −9 in the midst of the work; the second run does the rest and repeats nothing."""
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    results = tmp_path / "results" / "squares"
    process = subprocess.Popen(command, cwd=ROOT)
    deadline = time.monotonic() + 60
    while len(list(results.glob("[!.]*.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = {path: path.stat().st_mtime_ns for path in results.glob("[!.]*.json")}
    assert 3 <= len(before) < 40
    for path in before:
        json.loads(path.read_text())
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "finished\n"
    after = {path: path.stat().st_mtime_ns for path in results.glob("[!.]*.json")}
    assert len(after) == 40
    assert all(after[path] == stamp for path, stamp in before.items())


def test_an_attempt_keeps_its_error():
    def fail():
        raise ValueError("too few rows")

    assert attempt({"method": "a"}, fail) == {"method": "a", "error": "ValueError: too few rows"}
    assert attempt({"method": "a"}, lambda: {"x": 1}) == {"method": "a", "x": 1}
    with pytest.raises(KeyError):  # a mistake in the code is no result
        attempt({}, lambda: {}["x"])


@pytest.mark.parametrize("output", ["real", "complex"])
@pytest.mark.parametrize("block_size", [3, 7, 100])
def test_blocked_errors_are_those_of_the_whole_matrix(output, block_size, rng):
    X = rng.standard_normal((20, 4))
    Z = PolynomialSketch(2, n_components=16, output=output, random_state=0).fit_transform(X)
    K = (X @ X.T) ** 2
    found = gram_errors(K, Z, block_size=block_size)
    whole = Z @ Z.conj().T
    assert found["frobenius_error"] == pytest.approx(relative_frobenius_error(K, whole.real))
    assert found["frobenius_error_complex"] == pytest.approx(relative_frobenius_error(K, whole))


@pytest.mark.parametrize("block_size", [2, 100])
def test_a_sample_of_rows_is_weighted_as_the_whole(block_size, rng):
    """Averaged over all samples of 3 of 5 rows, squared norms are those of the 5 × 5 matrix."""
    X, Z = rng.standard_normal((5, 3)), rng.standard_normal((5, 4))
    K = X @ X.T
    totals = []
    for rows in map(list, combinations(range(5), 3)):
        sample = K[np.ix_(rows, rows)]
        found = gram_errors(sample, Z[rows], size=5, block_size=block_size)["frobenius_error"]
        diagonal = np.sum(np.diag(sample) ** 2)
        norm = 5 / 3 * (diagonal + (5 - 1) / (3 - 1) * (np.sum(sample**2) - diagonal))
        totals.append((found**2 * norm, norm))
    error, norm = np.mean(totals, axis=0)
    assert norm == pytest.approx(np.sum(K**2))
    assert error == pytest.approx(np.sum((K - Z @ Z.T) ** 2))


def test_expected_error_is_the_mean_over_all_draws(rng):
    """Degree 1 with one Rademacher weight a coordinate: all 2³ draws, enumerated."""
    X = rng.standard_normal((4, 3))
    K = X @ X.T
    draws = np.array([X @ np.array(signs) for signs in product((-1, 1), repeat=3)])
    errors = [np.sum((K - np.outer(z, z)) ** 2) for z in draws]
    variance = RademacherSketch(1, 1).variance(PairStatistics.between(X))
    found = expected_error(K, variance)
    assert found == pytest.approx(np.sqrt(np.mean(errors) / np.sum(K**2)))


def frobenius_rows(better=0.5, worse=1.0):
    """Errors in which every claim on Figure 6 holds if better < worse."""
    values = {
        "maclaurin_rademacher": better,
        "random_maclaurin_rademacher": worse,
        "tensor_srht_complex": better,
        "tensor_srht": worse,
        "tensor_sketch": worse,
        "maclaurin_tensor_srht_complex": better,
        "maclaurin_tensor_srht": worse,
    }
    return [
        {
            "dataset": "fashion_mnist",
            "preprocessing": how,
            "degree": 3,
            "times": 1,
            "n_features": 1024,
            "method": method,
            "seed": seed,
            "frobenius_error": error + 0.01 * seed,
            "frobenius_error_complex": error + 0.01 * seed,
        }
        for how in ("raw", "centred")
        for seed in range(3)
        for method, error in values.items()
    ]


def test_claims_say_yes_no_and_no_data():
    claims = [claim for claim in CLAIMS if claim.experiment == "fig6"]
    assert len(claims) == 4
    assert all(claim.judge({"fig6": frobenius_rows()}).holds is True for claim in claims)
    assert all(claim.judge({"fig6": frobenius_rows(2.0)}).holds is False for claim in claims)
    assert all(claim.judge({"fig6": []}).holds is None for claim in claims)
    verdict = claims[0].judge({"fig6": frobenius_rows(2.0)})
    assert "0 of 2 cells" in verdict.numbers
    assert str(verdict) == "no"


@pytest.mark.parametrize(
    ("error", "spread", "verdict", "numbers"),
    [
        (3.0, 0.0, "no", "centred p=3 1d: 3 against 1.01"),  # one cell refutes a claim on every one
        (1.0, 0.1, "within noise", "difference 0.09 ± 0.058"),  # 1.1 ± 0.06 against 1.01
    ],
)
def test_verdicts_on_one_bad_cell(error, spread, verdict, numbers):
    rows = frobenius_rows()
    for row in rows:
        if row["preprocessing"] == "centred" and row["method"] == "maclaurin_rademacher":
            row["frobenius_error_complex"] = error + spread * row["seed"]
    [claim] = [c for c in CLAIMS if c.text.startswith("Optimised Maclaurin has smaller errors")]
    judged = claim.judge({"fig6": rows})
    assert str(judged) == verdict
    assert numbers in judged.numbers


REFERENCE = """\
kernel,dataset,centred,method,projection,complex,tree,D,features_over_d,k_rel_frob_error_mean,\
k_rel_frob_error_std,test_kl_mean,test_kl_std,seeds
(1/2+x.y/2)^3,FashionMNIST,False,poly_sketch,srht,True,False,1024,1,0.48,0.03,,,20
(1/2+x.y/2)^3,FashionMNIST,False,poly_sketch,srht,False,False,1024,1,1.21,0.04,5.0,1.0,20
(1/2+x.y/2)^7,FashionMNIST,False,poly_sketch,srht,False,False,1024,1,9.0,0.04,,,20
"""


def test_comparison_by_hand(tmp_path):
    path = tmp_path / "reference.csv"
    path.write_text(REFERENCE)
    lines = compare(frobenius_rows(), read_reference(path))
    assert [(line["method"], line["metric"]) for line in lines] == [
        ("tensor_srht_complex", "k_rel_frob_error"),
        ("tensor_srht", "k_rel_frob_error"),
    ]
    first = lines[0]
    assert first["ours"] == pytest.approx(0.51)
    assert first["our_std"] == pytest.approx(0.01)
    assert first["z_spread"] == pytest.approx(0.03 / math.hypot(0.01, 0.03))
    assert first["z_mean"] == pytest.approx(
        0.03 / math.hypot(0.01 / math.sqrt(3), 0.03 / math.sqrt(20))
    )


def test_medians_are_over_methods_and_features():
    cell = {"dataset": "Boston", "kernel": "(1/2+x.y/2)^3", "preprocessing": "centred"}
    cell |= {"method": "srf", "our_seeds": 2}
    lines = [
        cell | {"D": D, "metric": metric, "ours": ours, "theirs": theirs}
        for metric, values in {
            "test_kl": [(1.0, 2.0), (3.0, 2.0), (9.0, 1.0)],
            "test_error": [(0.3, 0.0), (0.3, 0.0), (0.3, 0.0)],
            "test_mnll": [(-1.0, 0.5), (2.0, 1.5), (0.0, 0.25)],
        }.items()
        for D, (ours, theirs) in zip((8, 24, 40), values, strict=True)
    ]
    assert medians(lines) == [
        {"data": "Boston", "kernel": "p = 3", "rows": "centred", "cells": 3, "seeds": 2}
        | {"Frobenius": "–", "KL": "1.5", "error": "–", "MNLL": "-0.25"}
    ]


def test_a_table_of_something_else_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="not a table of the authors' results"):
        read_reference(path)


def test_report_stands_alone(tmp_path):
    pytest.importorskip("matplotlib")

    def run(config, seed):
        rows = square(config, seed)
        return [*rows, attempt({}, fail)] if config.number == 1 else rows

    def fail():
        raise ValueError("1 < 2 & bad")

    store = Store(tmp_path)
    of = experiment(run)
    work = units(of)
    run_units(work, store)
    path, verdicts, lines = write_report([of], work, store, reference=[])
    text = path.read_text()
    assert verdicts == lines == []
    assert not re.search(r'(src|href)="(?!data:|#)', text)
    assert "<script" not in text
    images = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', text)
    assert len(images) == 1
    assert b"</svg>" in base64.b64decode(images[0])
    assert "2 of 10 rows failed" in text
    assert "1 &lt; 2 &amp; bad" in text
    assert "8 of 8 runs" in text
    with open(tmp_path / "csv" / "squares.csv", newline="") as file:
        table = list(csv.DictReader(file))
    assert [row["square"] for row in table] == ["0", "0", "1", "", "1", "", "4", "4", "9", "9"]
    assert table[0]["parts"] == "1;2"
    assert {p.suffix for p in (tmp_path / "figures").iterdir()} == {".png", ".svg"}


def test_command_lists_every_experiment():
    result = CliRunner().invoke(reproduce, ["list"])
    assert result.exit_code == 0
    assert all(name in result.output for name in EXPERIMENTS)


def test_command_runs_resumes_and_reports(tmp_path, monkeypatch):
    monkeypatch.delenv("DOTSKETCH_DATA", raising=False)
    arguments = ["fig1", "fig12", "--quick", "--jobs", "1", "--out", str(tmp_path)]
    runner = CliRunner()
    first = runner.invoke(reproduce, arguments)
    assert first.exit_code == 0, first.output
    assert "yes" in first.output
    report = tmp_path / "quick" / "report.html"
    assert report.exists()
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "quick" / "results").rglob("*.json")}
    assert len(files) == 5
    for degree in (1, 2):
        again = runner.invoke(reproduce, [*arguments, "--only", f"degree={degree}"])
        assert again.exit_code == 0, again.output
    assert {p: p.stat().st_mtime_ns for p in files} == files


def test_command_refuses_what_it_does_not_know(tmp_path):
    runner = CliRunner()
    result = runner.invoke(reproduce, ["fig99", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "There is no experiment 'fig99'" in result.output
    for wrong in ("degree", "degre=1", "degree=100"):
        result = runner.invoke(reproduce, ["fig12", "--only", wrong, "--out", str(tmp_path)])
        assert result.exit_code == 2
    result = runner.invoke(reproduce, ["fig10", "--set", "methods=rfff", "--out", str(tmp_path)])
    assert result.exit_code == 2
    assert "There is no method 'rfff'" in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("most", [2, 3])  # 2: too few to judge the surrogate's convexity
def test_sizes_can_be_changed(tmp_path, most):
    options = ["--set", f"max_features={most}", "--set", "degree=1", "--out", str(tmp_path)]
    result = CliRunner().invoke(reproduce, ["fig12", "--quick", "--jobs", "1", *options])
    assert result.exit_code == 0, result.output
    with open(tmp_path / "quick" / "csv" / "fig12.csv", newline="") as file:
        cells = [(row["field"], row["n_features"]) for row in csv.DictReader(file)]
    assert {columns for _, columns in cells} == {str(n) for n in range(1, most + 1)}
    assert len(cells) == len(set(cells))  # configurations that became equal are run once


def test_every_kind_of_value_can_be_changed():
    """n_train is None in the full setting, methods are a tuple."""
    config = EXPERIMENTS["fig8"].configs(Setting("full"))[0]
    assert config.n_train is None
    changes = {"n_train": "5000", "dataset": "letter", "methods": "srf,nystrom", "elsewhere": "1"}
    found = changed(config, changes)
    assert (found.n_train, found.dataset) == (5000, "letter")
    assert found.methods == ("srf", "nystrom")
    assert found.degree == config.degree
    with pytest.raises(click.UsageError, match="--set degree=three: now it is 3"):
        changed(config, {"degree": "three"})


def test_missing_data_is_a_failure_that_is_seen(tmp_path, monkeypatch):
    """The full setting without the paper's data: rows with their error, and a failing exit."""
    monkeypatch.setenv("DOTSKETCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("DOTSKETCH_DATA", raising=False)
    arguments = ["fig3", "--only", "dataset=eeg", "--out", str(tmp_path)]
    result = CliRunner().invoke(reproduce, arguments)
    assert result.exit_code == 1
    assert "1 run failed" in result.output
    text = (tmp_path / "full" / "csv" / "fig3.csv").read_text()
    assert "DatasetError" in text


def test_judging_asks_only_what_was_run():
    assert {claim.experiment for claim in CLAIMS} <= set(EXPERIMENTS)
    assert judge_all({}) == []
    assert {c.experiment for c, _ in judge_all({"fig12": []})} == {"fig12"}


def test_few_degrees_are_no_verdict_on_decay():
    rows = [
        {"kernel": "k", "degree": n, "bias_term": 2.0**-n, "variance_term": 3.0**-n}
        for n in range(1, 5)
    ]
    [claim] = [claim for claim in CLAIMS if claim.experiment == "fig4"]
    assert claim.judge({"fig4": rows}).holds is True
    assert claim.judge({"fig4": rows[:2]}).holds is None


@pytest.mark.parametrize(("corrected", "holds"), [(1.0, True), (0.1, False), (9.7, True)])
def test_a_collapse_and_its_correction_are_two_claims(corrected, holds):
    ratios = {"maclaurin": 0.1, "maclaurin_corrected": corrected}
    rows = [
        {"frequency": 5.0, "method": method, "deviation_ratio_at_edge": ratio}
        for method, ratio in ratios.items()
    ]
    [collapse, correction] = [
        claim.judge({"fig5": rows}) for claim in CLAIMS if "Far from" in claim.text
        or "Section 5.6" in claim.text
    ]  # fmt: skip
    assert collapse.holds is True
    assert correction.holds is holds
    assert ("overshoots" in correction.numbers) == (corrected > 2)


def test_a_report_states_the_sizes_that_were_run(tmp_path):
    """Captions of a scaled-down run claim neither the paper's sizes nor comparable values."""
    units = list(EXPERIMENTS["fig18"].units(Setting("quick", has_data=False), 2))
    text = describe_sizes(units)
    assert "n_sample = 250, 500, 1000;" in text
    assert "dataset = digits;" in text
    store = Store(tmp_path)
    for size, expected in (("quick", True), ("full", False)):
        path, _, _ = write_report([EXPERIMENTS["fig18"]], units, store, reference=[], size=size)
        page = path.read_text(encoding="utf-8")
        assert ("Scaled-down run" in page) is expected
        assert ("not comparable with the authors" in page) is expected
