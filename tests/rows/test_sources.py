"""Rows from arrays, memory maps, data sets and streams come in the same blocks and samples."""

import numpy as np
import pytest
import scipy.sparse

from dotsketch.rows import (
    Rows,
    float_type,
    is_collection,
    is_stream,
    split_target,
)

N = 23
SIZES = [[23], [1] * 23, [7, 0, 9, 7], [10, 13]]


@pytest.fixture
def columns(rng):
    return rng.standard_normal((N, 3)), np.arange(float(N))


def batches(columns, sizes):
    start = 0
    for size in sizes:
        yield tuple(None if c is None else c[start : start + size] for c in columns)
        start += size


def dense(column):
    return column.toarray() if scipy.sparse.issparse(column) else np.asarray(column)


def memory_map(X, tmp_path):
    np.save(tmp_path / "X.npy", X)
    return np.load(tmp_path / "X.npy", mmap_mode="r")


def hdf5(X, tmp_path):
    h5py = pytest.importorskip("h5py")
    return h5py.File(tmp_path / "X.h5", "w").create_dataset("X", data=X, chunks=(4, X.shape[1]))


def data_set(X, tmp_path):
    """What an h5py or zarr data set offers: slices, and sorted row numbers."""

    class DataSet:
        shape, dtype, chunks = X.shape, X.dtype, (4, X.shape[1])

        def __getitem__(self, rows):
            assert isinstance(rows, slice) or np.all(np.diff(rows) > 0)
            return X[rows]

    return DataSet()


def frame(X, tmp_path):
    return pytest.importorskip("pandas").DataFrame(X, columns=[*"abc"])


SOURCES = {
    "array": lambda X, tmp_path: X,
    "list": lambda X, tmp_path: X.tolist(),
    "CSC": lambda X, tmp_path: scipy.sparse.csc_matrix(X),
    "data frame": frame,
    "torch": lambda X, tmp_path: pytest.importorskip("torch").asarray(X),
    "memory map": memory_map,
    "h5py": hdf5,
    "data set": data_set,
}


def all_rows(columns, tmp_path, weights=None):
    """The same rows from every source."""
    X, y = columns
    for name, source in SOURCES.items():
        try:
            yield name, Rows.of(source(X, tmp_path), y, None, weights)
        except pytest.skip.Exception:
            continue
    for sizes in SIZES:
        given = (X, y, None, weights)
        yield f"stream of {sizes}", Rows.of(lambda given=given, s=sizes: batches(given, s))
        yield (
            f"sparse {sizes}",
            Rows.of(
                lambda given=given, s=sizes: batches((scipy.sparse.csr_array(X), *given[1:]), s)
            ),
        )


@pytest.mark.parametrize("size", [1, 5, 23, 100])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_sources_give_the_same_blocks(columns, tmp_path, size, weighted):
    """Rows of weight zero are left out before anything else."""
    weights = (np.arange(N) % 4).astype(float) if weighted else None
    kept = np.flatnonzero(weights) if weighted else np.arange(N)
    for name, rows in all_rows(columns, tmp_path, weights):
        blocks = list(rows.blocks(size))
        expected = [min(size, len(kept) - start) for start in range(0, len(kept), size)]
        assert [block[0].shape[0] for block in blocks] == expected, name
        assert rows.n_rows == len(kept), name
        for k, column in enumerate(columns):
            joined = np.concatenate([dense(block[k]) for block in blocks])
            np.testing.assert_array_equal(joined, column[kept], err_msg=name)
        assert all(block[2] is None for block in blocks)
        if weighted:
            joined = np.concatenate([block[3] for block in blocks])
            np.testing.assert_array_equal(joined, weights[kept])


@pytest.mark.parametrize("size", [1, 5, 22, 23, 50])
@pytest.mark.parametrize("weighted", [False, True])
def test_all_sources_give_the_same_sample(columns, tmp_path, size, weighted):
    weights = (np.arange(N) % 4).astype(float) if weighted else None
    kept = np.flatnonzero(weights) if weighted else np.arange(N)
    drawn = None
    for name, rows in all_rows(columns, tmp_path, weights):
        X, y = rows.sample(size, np.random.default_rng(3))[:2]
        assert len(y) == min(size, len(kept)), name
        assert np.all(np.diff(y) > 0), name
        assert set(y) <= set(kept), name
        np.testing.assert_array_equal(dense(X), columns[0][np.asarray(y, dtype=int)])
        drawn = y if drawn is None else drawn
        np.testing.assert_array_equal(y, drawn, err_msg=name)


