"""Rows from arrays, memory maps, data sets and streams come in the same blocks."""

import pickle

import numpy as np
import pytest
import scipy.sparse

from dotsketch._arrays import evenly_spaced
from dotsketch.rows.sources import Rows, as_batch, is_on_disk, is_stream, regroup


@pytest.fixture
def columns(rng):
    return rng.standard_normal((23, 3)), np.arange(23.0)


def batches(columns, sizes):
    start = 0
    for size in sizes:
        yield tuple(c[start : start + size] for c in columns)
        start += size


def assert_same_blocks(found, columns, size):
    found = list(found)
    assert [len(block[0]) for block in found] == [
        min(size, 23 - start) for start in range(0, 23, size)
    ]
    for k, column in enumerate(columns):
        np.testing.assert_array_equal(np.concatenate([block[k] for block in found]), column)


def test_frames_keep_the_names_of_their_columns(columns):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(columns[0], columns=list("abc"))
    rows = Rows(stream=lambda: batches((frame, columns[1]), [7, 9, 7]))
    found = list(rows.blocks(10))
    assert [list(X) for X, _ in found] == [list("abc")] * 3
    np.testing.assert_array_equal(np.concatenate([X for X, _ in found]), columns[0])

    def turned():
        yield frame[:5], columns[1][:5]
        yield frame[["b", "a", "c"]][5:], columns[1][5:]

    with pytest.raises(ValueError, match="different columns"):
        list(Rows(stream=turned).blocks(10))


@pytest.mark.parametrize("size", [1, 5, 23, 100])
@pytest.mark.parametrize("sizes", [[23], [1] * 23, [7, 0, 9, 7], [10, 13]])
def test_batches_of_any_sizes(columns, size, sizes):
    assert_same_blocks(regroup(batches(columns, sizes), size), columns, size)
    assert_same_blocks(Rows(stream=batches(columns, sizes)).blocks(size), columns, size)
    assert_same_blocks(Rows(columns).blocks(size), columns, size)


def test_memory_map(columns, tmp_path):
    np.save(tmp_path / "X.npy", columns[0])
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert is_on_disk(X)
    assert is_on_disk(X[3:])
    assert not is_on_disk(columns[0])
    found = list(Rows((X, columns[1])).blocks(5))
    assert not any(is_on_disk(block[0]) for block in found)
    assert_same_blocks(found, columns, 5)


def test_written_pages_of_a_private_map_are_kept(columns, tmp_path):
    """A copy-on-write map loses what was written to it if its pages are let go."""
    np.save(tmp_path / "X.npy", columns[0])
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X[:] = 7.0
    for _ in range(2):
        for block in Rows((X, columns[1])).blocks(5):
            assert np.all(block[0] == 7.0)


