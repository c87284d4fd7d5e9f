"""The path of a new user: fit, predict in another process, predictions equal those in memory."""

import json
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from sklearn.frozen import FrozenEstimator

from dotsketch import load, save
from dotsketch.cli.main import main
from dotsketch.cli.modelling import HeldOut, Request, chosen_model, fit_all
from dotsketch.cli.schema import EncodedTable, scan
from dotsketch.cli.tables import open_table

from .conftest import FAST, make_houses

of_both = pytest.mark.parametrize("fitted", ["price", "sold"], indirect=True)
of_sold = pytest.mark.parametrize("fitted", ["sold"], indirect=True)


@of_both
def test_predictions_in_another_process_equal_those_in_memory(folder, model):
    target = model["target"]
    assert model["rows"] == 240
    assert model["task"] == ("regression" if target == "price" else "classification")
    done = subprocess.run(
        [sys.executable, "-m", "dotsketch", "predict", "a.model", "new.csv"],
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / "out.csv").write_text(done.stdout)
    found = pd.read_csv("out.csv")
    frame = pd.read_csv("new.csv")
    pipeline = load("a.model")
    if target == "price":
        mean, deviation = pipeline.predict(frame, return_std=True, include_noise=True)
        np.testing.assert_allclose(found["mean"], mean, rtol=1e-9)
        np.testing.assert_allclose(found["standard_deviation"], deviation, rtol=1e-9)
        assert "R² 0.9" in done.stderr
    else:
        columns = found[["probability_no", "probability_yes"]]
        np.testing.assert_allclose(columns, pipeline.predict_proba(frame), atol=1e-9)
        assert set(found["predicted"]) == {"no", "yes"}
        assert "accuracy 0.9" in done.stderr
    other = "sold" if target == "price" else "price"
    assert f"not used by the model: {other}" in done.stderr


@pytest.mark.parametrize("target", ["price", "sold"])
def test_a_table_larger_than_the_sample_is_read_in_chunks(folder, target):
    """With the features of the sample, the model is that of all rows at once."""
    frame = make_houses(3000).drop(columns="sold" if target == "price" else "price")
    frame.to_csv("long.csv", index=False)
    table = open_table("long.csv", block_bytes=1 << 13)
    assert len(list(table.chunks())) > 5
    schema = scan(table, target, sample_rows=500)
    rows = EncodedTable.of(table, schema, 0, standardize=True)
    assert not rows.is_whole
    request = Request(schema.task, "gaussian:3", 40, "fourier")
    first = chosen_model(request, HeldOut(rows.X, rows.y, rows.X, rows.y))
    parts = []
    gp = fit_all(request, first, rows, parts.append)
    assert parts[-1] == 1.0
    X, y = (np.concatenate(part) for part in zip(*rows.chunks(), strict=True))
    np.testing.assert_array_equal(gp.features_.transform(X[:3]), first.features_.transform(X[:3]))
    whole = type(gp)(FrozenEstimator(first.features_)).fit(X, y)
    if target == "price":
        np.testing.assert_allclose(gp.predict(X), whole.predict(X), rtol=1e-6)
    else:
        assert np.mean(gp.predict(X) == whole.predict(X)) > 0.99


def test_parquet_is_fitted_and_predicted(folder, run_json, houses):
    houses[["size", "rooms", "price"]].to_parquet("houses.parquet")
    run_json("fit", "houses.parquet", "--target", "price", *FAST, "-o", "a.model")
    score = run_json("predict", "a.model", "houses.parquet", "-o", "out.parquet")["score"]
    assert score["r2"] > 0.8
    assert list(pd.read_parquet("out.parquet")) == ["mean", "standard_deviation"]


