"""`compare` measures, reports and recommends, and what it recommends can be built."""

import importlib
import json
import re
import shlex
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dotsketch import FourierFeatures, Gaussian, MaclaurinFeatures, load, plan
from dotsketch.cli import modelling
from dotsketch.cli.choice import Choice, choose
from dotsketch.cli.compare import better_baseline, most_frequent_share, name_of, recommendation
from dotsketch.cli.main import main
from dotsketch.cli.measure import (
    ERROR_DRAWS,
    Compared,
    Difference,
    HeldOut,
    measured_error,
    rank_measured,
    shortlist,
)
from dotsketch.cli.modelling import LEAST_KERNEL, choose_kernel, short_name
from dotsketch.cli.report import plot_calibration, plot_confusion, plot_curves, plot_scores
from dotsketch.cli.scoring import ClassPrediction, NumberPrediction

choice_module = importlib.import_module("dotsketch.cli.choice")
SMALL = ("--components", "30", "--top", "2")


@pytest.fixture(scope="module", params=["price", "sold"])
def compared(request, houses, tmp_path_factory):
    """What the command says, and the folder it ran in."""
    folder = tmp_path_factory.mktemp("compare")
    houses.to_csv(folder / "houses.csv", index=False)
    other = "sold" if request.param == "price" else "price"
    words = ["compare", "houses.csv", "--target", request.param, "--ignore", other, *SMALL]
    studies = []

    class Counted(choice_module.Study):
        def __init__(self, *given, **options):
            studies.append(given)
            super().__init__(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(choice_module, "Study", Counted)
        result = CliRunner().invoke(main, [*words, "--kernel", "gaussian:3", "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) | {"folder": folder, "studies": len(studies)}


def test_every_candidate_is_measured(compared):
    task = compared["data"]["task"]
    *measured, exact, linear, trees = compared["candidates"]
    assert len(measured) == 2
    losses = [one["mnll"] for one in measured]
    assert losses == sorted(losses)
    assert measured[0]["mnll_difference"] == measured[0]["mnll_standard_error"] == 0
    for one in measured:
        assert 0 < one["measured_error"] < 1
        assert one["microseconds_a_row"] > 0
    for one in compared["candidates"]:
        assert one["accuracy" if task == "classification" else "r2"] > 0.8
    assert exact["features"] == "exact Gaussian process"
    assert "scikit-learn" in linear["features"]
    assert trees["features"] == "gradient boosting (scikit-learn)"
    assert (linear["mnll"] is None) == (task == "regression")  # no distribution, no likelihood
    assert (compared["data"]["rows_fitted"], compared["data"]["rows_held_out"]) == (240, 60)
    limit = compared["best_possible"]
    assert limit["n_components"] == 30
    assert 0 < limit["lowest"] < min(one["measured_error"] for one in measured)
    errors = [row["predicted_error"] for row in compared["plan"]]
    assert len(errors) >= 6
    assert errors == sorted(errors)


def test_the_measured_error_is_the_predicted_one(rng):
    """On rows of the same kind, within six standard errors of its own draws."""
    X = rng.normal(size=(800, 4))
    kernel = Gaussian(lengthscale=3.0)
    split = HeldOut(X[:400], X[:400, 0], X[400:], X[400:, 0])
    for candidate in (  # of which every draw is another one
        FourierFeatures(kernel, projection="independent"),
        MaclaurinFeatures(kernel, sketch="rademacher", allocation="sketched"),
    ):
        [row] = plan(kernel, split.X, n_components=60, candidates=[candidate])
        features = row.candidate.for_kernel(kernel, 60, random_state=0).fit(split.X)
        error, spread = measured_error(features, kernel, split, 0)
        assert abs(error - row.relative_error) < 6 * spread / np.sqrt(ERROR_DRAWS)
        assert spread < row.relative_error / 3


def test_the_line_of_python_builds_what_was_recommended(compared):
    built = {}
    exec(compared["python"], built)
    model = built["model"]
    frame = pd.read_csv(compared["folder"] / "houses.csv")
    X = (frame[["size", "rooms"]] - frame[["size", "rooms"]].mean()) / frame[
        ["size", "rooms"]
    ].std()
    model.fit(X.to_numpy(), frame[compared["data"]["target"]].to_numpy())
    assert model.features_.n_components == 30


def test_the_command_fits_what_was_recommended(compared, folder, run_json):
    words = shlex.split(compared["command"])
    assert words[0] == "dotsketch"
    assert words[-1] == "MODEL"
    fitted = run_json(*words[1:-1], "a.model")
    assert fitted["features"] == compared["recommended"]
    assert " " not in words[words.index("--features") + 1]
    assert fitted["kernel"] == "gaussian:3.0"
    assert set(fitted["categorical"]) == {"town"}


def test_the_command_has_the_seed_of_the_comparison(folder, run_json):
    words = ("--target", "price", "--kernel", "gaussian:3", "--components", "8", "--top", "1")
    found = run_json("compare", "houses.csv", *words, "--no-report", "--seed", "3")
    assert "--seed 3" in found["command"]


@pytest.mark.parametrize(
    ("data", "name"),
    [("digits", "digits"), ("data/a.b.csv.gz", "a"), ("data/*.parquet", "data"), (".a.csv", "a")],
)
def test_the_report_is_named_after_the_data(folder, data, name):
    assert name_of(data) == name


def test_the_report_of_a_pattern_is_named_after_its_folder(folder):
    assert name_of("*.parquet") == name_of(".") == folder.name


def test_the_report_stands_alone(compared):
    page = (compared["folder"] / "houses.compare.html").read_text(encoding="utf-8")
    assert compared["report"] == "houses.compare.html"
    assert page.count("<img") == 6
    assert len(re.findall(r'src="data:image/svg\+xml;base64,', page)) == 6
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert "@import" not in page
    assert "url(" not in page
    for one in compared["candidates"]:
        assert short_name(one["features"]).partition("(")[0] in page.replace(" ", "")
    assert compared["recommendation"] in page


@pytest.mark.parametrize("error", [0.1, 0.0])
def test_curves_of_many_and_of_exact_candidates_are_drawn(error):
    """Warnings are errors: a legend needs its room, and zero is not on a log scale."""
    curves = {f"a long name of candidate {k}": ([4, 8], [error, error]) for k in range(50)}
    assert plot_curves(curves, dict.fromkeys(curves, "black")).startswith(b"<?xml")


def test_the_table_for_people(folder, run):
    words = ("compare", "houses.csv", "--target", "price", "--ignore", "sold", *SMALL)
    result = run(*words, "--kernel", "poly:2", "--no-report")
    assert "Recommended: " in result.stdout
    assert re.search(r"best possible +\d", result.stdout)
    assert max(map(len, result.stdout.split("Recommended")[0].splitlines())) <= 80
    assert "model = FeatureGPRegressor(" in result.stdout
    assert "R²" in result.stdout
    assert "240 rows, 2 numeric and 1 categorical columns" in result.stderr
    assert not list(folder.glob("*.html"))


def test_test_rows_of_a_data_set_are_used(folder, run_json, rng):
    X = rng.normal(size=(60, 2))
    np.savez("a.npz", X_train=X[:40], y_train=X[:40, 0], X_test=X[40:], y_test=X[40:, 0])
    found = run_json("compare", "a.npz", *SMALL, "--no-report", "--kernel", "gaussian:median")
    assert (found["data"]["rows_fitted"], found["data"]["rows_held_out"]) == (40, 20)


def test_the_lengthscale_is_chosen_by_the_likelihood(rng):
    """A function that wiggles takes a short one, a line a long one."""
    X = rng.uniform(-2, 2, (200, 1))
    lengths = []
    for y in (np.sin(8 * X[:, 0]), X[:, 0]):
        noisy = y + 0.01 * rng.normal(size=200)
        lengths.append(choose_kernel("gaussian", X, noisy, "regression", 0).lengthscale)
    assert lengths[0] < 0.5 < 2 < lengths[1]


def test_every_column_has_a_lengthscale_if_rows_allow_it(rng, folder, run_json):
    """The one that does not matter has a long one; the model file keeps them."""
    X = rng.normal(size=(300, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=300)
    assert getattr(choose_kernel("matern:auto", X, y, "regression", 0), "nu", 2.5) == 2.5  # smooth
    kernel = choose_kernel("matern:2.5", X, y, "regression", 0)
    assert kernel.lengthscale[1] > 5 * kernel.lengthscale[0]
    assert all(isinstance(value, float) for value in kernel.lengthscale)
    wide = np.concatenate([X, rng.normal(size=(300, 40))], axis=1)
    assert np.ndim(choose_kernel("gaussian", wide, y, "regression", 0).lengthscale) == 0
    pd.DataFrame(X, columns=["a", "b"]).assign(y=y).to_csv("a.csv", index=False)
    words = ("a.csv", "--target", "y", "--components", "40", "--features", "nystrom")
    fitted = run_json("fit", *words, "-o", "a.model")
    lengthscales = load("a.model")[-1].features_.kernel_.lengthscale
    assert np.shape(lengthscales) == (2,)
    assert f"lengthscale={np.asarray(lengthscales).tolist()}" in fitted["python"]


def test_a_target_of_noise_leaves_a_kernel_to_approximate(rng):
    X = rng.normal(size=(60, 30))
    kernel = choose_kernel("gaussian", X, rng.normal(size=60), "regression", 0)
    K = kernel(X)[~np.eye(60, dtype=bool)]
    assert np.sqrt(np.mean(K**2)) >= LEAST_KERNEL


def test_the_shortlist_has_every_family(rng):
    table = plan(Gaussian(lengthscale=3.0), rng.normal(size=(100, 4)), n_components=50)
    families = {row.family for row in table}
    chosen = shortlist(table, 6)
    assert len(chosen) == 6
    assert {row.family for row in chosen} == families
    assert chosen == sorted(chosen, key=list(table).index)
    assert len(shortlist(table, 1000)) == len(table)
    assert shortlist(table, 1) == [table.best]


def fake(name, losses, row=None, microseconds=1.0):
    prediction = NumberPrediction(np.zeros(4), np.ones(4))
    losses = None if losses is None else np.array(losses)
    return Compared(name, row, 0, 0, {"r2": 0.5}, losses, np.ones(4), prediction, microseconds, 1.0)


def test_the_order_is_that_of_the_likelihood():
    best, noisy = fake("best", [1.0, 1.0, 1.0, 1.0]), fake("noisy", [1.0, 2.0, 0.0, 1.1])
    clearly = fake("clearly", [1.5, 1.6, 1.5, 1.6])
    assert rank_measured([clearly, noisy, best]) == [best, noisy, clearly]
    losses = np.array([0.0, 1.0, -1.0, 0.1])
    difference = Difference.of(noisy, best)
    assert difference.mean == pytest.approx(losses.mean())
    assert difference.standard_error == pytest.approx(losses.std(ddof=1) / 2)
    assert difference.is_tie
    assert not Difference.of(clearly, best).is_tie
    assert Difference.of(fake("hardly", [1.0004] * 4), best).is_tie  # no table shows it
    assert Difference.of(fake("points", None), best) is None
    assert Difference.of(fake("surprised", [np.inf] * 4), best) is None


def test_classes_that_were_not_seen_leave_the_accuracy():
    wrong, right = fake("wrong", [np.inf]), fake("right", [np.inf])
    wrong.figures["accuracy"], right.figures["accuracy"] = 0.2, 0.9
    assert rank_measured([wrong, right]) == [right, wrong]


def test_the_recommendation_is_a_sentence(rng):
    table = plan(Gaussian(lengthscale=3.0), rng.normal(size=(100, 4)), n_components=64)
    best = fake("slow", [1.0] * 4, table[0], 9.0)
    faster = fake("fast", [1.0, 2.0, 0.0, 1.1], table[1], 3.0)
    text = recommendation(Choice(None, None, table, [best, faster], None))
    assert text == (
        "Recommended: slow, 64 columns, the best likelihood on rows held out; fast is as good "
        "within the standard error and takes 3.0 instead of 9.0 µs per row."
    )
    worse = fake("worse", [2.0] * 4, table[1], 3.0)
    text = recommendation(Choice(None, None, table, [best, worse], best))
    assert text.endswith("on rows held out. 64 columns do as well: --components 64.")


def test_a_baseline_that_predicts_better_is_named():
    best = fake("ours", [1.0] * 4)
    trees = replace(best, name="trees", errors=np.array([0.1, 0.2, 0.1, 0.2]), is_baseline=True)
    trees = replace(trees, figures={"r2": 0.85})
    assert better_baseline(best, [trees]) == (
        " trees predicts better here: R² 0.850 against 0.500."
    )
    noisy = replace(trees, errors=np.array([0.0, 3.0, 0.0, 0.9]))
    assert better_baseline(best, [noisy]) == ""
    assert better_baseline(best, [replace(trees, is_baseline=False)]) == ""
    sure = replace(best, name="sure", losses=np.array([0.9, 0.8, 0.9, 0.8]), is_baseline=True)
    assert (
        better_baseline(best, [sure]) == " sure has better probabilities: MNLL 0.850 against 1.000."
    )
    assert better_baseline(best, [replace(sure, losses=best.losses)]) == ""


def test_the_most_frequent_class_is_that_of_the_fitted_rows():
    X = np.zeros((4, 1))
    split = HeldOut(X, np.array(["a", "b", "b", "c"]), X, np.array(["b", "a", "b", "b"]))
    assert most_frequent_share(split) == 0.75


def test_fewer_columns_that_do_as_well_are_named(rng):
    """A line needs few columns, a function that wiggles needs all."""
    X = rng.uniform(-1, 1, (300, 1))
    line, wiggles = X[:, 0], np.sin(25 * X[:, 0])
    fewer = []
    for y, kernel in ((line, "gaussian:3"), (wiggles, "gaussian:0.1")):
        y = y + 0.01 * rng.normal(size=300)
        split = HeldOut(X[:200], y[:200], X[200:], y[200:])
        fewer.append(choose(split, "regression", kernel, 64, features="nystrom").fewer)
    assert fewer[0].row.n_components == 16
    assert fewer[1] is None


def test_bare_fit_takes_what_compare_recommends(folder, run_json):
    words = ("houses.csv", "--target", "price", "--ignore", "sold", "--components", "40")
    compared = run_json("compare", *words, "--no-report")
    fitted = run_json("fit", *words, "-o", "a.model")
    assert fitted["features"] == compared["recommended"]
    assert fitted["python"] in compared["python"]  # with the lengthscale
    assert len(compared["candidates"]) == 9


def test_rows_of_another_table_are_held_out(folder, run_json):
    words = (
        "houses.csv",
        "--target",
        "price",
        "--ignore",
        "sold",
        "--kernel",
        "gaussian:3",
        *SMALL,
    )
    found = run_json("compare", *words, "--test", "new.csv", "--no-report")
    assert (found["data"]["rows_fitted"], found["data"]["rows_held_out"]) == (240, 60)


def test_pictures_of_any_numbers(rng):
    """Of one row held out, of perfect and of infinitely bad predictions."""
    classes = np.array([0, 1])
    sure = ClassPrediction(np.eye(2)[[0, 1, 1]], classes)
    split = HeldOut(None, None, None, np.array([0, 1, 1]))
    one = Compared(
        "a", None, None, None, {"accuracy": 1.0}, np.zeros(3), np.zeros(3), sure, None, 1.0
    )
    assert b"<svg" in plot_calibration(one, split)
    assert b"<svg" in plot_scores([one, fake("b", [np.inf])], one, {"a": "red", "b": "blue"})


@pytest.mark.parametrize(("n", "expected"), [(450, 450), (6000, 5000)])
def test_the_lengthscale_is_chosen_on_enough_rows(rng, monkeypatch, n, expected):
    """Few rows would leave the choice to the draw, and seeds would differ."""
    searched = []

    class Seen(Exception):
        pass

    def fit(self, X, y, optimize):
        searched.append((len(X), len(y), optimize))
        raise Seen

    monkeypatch.setattr(modelling.FeatureGPRegressor, "fit", fit)
    X = rng.normal(size=(n, 3))
    with pytest.raises(Seen):
        modelling.choose_kernel("gaussian", X, X[:, 0], "regression", 0)
    assert searched == [(expected, expected, True)]


def test_few_rows_leave_nystrom_in(folder, run):
    """One column per row, and a line that says so."""
    words = ("houses.csv", "--target", "price", "--ignore", "sold", "--kernel", "rbf:3")
    result = run("fit", *words, "--features", "nystrom", "-o", "a.model")
    assert "nystrom: 240 columns, one per row, and not the 1000 of --components" in result.stderr
    assert "nystrom:D,uniform, 240 columns" in result.stdout
    result = run("compare", *words, "--no-report", "--top", "2", "--components", "300")
    assert "nystrom: 192 columns, one per row" in result.stderr


def test_one_study_is_shared(compared):
    """The plan, its curves and the measurements look at the rows once."""
    assert compared["studies"] == 1


def test_text_of_the_data_is_escaped_in_the_report(folder, run, houses):
    """Names of columns and files are no markup, and `$` starts no formula."""
    mark = "<b>&$x^"
    frame = houses.rename(columns={"price": mark}).drop(columns="sold").head(60)
    frame.to_csv("<i>.csv", index=False)
    run(
        "compare",
        "<i>.csv",
        "--target",
        mark,
        *SMALL,
        "--kernel",
        "gaussian:3",
        "--report",
        "a.html",
    )
    page = (folder / "a.html").read_text(encoding="utf-8")
    assert "<title>dotsketch: &lt;i&gt;.csv</title>" in page
    assert "<h1>&lt;i&gt;.csv</h1>" in page
    assert "regression of <b>&lt;b&gt;&amp;$x^</b>" in page
    assert "<i>" not in page
    assert mark not in page


@pytest.mark.parametrize("label", ["$a_{$", "$\\frac$"])
def test_classes_with_dollars_are_drawn(label):
    """Between two `$` stands no formula: the label is drawn as it is."""
    classes = np.array([label, "other"], dtype=object)
    prediction = ClassPrediction(np.full((2, 2), 0.5), classes)
    drawn = plot_confusion(prediction, classes, "y")
    assert b"<svg" in drawn


def test_lengthscales_of_a_classification_are_those_of_the_classifier(monkeypatch):
    """Stripes along one column are found, by the search that compares rows held out."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    stripes = (np.sin(4 * X[:, 1]) > 0).astype(int)
    messages, fit = [], modelling.FeatureGPClassifier.fit

    def watched(self, *rows, **options):
        fit(self, *rows, **options)
        messages.append(self.search_.message if self.search_ else None)
        return self

    monkeypatch.setattr(modelling.FeatureGPClassifier, "fit", watched)
    found = choose_kernel("gaussian", X, stripes, "classification", 0).lengthscale
    assert np.argmin(found) == 1
    assert "rows held out" in messages[-1]
