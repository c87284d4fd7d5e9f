"""A table as numbers: kinds of columns, missing values, libraries, model files."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import FeatureGPRegressor, load, save
from dotsketch.tables import TableEncoder

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

DAYS = pd.date_range("2023-12-29 10:30", periods=40, freq="31h")


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "town": rng.choice(["Bern", "Basel", "Genf"], 40),
            "size": rng.normal(100, 20, 40),
            "day": DAYS,
            "rooms": rng.integers(1, 5, 40),
            "garden": rng.random(40) > 0.5,
        }
    )


def test_numbers_dates_and_categories(frame):
    """Numbers and parts of dates are standardized, categories one-hot; names say which is which."""
    encoder = TableEncoder().fit(frame)
    X, names = encoder.transform(frame), list(encoder.get_feature_names_out())
    parts = ["year", "month", "weekday", "hour"]
    expected = ["size", "rooms", *(f"day ({part})" for part in parts)]
    towns = ["town_Basel", "town_Bern", "town_Genf", "garden_False", "garden_True"]
    assert names == [*expected, *towns]
    year = DAYS.year + (DAYS.day_of_year - 1 + (DAYS.hour + 0.5) / 24) / 365.25
    days = np.stack([year, DAYS.month, DAYS.day_of_week, DAYS.hour + 0.5], axis=1)
    numbers = np.column_stack([frame["size"], frame["rooms"], days])
    np.testing.assert_allclose(X[:, :6], StandardScaler().fit_transform(numbers), atol=1e-6)
    np.testing.assert_array_equal(X[:, 6:], pd.get_dummies(frame[["town", "garden"]].astype(str)))
    assert encoder.slices_["day"] == slice(2, 6)
    raw = TableEncoder(standardize=False).fit_transform(frame)
    np.testing.assert_allclose(raw[:, :6], numbers, rtol=1e-9)
    levels = TableEncoder(categorical=["rooms"]).fit(frame).get_feature_names_out()
    assert {"rooms_1", "rooms_4"} <= set(levels)


def test_missing_values_are_filled_and_indicated(frame):
    frame["size"] = frame["size"].where(frame.index != 3)
    frame["town"] = frame["town"].where(frame.index != 5)
    frame["day"] = frame["day"].where(frame.index != 7)
    encoder = TableEncoder().fit(frame)
    X, names = encoder.transform(frame), list(encoder.get_feature_names_out())
    assert names[-3:] == ["size (missing)", "day (missing)", "town (missing)"]
    for name, row in (("size", 3), ("day", 7), ("town", 5)):
        np.testing.assert_array_equal(np.flatnonzero(X[:, names.index(f"{name} (missing)")]), [row])
        np.testing.assert_array_equal(X[row, encoder.slices_[name]], 0)  # the mean, or no level
    new = encoder.transform(frame.assign(town="Zug", rooms=None, extra=1).iloc[:, ::-1])
    np.testing.assert_array_equal(new[:, encoder.slices_["town"]], 0)  # a level that is new
    np.testing.assert_array_equal(new[:, encoder.slices_["rooms"]], 0)
    assert new.shape == X.shape


def test_tables_of_all_libraries_are_the_same(frame):
    expected = TableEncoder().fit_transform(frame)
    tables = [pa.Table.from_pandas(frame), frame.astype(str).astype(object)]
    for table in tables:
        np.testing.assert_allclose(TableEncoder().fit_transform(table), expected, atol=1e-9)
    categories = frame.astype({"town": "category"})
    np.testing.assert_array_equal(TableEncoder().fit_transform(categories), expected)
    np.testing.assert_array_equal(  # other dtypes of the same columns
        TableEncoder().fit(frame).transform(pa.Table.from_pandas(categories)), expected
    )
    polars = pytest.importorskip("polars")
    np.testing.assert_array_equal(TableEncoder().fit_transform(polars.from_pandas(frame)), expected)


def test_a_pipeline_is_the_model_of_a_table_in_two_lines(frame, tmp_path):
    y = frame["size"].to_numpy() + 20.0 * (frame["town"] == "Bern")
    frame["size"] = frame["size"].where(frame.index % 9 > 0)
    model = clone(make_pipeline(TableEncoder(), FeatureGPRegressor(20))).fit(frame, y)
    assert model.score(frame, y) > 0.5
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(frame), model.predict(frame))


def test_problems_are_told_all_at_once(frame):
    wrong = frame.assign(
        name=[f"n{k}" for k in range(40)], size=["8", "x", *["9"] * 38], day=None, tags=[[1]] * 40
    )
    with pytest.raises(ValueError, match=r"'x' is not a number.*`categorical`") as caught:
        TableEncoder(max_levels=10).fit(wrong)
    for text in ("raise max_levels", "'day' has no value at all", "neither numbers nor texts"):
        assert text in str(caught.value)
    encoder = TableEncoder().fit(frame)
    with pytest.raises(ValueError, match=r"row 2: 'x' is not a number\. \| column 'day'"):
        encoder.transform(wrong.assign(day="Monday"))
    with pytest.raises(ValueError, match=r"lacks columns that the encoder has seen: \['size'\]"):
        encoder.transform(frame.drop(columns="size"))
    with pytest.raises(ValueError, match="categorical names"):
        TableEncoder(categorical=["nothing"]).fit(frame)
    for table in (3, "text", [[1.0]]):
        with pytest.raises(TypeError, match="A table is a data frame of pandas or polars"):
            TableEncoder().fit(table)
    with pytest.raises(ValueError, match="has rows, and columns of different names"):
        TableEncoder().fit(frame.iloc[:0])


def test_the_package_is_imported_without_pandas():
    code = "import sys; sys.modules['pandas'] = None; import dotsketch.tables"
    subprocess.run([sys.executable, "-c", code], check=True)
