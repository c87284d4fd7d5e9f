"""Encoded chunks are what scikit-learn gives for the whole table."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dotsketch.cli.encoding import (
    EncodedTable,
    Wanted,
    frame_of,
    make_imputation,
    target_of,
)
from dotsketch.cli.errors import UserMistake
from dotsketch.cli.schema import scan

from .test_schema import table_of


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


def all_rows(frame, impute=False, target="price", step=7):
    table = table_of(frame, step)
    schema = scan(table, target, impute=impute)
    rows = EncodedTable.of(table, schema, 0, standardise=True)
    X, y, _ = zip(*rows.chunks(), strict=True)
    return np.concatenate(X), np.concatenate(y), rows.encoder


@pytest.mark.parametrize("as_text", [False, True])
def test_chunks_are_encoded_as_the_whole_table_would_be(frame, as_text):
    X, y, encoder = all_rows(frame.astype(str) if as_text else frame)
    scaled = StandardScaler().fit_transform(frame[["size", "same"]])
    one_hot = OneHotEncoder(sparse_output=False).fit_transform(frame[["town"]])
    np.testing.assert_allclose(X, np.hstack([scaled, one_hot]), atol=1e-8)
    np.testing.assert_array_equal(y, frame["price"])
    assert list(encoder.get_feature_names_out()) == [
        "size",
        "same",
        "town_Basel",
        "town_Bern",
        "town_Genf",
    ]


def test_a_missing_number_is_the_mean_and_a_missing_text_no_level(frame):
    frame.loc[3, "size"] = np.nan
    frame.loc[5, "town"] = None
    """And there is an indicator of the column of numbers that has gaps."""
    schema = scan(table_of(frame, 7), "price", impute=True)
    assert schema.n_imputed == 2
    given, _, _ = all_rows(frame, impute=True)
    assert np.isnan(given[3, 0])
    assert np.isnan(given).sum() == 1
    imputation = make_imputation(schema)
    X = imputation.imputer.transform(given)
    assert X.shape == (60, 6)
    assert X[3, 0] == 0
    np.testing.assert_array_equal(np.flatnonzero(X[:, 5]), [3])
    np.testing.assert_array_equal(X[5, 2:5], 0)
    assert np.all(X[6:, 2:5].sum(axis=1) == 1)
    assert imputation.one_hot == ((2, 5),)
    raw = make_imputation(schema, standardise=False).imputer
    assert raw.statistics_[0] == pytest.approx(frame["size"].mean())
    assert make_imputation(scan(table_of(frame.dropna(), 7), "price")) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["no", "yes"] * 30, ["no", "yes"] * 30),
        ([3, 1] * 30, [3, 1] * 30),
        ([True, False] * 30, ["True", "False"] * 30),
    ],
)
def test_labels_keep_their_kind(frame, values, expected):
    _, y, _ = all_rows(frame.assign(price=values))
    np.testing.assert_array_equal(y, expected)
    assert y.dtype.kind == np.array(expected).dtype.kind


def test_a_label_that_is_no_class_stays_what_it_is():
    """1.5 is not class 1."""
    batch = pa.RecordBatch.from_pydict({"y": [1.5, 2.0, None]})
    y, missing = target_of(batch, 1, "y", [1, 2], "new")
    np.testing.assert_array_equal(y, [1.5, 2.0, np.nan])
    np.testing.assert_array_equal(missing, [False, False, True])


def test_new_rows_are_checked_against_the_model(frame):
    batch = next(table_of(frame.astype(str)).chunks()).batch
    wanted = Wanted(("size",), {"town": set()}, False)
    assert list(frame_of(batch, 1, wanted, "new")) == ["size", "town"]
    with pytest.raises(UserMistake, match=r"new: column 'town', row 10: '.*' is not a number"):
        frame_of(batch, 10, Wanted(("town",), {}, False), "new")
    frame.loc[2, "size"] = np.nan
    batch = next(table_of(frame).chunks()).batch
    with pytest.raises(UserMistake, match=r"row 12: no value: .* with --impute"):
        frame_of(batch, 10, wanted, "new")
    assert np.isnan(frame_of(batch, 10, wanted._replace(impute=True), "new")["size"][2])
