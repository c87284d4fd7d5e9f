"""Estimators fitted to rows of any source: the same model, also after a kill or a lost worker."""

import numpy as np
import pytest

import dotsketch
from dask_rows import CHUNK, N, X, chunked, da, dask, data, dd, frame, labels, y
from dotsketch import (
    DirichletGPClassifier,
    FeatureGPClassifier,
    FeatureGPRegressor,
    Gaussian,
    NystromFeatures,
)


def landmarks():
    return NystromFeatures(Gaussian(lengthscale=2.0), n_components=12, random_state=0)


def regressor(**options):
    """With constant noise: a function of x is not learnt from an iterator that is read once."""
    return FeatureGPRegressor(landmarks(), **{"noise_variance": "constant", **options})


def batches(*columns, size=7):
    for start in range(0, len(columns[0]), size):
        yield tuple(c[start : start + size] for c in columns)


def assert_same_bits(model, expected):
    for name, value in expected.statistics_.arrays().items():
        np.testing.assert_array_equal(model.statistics_.arrays()[name], value, err_msg=name)


def assert_same_sums(model, expected):
    """Up to the rounding of sums in another order."""
    for name, value in expected.statistics_.arrays().items():
        np.testing.assert_allclose(
            model.statistics_.arrays()[name], value, rtol=1e-10, atol=1e-10, err_msg=name
        )


@pytest.mark.parametrize("source", ["generator", "function", "memory map", "h5py", "Parquet"])
def test_sources_give_the_model_of_an_array(source, tmp_path):
    whole = regressor().fit(X, y)
    if source == "generator":
        model = regressor().fit(batches(X, y))
    elif source == "function":
        model = regressor().fit(lambda: batches(X, y, size=40))
    elif source == "memory map":
        np.save(tmp_path / "X.npy", X)
        model = regressor().fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
    elif source == "h5py":
        h5py = pytest.importorskip("h5py")
        with h5py.File(tmp_path / "X.h5", "w") as file:
            model = regressor().fit(file.create_dataset("X", data=X), y)
    else:  # the generator of docs/guide/scaling.md
        parquet = pytest.importorskip("pyarrow.parquet")
        frame.to_parquet(tmp_path / "rows.parquet")

        def rows():
            for batch in parquet.ParquetFile(tmp_path / "rows.parquet").iter_batches(50):
                table = batch.to_pandas()
                yield table[[*"abc"]], table["y"]

        model = regressor().fit(rows)
        np.testing.assert_array_equal(model.feature_names_in_, [*"abc"])
    inputs = frame[[*"abc"]] if source == "Parquet" else X
    np.testing.assert_allclose(model.predict(inputs), whole.predict(X), rtol=1e-6, atol=1e-9)


def test_labels_of_a_stream():
    model = DirichletGPClassifier(landmarks()).fit(batches(X, labels))
    whole = DirichletGPClassifier(landmarks()).fit(X, labels)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    np.testing.assert_allclose(model.predict_proba(X), whole.predict_proba(X), rtol=1e-6)


def test_weights_in_a_stream():
    """Batches (X, y, noise_variance, sample_weight); rows of weight zero are left out."""
    weights = (np.arange(N) % 3).astype(float)
    stream = ((A, b, None, w) for A, b, w in batches(X, y, weights))
    kept = weights > 0
    whole = regressor().fit(X[kept], y[kept], weights[kept])
    np.testing.assert_allclose(
        regressor().fit(stream).predict(X), whole.predict(X), rtol=1e-6, atol=1e-9
    )


def test_an_interrupted_fit_goes_on(tmp_path):
    """The sums of an uninterrupted fit, without the rows that were added before."""
    rows = np.random.default_rng(0).standard_normal((200_000, 3))
    target, path = rows[:, 0] ** 2, tmp_path / "sums.npz"

    class PolynomialSketch(dotsketch.PolynomialSketch):
        calls = 0

        def transform(self, X):
            type(self).calls += len(X) > 10_000
            if self.calls == 3:
                raise KeyboardInterrupt
            return super().transform(X)

    options = {"n_components": 5, "random_state": 0}
    with pytest.raises(KeyboardInterrupt):
        FeatureGPRegressor(PolynomialSketch(2, **options)).fit(rows, target, checkpoint=path)
    assert path.exists()
    model = FeatureGPRegressor(dotsketch.PolynomialSketch(2, **options))
    expected = FeatureGPRegressor(model.features).fit(rows, target)
    assert_same_bits(model.fit(rows, target, checkpoint=path), expected)
    rows[3, 0] += 1e-9
    with pytest.raises(ValueError, match="other rows"):
        model.fit(rows, target, checkpoint=path)


