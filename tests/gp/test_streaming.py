"""Streams, memory maps and interrupted fits give the sums of one fit in memory."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import dotsketch.gp.base
import dotsketch.gp.regression
import dotsketch.rows.fold
from dotsketch import FeatureGPClassifier, FeatureGPRegressor, PolynomialSketch
from dotsketch.rows import parquet_batches
from gp.data import (
    class_data,
    condition,
    gaussian_features,
    polynomial_features,
    regression_data,
)
from rounding import assert_same_to_rounding

CHUNK = 16


def regressor(**options):
    given = {"features": polynomial_features(), "chunk_rows": CHUNK}
    return FeatureGPRegressor(**{**given, **options})


def classifier(**options):
    given = {"features": polynomial_features(), "chunk_rows": CHUNK}
    return FeatureGPClassifier(**{**given, **options})


def batches(*columns, size=7):
    for start in range(0, len(columns[0]), size):
        yield tuple(c[start : start + size] for c in columns)


def statistics(gp):
    found = gp.statistics_ if isinstance(gp.statistics_, list) else [gp.statistics_]
    return [value for s in found for value in s.arrays().values()]


def assert_same_sums(first, second):
    for a, b in zip(statistics(first), statistics(second), strict=True):
        assert_same_to_rounding(a, b)


@pytest.mark.parametrize("source", ["generator", "function", "memory map", "h5py", "parquet"])
def test_sources_give_the_sums_of_an_array(source, tmp_path):
    X, y = regression_data()
    y = y - y.mean()  # a stream and an array take the same offset
    whole = regressor().fit(X, y)
    if source == "generator":
        found = regressor().fit(batches(X, y))
    elif source == "function":
        found = regressor().fit(lambda: batches(X, y, size=40))
    elif source == "memory map":
        np.save(tmp_path / "X.npy", X)
        found = regressor().fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    elif source == "h5py":
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "X.h5", "w") as file:
            found = regressor().fit(file.create_dataset("X", data=X), y)
    else:
        pandas = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow")
        named = pandas.DataFrame(X).rename(columns=str)
        named.assign(y=y).to_parquet(tmp_path / "X.parquet")
        found = regressor().fit(parquet_batches(tmp_path / "X.parquet", "y"))
    assert_same_sums(found, whole)
    rows = named if source == "parquet" else X  # a model of named columns predicts such columns
    assert_same_to_rounding(found.predict(rows), whole.predict(X), condition=condition(whole))


def test_noise_by_row_in_a_stream():
    X, y = regression_data()
    noise = np.linspace(0.1, 1, len(y))
    assert_same_sums(
        regressor().fit(batches(X, y, noise)), regressor().fit(X, y, noise_variance=noise)
    )


def test_classes_of_a_stream():
    X, y = class_data()
    names = np.array(["red", "green", "blue"])[y]
    whole, stream = classifier().fit(X, names), classifier().fit(batches(X, names))
    assert stream.classes_.tolist() == ["blue", "green", "red"]
    assert_same_sums(stream, whole)
    assert_same_to_rounding(
        stream.predict_proba(X), whole.predict_proba(X), condition=condition(whole)
    )


def test_chunks_of_any_size_agree_to_rounding():
    X, y = regression_data()
    for rows in (1, 7, 60, None):
        found = regressor(chunk_rows=rows).fit(X, y)
        for a, b in zip(statistics(found), statistics(regressor().fit(X, y)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_partial_fit_is_fit(make):
    X, y = regression_data() if make is regressor else class_data()
    whole, parts = make().fit(X, y), make()
    for start in range(0, len(X), 2 * CHUNK):
        parts.partial_fit(X[start : start + 2 * CHUNK], y[start : start + 2 * CHUNK])
    np.testing.assert_allclose(parts.predict(X), whole.predict(X), rtol=1e-8)


def test_partial_fit_of_named_classes():
    X, y = class_data()
    gp = classifier(alpha=0.1).partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    assert gp.predict_proba(X).shape == (90, 3)
    assert np.all(np.isfinite(gp.predict_latent(X)))
    seen = gp.statistics_[0].n
    with pytest.raises(ValueError, match="not among the classes"):
        gp.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match="classes must be those"):
        gp.partial_fit(X[:2], [0, 1], classes=[0, 1])
    assert gp.partial_fit(X[:2], [1, 1], classes=[2, 1, 0]).statistics_[0].n == seen


def test_partial_fit_finds_new_classes():
    X, y = class_data()
    given = {"alpha": 0.1, "prior_variance": "labels", "temperature": 1.0}  # other rows held out
    gp = classifier(**given).partial_fit(X[y < 2], y[y < 2]).partial_fit(X[y == 2], y[y == 2])
    whole = classifier(**given).fit(X, y)
    np.testing.assert_array_equal(gp.classes_, [0, 1, 2])
    np.testing.assert_allclose(gp.predict_proba(X), whole.predict_proba(X), rtol=1e-8)
    with pytest.raises(ValueError, match="strings and numbers"):
        gp.partial_fit(X[:2], ["a", "b"])


def test_partial_fit_of_other_outputs():
    """One output does not stand in for both of a process that has two."""
    X, Y = regression_data(outputs=2)
    gp = regressor().fit(X, Y)
    with pytest.raises(ValueError, match="y has 1 outputs; 2 are expected"):
        gp.partial_fit(X, Y[:, 0])
    assert gp.statistics_.n == len(X)


def test_a_number_is_no_noise_by_row():
    X, y = regression_data()
    with pytest.raises(ValueError, match="one for every row is needed"):
        regressor().fit(X, y, noise_variance=0.1)


def test_names_of_columns_are_forgotten(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = regression_data()
    np.save(tmp_path / "X.npy", X)
    gp = regressor().fit(pandas.DataFrame(X, columns=list("abc")), y)
    gp.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    assert not hasattr(gp, "feature_names_in_")
    gp.predict(X)


def test_sample_fits_the_features_of_large_data(monkeypatch, tmp_path):
    """On disk: evenly spaced rows; a stream: the first ones."""
    monkeypatch.setattr(dotsketch.gp.regression, "SAMPLE_ROWS", 4)
    monkeypatch.setattr(dotsketch.gp.base, "SAMPLE_ROWS", 4)
    seen = []

    class Recorder(PolynomialSketch):
        def fit(self, X, y=None):
            seen.append(np.array(X))
            return super().fit(X, y)

    X, y = regression_data()
    np.save(tmp_path / "X.npy", X)
    gp = FeatureGPRegressor(Recorder(2, n_components=5, random_state=0))
    gp.fit(X, y)
    gp.fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    gp.fit(batches(X, y))
    for found, expected in zip(seen, (X, X[[0, 20, 39, 59]], X[:4]), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_bad_rows_late_in_a_stream():
    X, y = regression_data()
    X[50, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        regressor().fit(batches(X, y))
    with pytest.raises(ValueError, match="of one shape"):
        regressor().fit(iter([(X[:5], y[:5]), (X[5:9, :2], y[5:9])] * 4))
    with pytest.raises(ValueError, match="requires y to be passed"):
        regressor().fit(X[:50])
    with pytest.raises(ValueError, match="leave y, noise_variance and sample_weight out"):
        regressor().fit(batches(X, y), y)


def test_progress_bar(capsys):
    pytest.importorskip("rich")
    X, y = regression_data()
    regressor().fit(X, y)
    assert capsys.readouterr().out == ""
    regressor(verbose=True).fit(X, y)
    assert "60/60" in capsys.readouterr().out


class Interrupted(PolynomialSketch):
    """Features that stop the process after so many calls of transform."""

    calls = 0
    last = None
    how = staticmethod(lambda: None)

    def transform(self, X):
        type(self).calls += 1
        if self.calls == self.last:
            self.how()
        return super().transform(X)


def interrupted(make, last=None, how=None):
    Interrupted.calls, Interrupted.last, Interrupted.how = 0, last, staticmethod(how)
    gp = make()
    features = gp.features.get_params()
    return gp.set_params(features=Interrupted(**features))


def ctrl_c():
    raise KeyboardInterrupt


def small_data(make):
    return regression_data() if make is regressor else class_data(60)


@pytest.mark.parametrize("make", [regressor, classifier])
def test_interrupted_fit_goes_on(make, tmp_path):
    """Ctrl-C in every chunk in turn: at most that chunk is lost, and the sums are the same."""
    X, y = small_data(make)
    whole = make().fit(X, y)
    for chunk in range(4):
        path = tmp_path / f"{chunk}.npz"
        with pytest.raises(KeyboardInterrupt):  # the first call looks at a few rows only
            interrupted(make, chunk + 2, ctrl_c).fit(X, y, checkpoint=path)
        found = interrupted(make).fit(X, y, checkpoint=path)
        assert Interrupted.calls == 1 + 4 - chunk
        assert_same_sums(found, whole)
        assert_same_to_rounding(found.predict(X), whole.predict(X), condition=condition(whole))


KILLED = """
import os, signal
from gp.test_streaming import classifier, interrupted, regressor, small_data