def test_order_and_extra_columns_do_not_matter(folder, model, run, houses):
    new = houses.tail(60)
    run("predict", "a.model", "new.csv", "-o", "first.csv")
    turned = new[["town", "size", "rooms"]].assign(more=1)
    turned.to_csv("turned.csv", index=False)
    result = run("predict", "a.model", "turned.csv", "-o", "second.csv", "--keep", "town")
    assert "not used by the model: more" in result.stderr
    first, second = pd.read_csv("first.csv"), pd.read_csv("second.csv")
    assert second["town"].tolist() == new["town"].tolist()
    pd.testing.assert_frame_equal(first, second[["mean", "standard_deviation"]])


def test_unseen_categories_widen_intervals_and_are_counted(folder, run, run_json, rng):
    """Offsets of towns are much larger than the noise: those of new towns are not known."""
    towns = rng.choice(list("abcdefghijkl"), 600)
    offsets = dict(zip("abcdefghijklxyz", 3 * rng.normal(size=15), strict=True))
    x = rng.normal(size=600)
    y = [offsets[town] for town in towns] + x + 0.1 * rng.normal(size=600)
    pd.DataFrame({"x": x, "town": towns, "y": y}).to_csv("a.csv", index=False)
    run("fit", "a.csv", "--target", "y", *FAST[:4], "-o", "a.model")
    new = pd.DataFrame({"x": x[:60], "town": ["x", "y", "z", "a"] * 15})
    new["y"] = [offsets[town] for town in new["town"]] + new["x"]
    new.to_csv("new.csv", index=False)
    result = run("predict", "a.model", "new.csv", "-o", "out.csv")
    assert "45 rows of 60 have a value of 'town' that the model never saw" in result.stderr
    assert "with wider intervals" in result.stderr
    found = pd.read_csv("out.csv")
    distance = np.abs(new["y"] - found["mean"]) / found["standard_deviation"]
    unseen = new["town"] != "a"
    assert np.mean(distance[unseen] < 1.96) > 0.8
    spread = np.std([offsets[town] for town in "abcdefghijkl"])
    assert 0.5 < found["standard_deviation"][unseen].median() / spread < 2
    assert found["standard_deviation"][~unseen].max() < 0.5
    assert run_json("predict", "a.model", "new.csv", "-o", "b.csv")["unknown_levels"] == {
        "town": 45
    }


def test_a_table_from_standard_input(folder):
    words = ("fit", "-", "--target", "price", "--ignore", "sold", *FAST, "-o", "a.model", "--json")
    rows = (folder / "houses.csv").read_bytes()
    result = CliRunner().invoke(main, list(words), input=rows)
    assert result.exit_code == 0, result.output
    known = json.loads(result.stdout)
    assert (known["source"], known["rows"]) == ("standard input", 240)
    result = CliRunner().invoke(main, ["predict", "a.model", "-"], input=b"")
    assert "standard input is empty" in result.stderr


@of_sold
def test_unseen_categories_of_a_classification_are_averages(folder, model, run, houses):
    frame, averages = houses.tail(20), []
    for town in ("Bern", "Basel", "Genève", "Zug"):
        frame.assign(town=town).to_csv("one.csv", index=False)
        run("predict", "a.model", "one.csv", "-o", "out.csv")
        averages.append(pd.read_csv("out.csv")["probability_yes"])
    *seen, unseen = averages
    assert np.all(unseen >= np.min(seen, axis=0) - 1e-9)
    assert np.all(unseen <= np.max(seen, axis=0) + 1e-9)


def test_missing_values_and_unseen_categories(folder, run, houses, fails):
    given = houses.drop(columns="sold").astype(object)
    given.loc[5, "size"] = None
    given.loc[7, "town"] = None
    given.to_csv("gaps.csv", index=False)
    words = ("fit", "gaps.csv", "--target", "price", *FAST, "-o", "a.model")
    assert "column 'size', row 6: no value" in fails(*words)
    run(*words, "--impute")
    new = houses.tail(3).assign(town=["Zug", "Bern", ""], size=[50, None, 70])
    new.to_csv("strange.csv", index=False)
    result = run("predict", "a.model", "strange.csv", "-o", "out.csv")
    assert "1 row of 3 have a value of 'town' that the model never saw" in result.stderr
    assert np.isfinite(pd.read_csv("out.csv").to_numpy()).all()


