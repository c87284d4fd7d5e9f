"""The first pass finds kinds, levels, statistics, task and sample, over chunks of any size."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dotsketch.cli.errors import UserMistake
from dotsketch.cli.schema import RowSample, scan
from dotsketch.cli.tables import Table


def table_of(frame, step=7):
    """The rows of a frame in chunks, as a reader gives them."""

    def read():
        for start in range(0, len(frame), step):
            rows = frame.iloc[start : start + step]
            yield pa.RecordBatch.from_pandas(rows, preserve_index=False), start / len(frame)

    return Table("frame", tuple(frame.columns), read)


@pytest.fixture
def frame(rng):
    n = 60
    return pd.DataFrame(
        {
            "size": rng.normal(1e6, 3, n),
            "town": rng.choice(["Bern", "Basel", "Genf"], n),
            "price": rng.normal(size=n),
        }
    )


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_statistics_are_those_of_all_rows(frame, step, as_text):
    given = frame.astype(str) if as_text else frame
    schema = scan(table_of(given, step), "price")
    [size], [town] = schema.numeric, schema.categorical
    assert size.mean == pytest.approx(frame["size"].mean(), rel=1e-14)
    assert size.variance == pytest.approx(frame["size"].var(ddof=0), rel=1e-9)
    assert town.levels == {"Bern", "Basel", "Genf"}
    assert (schema.n_rows, schema.task) == (60, "regression")


def test_a_sample_is_uniform_over_all_rows():
    """Each of 40 rows is in a sample of 10 with probability 1/4."""
    counts = np.zeros(40)
    draws = 2000
    for seed in range(draws):
        sampled = RowSample(10, seed)
        for start in range(0, 40, 8):
            batch = pa.RecordBatch.from_pydict({"row": np.arange(start, start + 8)})
            sampled.add(batch)
        rows = sampled.table()["row"].to_numpy()
        assert len(set(rows)) == 10
        counts[rows] += 1
    deviation = np.sqrt(draws * 0.25 * 0.75)
    assert np.all(np.abs(counts - draws / 4) < 6 * deviation)


def test_a_small_table_is_sampled_whole_and_in_order(frame):
    schema = scan(table_of(frame), "price", sample_rows=100)
    assert schema.sample.to_pandas().equals(frame)


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        (["no", "yes"] * 20, "classification", ["no", "yes"]),
        ([0, 1] * 20, "classification", [0, 1]),
        ([3.0, 1.0] * 20, "classification", [1, 3]),
        ([True, False] * 20, "classification", ["False", "True"]),
        ([0.5, 1.0] * 20, "regression", None),
        (range(40), "regression", None),
    ],
)
def test_the_task_is_decided_from_the_target(frame, values, task, classes):
    frame = frame.head(40).assign(price=list(values))
    schema = scan(table_of(frame), "price")
    assert schema.task == task
    if classes:
        assert schema.classes == classes


def test_the_task_can_be_given(frame):
    frame = frame.assign(price=[0, 1] * 30)
    assert scan(table_of(frame), "price", task="regression").task == "regression"
    with pytest.raises(UserMistake, match="regression needs numbers"):
        scan(table_of(frame.assign(price=["a", "b"] * 30)), "price", task="regression")


def test_columns_left_out_and_made_categorical(frame):
    schema = scan(table_of(frame.assign(code=[1, 2, 3] * 20)), "price", ignore=["size"])
    assert [c.name for c in schema.numeric] == ["code"]
    for values in ([1, 2, 3] * 20, [1.0, 2.0, 3.0] * 20, ["1", "2", "3"] * 20):
        table = table_of(frame.assign(code=values))
        schema = scan(table, "price", ignore=["size"], categorical=["code"])
        assert [c.levels for c in schema.categorical] == [
            {"Bern", "Basel", "Genf"},
            {"1", "2", "3"},
        ]


def test_numbers_that_are_levels_do_not_depend_on_their_neighbours(frame):
    """A missing value, or one with a fraction, leaves 2 what it is in the other chunks."""
    codes = [1.0, 2.0, 3.0] * 20
    codes[5], codes[40] = np.nan, 2.5
    table = table_of(frame.assign(code=codes))
    schema = scan(table, "price", ignore=["size"], categorical=["code"], impute=True)
    assert schema.categorical[1].levels == {"1", "2", "2.5", "3"}


@pytest.mark.parametrize("missing", [None, "", "NA", " ? ", "nan"])
def test_missing_values_are_named_or_imputed(frame, missing):
    given = frame.astype(str).astype(object)
    given.loc[30, "size"] = missing
    with pytest.raises(UserMistake, match=r"column 'size', row 31: no value.*--impute"):
        scan(table_of(given), "price")
    schema = scan(table_of(given), "price", impute=True)
    assert schema.numeric[0].n_missing == 1
    assert schema.numeric[0].mean == pytest.approx(frame["size"].drop(30).mean(), rel=1e-14)
    given.loc[30, "town"] = missing
    assert scan(table_of(given), "price", impute=True).categorical[0].n_missing == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({(45, "size"): "abc"}, r"column 'size', row 46: 'abc' is not a number"),
        ({(2, "size"): "abc"}, r"column 'size', row 3: 'abc' is not a number"),
        ({(5, "size"): "inf"}, r"column 'size', row 6: inf is too large"),
        ({(9, "price"): ""}, r"column 'price', row 10: the target has no value"),
        ({(9, "town"): "3"}, r"column 'town', row 8: .* is not a number, and others are"),
        ({(5, "size"): "1e200"}, r"row 6: 1e\+200 is too large"),
    ],
)
def test_values_that_cannot_be_used_are_named(frame, changes, message):
    given = frame.astype(str).astype(object)
    for (row, column), value in changes.items():
        given.loc[row, column] = value
    with pytest.raises(UserMistake, match=message):
        scan(table_of(given), "price")


def test_a_chunk_of_numbers_in_a_column_of_texts_is_named(frame):
    given = frame.astype(str).astype(object)
    given.loc[14:20, "town"] = "8"
    with pytest.raises(UserMistake, match=r"column 'town', row 15: 8 is a number"):
        scan(table_of(given), "price")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.head(1), "has one row of data"),
        (lambda f: f.head(0), "has no rows of data"),
        (lambda f: f[["price"]], "no column besides the target"),
        (lambda f: f.assign(price=1.0), "one class only"),
        (lambda f: f.assign(price=0.5), "one value only, 0.5"),
        (lambda f: f.assign(price="a"), "one class only"),
        (lambda f: f.assign(day=pd.Timestamp("2024-02-29")), r"--ignore day"),
        (lambda f: f.assign(name=[f"n{i}" for i in range(60)]), "more than 50 different texts"),
        (
            lambda f: f.rename(columns={"size": "my size"}).assign(**{"my size": pd.Timestamp(0)}),
            r"--ignore 'my size'",
        ),
        (lambda f: f.assign(size=np.nan), "no value: fill it in"),
    ],
)
def test_tables_that_cannot_be_learned_from(frame, change, message):
    with pytest.raises(UserMistake, match=message):
        scan(table_of(change(frame)), "price")


def test_decimal_commas_are_told(frame):
    given = frame.astype(str)
    given["size"] = given["size"].str.replace(".", ",")
    with pytest.raises(UserMistake, match=r"column 'size', row 1: .* give --decimal ,"):
        scan(table_of(given), "price")


def test_an_empty_column_cannot_be_imputed(frame):
    with pytest.raises(UserMistake, match="column 'size' has no value at all"):
        scan(table_of(frame.assign(size=np.nan)), "price", impute=True)


def test_a_target_is_needed(frame):
    with pytest.raises(UserMistake, match="Give --target, one of size, town, price"):
        scan(table_of(frame), None)
    with pytest.raises(UserMistake, match="cannot be left out"):
        scan(table_of(frame), "price", ignore=["price"])