make = {make}
X, y = small_data(make)
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
interrupted(make, 4, kill).fit(X, y, checkpoint={path!r})
"""


@pytest.mark.parametrize("make", [regressor, classifier])
def test_killed_fit_goes_on(make, tmp_path):
    path = tmp_path / "sums.npz"
    script = KILLED.format(make=make.__name__, path=str(path))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    process = subprocess.run([sys.executable, "-c", script], env=environment, check=False)
    assert process.returncode == -signal.SIGKILL
    X, y = small_data(make)
    found = interrupted(make).fit(X, y, checkpoint=path)
    assert Interrupted.calls == 1 + 2  # two of four chunks were saved
    assert_same_sums(found, make().fit(X, y))


def test_interrupted_stream_goes_on(tmp_path):
    X, y = regression_data()
    with pytest.raises(KeyboardInterrupt):
        interrupted(regressor, 4, ctrl_c).fit(batches(X, y), checkpoint=tmp_path / "sums.npz")
    found = interrupted(regressor).fit(batches(X, y, size=11), checkpoint=tmp_path / "sums.npz")
    assert Interrupted.calls == 1 + 2
    assert_same_sums(found, regressor().fit(batches(X, y)))


def test_noise_may_change_on_the_way(tmp_path):
    """The sums know nothing of it."""
    X, y = regression_data()
    regressor(noise_variance=0.1).fit(X, y, checkpoint=tmp_path / "sums.npz")
    found = regressor(noise_variance=0.2).fit(X, y, checkpoint=tmp_path / "sums.npz")
    fresh = regressor(noise_variance=0.2).fit(X, y)
    assert_same_to_rounding(found.predict(X), fresh.predict(X), condition=condition(fresh))


def test_checkpoint_in_no_folder(tmp_path):
    """Said before the first chunk, not after it."""
    X, y = regression_data()
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing"):
        regressor().fit(X, y, checkpoint=tmp_path / "missing" / "sums")


def test_a_finished_checkpoint_is_read_back(tmp_path):
    X, y = regression_data()
    whole = regressor().fit(X, y, checkpoint=tmp_path / "sums.npz")
    again = interrupted(regressor).fit(X, y, checkpoint=tmp_path / "sums.npz")
    assert Interrupted.calls == 1
    assert_same_sums(again, whole)


def test_checkpoint_of_something_else(tmp_path, monkeypatch):
    X, y = regression_data()
    path = tmp_path / "sums.npz"
    regressor().fit(X, y, checkpoint=path)
    changed = X.copy()
    changed[20, 0] += 1
    with pytest.raises(ValueError, match="other rows than the data given now"):
        regressor().fit(changed, y, checkpoint=path)
    with pytest.raises(ValueError, match="other rows than the data given now"):
        regressor(normalize_y=None).fit(X, np.r_[y[1], y[0], y[2:]], checkpoint=path)
    for other in (
        regressor(chunk_rows=15),
        regressor(features=polynomial_features().set_params(random_state=1)),
        regressor(features=polynomial_features(n_components=9)),
        regressor(features=gaussian_features()),
    ):
        with pytest.raises(ValueError, match="belongs to another configuration"):
            other.fit(X, y, checkpoint=path)
    with pytest.raises(ValueError, match="belongs to another configuration"):
        regressor().fit(X[:40], y[:40], checkpoint=path)
    fitc = {"features": gaussian_features(), "variance_correction": "fitc"}
    regressor(**fitc, noise_variance=0.1).fit(X, y, checkpoint=tmp_path / "fitc.npz")
    with pytest.raises(ValueError, match="belongs to another configuration"):
        regressor(**fitc, noise_variance=0.2).fit(X, y, checkpoint=tmp_path / "fitc.npz")
    monkeypatch.setattr(dotsketch.gp.regression, "SAMPLE_ROWS", 16)  # the mean of the same rows
    regressor().fit(batches(X, y), checkpoint=tmp_path / "stream.npz")
    with pytest.raises(ValueError, match="more rows than the data given now"):
        regressor().fit(batches(X[:40], y[:40]), checkpoint=tmp_path / "stream.npz")
    (tmp_path / "text.npz").write_text("no checkpoint")
    np.savez(tmp_path / "arrays.npz", a=1)
    for name in ("text.npz", "arrays.npz"):
        with pytest.raises(ValueError, match="is no checkpoint"):
            regressor().fit(X, y, checkpoint=tmp_path / name)


@pytest.mark.parametrize("make", [regressor, classifier])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_checkpoint_of_features_that_round_differently(make, dtype, tmp_path):
    """As BLAS does with another number of threads or on another CPU."""
    X, y = class_data() if make is classifier else regression_data()
    X, path = X.astype(dtype), tmp_path / "sums.npz"
    expected = make().fit(X, y, checkpoint=path)
    with np.load(path) as file:
        saved = dict(file)
    saved["probe"] = saved["probe"] * dtype(1 + 4 * np.finfo(dtype).eps)
    np.savez(path, **saved)
    assert_same_sums(make().fit(X, y, checkpoint=path), expected)
    saved["probe"] = saved["probe"] * dtype(1 + 1e-3)
    np.savez(path, **saved)
    with pytest.raises(ValueError, match="belongs to another configuration"):
        make().fit(X, y, checkpoint=path)


def test_a_compressed_checkpoint_is_refused_before_it_is_read(tmp_path, monkeypatch):
    """Two megabytes would grow to two gigabytes; np.savez, which writes them, never compresses."""
    X, y = regression_data()
    regressor().fit(X, y, checkpoint=tmp_path / "sums.npz")
    with np.load(tmp_path / "sums.npz") as file:
        np.savez_compressed(tmp_path / "small.npz", **file, zeros=np.zeros(10**5))
    monkeypatch.delattr(np, "load")
    with pytest.raises(ValueError, match="members are compressed"):
        regressor().fit(X, y, checkpoint=tmp_path / "small.npz")


def test_a_torn_write_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    """A process that dies while it writes has replaced nothing."""
    X, y = regression_data()
    path = tmp_path / "sums.npz"
    writes, savez = [], np.savez

    def dying(file, **arrays):
        writes.append(arrays["blocks"])
        if len(writes) == 3:
            file.write(b"half of it")
            raise KeyboardInterrupt
        savez(file, **arrays)

    monkeypatch.setattr(dotsketch.rows.fold.np, "savez", dying)
    with pytest.raises(KeyboardInterrupt):
        regressor().fit(X, y, checkpoint=path)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [path]  # the half is gone
    found = interrupted(regressor).fit(X, y, checkpoint=path)
    assert Interrupted.calls == 1 + 2
    assert_same_sums(found, regressor().fit(X, y))


def test_two_fits_may_write_one_checkpoint(tmp_path, monkeypatch):
    """A second fit writes its checkpoint while the first is in the middle of writing its own."""
    X, y = regression_data()
    path = tmp_path / "sums.npz"
    savez, others = np.savez, []

    def overtaken(file, **arrays):
        if not others:
            others.append(None)
            file.write(b"half of it")
            others[0] = regressor().fit(X, y, checkpoint=path)
            file.seek(0)
            file.truncate()
        savez(file, **arrays)

    monkeypatch.setattr(dotsketch.rows.fold.np, "savez", overtaken)
    first = regressor().fit(X, y, checkpoint=path)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == [path]
    found = interrupted(regressor).fit(X, y, checkpoint=path)
    assert Interrupted.calls == 1  # all rows were in the checkpoint
    for gp in (first, others[0], found):
        assert_same_sums(gp, regressor().fit(X, y))


def test_features_are_never_held_whole():
    X, y = regression_data()
    rows = []

    class Recorder(PolynomialSketch):
        def transform(self, X):
            rows.append(len(X))
            return super().transform(X)

    gp = regressor(features=Recorder(2, n_components=5, random_state=0)).fit(X, y)
    gp.predict(X, return_std=True)
    assert max(rows) == CHUNK


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
def test_other_dtypes_on_disk(dtype, tmp_path):
    X, y = regression_data()
    X = (4 * X).astype(dtype)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    gp = regressor().fit(mapped, y)
    # the features have the precision of X, and so have the predictions
    precision = X.dtype if X.dtype == np.float32 else np.float64
    found, expected = (gp.predict(rows).astype(precision) for rows in (mapped, X))
    assert_same_to_rounding(found, expected)
    np.testing.assert_allclose(gp.predict(X), regressor().fit(X, y).predict(X), rtol=1e-4)


def test_sparse_rows():
    X, y = regression_data()
    sparse = scipy.sparse.csr_matrix(X)
    gp = regressor().fit(sparse, y)
    np.testing.assert_allclose(gp.predict(sparse), regressor().fit(X, y).predict(X), rtol=1e-8)
    assert_same_sums(regressor().fit(batches_of(sparse, y)), gp)


def batches_of(X, y):
    yield X[:25], y[:25]
    yield X[25:], y[25:]
