"""The first pass finds kinds, levels, scales, task and sample; the second encodes as scikit-learn
would encode the whole table. Chunks may have any size."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dotsketch.cli.output import UserMistake
from dotsketch.cli.schema import EncodedTable, add_to_sample, scan, target_of
from dotsketch.cli.schema import encoded as encoded_rows
from dotsketch.cli.tables import Marks, Table


def table_of(frame, step=7, **marks):
    """The rows of a frame in chunks, as a reader gives them."""

    def read():
        for start in range(0, len(frame), step):
            rows = frame.iloc[start : start + step]
            yield pa.RecordBatch.from_pandas(rows, preserve_index=False)

    return Table("frame", tuple(frame.columns), read, marks=Marks(**marks))


@pytest.fixture
def frame(rng):
    n = 60
    return pd.DataFrame(
        {
            "town": rng.choice(["Bern", "Basel", "Genf"], n),
            "size": rng.normal(1e6, 3, n),
            "same": np.full(n, 0.1),
            "price": rng.normal(size=n),
        }
    )


def encoded(frame, impute=False, step=7, **marks):
    table = table_of(frame, step, **marks)
    schema = scan(table, "price", impute=impute)
    rows = EncodedTable.of(table, schema, 0, standardize=True)
    X, y = zip(*rows.chunks(), strict=True)
    return np.concatenate(X), np.concatenate(y), rows


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_chunks_are_encoded_as_the_whole_table_would_be(frame, as_text, step):
    X, y, rows = encoded(frame.astype(str) if as_text else frame, step=step)
    scaled = StandardScaler().fit_transform(frame[["size", "same"]])
    one_hot = OneHotEncoder(sparse_output=False).fit_transform(frame[["town"]])
    np.testing.assert_allclose(X, np.hstack([scaled, one_hot]), atol=1e-8)
    np.testing.assert_array_equal(y, frame["price"])
    names = ["size", "same", "town_Basel", "town_Bern", "town_Genf"]
    assert list(rows.encoder.get_feature_names_out()) == names
    assert {c.name: c.levels for c in rows.schema.categorical} == {
        "town": frame["town"].value_counts().to_dict()
    }
    assert (rows.schema.n_rows, rows.schema.task) == (60, "regression")


DAYS = pd.date_range("2023-12-29", periods=60, freq="31h")


@pytest.mark.parametrize(
    "format", [None, "%Y-%m-%d %H:%M", "%d.%m.%Y %H:%M", "%m/%d/%Y %H:%M", "%b %d, %Y %H:%M"]
)
def test_dates_are_years_months_weekdays_and_hours(frame, format):
    days = DAYS if format is None else DAYS.strftime(format)
    X, _, rows = encoded(frame.assign(day=days))
    year = DAYS.year + (DAYS.day_of_year - 1 + DAYS.hour / 24) / 365.25
    parts = np.stack([year, DAYS.month, DAYS.day_of_week, DAYS.hour], axis=1)
    np.testing.assert_allclose(X[:, 2:6], StandardScaler().fit_transform(parts), atol=1e-6)
    assert rows.schema.numeric[2].inputs == [
        f"day ({part})" for part in ("year", "month", "weekday", "hour")
    ]
    [note] = [note for note in rows.schema.notes() if "dates" in note]
    assert "'day' is read as dates" in note
    assert "would fit, too" not in note


def test_dates_that_can_be_read_in_two_ways_are_told(frame):
    days = [f"{1 + k % 12:02d}/{1 + k % 7:02d}/2024" for k in range(60)]
    notes = scan(table_of(frame.assign(day=days)), "price").notes()
    assert "frame" not in notes[0]
    assert any("(%m/%d/%Y); %d/%m/%Y would fit, too" in note for note in notes)
    days[40] = "13/01/2024"  # in a later chunk
    assert list(scan(table_of(frame.assign(day=days)), "price").features[-1].dates) == ["%d/%m/%Y"]


def test_times_and_durations_are_numbers(frame):
    times = [pd.Timedelta(minutes=k) for k in range(60)]
    hours = [pd.Timestamp("2024-01-01 10:30").time()] * 30 + [pd.Timestamp(0).time()] * 30
    schema = scan(table_of(frame.assign(spent=times, at=hours)), "price")
    assert schema.numeric[-2].scaler.mean_[0] == pytest.approx(60 * 29.5)  # seconds
    assert schema.numeric[-1].scaler.mean_[0] == pytest.approx(10.5 / 2)


def test_a_sample_is_uniform_over_all_rows():
    """Each of 40 rows is in a sample of 10 with probability 1/4."""
    counts = np.zeros(40)
    draws = 2000
    for seed in range(draws):
        sample, rng = None, np.random.default_rng(seed)
        for start in range(0, 40, 8):
            batch = pa.RecordBatch.from_pydict({"row": np.arange(start, start + 8)})
            sample = add_to_sample(sample, batch, 10, rng)
        rows = sample["row"].to_numpy()
        assert len(set(rows)) == 10
        counts[rows] += 1
    deviation = np.sqrt(draws * 0.25 * 0.75)
    assert np.all(np.abs(counts - draws / 4) < 6 * deviation)


def test_a_small_table_is_sampled_whole_and_in_order(frame):
    schema = scan(table_of(frame), "price", sample_rows=100)
    assert schema.sample.equals(frame)


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
    _, y, rows = encoded(frame)
    assert rows.schema.task == task
    assert rows.schema.classes == classes
    if classes:
        np.testing.assert_array_equal(y, np.array(classes)[pd.factorize(y, sort=True)[0]])
        assert y.dtype.kind == np.array(classes).dtype.kind


def test_the_task_can_be_given(frame):
    frame = frame.assign(price=[0, 1] * 30)
    assert scan(table_of(frame), "price", task="regression").task == "regression"
    with pytest.raises(UserMistake, match="regression needs numbers"):
        scan(table_of(frame.assign(price=["a", "b"] * 30)), "price", task="regression")


@pytest.mark.parametrize("values", [[1, 2, 3] * 20, [1.0, 2.0, 3.0] * 20, ["1", "2", "3"] * 20])
def test_columns_left_out_and_made_categorical(frame, values):
    table = table_of(frame.assign(code=values))
    assert [c.name for c in scan(table, "price", ignore=["size"]).numeric] == ["same", "code"]
    schema = scan(table, "price", ignore=["size"], categorical=["code"])
    assert [set(c.levels) for c in schema.categorical] == [{"Bern", "Basel", "Genf"}, set("123")]


def test_numbers_that_are_levels_do_not_depend_on_their_neighbours(frame):
    """A missing value, or one with a fraction, leaves 2 what it is in the other chunks."""
    codes = [1.0, 2.0, 3.0] * 20
    codes[5], codes[40] = np.nan, 2.5
    table = table_of(frame.assign(code=codes))
    schema = scan(table, "price", categorical=["code"], impute=True)
    assert set(schema.categorical[1].levels) == {"1", "2", "2.5", "3"}


@pytest.mark.parametrize("missing", [None, "", "NA", " ? ", "nan"])
def test_missing_values_are_named_or_imputed(frame, missing):
    given = frame.astype(str).astype(object)
    given.loc[30, "size"] = missing
    with pytest.raises(UserMistake, match=r"column 'size', row 31: no value.*--impute"):
        scan(table_of(given), "price")
    schema = scan(table_of(given), "price", impute=True)
    [size] = [column for column in schema.numeric if column.name == "size"]
    assert size.n_missing == 1
    assert size.scaler.mean_[0] == pytest.approx(frame["size"].drop(30).mean(), rel=1e-14)
    given.loc[30, "town"] = missing
    assert scan(table_of(given), "price", impute=True).categorical[0].n_missing == 1


def test_rows_with_missing_values_are_counted(frame):
    frame.loc[3, "size"] = np.nan
    frame.loc[5, "town"] = None
    X, _, rows = encoded(frame, impute=True)
    assert rows.schema.n_imputed == 2
    np.testing.assert_array_equal(X, rows.encoder.transform(frame))
    np.testing.assert_array_equal(np.flatnonzero(X[:, 5]), [3])
    np.testing.assert_array_equal(np.flatnonzero(X[:, 6]), [5])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({(45, "size"): "abc"}, r"column 'size', row 46: 'abc' is not a number"),
        ({(2, "size"): "abc"}, r"column 'size', row 3: 'abc' is not a number"),
        ({(5, "size"): "inf"}, r"column 'size', row 6: inf is too large"),
        ({(9, "price"): ""}, r"column 'price', row 10: the target has no value"),
        ({(9, "town"): "3"}, r"column 'town', row 8: .* is not a number, and others are"),
        ({(5, "size"): "1e200"}, r"row 6: 1e\+200 is too large"),
        ({(k, "town"): "8" for k in range(14, 21)}, r"'town', row 15: 8 is a number"),
        (
            {(5, "size"): "a", (7, "same"): "", (1, "price"): "b"},
            r"'size', row 6: 'a' .* \| column 'same', row 8: no .* \| column 'price', row 2: 'b' ",
        ),
    ],
)
def test_values_that_cannot_be_used_are_named_all_at_once(frame, changes, message):
    given = frame.astype(str).astype(object)
    for (row, column), value in changes.items():
        given.loc[row, column] = value
    with pytest.raises(UserMistake, match=message):
        scan(table_of(given), "price")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.assign(price=0.5), "only one value, 0.5"),
        (lambda f: f.assign(tags=[["a"]] * 60), r"--ignore tags"),
        (lambda f: f.assign(name=[f"n{i}" for i in range(60)]), "more than 50 different texts"),
        (lambda f: f.rename(columns={"size": "a b"}).assign(**{"a b": [[1]] * 60}), "'a b'"),
        (lambda f: f.assign(size=np.nan), "no value: fill it in"),
        (lambda f: f.assign(size=["1,0", "5"] * 30), r"row 1: '1,0' .* --decimal , .* --thousands"),
    ],
)
def test_tables_that_cannot_be_learned_from(frame, change, message):
    with pytest.raises(UserMistake, match=message):
        scan(table_of(change(frame)), "price")
    with pytest.raises(UserMistake, match="column 'size' has no value at all"):
        scan(table_of(frame.assign(size=np.nan)), "price", impute=True)


@pytest.mark.parametrize(
    ("texts", "marks", "expected"),
    [
        (["1,5", "-,25e-3", "2"], {"decimal": ","}, [1.5, -0.25e-3, 2]),
        (["1,000", "500", "1,234,567.5"], {"thousands": ","}, [1000, 500, 1234567.5]),
        (["1.000,5", "500"], {"decimal": ",", "thousands": "."}, [1000.5, 500]),
        (["1'000", "10 000"], {"thousands": "'"}, None),
        (["1,000", "500"], {}, None),
        (["1,5", "2,5"], {}, None),
        (["1,00", "500"], {"thousands": ","}, None),
    ],
)
def test_marks_of_numbers_are_given_and_never_guessed(frame, texts, marks, expected):
    given = frame.head(len(texts) * 10).assign(size=texts * 10)
    if expected is None:
        with pytest.raises(UserMistake, match=r"column 'size', row \d+: '.*' is not a"):
            encoded(given, **marks)
        return
    X, _, _ = encoded(given, **marks)
    numbers = StandardScaler().fit_transform(np.array(expected * 10)[:, None])
    np.testing.assert_allclose(X[:, :1], numbers)


def test_a_label_that_is_no_class_stays_what_it_is(frame):
    """1.5 is not class 1."""
    values = pd.DataFrame({"y": [1.5, 2.0, None]})
    y, missing = target_of(values, 1, "y", [1, 2], table_of(frame))
    np.testing.assert_array_equal(y, [1.5, 2.0, np.nan])
    np.testing.assert_array_equal(missing, [False, False, True])


def test_new_rows_are_checked_against_the_model(frame):
    """The problems of all columns at once, with the rows of the table."""
    numbers = frame.assign(town=np.arange(60.0), day="2024-02-28")
    _, _, rows = encoded(numbers)
    table = replace(table_of(frame), source="new")
    wrong = frame.assign(day="2024-02-30").astype(str)
    message = r"new: column 'town', row 10: '.*' is not a number\. \| column 'day': not all are"
    with pytest.raises(UserMistake, match=message):
        encoded_rows(rows.encoder, wrong, 10, table, impute=False)
    numbers.loc[2, "size"] = np.nan
    with pytest.raises(UserMistake, match=r"row 12: no value: .* with --impute"):
        encoded_rows(rows.encoder, numbers, 10, table, impute=False)
    X, missing, _ = encoded_rows(rows.encoder, numbers, 10, table, impute=True)
    assert X[2, list(rows.encoder.get_feature_names_out()).index("size")] == 0
    np.testing.assert_array_equal(np.flatnonzero(missing.any(axis=1)), [2])
