"""`compare` shows the model that `fit` makes beside others, and recommends what can be built."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest

from dotsketch import Matern
from dotsketch.cli.compare import (
    Compared,
    best_of,
    is_as_good,
    is_worse,
    mean_and_error,
    name_of,
    recommendation,
)
from dotsketch.cli.report import plot_calibration, plot_confusion, plot_scores
from dotsketch.cli.scoring import ClassPrediction, NumberPrediction

from .conftest import run_in

SMALL = ("--components", "30", "--kernel", "gaussian:3")


@pytest.fixture(scope="module", params=["price", "sold"])
def compared(request, houses, tmp_path_factory):
    """What the command says, and the folder it ran in."""
    folder = tmp_path_factory.mktemp("compare")
    return run_in(folder, houses, "compare", request.param, *SMALL) | {"folder": folder}


def test_every_model_is_measured(compared):
    task = compared["data"]["task"]
    default, *others, exact, linear, trees = compared["candidates"]
    assert default["features"] == "auto"
    assert {one["features"] for one in others} == {"maclaurin", "fourier"}
    for one in others:
        assert 0 < one["predicted_error"] < 1
    for one in compared["candidates"]:
        assert one["accuracy" if task == "classification" else "r2"] > 0.8
        assert one["microseconds_per_row"] > 0
    assert exact["model"] == "exact process"
    assert "scikit-learn" in linear["model"]
    assert trees["model"] == "gradient boosting (scikit-learn)"
    assert (linear["mnll"] is None) == (task == "regression")  # no distribution, no likelihood
    assert (compared["data"]["rows_fitted"], compared["data"]["rows_held_out"]) == (240, 60)


def test_the_line_of_python_builds_what_was_recommended(compared):
    built = {}
    exec(compared["python"], built)
    model = built["model"]
    frame = pd.read_csv(compared["folder"] / "houses.csv")
    X = frame[["size", "rooms"]]
    X = (X - X.mean()) / X.std()
    model.fit(X.to_numpy(), frame[compared["data"]["target"]].to_numpy())
    assert model.features_.transform(X.to_numpy()[:1]).shape[1] == 30


def test_the_command_fits_what_was_recommended(compared, folder, run_json):
    words = shlex.split(compared["command"])
    assert (words[0], words[-1]) == ("dotsketch", "MODEL")
    fitted = run_json(*words[1:-1], "a.model")
    assert fitted["kernel"] == compared["kernel"] == "Gaussian(lengthscale=3.0)"
    assert ("--features" in words) == (compared["recommended"] != "auto")
    assert set(fitted["categorical"]) == {"town"}


def test_the_first_row_is_the_model_that_fit_makes(folder, run_json):
    """The score that `fit` reports is that of the same model on the same rows held out."""
    words = ("houses.csv", "--target", "price", "--ignore", "sold", "--seed", "3")
    compared = run_json("compare", *words, "--no-report")
    assert "--seed 3" in compared["command"]
    default = compared["candidates"][0]
    fitted = run_json("fit", *words, "-o", "a.model")
    assert fitted["score"]["r2"] == pytest.approx(default["r2"], rel=1e-9)
    assert fitted["score"]["mnll"] == pytest.approx(default["mnll"], rel=1e-9)
    assert fitted["python"] == default["python"]


@pytest.mark.parametrize(
    ("data", "name"),
    [("digits", "digits"), ("data/a.b.csv.gz", "a"), ("data/*.parquet", "data"), (".a.csv", "a")],
)
def test_the_report_is_named_after_the_data(folder, data, name):
    assert name_of(data) == name
    assert name_of("*.parquet") == name_of(".") == folder.name


def test_the_report_stands_alone(compared):
    page = (compared["folder"] / "houses.compare.html").read_text(encoding="utf-8")
    assert compared["report"] == "houses.compare.html"
    assert page.count("<img") == 4
    assert len(re.findall(r'src="data:image/svg\+xml;base64,', page)) == 4
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "@import" not in page
    assert "url(" not in page
    for one in compared["candidates"]:
        assert one["model"] in page
    assert compared["recommendation"] in page


def test_the_table_for_people(folder, run):
    words = ("compare", "houses.csv", "--target", "price", "--ignore", "sold")
    result = run(*words, "--kernel", "poly:2", "--components", "30", "--no-report")
    assert "Recommended: " in result.stdout
    assert max(map(len, result.stdout.split("Recommended")[0].splitlines())) <= 80
    assert "model = FeatureGPRegressor(" in result.stdout
    assert "R²" in result.stdout
    assert "240 rows, 2 numeric and 1 categorical columns" in result.stderr
    assert not list(folder.glob("*.html"))


def test_rows_of_another_table_are_held_out(folder, run_json):
    words = ("houses.csv", "--target", "price", "--ignore", "sold", *SMALL)
    found = run_json("compare", *words, "--test", "new.csv", "--no-report")
    assert (found["data"]["rows_fitted"], found["data"]["rows_held_out"]) == (240, 60)


def test_text_of_the_data_is_escaped_in_the_report(folder, run, houses):
    """Names of columns and files are no markup, and `$` starts no formula."""
    mark = "<b>&$x^"
    frame = houses.rename(columns={"price": mark}).drop(columns="sold").head(60)
    frame.to_csv("<i>.csv", index=False)
    run("compare", "<i>.csv", "--target", mark, *SMALL, "--report", "a.html")
    page = (folder / "a.html").read_text(encoding="utf-8")
    assert "<title>dotsketch: &lt;i&gt;.csv</title>" in page
    assert "<h1>&lt;i&gt;.csv</h1>" in page
    assert "regression of <b>&lt;b&gt;&amp;$x^</b>" in page
    assert "<i>" not in page
    assert mark not in page


def fake(name, losses, family="auto", microseconds=1.0):
    """A model of ours with these losses and no errors."""
    losses = np.array(losses, dtype=float)
    deviation = np.exp(losses - np.log(2 * np.pi) / 2)  # of predictions without an error
    y = np.tile([1.0, -1.0], len(losses))[: len(losses)]
    prediction = NumberPrediction(y.copy(), deviation)
    return Compared(name, prediction, y, microseconds, 1.0, family=family, model=object())


def test_differences_are_those_of_the_same_rows():
    best, noisy = fake("best", [1.0] * 4), fake("noisy", [1.0, 2.0, 0.0, 1.1])
    losses = np.array([0.0, 1.0, -1.0, 0.1])
    difference = noisy.above(best)
    assert difference == pytest.approx((losses.mean(), losses.std(ddof=1) / 2))
    assert not is_worse(difference)
    assert (is_worse((1.9, 1.0)), is_worse((2.1, 1.0))) == (False, True)  # standard errors
    assert is_worse(fake("clearly", [1.5, 1.6, 1.5, 1.6]).above(best))
    assert best.above(fake("surprised", [np.inf] * 4)) is None
    assert mean_and_error(np.ones(1)) == (1.0, np.inf)


def test_models_are_as_good_only_where_the_rows_can_tell():
    """A small difference that is known well; not a small or large one among few noisy rows."""
    assert is_as_good((0.01, 0.01))
    assert not is_as_good((0.01, 0.05))
    assert not is_as_good((0.3, 0.5))
    default = fake("default", [1.0, 1.1] * 50)
    equal = fake("fourier", [1.001, 1.102] * 50, "fourier", 0.5)
    noisy = fake("maclaurin", [0.0, 2.1] * 50, "maclaurin")
    text = recommendation([default, equal, noisy])
    assert text == (
        "Recommended: default: no other features are better by more than chance. As good: fourier "
        "(0.5 µs per row); default takes 1.0."
    )


def test_the_default_stays_unless_another_is_better_by_more_than_chance():
    default = fake("default", [1.0] * 4)
    better, lucky = fake("better", [0.5, 0.6] * 2, "fourier"), fake("lucky", [0.0, 1.8] * 2)
    assert best_of([default, lucky]) is default
    compared = [default, lucky, better]
    assert best_of(compared) is better
    assert "Recommended: better, with a better likelihood" in recommendation(compared)


def test_a_baseline_that_predicts_better_is_named():
    y = np.array([1.0, -1.0, 1.0, -1.0])
    prediction = NumberPrediction(y + 1, np.ones(4))
    ours = Compared("ours", prediction, y, 1.0, 1.0, family="auto", model=object())
    theirs = NumberPrediction(y + np.array([0.1, 0.2, 0.1, 0.2]), np.ones(4))
    trees = Compared("trees", theirs, y, 1.0, 1.0, has_likelihood=False)
    text = recommendation([ours, trees])
    assert text.endswith(" trees predicts better here: R² 0.975 against 0.000.")
    assert trees.figures["mnll"] is None
    assert trees.above(ours) is None
    mean = y + np.array([0, 1.9, 0, 0.9])
    noisy = Compared("noisy", NumberPrediction(mean, np.ones(4)), y, 1.0, 1.0)
    assert "noisy" not in recommendation([ours, noisy])


def test_classes_that_were_not_seen_leave_the_accuracy():
    classes, y = np.array([0, 1]), np.array([0, 1, 2])
    right, wrong = (
        Compared(name, ClassPrediction(np.eye(2)[rows], classes), y, 1.0, 1.0, family=name)
        for name, rows in (("right", [0, 1, 0]), ("wrong", [1, 0, 0]))
    )
    assert best_of([wrong, right]) is right


def test_pictures_of_any_numbers():
    """Of one row held out, of perfect and of infinitely bad predictions."""
    classes, y = np.array([0, 1]), np.array([0, 1, 1])
    sure = Compared("a", ClassPrediction(np.eye(2)[[0, 1, 1]], classes), y, 1.0, 1.0)
    assert b"<svg" in plot_calibration(sure)
    assert b"<svg" in plot_scores([sure, sure])


@pytest.mark.parametrize("label", ["$a_{$", "$\\frac$"])
def test_classes_with_dollars_are_drawn(label):
    """Between two `$` stands no formula: the label is drawn as it is."""
    classes = np.array([label, "other"], dtype=object)
    prediction = ClassPrediction(np.full((2, 2), 0.5), classes)
    assert b"<svg" in plot_confusion(prediction, classes, "y")


def test_a_kernel_with_a_free_lengthscale_is_searched(folder, run_json, rng):
    """The input that does not matter has a longer one; the model file keeps them."""
    X = rng.normal(size=(200, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=200)
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv("a.csv", index=False)
    words = ("a.csv", "--target", "y", "--components", "40", "--kernel", "matern:2.5")
    fitted = run_json("fit", *words, "-o", "a.model")
    lengthscale = eval(fitted["kernel"], {"Matern": Matern}).lengthscale
    assert lengthscale[1] > 3 * lengthscale[0]
