"""Rows of Dask collections, on threads: sums, samples, lazy results and errors."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

from dask_rows import CHUNK, N, X, chunked, da, dask, data, dd, frame, pandas, y
from dotsketch import FourierFeatures, Gaussian, MaclaurinFeatures, NystromFeatures, plan
from dotsketch.rows import Checkpoint, Rows, digest, is_collection, lazy

cloudpickle = pytest.importorskip("cloudpickle")


def product(total, block, first):
    """Σ w xᵀ(x, y, first): by BLAS, of all columns."""
    X, y, noise, weights = (None if c is None else np.asarray(c, dtype=float) for c in block)
    weights = np.ones(len(X)) if weights is None else weights
    weights = weights if noise is None else weights / noise
    return total + (X * weights[:, None]).T @ np.column_stack([X, y, first + np.arange(len(X))])


def zero():
    return np.zeros((3, 5))


def folded(rows, **options):
    return rows.fold(zero, product, block_rows=CHUNK, **options)


@pytest.mark.parametrize("n", [1, 15, 40, 257])
def test_partitions_are_added_as_the_local_loop_adds_groups(n):
    """States that record how they were made."""

    class Joined(list):
        def __add__(self, other):
            return Joined([list(self), list(other)])

        __iadd__ = __add__

    def add(state, block, first):
        return Joined([f"{first}: {block[0][:, 0].tolist()}"])

    X = np.arange(2.0 * n)[:, None]
    local, lazily = Rows.of(X), Rows.of(*chunked(X, rows=2))
    assert lazily.fold(Joined, add, block_rows=2) == local.fold(Joined, add, block_rows=2)


@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_sums_have_the_bits_of_the_local_loop(scheduler):
    with dask.config.set(scheduler=scheduler):
        total = folded(Rows.of(*chunked(X, y)))
    np.testing.assert_array_equal(total, folded(Rows.of(X, y)))


def test_columns_with_other_chunks_and_columns_in_memory():
    noise = np.linspace(0.1, 1, N)
    rows = Rows.of(da.from_array(X, chunks=(CHUNK, 2)), da.from_array(y, chunks=77), noise)
    np.testing.assert_array_equal(folded(rows), folded(Rows.of(X, y, noise)))
    np.testing.assert_array_equal(
        np.concatenate([block[0] for block in rows.blocks(7)]), np.asarray(X)
    )


def test_rows_of_weight_zero_are_left_out():
    """Blocks are those of the partitions; one partition has no rows at all."""
    weights = (np.arange(N) % 3).astype(float)
    weights[50:60] = 0
    rows = Rows.of(*chunked(X, y), None, *chunked(weights))
    parts = (slice(start, start + CHUNK) for start in range(0, N, CHUNK))
    first, total = 0, zero()
    for part in parts:
        if weights[part].any():
            local = Rows.of(X[part], y[part], None, weights[part])
            [block] = local.blocks(CHUNK)
            total, first = total + product(zero(), block, first), first + local.n_rows
    np.testing.assert_array_equal(folded(rows), total)
    assert rows.n_rows == first == np.count_nonzero(weights)


def test_weights_are_counted_without_reading_the_rows():
    def unread(block):
        raise AssertionError("the rows are read")

    X, weights = chunked(data[0], np.arange(N) % 3.0)
    X = X.map_blocks(unread, dtype=float, meta=np.empty((0, 0)))
    assert Rows.of(X, None, None, weights).n_rows == np.count_nonzero(np.arange(N) % 3)


@pytest.mark.parametrize("size", [1, 40, 429, 430, 1000])
def test_samples_are_those_of_the_array(size):
    lazily = dd.from_pandas(frame, npartitions=7)
    expected = Rows.of(X, y).sample(size, np.random.default_rng(1))
    for rows in (Rows.of(*chunked(X, y)), Rows.of(lazily[[*"abc"]], lazily["y"])):
        drawn = rows.sample(size, np.random.default_rng(1))
        for mine, other in zip(drawn[:2], expected[:2], strict=True):
            np.testing.assert_array_equal(mine, other)
    assert not is_collection(drawn[0])


def test_sparse_blocks():
    sparse = scipy.sparse.csr_matrix(np.where(X > 0, X, 0.0))
    blocks = da.from_array(sparse.toarray(), chunks=(CHUNK, 3)).map_blocks(scipy.sparse.csr_matrix)

    def gram(rows):
        return rows.fold(
            lambda: np.zeros((3, 3)),
            lambda total, block, first: total + (block[0].T @ block[0]).toarray(),
            block_rows=CHUNK,
        )

    np.testing.assert_array_equal(gram(Rows.of(blocks, *chunked(y))), gram(Rows.of(sparse, y)))


@pytest.mark.parametrize("kind", ["frames", "arrays"])
def test_empty_and_uneven_partitions(kind):
    """Partitions of unknown lengths, from none of the rows to half of them."""
    lengths = [0, 200, 0, 0, 1, 2, 220, 0, 7]
    ends = np.cumsum(lengths)
    parts = [frame.iloc[end - n : end] for n, end in zip(lengths, ends, strict=True)]
    lazily = dd.from_delayed([dask.delayed(part) for part in parts], meta=frame)
    X, y = lazily[[*"abc"]], lazily["y"]
    if kind == "arrays":
        X, y = X.to_dask_array(), y.to_dask_array()
    rows = Rows.of(X, y)
    assert rows.n_rows == N
    np.testing.assert_allclose(folded(rows), folded(Rows.of(*data[:2])), rtol=1e-10, atol=1e-10)

    def function(block):
        return np.asarray(block)[:, 0], np.asarray(block)

    results = dask.compute(*lazy(function, X, dtypes=[float, float], names=[None, [*"uvw"]]))
    for mine, expected in zip(results, (data[0][:, 0], data[0]), strict=True):
        np.testing.assert_array_equal(mine, expected)


def test_frames_are_read_once_for_all_columns():
    reads = []

    def read(part):
        reads.append(len(part))
        return part

    with dask.config.set(scheduler="synchronous"):
        lazily = dd.from_pandas(frame, npartitions=5).map_partitions(read, meta=frame[:0])
        rows = Rows.of(lazily[[*"abc"]], lazily["y"])
        reads.clear()  # partitions were counted
        folded(rows)
    assert len(reads) == 5


@pytest.mark.parametrize("column", [0, 1])
def test_an_error_names_the_partition(column):
    columns = [data[0].copy(), data[1].copy()]
    columns[column][123] = np.nan

    def check(total, block, first):
        if not all(np.isfinite(c).all() for c in block[:2]):
            raise ValueError("Input contains NaN")
        return total

    with pytest.raises(ValueError, match="Input contains NaN") as raised:
        Rows.of(*chunked(*columns)).fold(zero, check, block_rows=CHUNK)
    assert raised.value.__notes__ == ["Partition 12 (counted from 0)"]


def test_mistakes_are_explained(tmp_path):
    rows, targets = chunked(X, y)
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[429, 430\]"):
        Rows.of(rows, targets[:-1])
    with pytest.raises(ValueError, match="leave checkpoint out"):
        folded(Rows.of(rows, targets), checkpoint=Checkpoint(tmp_path / "sums.npz", None))
    lazily = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(ValueError, match="X has 3 partitions, another column 43"):
        Rows.of(lazily[[*"abc"]], targets)
    empty = lazily[lazily["a"] > 99][[*"abc", "y"]]
    with pytest.raises(ValueError, match="have no rows"):
        Rows.of(empty[[*"abc"]], empty["y"]).sample(3, np.random.default_rng(0))


def test_a_failing_read_ends_the_fold():
    def read(block):
        raise OSError("the disk went away")

    X, y = chunked(*data[:2])
    with pytest.raises(OSError, match="the disk went away"):
        folded(Rows.of(X.map_blocks(read, dtype=float, meta=np.empty((0, 3))), y))


@pytest.mark.parametrize("memory", [0, 1 << 20], ids=["computed again", "kept on the workers"])
def test_results_for_many_folds(memory):
    calls = []

    def double(block):
        calls.append(1)
        return 2 * block[0], block[1], None, None

    with dask.config.set(scheduler="synchronous"):
        local, lazily = (
            rows.mapped(double, block_rows=CHUNK, row_bytes=8, memory=memory)
            for rows in (Rows.of(X, y), Rows.of(*chunked(X, y)))
        )
        calls.clear()
        for _ in range(2):
            np.testing.assert_array_equal(lazily.fold(zero, product), local.fold(zero, product))
    assert lazily.n_rows == N
    once = N // CHUNK
    assert len(calls) == (once if memory else 4 * once)  # the lazy ones were kept at the start


def test_digests_are_those_of_the_local_loop():
    assert digest(Rows.of(*chunked(X, y)), CHUNK) == digest(Rows.of(X, y), CHUNK)
    assert digest(Rows.of(*chunked(X, -y)), CHUNK) != digest(Rows.of(X, y), CHUNK)


def landmarks():
    return NystromFeatures(Gaussian(lengthscale=2.0), n_components=12, random_state=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("output", ["real", "complex"])
def test_transforms_know_columns_and_dtypes(dtype, output):
    X = data[0].astype(dtype)
    rows = da.from_array(X, chunks=(100, 2))
    features = FourierFeatures(
        Gaussian(lengthscale=1.0), n_components=8, output=output, random_state=0
    )
    Z = features.fit(rows).transform(rows)
    expected = features.transform(X)
    assert (Z.shape, Z.dtype, Z.chunks[0]) == (expected.shape, expected.dtype, rows.chunks[0])
    np.testing.assert_allclose(Z.compute(), expected, rtol=1e-5)
    assert Z.compute().dtype == expected.dtype
    with pytest.raises(ValueError, match="set_output would load all rows"):
        features.set_output(transform="pandas").transform(rows)


def test_results_of_data_frames_keep_their_index():
    lazily = dd.from_pandas(frame, npartitions=4)
    inputs = lazily[[*"abc"]]
    features = landmarks().fit(inputs)
    Z = features.transform(inputs)
    assert list(Z.columns) == list(features.get_feature_names_out())
    expected = features.transform(frame[[*"abc"]])
    np.testing.assert_allclose(Z.compute(), expected, rtol=1e-9, atol=1e-12)
    labels, both = lazy(
        lambda X: (np.where(X["a"] > 0, "plus", "minus"), np.asarray(X)[:, :2]),
        inputs,
        dtypes=["<U5", float],
        names=[None, ["one", "two"]],
    )
    assert labels.divisions == both.divisions == lazily.divisions
    together = lazily.assign(label=labels, two=both["two"]).compute()
    np.testing.assert_array_equal(together["label"] == "plus", frame["a"] > 0)
    np.testing.assert_array_equal(together["two"], frame["b"])
    np.testing.assert_array_equal(together.index, frame.index)


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_several_results_take_one_call(kind):
    calls = []

    def function(X):
        calls.append(1)
        return np.asarray(X)[:, 0], np.asarray(X)

    X = dd.from_pandas(frame[[*"abc"]], npartitions=5)
    X = chunked(data[0], rows=86)[0] if kind == "array" else X
    with dask.config.set(scheduler="synchronous"):
        dask.compute(*lazy(function, X, dtypes=[float, float], names=[None, [*"uvw"]]))
    assert len(calls) == 5


def test_graphs_have_the_model_once():
    rows = da.random.random((N, 3), chunks=(CHUNK, 3))
    [optimised] = dask.optimize(
        landmarks().set_params(n_components=60).fit(data[0]).transform(rows)
    )
    graph = dict(optimised.__dask_graph__())
    assert len(graph) <= 3 * rows.numblocks[0] + 1  # rows, results and their array; the model
    [model] = [key for key in graph if str(key).startswith("dotsketch-shared")]
    size = len(cloudpickle.dumps(graph[model]))
    assert all(len(cloudpickle.dumps(graph[key])) < size / 2 for key in graph if key != model)


def test_features_and_plans_are_fitted_to_a_sample():
    """At most 10,000 rows of a collection: all of these."""
    X, kernel = data[0], Gaussian(lengthscale=1.5)
    [rows] = chunked(X)
    features = MaclaurinFeatures(kernel, n_components=20, random_state=0)
    expected = features.fit(X).transform(X)
    np.testing.assert_array_equal(features.fit(rows).transform(X), expected)
    found, expected = (plan(kernel, given, n_components=8, random_state=0) for given in (rows, X))
    assert str(found) == str(expected)


def unaligned(array):
    """The same numbers at an address that is no multiple of their size."""
    buffer = np.empty(array.nbytes + 1, dtype=np.uint8)[1:]
    moved = np.frombuffer(buffer, dtype=array.dtype).reshape(array.shape)
    moved[...] = array
    assert not moved.flags.aligned
    return moved


@pytest.mark.parametrize("kind", ["array", "sparse", "frame"])
def test_arrays_of_messages_are_moved_to_where_blas_takes_them(kind):
    """A message puts them anywhere; NumPy then multiplies without BLAS."""

    def misplaced(block):
        if kind == "array":
            return unaligned(block)
        if kind == "frame":
            return pandas.DataFrame(unaligned(np.asarray(block)), columns=[*"abc"], copy=False)
        rows = scipy.sparse.csr_matrix(block)
        rows.data = unaligned(rows.data)
        return rows

    def check(total, block, first):
        values = block[0].data if kind == "sparse" else np.asarray(block[0])
        assert values.flags.aligned
        return total + 1

    X = chunked(data[0])[0]
    if kind == "frame":
        X = dd.from_dask_array(X, columns=[*"abc"])
        X = X.map_partitions(misplaced, meta=X._meta)
    else:
        X = X.map_blocks(misplaced, dtype=float, meta=np.empty((0, 3)))
    assert Rows.of(X).fold(int, check, block_rows=CHUNK) == N // CHUNK


def test_arrays_travel_within_pickles():
    """Buffers beside a pickle would be put anywhere."""
    [task] = dask.optimize(lazy(np.asarray, *chunked(data[0]), dtypes=[float], names=[[*"abc"]])[0])
    graph = dict(task.__dask_graph__())
    [shared] = [graph[key] for key in graph if str(key).startswith("dotsketch-shared")]
    shared = getattr(shared, "value", shared)
    shared.value = data[0]
    buffers = []
    pickled = pickle.dumps(shared, protocol=5, buffer_callback=buffers.append)
    assert not buffers
    np.testing.assert_array_equal(pickle.loads(pickled).value, data[0])


ALONE = """
import numpy as np, dask, dask.array as da
from dotsketch.rows import Rows
X = da.from_array(np.ones((60, 2)), chunks=(20, 2))
assert Rows.of(X).fold(int, lambda total, block, first: total + len(block[0]), block_rows=9) == 60
import distributed
assert dask.config.get("distributed.comm.timeouts.connect")
"""


def test_settings_of_distributed_survive_a_fold_without_it():
    pytest.importorskip("distributed", reason="needs distributed")
    subprocess.run([sys.executable, "-c", ALONE], check=True)


def test_progress_is_shown(capsys):
    folded(Rows.of(*chunked(*data[:2])), progress="rows")
    assert "100% Completed" in capsys.readouterr().out