def test_imputed_rows_have_intervals_of_their_own(folder, run, run_json):
    """5 % of the main predictor are missing: both kinds of rows are covered, and counted.

    The noise of rows with gaps is learnt from such rows, of which there are about 200, as that of a
    Gaussian: the price without the size is skewed, so that 0.88 are covered.
    """
    given, new = make_houses(4000).astype(object), make_houses(1000, seed=1).astype(object)
    gaps = np.random.default_rng(2).random(4000)
    given.loc[gaps < 0.05, "size"] = None
    train_gaps, gaps = gaps, gaps[:1000]
    new.loc[gaps < 0.3, "size"] = None
    given.to_csv("gaps.csv", index=False)
    new.to_csv("new.csv", index=False)
    words = ("fit", "gaps.csv", "--target", "price", "--ignore", "sold", "--impute", *FAST)
    result = run(*words, "-o", "a.model")
    imputed_in_fit = int(np.sum(train_gaps < 0.05))
    assert f"{imputed_in_fit} rows of 4,000 were imputed: they lack size" in result.stderr
    assert "held out, after fitting" in result.stdout
    result = run("predict", "a.model", "new.csv", "-o", "out.csv")
    imputed = int(np.sum(gaps < 0.3))
    assert f"{imputed} rows of 1,000 were imputed, with wider intervals" in result.stderr
    found = pd.read_csv("out.csv")
    distance = np.abs(new["price"].astype(float) - found["mean"]) / found["standard_deviation"]
    assert 0.85 < np.mean(distance[gaps < 0.3] < 1.96) < 0.99
    assert 0.90 < np.mean(distance[gaps >= 0.3] < 1.96) < 0.99
    known = run_json("info", "a.model")
    assert known["rows_imputed"] == imputed_in_fit
    pipeline = load("a.model")  # in Python the same
    _, deviation = pipeline.predict(pd.read_csv("new.csv"), return_std=True, include_noise=True)
    np.testing.assert_allclose(deviation, found["standard_deviation"], rtol=1e-9)


def test_rows_of_a_classification_are_imputed(folder, run_json, houses):
    houses.astype(object).assign(size=houses["size"].where(houses.index % 9 > 0)).to_csv(
        "gaps.csv", index=False
    )
    words = ("fit", "gaps.csv", "--target", "sold", "--ignore", "price", "--impute", *FAST)
    known = run_json(*words, "-o", "a.model")
    assert known["rows_imputed"] == 34
    assert known["score"]["accuracy"] > 0.8
    assert known["score"]["how"] == "held out, after fitting 240 others"
    found = run_json("predict", "a.model", "gaps.csv", "-o", "out.csv")
    assert found["rows_imputed"] == 34
    assert found["score"]["accuracy"] > 0.8


@pytest.mark.parametrize(("target", "other"), [("price", "sold"), ("sold", "price")])
def test_a_fit_is_scored_on_rows_it_has_not_seen(folder, run_json, target, other):
    words = ("fit", "houses.csv", "--target", target, "--ignore", other, *FAST, "-o", "a.model")
    known = run_json(*words)
    assert known["score"]["how"] == "held out, after fitting 192 others"
    assert known["score"]["rows"] == 48
    tested = run_json(*words, "--test", "new.csv")["score"]
    assert (tested["how"], tested["rows"]) == ("of new.csv", 60)
    score = run_json("predict", "a.model", "new.csv", "-o", "out.csv")["score"]
    assert {name: tested[name] for name in score} == pytest.approx(score)
    assert run_json("info", "a.model")["score"] == tested