def test_h5py_data_set(columns, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        X = file.create_dataset("X", data=columns[0], chunks=(4, 3))
        assert is_on_disk(X)
        assert_same_blocks(Rows((X, columns[1])).blocks(5), columns, 5)
        np.testing.assert_array_equal(Rows((X, columns[1])).sample(2)[0], columns[0][[0, 22]])


def test_dask_array(columns):
    dask_array = pytest.importorskip("dask.array")
    lazy = tuple(dask_array.from_array(c, chunks=10) for c in columns)
    assert_same_blocks(Rows(lazy).blocks(5), columns, 5)
    assert all(isinstance(c, np.ndarray) for c in Rows(lazy).sample(3))


def test_data_frame(columns):
    pandas = pytest.importorskip("pandas")
    assert_same_blocks(Rows((pandas.DataFrame(columns[0]), columns[1])).blocks(5), columns, 5)


def test_sparse_rows(columns):
    X = scipy.sparse.csc_matrix(columns[0])
    found = list(Rows(stream=iter([(X[:9], columns[1][:9]), (X[9:], columns[1][9:])])).blocks(5))
    np.testing.assert_array_equal(
        np.concatenate([block[0].toarray() for block in found]), columns[0]
    )


@pytest.mark.parametrize("order", [1, -1])
def test_sparse_and_dense_batches_join(columns, order):
    X, y = columns
    parts = [(scipy.sparse.csr_array(X[:4]), y[:4]), (X[4:], y[4:])]
    (found,) = Rows(stream=iter(parts[::order])).blocks(30)
    rows = np.roll(X, 0 if order == 1 else -4, axis=0)
    np.testing.assert_array_equal(found[0].toarray(), rows)


def test_sample_of_a_stream_gives_its_rows_back(columns):
    rows = Rows(stream=batches(columns, [7, 9, 7]))
    np.testing.assert_array_equal(rows.sample(10)[0], columns[0][:10])
    assert_same_blocks(rows.blocks(5), columns, 5)
    with pytest.raises(ValueError, match="function that returns a fresh iterator"):
        next(rows.blocks(5))


def test_evenly_spaced_rows():
    assert evenly_spaced(0, 3).tolist() == []
    assert evenly_spaced(2, 5).tolist() == [0, 1]
    assert evenly_spaced(9, 3).tolist() == [0, 4, 8]


def test_sample_of_an_array_is_even(columns):
    np.testing.assert_array_equal(Rows(columns).sample(3)[1], [0, 11, 22])
    np.testing.assert_array_equal(Rows(columns).sample(50)[1], columns[1])


@pytest.mark.parametrize("sizes", [[23], [1] * 23, [7, 0, 9, 7], [10, 13]])
def test_rows_spread_over_a_stream_are_those_of_the_array(columns, sizes):
    rows = Rows(stream=lambda: batches(columns, sizes))
    for found, expected in zip(rows.spread(5, 23), Rows(columns).sample(5), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_rows_of_weight_zero_are_not_spread(columns):
    weighted = (*columns, None, (np.arange(23) % 2).astype(float))
    rows = Rows(stream=lambda: iter([weighted]))
    np.testing.assert_array_equal(rows.spread(3, 11)[1], [1, 11, 21])


def test_a_function_gives_the_same_rows_every_time(columns):
    sizes = iter([[7, 9, 7], [7, 9]])
    rows = Rows(stream=lambda: batches(columns, next(sizes)))
    assert_same_blocks(rows.blocks(5), columns, 5)
    with pytest.raises(ValueError, match="23 rows in one pass and 16 in another"):
        list(rows.blocks(5))


def test_a_function_returns_a_fresh_iterator_every_time(columns):
    once, batch = batches(columns, [7, 16]), [columns]
    rows = Rows(stream=lambda: once)
    rows.sample(5)
    with pytest.raises(ValueError, match="same iterator every time"):
        list(rows.blocks(5))
    rows = Rows(stream=lambda: batch)  # a list gives its rows as often as it is read
    rows.sample(5)
    assert_same_blocks(rows.blocks(5), columns, 5)


def test_a_generator_that_is_no_longer_read_is_closed(columns):
    """It may hold a file, or a lock that the next one waits for."""
    closed = []

    def stream():
        try:
            yield from batches(columns, [7, 9, 7])
        finally:
            closed.append(True)

    rows = Rows(stream=stream)
    rows.sample(5)
    assert len(closed) == 1
    assert_same_blocks(rows.blocks(5), columns, 5)
    assert len(closed) == 2


def some_rows():
    yield np.ones((3, 2)), np.zeros(3)


def test_streams_that_were_read_are_pickled():
    rows = Rows(stream=some_rows)
    assert len(list(rows.blocks(2))) == 2
    assert len(list(pickle.loads(pickle.dumps(rows)).blocks(2))) == 2


def test_streams_are_recognised(columns):
    assert is_stream(iter([columns]))
    assert is_stream(lambda: iter([columns]))
    assert not is_stream(columns[0])
    assert not is_stream(columns[0].tolist())


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (np.ones((2, 2)), TypeError, "A stream gives batches"),
        ((np.ones((2, 2)),), TypeError, "A stream gives batches"),
        ((np.ones((2, 2)), np.ones(3)), ValueError, "inconsistent numbers"),
    ],
)
def test_wrong_batches(batch, error, message):
    with pytest.raises(error, match=message):
        list(Rows(stream=iter([batch])).blocks(2))


def test_batches_have_the_same_columns(columns):
    parts = [(*columns, np.ones(23)), columns]
    with pytest.raises(ValueError, match=r"or all \(X, y, noise_variance\)"):
        list(Rows(stream=iter(parts)).blocks(30))


def test_empty_stream_and_unequal_columns(columns):
    with pytest.raises(ValueError, match="have no rows"):
        Rows(tuple(c[:0] for c in columns))
    with pytest.raises(ValueError, match="has no rows"):
        Rows(stream=iter([])).sample(3)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Rows((columns[0], columns[1][:4]))
    with pytest.raises(ValueError, match="either columns or a stream"):
        Rows()


def test_a_sample_may_miss_the_few_rows_that_count(columns, tmp_path):
    X, y = columns[:2]
    np.save(tmp_path / "X.npy", X)
    weights = np.zeros(len(X))
    weights[[1, 4]] = 2.0
    rows = Rows((np.load(tmp_path / "X.npy", mmap_mode="r"), y, None, weights))
    np.testing.assert_array_equal(rows.sample(3)[1], y[[1]])


def test_a_batch_of_nothing_is_refused():
    with pytest.raises(ValueError, match="got None in place"):
        as_batch((None, None))
