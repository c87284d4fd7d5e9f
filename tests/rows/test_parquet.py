"""Batches of a Parquet file keep names, and say where a value cannot be used."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dotsketch import FeatureGPClassifier, FeatureGPRegressor, Gaussian, NystromFeatures
from dotsketch.rows import parquet_batches
from dotsketch.rows.sources import Rows

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


@pytest.fixture
def frame(rng):
    frame = pandas.DataFrame(rng.standard_normal((23, 3)), columns=list("abc"))
    return frame.assign(target=np.arange(23.0))


@pytest.fixture
def path(frame, tmp_path):
    frame.to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def features():
    return NystromFeatures(Gaussian(), n_components=10, random_state=0)


def test_rows_and_names(path, frame):
    rows = Rows(stream=parquet_batches(path, "target", batch_rows=4))
    assert rows.repeatable
    for _ in range(2):
        found = list(rows.blocks(5))
        assert [len(y) for _, y in found] == [5, 5, 5, 5, 3]
        assert all(list(X) == list("abc") for X, _ in found)
        X = np.concatenate([X for X, _ in found])
        np.testing.assert_array_equal(X, frame[["a", "b", "c"]])
        np.testing.assert_array_equal(np.concatenate([y for _, y in found]), frame["target"])


def test_columns_are_chosen(path, frame):
    X, Y = next(parquet_batches(path, ["target", "b"])())
    pandas.testing.assert_frame_equal(X, frame[["a", "c"]])
    np.testing.assert_array_equal(Y, frame[["target", "b"]])
    X, y = next(parquet_batches(path, "b", columns=["target", "a"])())
    pandas.testing.assert_frame_equal(X, frame[["target", "a"]])
    np.testing.assert_array_equal(y, frame["b"])


def test_mistakes_in_names(path, frame):
    with pytest.raises(ValueError, match=r"no column 'tarjet'.*Did you mean 'target'\?"):
        parquet_batches(path, "tarjet")
    with pytest.raises(ValueError, match="no column 'z'"):
        parquet_batches(path, "target", columns=["a", "z"])
    with pytest.raises(ValueError, match="'target' is a target"):
        parquet_batches(path, "target", columns=["a", "target"])
    with pytest.raises(ValueError, match="no columns besides the target"):
        parquet_batches(path, list(frame))


@pytest.mark.parametrize(
    ("column", "row", "value", "text"),
    [
        ("b", 9, None, r"column 'b', row 10 \(counted from 1\): no value"),
        ("c", 5, np.inf, r"column 'c', row 6 .*: inf"),
        ("target", 20, None, r"column 'target', row 21 .*: no value"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(frame, tmp_path, column, row, value, text):
    frame.loc[row, column] = value
    frame.to_parquet(tmp_path / "bad.parquet")
    batches = parquet_batches(tmp_path / "bad.parquet", "target", batch_rows=4)
    with pytest.raises(ValueError, match=f"bad.parquet: {text}"):
        FeatureGPRegressor(features()).fit(batches)


def test_texts_are_named(frame, tmp_path):
    frame.assign(b="one").to_parquet(tmp_path / "text.parquet")
    with pytest.raises(ValueError, match=r"column 'b', row 1 .*'one' is no number.*columns="):
        next(parquet_batches(tmp_path / "text.parquet", "target")())
    X, _ = next(parquet_batches(tmp_path / "text.parquet", "target", columns=["a", "c"])())
    assert list(X) == ["a", "c"]


def test_kinds_of_numbers_and_labels(frame, tmp_path):
    """The index of pandas is no input; integers and truth values are numbers; labels are kept."""
    given = frame.assign(b=np.arange(23), c=frame["c"] > 0, target=["no", "yes"] * 11 + ["no"])
    given.sample(frac=1, random_state=0).to_parquet(tmp_path / "kinds.parquet")
    batches = parquet_batches(tmp_path / "kinds.parquet", "target")
    X, y = next(batches())
    assert list(X) == ["a", "b", "c"]
    assert set(y) == {"no", "yes"}
    model = FeatureGPClassifier(features()).fit(batches)
    assert model.classes_.tolist() == ["no", "yes"]
    frame.astype(np.float32).to_parquet(tmp_path / "single.parquet")
    X, _ = next(parquet_batches(tmp_path / "single.parquet", "target")())
    assert X.to_numpy().dtype == np.float32


def test_the_process_knows_the_names(path, frame):
    gp = FeatureGPRegressor(features()).fit(parquet_batches(path, "target", batch_rows=4))
    assert gp.feature_names_in_.tolist() == ["a", "b", "c"]
    whole = FeatureGPRegressor(features()).fit(frame[["a", "b", "c"]], frame["target"])
    new = frame[["a", "b", "c"]].head(3)
    np.testing.assert_allclose(gp.predict(new), whole.predict(new), rtol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        gp.predict(new[["c", "b", "a"]])


def test_a_scaler_goes_into_the_features(path, frame):
    batches = parquet_batches(path, "target", batch_rows=4)
    gp = FeatureGPRegressor(features())
    with pytest.raises(TypeError, match=r"batches of .*rows.parquet.*make_pipeline\(StandardSc"):
        make_pipeline(StandardScaler(), gp).fit(batches)
    scaled = FeatureGPRegressor(make_pipeline(StandardScaler(), features())).fit(batches)
    X = frame[["a", "b", "c"]]
    whole = make_pipeline(StandardScaler(), FeatureGPRegressor(features())).fit(X, frame["target"])
    np.testing.assert_allclose(scaled.predict(X), whole.predict(X), rtol=1e-6)