def test_few_rows_are_fitted_and_not_scored(folder, run_json):
    """Too few to hold some out: two, or all but one of a class."""
    (folder / "two.csv").write_text("x,y\n1,2.5\n2,3.5\n")
    (folder / "one.csv").write_text("x,y\n" + "".join(f"{k},a\n" for k in range(11)) + "20,b\n")
    for name, task in (("two.csv", "regression"), ("one.csv", "classification")):
        for seed in ("0", "1", "2"):
            words = ("--target", "y", "--task", task, "--components", "2", "--seed", seed)
            known = run_json("fit", name, *words, "--kernel", "gaussian:3", "-o", "a.model")
            assert known["rows"] == (2 if name == "two.csv" else 12)
            assert known["score"] is None or name == "one.csv"


def test_quantiles_kept_integers_and_json(folder, model, run, run_json, houses):
    new = houses.tail(60).assign(number=np.arange(60), note='a "b", c')
    new.to_csv("new.csv", index=False)
    words = ("predict", "a.model", "new.csv", "--quantiles", "0.05, 0.5,0.95")
    keep = ("--keep", "number", "--keep", "note", "--keep", "town")
    run(*words, *keep, "-o", "out.csv")
    found = pd.read_csv("out.csv")
    assert found["number"].tolist() == list(range(60))
    assert set(found["note"]) == {'a "b", c'}
    np.testing.assert_allclose(found["quantile_0.5"], found["mean"], rtol=1e-9)
    width = found["quantile_0.95"] - found["quantile_0.05"]
    np.testing.assert_allclose(width, 2 * 1.6448536 * found["standard_deviation"], rtol=1e-6)
    known = run_json(*words, "--keep", "number")
    assert known["output"] is None
    assert len(known["predictions"]) == 60
    assert known["predictions"][7]["mean"] == pytest.approx(found["mean"][7])
    new.to_parquet("new.parquet")  # integers of another format
    run("predict", "a.model", "new.parquet", *keep, "-o", "again.csv")
    assert pd.read_csv("again.csv")["number"].dtype.kind == "i"


@of_sold
def test_classes_have_no_quantiles(folder, model, fails):
    words = ("predict", "a.model", "new.csv", "--quantiles", "0.5")
    assert "--quantiles are of numbers" in fails(*words)


def test_declared_categories_are_no_numbers(folder, run, run_json):
    """The column of 1 and 2 is categorical by the user's word, and so is the target of 0 and 1."""
    rows = "\n".join(f"{i % 7 / 7:.2f},{1 + i % 2},{int(i % 7 > 3)}" for i in range(60))
    (folder / "a.csv").write_text(f"x,kind,y\n{rows}\n")
    words = ("--target", "y", "--categorical", "kind", "--categorical", "y")
    known = run_json("fit", "a.csv", *words, *FAST, "-o", "a.model")
    assert (known["numeric"], known["categorical"]) == (["x"], {"kind": {"1": 30, "2": 30}})
    assert known["classes"] == ["0", "1"]
    assert run_json("predict", "a.model", "a.csv", "-o", "out.csv")["score"]["accuracy"] == 1


def test_truth_values_are_the_same_in_every_format(folder, run, run_json, houses):
    """Fitted to text, predicted from booleans; and in Python with the columns read as text."""
    table = houses.drop(columns="sold").assign(garden=houses["rooms"] > 3)
    table.to_csv("a.csv", index=False)
    table.to_parquet("a.parquet")
    run("fit", "a.csv", "--target", "price", "--categorical", "rooms", *FAST, "-o", "a.model")
    known = run_json("predict", "a.model", "a.parquet", "-o", "out.parquet")
    assert known["unknown_levels"] == {"rooms": 0, "town": 0, "garden": 0}
    model = load("a.model")
    frame = pd.read_csv("a.csv", dtype=dict.fromkeys(model.facts_["categorical"], str))
    mean = pd.read_parquet("out.parquet")["mean"]
    np.testing.assert_allclose(model.predict(frame), mean, rtol=1e-9)


