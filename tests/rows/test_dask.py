"""Rows of Dask collections, on threads: sums, samples, lazy results and errors."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

import dotsketch.gp.base
import dotsketch.gp.regression
import dotsketch.gp.softmax_fits
from dotsketch import (
    AutoFeatures,
    FeatureGPClassifier,
    FeatureGPRegressor,
    FourierFeatures,
    Gaussian,
    MaclaurinFeatures,
    NystromFeatures,
    PolynomialSketch,
    plan,
    required_components,
)
from dotsketch.gp.solvers import ConjugateGradients, RowBlock
from dotsketch.rows import Checkpoint, Rows
from dotsketch.rows.collections import rows_of
from dotsketch.rows.dask_run import Shared, well_placed

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pandas = pytest.importorskip("pandas")
cloudpickle = pytest.importorskip("cloudpickle")

N, CHUNK = 430, 10  # more groups than one node of the tree adds, and a short one


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N)
    return X, y, np.where(y > 0.3, "high", np.where(y < -0.3, "low", "middle"))


@pytest.fixture(scope="module")
def frame(data):
    X, y, labels = data
    return pandas.DataFrame(X, columns=list("abc"), index=0.5 * np.arange(N)).assign(y=y, z=labels)


def landmarks():
    return NystromFeatures(Gaussian(lengthscale=2.0), n_components=12, random_state=0)


def regressor(**options):
    return FeatureGPRegressor(landmarks(), chunk_rows=CHUNK, **options)


def classifier(**options):
    return FeatureGPClassifier(landmarks(), chunk_rows=CHUNK, **options)


def chunked(*columns, rows=CHUNK):
    return tuple(da.from_array(c, chunks=(rows, *c.shape[1:])) for c in columns)


def sums(process):
    found = process.statistics_
    return [s.arrays() for s in (found if isinstance(found, list) else [found])]


def assert_same_bits(found, expected):
    for mine, other in zip(sums(found), sums(expected), strict=True):
        for name, value in other.items():
            np.testing.assert_array_equal(mine[name], value, err_msg=name)


@pytest.mark.parametrize("n", [1, 15, 16, 17, 40, 256, 257, 530])
def test_partitions_are_added_as_the_local_loop_adds_groups(n):
    """States that record how they were made: the same tree for every number of groups."""

    class Joined(list):
        def __add__(self, other):
            return Joined([list(self), list(other)])

        __iadd__ = __add__

    def fold(rows):
        def add(state, block, first):
            return Joined([f"{first}: {block[0][:, 0].tolist()}"])

        return rows.fold(Joined, add, block_rows=2)

    X = np.arange(2.0 * n)[:, None]
    assert fold(rows_of(*chunked(X, rows=2))) == fold(Rows((X,)))


def test_regression_has_the_bits_of_the_local_loop(data):
    X, y, _ = data
    local = regressor().fit(X, y)
    for scheduler in ("threads", "synchronous"):
        with dask.config.set(scheduler=scheduler):
            found = regressor().fit(*chunked(X, y))
        assert_same_bits(found, local)
        assert found.noise_variance_ == local.noise_variance_
        np.testing.assert_array_equal(found.predict(X[:5]), local.predict(X[:5]))


def test_classification_has_the_bits_of_the_local_loop(data):
    X, _, labels = data
    local, found = classifier().fit(X, labels), classifier().fit(*chunked(X, labels))
    assert_same_bits(found, local)
    np.testing.assert_array_equal(found.classes_, local.classes_)
    np.testing.assert_array_equal(found.predict_proba(X[:9]), local.predict_proba(X[:9]))


@pytest.mark.parametrize("memory", [1 << 20, 1], ids=["kept on the workers", "computed again"])
def test_iterations_have_the_bits_of_the_local_loop(data, memory):
    """Every pass is one map and reduce."""
    X, y, labels = data
    solver = ConjugateGradients(memory=memory)
    features = FourierFeatures(Gaussian(lengthscale=2.0), n_components=80, random_state=0)
    options = {"solver": solver, "chunk_rows": CHUNK}
    given = {"noise_variance": 0.05, "prior_variance": 1.0}
    local = FeatureGPRegressor(features, **options, **given).fit(X, y)
    found = FeatureGPRegressor(features, **options, **given).fit(*chunked(X, y))
    np.testing.assert_array_equal(found.posterior_.weights, local.posterior_.weights)
    np.testing.assert_array_equal(found.residuals_, local.residuals_)
    if memory == 1:
        return
    local = FeatureGPClassifier(features, alpha=0.01, **options).fit(X, labels)
    found = FeatureGPClassifier(features, alpha=0.01, **options).fit(*chunked(X, labels))
    np.testing.assert_array_equal(found.predict_proba(X[:20]), local.predict_proba(X[:20]))


@pytest.mark.parametrize("memory", [1 << 29, 1])
def test_a_softmax_likelihood_where_the_rows_are(data, memory, monkeypatch):
    """Every iteration is one map and reduce; the same bits as the local loop over the same rows."""
    monkeypatch.setattr(dotsketch.gp.softmax_fits, "MEMORY", memory)
    monkeypatch.setattr(dotsketch.gp.softmax_fits, "GROUP_ROWS", CHUNK)
    X, _, labels = data
    local = classifier(likelihood="softmax").fit(X, labels)
    found = classifier(likelihood="softmax").fit(*chunked(X, labels))
    assert found.prior_variance_ == local.prior_variance_
    np.testing.assert_array_equal(found.predict_proba(X[:20]), local.predict_proba(X[:20]))


def test_weights_noise_and_columns_with_other_chunks(data, tmp_path):
    """Rows of weight zero do not count; a map on disk is cut into blocks in the same way."""
    X, y, _ = data
    np.save(tmp_path / "X.npy", X)
    rng = np.random.default_rng(1)
    weights, noise = rng.integers(0, 3, N), rng.uniform(0.1, 1, N)
    weights[50:60] = 0  # a whole partition
    local = regressor().fit(
        np.load(tmp_path / "X.npy", mmap_mode="r"), y, weights, noise_variance=noise
    )
    rows = da.from_array(X, chunks=(CHUNK, 2))
    found = regressor().fit(
        rows, da.from_array(y, chunks=77), da.from_array(weights, chunks=N), noise_variance=noise
    )
    assert_same_bits(found, local)


def test_weights_are_counted_without_reading_the_rows(data):
    def unread(block):
        raise AssertionError("the rows are read")

    X, weights = chunked(data[0], np.arange(N) % 3.0)
    rows = rows_of(X.map_blocks(unread, dtype=float, meta=np.empty((0, 0))), None, None, weights)
    assert rows.n_rows == N
    assert sum(1 for _ in rows.numbered_parts()) == N // CHUNK
    assert rows.numbered_parts()[1][2] == np.count_nonzero(np.arange(CHUNK) % 3)


def test_sparse_blocks(data):
    X, y, _ = data
    sparse = scipy.sparse.csr_matrix(np.where(X > 0, X, 0.0))
    blocks = da.from_array(sparse.toarray(), chunks=(CHUNK, 3)).map_blocks(scipy.sparse.csr_matrix)
    features = PolynomialSketch(2, n_components=20, random_state=0)
    local = FeatureGPRegressor(features, chunk_rows=CHUNK).fit(sparse, y)
    found = FeatureGPRegressor(features, chunk_rows=CHUNK).fit(blocks, *chunked(y))
    assert_same_bits(found, local)


def test_data_frames_with_a_target_or_a_series(data, frame):
    lazy = dd.from_pandas(frame, npartitions=7)
    by_name = regressor().fit(lazy[[*"abc", "y"]], target="y")
    by_series = regressor().fit(lazy[[*"abc"]], lazy["y"])
    assert_same_bits(by_name, by_series)
    np.testing.assert_array_equal(by_name.feature_names_in_, [*"abc"])
    local = regressor().fit(frame[[*"abc", "y"]], target="y")
    np.testing.assert_allclose(by_name.predict(frame[[*"abc"]]), local.predict(frame[[*"abc"]]))
    labels = classifier().fit(lazy[[*"abc", "z"]], target="z")
    np.testing.assert_array_equal(labels.classes_, ["high", "low", "middle"])
    both = regressor().fit(lazy[[*"abc", "y"]].assign(w=lazy["y"] ** 2), target=["y", "w"])
    assert both.predict(frame[[*"abc"]]).shape == (N, 2)


def test_empty_and_uneven_partitions(data, frame):
    """Partitions of unknown lengths, from none of the rows to half of them."""
    lengths = [0, 200, 0, 0, 1, 2, 220, 0, 7]
    ends = np.cumsum(lengths)
    parts = [frame.iloc[end - n : end] for n, end in zip(lengths, ends, strict=True)]
    lazy = dd.from_delayed([dask.delayed(part) for part in parts], meta=frame)
    found = regressor().fit(lazy[[*"abc"]], lazy["y"])
    X, y, _ = data
    local = regressor().fit(X, y)
    np.testing.assert_allclose(
        found.statistics_.gram(), local.statistics_.gram(), rtol=1e-10, atol=1e-10
    )
    mean, std = dask.compute(*found.predict(lazy[[*"abc"]], return_std=True))
    np.testing.assert_allclose(mean, local.predict(X), rtol=1e-5, atol=1e-6)
    assert len(std) == N


def test_features_see_a_sample_of_all_partitions(data, monkeypatch):
    X, y, _ = data
    for module in (dotsketch.gp.base, dotsketch.gp.regression):
        monkeypatch.setattr(module, "SAMPLE_ROWS", 40)
    found = regressor().fit(*chunked(X, y))
    [sample] = Rows((X,)).sample(40)
    expected = landmarks().fit(sample)
    np.testing.assert_array_equal(found.features_.components_, expected.components_)


@pytest.mark.parametrize("sample_rows", [10_000, 20])  # seen in the sample, or in the pass only
@pytest.mark.parametrize("column", [0, 1])
def test_an_error_names_the_partition(data, column, sample_rows, monkeypatch):
    for module in (dotsketch.gp.base, dotsketch.gp.regression):
        monkeypatch.setattr(module, "SAMPLE_ROWS", sample_rows)
    columns = [data[0].copy(), data[1].copy()]
    columns[column][123] = np.nan
    with pytest.raises(ValueError, match=r"Partition 12 .*\n?.*NaN"):
        regressor().fit(*chunked(*columns))


def test_iterations_go_on_from_a_checkpoint(data, tmp_path, monkeypatch):
    """The state is that of the client; rows are compared where they are."""
    X, y = data[0], np.round(64 * data[1]) / 64  # means of exchanged targets are the same
    path = tmp_path / "state.npz"
    given = {"noise_variance": 0.05, "prior_variance": 1.0, "solver": ConjugateGradients(rank=4)}
    expected = regressor(**given).fit(*chunked(X, y))
    write, written = Checkpoint.write, []

    def interrupted(self, *arguments):
        write(self, *arguments)
        written.append(1)
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoint, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        regressor(**given).fit(*chunked(X, y), checkpoint=path)
    with pytest.raises(ValueError, match="other rows"):
        regressor(**given).fit(*chunked(X, np.flip(y)), checkpoint=path)
    found = regressor(**given).fit(*chunked(X, y), checkpoint=path)
    assert len(written) == 3 + expected.n_iterations_ - 1  # the third iteration on
    np.testing.assert_array_equal(found.posterior_.weights, expected.posterior_.weights)


def test_mistakes_are_explained(data, frame, tmp_path):
    X, y, _ = data
    rows, targets = chunked(X, y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[430, 429\]"):
        regressor().fit(rows, targets[:-1])
    with pytest.raises(ValueError, match="requires y to be passed"):
        regressor().fit(rows)
    with pytest.raises(ValueError, match="leave checkpoint out"):
        regressor().fit(rows, targets, checkpoint=tmp_path / "sums.npz")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="at least two classes"):
        classifier().fit(rows, da.zeros(N, chunks=CHUNK, dtype=int))
    lazy = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(ValueError, match="no column 'price'"):
        regressor().fit(lazy, target="price")
    with pytest.raises(ValueError, match="not both"):
        regressor().fit(lazy, lazy["y"], target="y")
    with pytest.raises(TypeError, match="names a column of a data frame"):
        regressor().fit(rows, target="y")
    with pytest.raises(ValueError, match="X has 3 partitions and another column has 43"):
        regressor().fit(lazy[[*"abc"]], targets)
    with pytest.raises(ValueError, match="have no rows"):
        regressor().fit(lazy[lazy["a"] > 99][[*"abc", "y"]], target="y")


def test_a_failing_read_ends_the_fit(data):
    X, y, _ = data

    def read(block):
        raise OSError("the disk went away")

    model = regressor()
    with pytest.raises(OSError, match="the disk went away"):
        model.fit(chunked(X)[0].map_blocks(read, dtype=float), *chunked(y))
    assert not hasattr(model, "posterior_")


def test_predictions_are_lazy_arrays(data):
    X, y, labels = data
    rows = da.from_array(X, chunks=(100, 2))
    model = regressor().fit(X, y)
    mean, std = model.predict(rows, return_std=True, include_noise=True)
    assert isinstance(mean, da.Array)
    assert mean.chunks == std.chunks == (rows.chunks[0],)
    for found, expected in zip(
        dask.compute(mean, std), model.predict(X, return_std=True, include_noise=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(model.predict(rows).compute(), model.predict(X), rtol=1e-12)
    assert model.predict_quantiles(rows).shape == (N, 3)
    with pytest.raises(ValueError, match="return_cov"):
        model.predict(rows, return_cov=True)
    two = regressor().fit(X, np.stack([y, -y], axis=1))
    assert two.predict(rows, return_std=True)[1].compute().shape == (N, 2)
    classes = classifier().fit(X, labels)
    assert classes.predict(rows).dtype == classes.classes_.dtype
    np.testing.assert_array_equal(classes.predict(rows).compute(), classes.predict(X))
    probabilities = classes.predict_proba(rows)
    assert probabilities.shape == (N, 3)
    np.testing.assert_allclose(probabilities.compute(), classes.predict_proba(X), rtol=1e-10)
    assert classes.predict_latent(rows)[1].compute().shape == (N, 3)


def test_predictions_of_data_frames_keep_their_index(frame):
    lazy = dd.from_pandas(frame, npartitions=4)
    inputs = lazy[[*"abc"]]
    model = regressor().fit(inputs, lazy["y"])
    mean, std = model.predict(inputs, return_std=True)
    assert mean.divisions == lazy.divisions
    assert (mean.name, mean.dtype, std.name) == ("mean", np.float64, "std")
    together = lazy.assign(mean=mean, std=std).compute()
    np.testing.assert_allclose(
        together["mean"], model.predict(frame[[*"abc"]]), rtol=1e-12, atol=1e-13
    )
    classes = classifier().fit(inputs, lazy["z"])
    assert list(classes.predict_proba(inputs).columns) == ["high", "low", "middle"]
    found = classes.predict(inputs).compute()
    np.testing.assert_array_equal(found.to_numpy(), classes.predict(frame[[*"abc"]]))
    np.testing.assert_array_equal(found.index, frame.index)
    features = landmarks().fit(inputs)
    Z = features.transform(inputs)
    assert list(Z.columns) == list(features.get_feature_names_out())
    expected = features.transform(frame[[*"abc"]])
    np.testing.assert_allclose(Z.compute(), expected, rtol=1e-9, atol=1e-12)


def test_graphs_have_one_task_a_block_and_the_model_once(data):
    X, y, _ = data
    rows = da.random.random((N, 3), chunks=(CHUNK, 3))
    n = rows.numblocks[0]
    [optimised] = dask.optimize(regressor().fit(X, y).predict(rows))
    graph = dict(optimised.__dask_graph__())
    assert len(graph) == n + n + 1  # the blocks of rows, those of predictions, and the model
    [model] = [key for key in graph if str(key).startswith("dotsketch-model")]
    size = len(cloudpickle.dumps(graph[model]))
    assert all(len(cloudpickle.dumps(graph[key])) < size / 2 for key in graph if key != model)
    light = regressor().fit(X, y).for_rows()
    assert not hasattr(light, "statistics_")
    np.testing.assert_array_equal(light.predict(X), regressor().fit(X, y).predict(X))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("output", ["real", "complex"])
def test_transforms_know_columns_and_dtypes(data, dtype, output):
    X = data[0].astype(dtype)
    [rows] = chunked(X, rows=100)
    features = FourierFeatures(
        Gaussian(lengthscale=1.0), n_components=8, output=output, random_state=0
    )
    Z = features.fit(rows).transform(rows)
    expected = features.transform(X)
    assert (Z.shape, Z.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(Z.compute(), expected, rtol=1e-5)
    assert Z.compute().dtype == expected.dtype
    with pytest.raises(ValueError, match="set_output would load all rows"):
        features.set_output(transform="pandas").transform(rows)


def test_features_and_plans_are_fitted_to_a_sample(data, monkeypatch):
    X = data[0]
    [rows] = chunked(X)
    monkeypatch.setattr("dotsketch.rows.collections.SAMPLE_ROWS", 200)
    [sample] = Rows((X,)).sample(200)
    kernel = Gaussian(lengthscale=1.5)
    for features in (
        MaclaurinFeatures(kernel, n_components=20, random_state=0),
        AutoFeatures(kernel, n_components=10, random_state=0),
    ):
        expected = features.fit(sample).transform(X)
        np.testing.assert_array_equal(features.fit(rows).transform(X), expected)
        np.testing.assert_allclose(features.transform(rows).compute(), expected, rtol=1e-9)
    assert str(plan(kernel, rows, n_components=8)) == str(plan(kernel, sample, n_components=8))
    needed = required_components(kernel, sample, tolerance=0.5)
    assert required_components(kernel, rows, tolerance=0.5) == needed


def test_partial_fit_and_merge(data):
    X, y, _ = data
    rows = chunked(X, y)
    parts = [tuple(c[a:b] for c in rows) for a, b in ((0, 200), (200, N))]
    fixed = FeatureGPRegressor(FrozenEstimator(landmarks().fit(X)), chunk_rows=CHUNK)
    whole = clone(fixed).fit(X, y)
    online = clone(fixed)
    for part in parts:
        online.partial_fit(*part)
    merged = clone(fixed).fit(*parts[0]).merge(clone(fixed).fit(*parts[1]))
    for found in (online, merged):
        assert found.statistics_.n == N
        np.testing.assert_allclose(found.predict(X), whole.predict(X), rtol=1e-6, atol=1e-8)


def unaligned(array):
    """The same numbers at an address that is no multiple of their size."""
    buffer = np.empty(array.nbytes + 1, dtype=np.uint8)[1:]
    found = np.frombuffer(buffer, dtype=array.dtype).reshape(array.shape)
    found[...] = array
    assert not found.flags.aligned
    return found


def test_arrays_of_messages_are_moved_to_where_blas_takes_them(data):
    """A message puts them anywhere; NumPy then multiplies without BLAS."""
    X, y, _ = data
    sparse = scipy.sparse.csr_matrix(X)
    sparse.data = unaligned(sparse.data)
    frame = pandas.DataFrame(unaligned(X), copy=False)
    assert not np.asarray(frame).flags.aligned
    block = RowBlock(unaligned(X), y, unaligned(y))
    found = well_placed([(unaligned(X), None, sparse, frame), block])
    assert isinstance(found[1], RowBlock)
    for column in (found[0][0], found[0][2].data, np.asarray(found[0][3]), *found[1]):
        assert column.flags.aligned
    np.testing.assert_array_equal(found[0][0], X)
    assert found[1].targets is y
    buffers = []
    pickled = pickle.dumps(Shared(X), protocol=5, buffer_callback=buffers.append)
    assert not buffers  # which would be put anywhere
    np.testing.assert_array_equal(pickle.loads(pickled).value, X)


ALONE = """
import numpy as np, dask, dask.array as da
from dotsketch import FeatureGPRegressor, FourierFeatures, Gaussian
X = np.random.default_rng(0).standard_normal((60, 2))
gp = FeatureGPRegressor(FourierFeatures(Gaussian(), n_components=4, random_state=0), solver="cg")
gp.fit(da.from_array(X, chunks=(20, 2)), da.from_array(X[:, 0], chunks=20))
import distributed
assert dask.config.get("distributed.comm.timeouts.connect")
"""


def test_settings_of_distributed_survive_a_fit_without_it():
    pytest.importorskip("distributed", reason="needs distributed")
    subprocess.run([sys.executable, "-c", ALONE], check=True)


def test_progress_is_shown(data, capsys):
    regressor(verbose=True).fit(*chunked(*data[:2]))
    assert "100% Completed" in capsys.readouterr().out
