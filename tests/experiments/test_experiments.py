"""Every experiment runs at a tiny setting, from its configurations to its figure."""

import dataclasses
import math
import warnings

import numpy as np
import pytest

from dotsketch import Gaussian, Polynomial
from experiments import EXPERIMENTS
from experiments.harness.data import PREPROCESSINGS, prepare, preprocess
from experiments.harness.experiment import Setting
from experiments.harness.methods import METHODS
from experiments.harness.plots import number, pivot, progress_beyond, style
from experiments.harness.processes import Task, choose_regularisation

pytest.importorskip("matplotlib")
TINY = Setting("tiny", has_data=False)


def tiny_rows(experiment):
    rows = []
    for unit in experiment.units(TINY, seeds=1):
        config = dataclasses.asdict(unit.config)
        with warnings.catch_warnings():  # methods of the paper are run where they do not suit, too
            warnings.simplefilter("ignore", UserWarning)
            rows += [config | {"seed": 0} | row for row in experiment.run(unit.config, 0)]
    return rows


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_runs_and_plots(name, tmp_path):
    experiment = EXPERIMENTS[name]
    rows = tiny_rows(experiment)
    assert rows
    assert [row["error"] for row in rows if row.get("error")] == []
    for row in rows:
        numbers = [value for value in row.values() if isinstance(value, float)]
        assert all(math.isfinite(value) for value in numbers)
    first = [rows[0][key] for key in experiment.figure_by]
    chosen = [row for row in rows if [row[key] for key in experiment.figure_by] == first]
    path = tmp_path / "figure.png"
    with style():
        experiment.plot(chosen).savefig(path)
    assert path.read_bytes().startswith(b"\x89PNG")
    for lines in (experiment.tables(rows) if experiment.tables else {}).values():
        assert lines


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("size", ["full", "quick", "tiny"])
def test_configurations_are_frozen_and_different(name, size):
    found = EXPERIMENTS[name].configs(Setting(size))
    assert len(set(found)) == len(found) > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(found[0], dataclasses.fields(found[0])[0].name, None)


def test_the_same_seed_gives_the_same_rows():
    experiment = EXPERIMENTS["fig10"]
    config = experiment.configs(TINY)[0]
    config = dataclasses.replace(config, methods=("rff", "maclaurin_tensor_srht"))
    timeless = [
        [{k: v for k, v in row.items() if "seconds" not in k} for row in experiment.run(config, s)]
        for s in (3, 3, 4)
    ]
    assert timeless[0] == timeless[1]
    assert timeless[0] != timeless[2]


def test_the_uncorrected_variance_collapses():
    """Without a correction there is none: far from 0 the posterior is almost certain."""
    rows = tiny_rows(EXPERIMENTS["fig5"])
    [plain] = [row for row in rows if row["method"] == "maclaurin" and row["frequency"] == 5.0]
    assert plain["deviation_ratio_at_edge"] < 1e-6


def test_the_paper_is_covered():
    """Figures 1 to 19 and Tables 1 to 3: each is named by one experiment."""
    text = ", ".join(e.reproduces.split("(")[0] for e in EXPERIMENTS.values())
    text = text.replace("Figures", "").replace("Figure", "").replace(" and ", ", ")
    figures = sorted(int(w) for w in text.replace(",", " ").split() if w.isdigit())
    tables = [e.reproduces.split()[1] for e in EXPERIMENTS.values() if "Table" in e.reproduces]
    for number_ in tables:
        figures.remove(int(number_))
    assert figures == list(range(1, 20))
    assert sorted(tables) == ["1", "2", "3"]


def test_validation_rows_are_training_rows(monkeypatch):
    """The regularisation never sees a test row."""
    data = prepare("wine", 0, "centred")
    task = Task(data, kernel(), size=50)
    seen = []
    method = METHODS["srf"]
    fit = type(method.make(kernel(), 8, 0)).fit
    monkeypatch.setattr(
        type(method.make(kernel(), 8, 0)),
        "fit",
        lambda self, X, y=None: (seen.append(X), fit(self, X, y))[1],
    )
    alpha = choose_regularisation(task, method, 16, 0)
    assert 1e-5 <= alpha <= 1
    rows = {row.tobytes() for row in data.X_train}
    assert all(row.tobytes() in rows for X in seen for row in np.asarray(X))
    assert len(seen[0]) == len(data.X_train) - len(data.X_train) // 10


def kernel():
    return Polynomial(3, gamma=0.5, coef0=0.5)


@pytest.mark.parametrize("how", PREPROCESSINGS)
def test_preprocessing_learns_from_training_rows_alone(how, rng):
    train, test = rng.standard_normal((30, 4)) + 3, rng.standard_normal((10, 4))
    found, _ = preprocess(train, test, how)
    same, _ = preprocess(train, test + 100, how)
    np.testing.assert_array_equal(found, same)
    if how == "raw":
        assert found.min() >= 0
    else:
        columns = preprocess(train, test, "standardised")[0]
        np.testing.assert_allclose(columns.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(columns.std(axis=0), 1)
    with pytest.raises(ValueError, match="preprocessing must be one of"):
        preprocess(train, test, "whitened")
    if how != "standardised":
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1)


@pytest.mark.parametrize("name", [name for name in METHODS if "auto" not in name])
def test_methods_count_features_as_the_paper_does(name, rng):
    """D features: D columns, complex ones twice as many numbers; constants are not counted."""
    method = METHODS[name]
    X = rng.standard_normal((40, 9))
    given = Gaussian(lengthscale=3.0) if method.family == "fourier" else kernel()
    Z = method.make(given, 12, 0).fit(X).transform(X)
    numbers = Z.shape[1] * (2 if np.iscomplexobj(Z) else 1)
    constant = method.constant * (2 if np.iscomplexobj(Z) else 1)
    assert numbers - constant == method.columns(12)
    assert np.iscomplexobj(Z) == method.is_complex


def test_pivot_and_progress():
    rows = [
        {"method": m, "times": 1, "n_features": 8, "columns": c, "seed": s, "e": e + 0.1 * s}
        for m, c, e in (("srf", 8, 0.5), ("srf_complex", 16, 0.3), ("nystrom", 8, 0.25))
        for s in (0, 1)
    ]
    rows.append({"method": "rff", "times": 1, "n_features": 8, "columns": 8, "error": "no"})
    table = pivot(rows, "e", ("times",))
    assert table[0] == {"method": "SRF", "D=1d": "0.55 ± 0.071"}
    assert table[-1] == {"method": "RFF", "D=1d": "failed"}
    found = progress_beyond(rows, "e", ("times",))
    assert [line["ratio"] for line in found] == [0.545, 0.857]
    assert number(float("nan")) == "–"