def test_rows_without_a_target_are_predicted_and_not_scored(folder, model, run, run_json, houses):
    whole = run_json("predict", "a.model", "new.csv", "-o", "all.csv")["score"]
    new = houses.tail(60).reset_index(drop=True)
    pd.concat([new, new.head(5).assign(price=np.nan)]).to_csv("some.csv", index=False)
    result = run("predict", "a.model", "some.csv", "-o", "some_out.csv")
    assert "5 rows without a value of the target 'price': not scored" in result.stderr
    assert run_json("predict", "a.model", "some.csv", "-o", "b.csv")["score"] == pytest.approx(
        whole
    )
    assert len(pd.read_csv("some_out.csv")) == 65
    new.assign(price=np.nan).to_csv("none.csv", index=False)
    assert run_json("predict", "a.model", "none.csv", "-o", "c.csv")["score"] is None


def test_a_column_without_a_name_is_told(folder, run, houses):
    houses.drop(columns="sold").to_csv("index.csv")  # pandas writes its index
    result = run("fit", "index.csv", "--target", "price", *FAST, "-o", "a.model")
    assert "a column without a name is used (an index?)" in result.stderr
    result = run("fit", "index.csv", "--target", "price", "--ignore", "", *FAST, "-o", "a.model")
    assert "without a name" not in result.stderr


def test_info(folder, model, run, run_json):
    known = run_json("info", "a.model")
    assert known["target"] == "price"
    assert known["features"].startswith("fourier: ")
    assert known["features"].endswith(", 40 columns")
    assert set(known["categorical"]["town"]) == {"Basel", "Bern", "Genève"}
    assert known["file"]["versions"]["dotsketch"]
    text = run("info", "a.model").stdout
    assert "regression of 'price'" in text


def test_seeds_decide(folder, run):
    words = ("fit", "houses.csv", "--target", "price", "--ignore", "sold", *FAST)
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        run(*words, "--seed", seed, "-o", f"{name}.model")
    frame = pd.read_csv("new.csv")
    a, b, c = (load(f"{name}.model").predict(frame) for name in "abc")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)


def test_an_older_file_stays_if_predicting_fails(folder, model, run, fails, houses):
    (folder / "out.csv").write_text("older")
    houses.astype(object).replace({"rooms": {3: "three"}}).to_csv("bad.csv", index=False)
    result = fails("predict", "a.model", "bad.csv", "-o", "out.csv")
    assert "'three' is not a number" in result
    assert (folder / "out.csv").read_text() == "older"
    assert {path.name for path in folder.iterdir() if path.name.startswith(".")} == set()


def test_models_of_others_are_refused(folder, fails):
    save({"a": 1}, "other.model")
    assert "not a model that `dotsketch fit` made" in fails("info", "other.model")
    (folder / "text.model").write_text("hello")
    assert "text.model cannot be loaded" in fails("predict", "text.model", "new.csv")
    assert "no model file" in fails("info", "nothing.model")


def test_fingerprints_are_compared_as_they_are(folder, run_json):
    """--kernel tanimoto: columns are not standardised, in the model file as well."""
    rng = np.random.default_rng(0)
    bits = (rng.random((120, 12)) < 0.4).astype(int)
    frame = pd.DataFrame(bits, columns=[f"bit{k}" for k in range(12)])
    frame["y"] = bits[:, :4].sum(axis=1) + 0.1 * rng.standard_normal(120)
    frame.to_csv("bits.csv", index=False)
    words = ("bits.csv", "--target", "y", "--kernel", "tanimoto", "--components", "30")
    run_json("fit", *words, "-o", "bits.model")
    encoder = load("bits.model")[:-1]
    np.testing.assert_array_equal(encoder.transform(frame.drop(columns="y")), bits)
    mean = load("bits.model").predict(frame.drop(columns="y"))
    assert np.mean((mean - frame["y"]) ** 2) < 0.3 * frame["y"].var()
    found = run_json("compare", *words, "--no-report")
    assert "--kernel tanimoto" in found["command"]
    _, *fit, _ = shlex.split(found["command"])
    assert run_json(*fit, "again.model")["kernel"] == found["kernel"] == "Tanimoto()"