def test_every_sample_is_as_likely():
    """All 10 pairs of 5 rows, by the χ² of 2,000 draws with 9 degrees of freedom."""
    rng, counts = np.random.default_rng(0), np.zeros((5, 5))
    rows = Rows.of(np.arange(5)[:, None])
    for _ in range(2000):
        [[a], [b]] = rows.sample(2, rng)[0]
        counts[a, b] += 1
    pairs = counts[np.triu_indices(5, 1)]
    assert pairs.sum() == 2000
    assert np.sum((pairs - 200) ** 2 / 200) < 9 + 6 * np.sqrt(18)


@pytest.mark.parametrize("source", ["array", "stream"])
def test_samples_do_not_alias_with_periodic_rows(source):
    """24·999 + 1 hourly rows, of which 1,000 evenly spaced ones are all of the same hour."""
    hours = (np.arange(24 * 999 + 1) % 24)[:, None]
    rows = Rows.of(hours if source == "array" else lambda: iter([(hours, hours[:, 0])]))
    drawn = rows.sample(1000, np.random.default_rng(0))[0][:, 0]
    counts = np.bincount(drawn, minlength=24)
    assert np.all(np.abs(counts - 1000 / 24) < 6 * np.sqrt(1000 / 24))


def test_a_sample_of_few_rows_is_the_columns_themselves(columns):
    rows = Rows.of(*columns)
    assert rows.sample(50, np.random.default_rng(0))[0] is columns[0]


def test_rows_of_weight_zero_are_never_drawn(columns, tmp_path):
    weights = np.zeros(N)
    weights[[1, 4]] = 2.0
    rows = Rows.of(memory_map(columns[0], tmp_path), columns[1], None, weights)
    np.testing.assert_array_equal(rows.sample(3, np.random.default_rng(0))[1], [1.0, 4.0])


def test_an_iterator_gives_the_rows_of_its_sample_again(columns):
    rows = Rows.of(batches(columns, [7, 9, 7]))
    assert not rows.repeatable
    assert rows.n_rows is None
    np.testing.assert_array_equal(rows.sample(10, np.random.default_rng(0))[1], np.arange(10))
    np.testing.assert_array_equal(np.concatenate([b[1] for b in rows.blocks(5)]), columns[1])
    assert rows.n_rows == N
    with pytest.raises(ValueError, match="function that returns a fresh one"):
        next(rows.blocks(5))


def test_a_function_gives_the_same_rows_every_time(columns):
    sizes = iter([[7, 9, 7], [7, 9]])
    rows = Rows.of(lambda: batches(columns, next(sizes)))
    list(rows.blocks(5))
    with pytest.raises(ValueError, match="16 rows now, 23 before"):
        list(rows.blocks(5))
    once, batch = batches(columns, [7, 16]), [columns]
    rows = Rows.of(lambda: once)
    rows.sample(5, np.random.default_rng(0))
    with pytest.raises(ValueError, match="0 rows now, 23 before: return a fresh iterator"):
        list(rows.blocks(5))
    rows = Rows.of(lambda: batch)  # a list gives its rows as often as it is read
    rows.sample(5, np.random.default_rng(0))
    assert len(list(rows.blocks(5))) == 5


def test_a_generator_that_is_no_longer_read_is_closed(columns):
    """It may hold a file, or a lock that the next one waits for."""
    closed = []

    def stream():
        try:
            yield from batches(columns, [7, 9, 7])
        finally:
            closed.append(True)

    next(Rows.of(stream).blocks(5))
    assert closed == [True]


def test_memory_maps_are_copied_block_by_block(columns, tmp_path):
    X = memory_map(columns[0], tmp_path)
    rows = Rows.of(X[3:], columns[1][3:])
    assert not rows.in_memory
    assert rows.columns is not None
    for block in rows.blocks(5):
        assert type(block[0]) is np.ndarray
        assert not np.may_share_memory(block[0], X)
    assert Rows.of(*columns).in_memory