def test_workers_do_not_change_a_bit():
    models = []
    for scheduler in ("threads", "synchronous"):
        with dask.config.set(scheduler=scheduler):
            models.append(regressor().fit(*chunked(X, y)))
    assert_same_bits(*models)
    np.testing.assert_array_equal(*(model.predict(X[:5]) for model in models))
    assert_same_sums(models[0], regressor().fit(X, y))


@pytest.mark.parametrize("kind", [FeatureGPClassifier, DirichletGPClassifier])
def test_classification_of_dask_arrays(kind):
    local, model = (
        kind(landmarks(), prior_variance=2.0).fit(*rows)
        for rows in ((X, labels), chunked(X, labels))
    )
    np.testing.assert_array_equal(model.classes_, local.classes_)
    np.testing.assert_allclose(model.predict_proba(X), local.predict_proba(X), rtol=1e-3)


def test_iterations_on_dask():
    variances = {"noise_variance": 0.05, "prior_variance": 1.0}
    local = regressor(solver="cg", **variances).fit(X, y)
    model = regressor(solver="cg", **variances).fit(*chunked(X, y))
    np.testing.assert_allclose(model.predict(X), local.predict(X), rtol=1e-4, atol=1e-6)


def test_weights_and_noise():
    rng = np.random.default_rng(1)
    weights, noise = rng.integers(1, 3, N), rng.uniform(0.1, 1, N)
    local = regressor().fit(X, y, weights, noise_variance=noise)
    model = regressor().fit(*chunked(X, y, weights), noise_variance=noise)
    assert_same_sums(model, local)


def test_data_frames_with_a_target_or_a_series():
    lazy = dd.from_pandas(frame, npartitions=7)
    by_name = regressor().fit(lazy[[*"abc", "y"]], target="y")
    by_series = regressor().fit(lazy[[*"abc"]], lazy["y"])
    assert_same_bits(by_name, by_series)
    np.testing.assert_array_equal(by_name.feature_names_in_, [*"abc"])
    local = regressor().fit(frame[[*"abc", "y"]], target="y")
    np.testing.assert_allclose(by_name.predict(frame[[*"abc"]]), local.predict(frame[[*"abc"]]))
    both = regressor().fit(lazy[[*"abc", "y"]].assign(w=lazy["y"] ** 2), target=["y", "w"])
    assert both.predict(frame[[*"abc"]]).shape == (N, 2)


def test_an_error_names_the_partition_and_leaves_the_model():
    X, y = data[0].copy(), data[1]
    model = regressor()
    X[123] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.fit(*chunked(X, y))
    assert not hasattr(model, "posterior_")


def test_mistakes_are_explained(tmp_path):
    rows, targets = chunked(X, y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        regressor().fit(rows)
    with pytest.raises(ValueError, match="leave checkpoint out"):
        regressor().fit(rows, targets, checkpoint=tmp_path / "sums.npz")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="at least two classes"):
        FeatureGPClassifier(landmarks()).fit(rows, da.zeros(N, chunks=CHUNK, dtype=int))
    lazy = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(ValueError, match="column 'price'"):
        regressor().fit(lazy, target="price")
    with pytest.raises(ValueError, match="no rows"):
        regressor().fit(lazy[lazy["a"] > 99][[*"abc", "y"]], target="y")


def test_predictions_are_lazy():
    rows = da.from_array(X, chunks=(100, 2))
    model = regressor().fit(X, y)
    mean, std = model.predict(rows, return_std=True, include_noise=True)
    assert isinstance(mean, da.Array)
    assert mean.chunks == std.chunks == (rows.chunks[0],)
    for lazy, expected in zip(
        dask.compute(mean, std), model.predict(X, return_std=True, include_noise=True), strict=True
    ):
        np.testing.assert_allclose(lazy, expected, rtol=1e-10, atol=1e-12)
    classes = DirichletGPClassifier(landmarks()).fit(X, labels)
    np.testing.assert_array_equal(classes.predict(rows).compute(), classes.predict(X))
    assert classes.predict_proba(rows).shape == (N, 3)
    inputs = dd.from_pandas(frame[[*"abc"]], npartitions=4)
    named = regressor().fit(frame[[*"abc"]], y)
    mean, std = named.predict(inputs, return_std=True)
    assert mean.divisions == inputs.divisions
    together = inputs.assign(mean=mean, std=std).compute()
    np.testing.assert_allclose(together["mean"], named.predict(frame[[*"abc"]]), rtol=1e-10)
    named = DirichletGPClassifier(landmarks()).fit(frame[[*"abc"]], labels)
    assert list(named.predict_proba(inputs).columns) == ["high", "low", "middle"]
