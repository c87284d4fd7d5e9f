"""Every format gives the same columns and values, as often as it is asked."""

import gzip

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.datasets import dump_svmlight_file

from dotsketch.cli import tables
from dotsketch.cli.errors import UserMistake
from dotsketch.cli.tables import open_table, read_start, sniff_delimiter


def as_frame(table):
    """All values as text, the way a CSV file has them."""
    return pd.concat([chunk.batch.to_pandas() for chunk in table.chunks()], ignore_index=True)


@pytest.fixture
def frame():
    return pd.DataFrame({"size": [1.5, 2.5, 0.25], "town": ["Bern", "Basel", "Bern"]})


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_is_read_with_any_delimiter(tmp_path, frame, delimiter):
    path = tmp_path / "houses.csv"
    frame.to_csv(path, sep=delimiter, index=False)
    table = open_table(str(path))
    assert table.names == ("size", "town")
    assert as_frame(table).equals(frame.astype(str))
    assert as_frame(table).equals(frame.astype(str))  # again, from the start


def test_a_given_delimiter_is_used(tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("a#b\n1#2\n")
    assert open_table(str(path)).names == ("a#b",)
    assert open_table(str(path), delimiter="#").names == ("a", "b")


def test_quoted_delimiters_do_not_mislead(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text('name;size\n"a, b, c";1\n"d, e, f";2\n')
    assert sniff_delimiter(read_start(path, "utf-8")) == ";"
    assert as_frame(open_table(str(path)))["name"].tolist() == ["a, b, c", "d, e, f"]


def test_quoted_line_ends_belong_to_the_value(tmp_path):
    path = tmp_path / "quoted.csv"
    path.write_text('name,size\n"a\nb",1\nc,2\n')
    assert as_frame(open_table(str(path)))["name"].tolist() == ["a\nb", "c"]


def test_spaces_around_names_do_not_count(tmp_path):
    path = tmp_path / "spaces.csv"
    path.write_text("a, b ,c\n1, 2,3\n")
    found = as_frame(open_table(str(path)))
    assert list(found) == ["a", "b", "c"]


def test_decimal_commas(tmp_path):
    path = tmp_path / "comma.csv"
    path.write_text("a;b\n1,5;x, 1,5\n-,25e-3;y\n2;z\n")
    found = as_frame(open_table(str(path), decimal=","))
    assert found["a"].tolist() == ["1.5", "-.25e-3", "2"]
    assert found["b"].tolist() == ["x, 1,5", "y", "z"]


def test_compressed_csv(tmp_path, frame):
    path = tmp_path / "houses.csv.gz"
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    assert as_frame(open_table(str(path))).equals(frame.astype(str))


def test_threads_of_the_reader_need_no_interpreter(tmp_path, frame, monkeypatch):
    """Read ahead through a Python file, they would crash a process that ends meanwhile."""
    path = tmp_path / "houses.csv"
    frame.to_csv(path, index=False)
    given = []
    open_csv = pa.csv.open_csv
    monkeypatch.setattr(
        pa.csv, "open_csv", lambda file, **more: (given.append(file), open_csv(file, **more))[1]
    )
    as_frame(open_table(str(path)))
    assert len(given) == 2
    assert {type(file) for file in given} == {pa.OSFile}


def test_csv_without_header(tmp_path):
    path = tmp_path / "plain.csv"
    path.write_text("1,2\n3,4\n")
    with pytest.raises(UserMistake, match="--no-header"):
        open_table(str(path))
    table = open_table(str(path), no_header=True)
    assert table.names == ("f0", "f1")
    assert len(as_frame(table)) == 2


def test_columns_that_pandas_counted_are_names(tmp_path):
    path = tmp_path / "counted.csv"
    pd.DataFrame([[1, 2], [3, 4]]).to_csv(path, index=False)
    table = open_table(str(path))
    assert table.names == ("0", "1")
    assert len(as_frame(table)) == 2


def test_other_encodings(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("town,size\nGenève,1\nBern,2\n".encode("latin-1"))
    with pytest.raises(UserMistake, match="--encoding latin-1"):
        as_frame(open_table(str(path)))
    table = open_table(str(path), encoding="latin-1")
    assert as_frame(table)["town"].tolist() == ["Genève", "Bern"]


def test_csv_comes_in_chunks_with_row_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "BLOCK_BYTES", 1 << 12)
    path = tmp_path / "long.csv"
    values = np.arange(20_000)
    path.write_text("a\n" + "\n".join(map(str, values)) + "\n")
    chunks = list(open_table(str(path)).chunks())
    assert len(chunks) > 5
    assert [int(chunk.batch.column("a")[0].as_py()) + 1 for chunk in chunks] == [
        chunk.first_row for chunk in chunks
    ]
    assert chunks[-1].fraction == 1.0
    assert [c.fraction for c in chunks] == sorted(c.fraction for c in chunks)


def test_parquet(tmp_path, frame, monkeypatch):
    monkeypatch.setattr(tables, "CELLS", 1)
    path = tmp_path / "houses.parquet"
    long = pd.concat([frame] * 50, ignore_index=True)
    long.to_parquet(path)
    table = open_table(str(path))
    assert len(list(table.chunks())) == 3  # of 64 rows
    assert as_frame(table).equals(long)


@pytest.mark.parametrize("keys", [("X", "y"), ("X_train", "y_train"), ("data", "target")])
def test_npz(tmp_path, rng, keys):
    X, y = rng.normal(size=(5, 2)), np.arange(5.0)
    path = tmp_path / "arrays.npz"
    np.savez(path, **{keys[0]: X, keys[1]: y, "X_test": X[:2], "y_test": y[:2]})
    table = open_table(str(path))
    assert table.names == ("x0", "x1", "y")
    assert table.target == "y"
    np.testing.assert_array_equal(as_frame(table), np.column_stack([X, y]))
    np.testing.assert_array_equal(as_frame(table.test), np.column_stack([X, y])[:2])


def test_libsvm(tmp_path, rng):
    X = rng.normal(size=(6, 3)) * (rng.random((6, 3)) < 0.7)
    y = np.array([1, -1, 1, 1, -1, 1])
    path = tmp_path / "data.libsvm"
    dump_svmlight_file(X, y, str(path), zero_based=False)
    found = as_frame(open_table(str(path)))
    np.testing.assert_allclose(found, np.column_stack([X, y]), rtol=1e-12)
    assert list(found.columns) == ["x1", "x2", "x3", "y"]


def test_a_named_data_set():
    table = open_table("iris")
    assert (table.target, table.task) == ("y", "classification")
    assert as_frame(table).shape == (150, 5)


def test_columns_by_name_and_position(tmp_path, frame):
    path = tmp_path / "houses.csv"
    frame.to_csv(path, index=False)
    table = open_table(str(path))
    assert table.column("town") == table.column("-1") == table.column("1") == "town"
    with pytest.raises(UserMistake, match="no column 'price'; its columns are size, town"):
        table.column("price")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv", b"a,b\n1,2\n1,2,3\n", "Expected 2 columns, got 3"),
        ("a.csv", b"a,b,a\n1,2,3\n", "'a' stands twice in the header"),
        ("a.xyz", b"a,b\n", "give --format"),
        ("a.npz", b"no zip", "not an NPZ file"),
        ("a.parquet", b"no parquet", "a.parquet: "),
        ("a.libsvm", b"1 x:2\n", "not a LIBSVM file"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserMistake, match=message):
        as_frame(open_table(str(path)))


def test_npz_needs_x_and_y(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, Z=np.ones(2))
    with pytest.raises(UserMistake, match="it holds Z"):
        open_table(str(path))
    np.savez(path, X=np.array([{}]), y=np.ones(1))
    with pytest.raises(UserMistake, match="plain arrays"):
        open_table(str(path))
    with path.open("wb") as file:
        np.save(file, np.ones(3))  # one array, in the format NPY
    with pytest.raises(UserMistake, match="plain arrays"):
        open_table(str(path))


def test_neither_file_nor_data_set(tmp_path):
    with pytest.raises(UserMistake, match=r"no file nowhere\.csv"):
        open_table("nowhere.csv")
    with pytest.raises(UserMistake, match="is a folder"):
        open_table(str(tmp_path))