def test_written_pages_of_a_private_map_are_kept(columns, tmp_path):
    """A copy-on-write map loses what was written to it if its pages are released."""
    np.save(tmp_path / "X.npy", columns[0])
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X[:] = 7.0
    for _ in range(2):
        for block in Rows.of(X, columns[1]).blocks(5):
            assert np.all(block[0] == 7.0)


def test_frames_keep_the_names_of_their_columns(columns):
    named = frame(columns[0], None)
    rows = Rows.of(lambda: batches((named, columns[1]), [7, 9, 7]))
    assert [list(block[0]) for block in rows.blocks(10)] == [[*"abc"]] * 3
    turned = [(named[:5], columns[1][:5]), (named[["b", "a", "c"]][5:], columns[1][5:])]
    with pytest.raises(ValueError, match="different columns"):
        list(Rows.of(iter(turned)).blocks(10))


@pytest.mark.parametrize("order", [1, -1])
def test_sparse_and_dense_batches_join(columns, order):
    X, y = columns
    parts = [(scipy.sparse.csr_array(X[:4]), y[:4]), (X[4:], y[4:])]
    [block] = Rows.of(iter(parts[::order])).blocks(30)
    np.testing.assert_array_equal(dense(block[0]), X if order == 1 else np.roll(X, -4, axis=0))


def test_kinds_are_recognised(columns):
    assert is_stream(iter([columns]))
    assert is_stream(lambda: iter([columns]))
    assert not is_stream(columns[0])
    assert not is_stream(columns[0].tolist())
    assert not is_collection(columns[0])
    single = columns[0].astype(np.float32)
    assert float_type(single) == float_type(frame(single, None)) == np.float32
    assert float_type(columns[0]) == float_type(np.arange(3)) == np.float64


def test_the_target_is_a_column_of_a_frame(columns):
    named = frame(columns[0], None)
    X, y = split_target(named, None, "b")
    assert (list(X), y.name) == (["a", "c"], "b")
    assert list(split_target(named, None, ["b", "c"])[1]) == ["b", "c"]
    assert split_target(columns[0], columns[1], None)[1] is columns[1]
    with pytest.raises(ValueError, match="not both"):
        split_target(named, columns[1], "b")
    for X in (named, columns[0]):
        with pytest.raises(ValueError, match="data frame with a column 'price'"):
            split_target(X, None, "price")


@pytest.mark.parametrize(
    ("batch", "error", "message"),
    [
        (np.ones((2, 2)), TypeError, "A stream gives batches"),
        ((np.ones((2, 2)),), TypeError, "A stream gives batches"),
        ((np.ones((2, 2)), None), ValueError, "got None instead"),
        ((np.ones((2, 2)), np.ones(3)), ValueError, "inconsistent numbers"),
        ((np.ones((2, 2)), np.ones(2), None, [1.0, -1.0]), ValueError, "sample_weight must be"),
        ((np.ones((2, 3)), np.ones(2)), ValueError, "different columns or shapes"),
        ((np.ones((2, 2)), np.ones(2), np.ones(2)), ValueError, "different columns or shapes"),
    ],
)
def test_wrong_batches(batch, error, message):
    first = [(np.ones((2, 2)), np.ones(2))] if "different" in message else []
    with pytest.raises(error, match=message):
        list(Rows.of(iter([*first, batch])).blocks(30))


def test_mistakes(columns, tmp_path):
    X, y = columns
    with pytest.raises(ValueError, match="have no rows"):
        Rows.of(X[:0], y[:0])
    with pytest.raises(ValueError, match="have no rows"):
        Rows.of(iter([])).sample(3, np.random.default_rng(0))
    for rows in (X, memory_map(X, tmp_path)):
        with pytest.raises(ValueError, match="no rows whose weight is not zero"):
            Rows.of(rows, y, None, np.zeros(N))
        for weights in (np.full(N, np.nan), np.full(N, np.inf), -np.ones(N), np.ones((N, 1))):
            with pytest.raises(ValueError, match="sample_weight must be one number for every row"):
                Rows.of(rows, y, None, weights)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        Rows.of(X, y[:4])
    with pytest.raises(ValueError, match="One number for every row is needed; got 0"):
        Rows.of(X, y, 0)
    with pytest.raises(ValueError, match="leave them out"):
        Rows.of(batches(columns, [23]), y)
