"""Every format gives the same columns and values, as often as it is asked."""

import gzip
import os
import threading

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest

from dotsketch.cli.output import UserMistake
from dotsketch.cli.tables import open_table, sniff_delimiter

from .conftest import make_houses


def as_frame(table):
    """All values; those of a CSV file are texts."""
    return pd.concat([batch.to_pandas() for batch, _ in table.chunks()], ignore_index=True)


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


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        ("a#b\n1#2\n", {}, {"a#b": ["1#2"]}),
        ("a#b\n1#2\n", {"delimiter": "#"}, {"a": ["1"], "b": ["2"]}),
        ('n;s\n"a, b";1\n"d, e";2\n', {}, {"n": ["a, b", "d, e"], "s": ["1", "2"]}),
        ('n,s\n"a\nb",1\nc,2\n', {}, {"n": ["a\nb", "c"], "s": ["1", "2"]}),
        ("a, b \n1,2\n", {}, {"a": ["1"], "b": ["2"]}),
        ("1,2\n3,4\n", {"no_header": True}, {"f0": ["1", "3"], "f1": ["2", "4"]}),
        ("0,1\n3,4\n", {}, {"0": ["3"], "1": ["4"]}),  # names that pandas counted
    ],
)
def test_csv_of_any_kind(tmp_path, content, options, expected):
    path = tmp_path / "a.csv"
    path.write_text(content)
    assert as_frame(open_table(str(path), **options)).to_dict("list") == expected


def test_quoted_delimiters_do_not_mislead():
    assert sniff_delimiter('name;size\n"a, b, c";1\n"d, e, f";2\n') == ";"


def test_compressed_csv(tmp_path, frame):
    path = tmp_path / "houses.csv.gz"
    path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
    assert as_frame(open_table(str(path))).equals(frame.astype(str))


def test_threads_of_the_reader_need_no_interpreter(tmp_path, frame, monkeypatch):
    """Read ahead through a Python file, they would crash a process that ends meanwhile."""
    path = tmp_path / "houses.csv"
    frame.to_csv(path, index=False)
    opened, open_csv = [], pa.csv.open_csv
    monkeypatch.setattr(
        pa.csv, "open_csv", lambda file, **more: (opened.append(file), open_csv(file, **more))[1]
    )
    as_frame(open_table(str(path)))
    assert len(opened) == 2
    assert all(isinstance(file, pa.NativeFile) for file in opened)
    assert not any(isinstance(file, pa.PythonFile) for file in opened)


def test_other_encodings(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("town,size\nGenève,1\nBern,2\n".encode("latin-1"))
    with pytest.raises(UserMistake, match="--encoding latin-1"):
        as_frame(open_table(str(path)))
    table = open_table(str(path), encoding="latin-1")
    assert as_frame(table)["town"].tolist() == ["Genève", "Bern"]


def test_csv_comes_in_chunks_with_row_numbers(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("a\n" + "\n".join(map(str, range(20_000))) + "\n")
    chunks = list(open_table(str(path), block_bytes=1 << 12).chunks())
    assert len(chunks) > 5
    assert [int(batch.column("a")[0].as_py()) + 1 for batch, _ in chunks] == [r for _, r in chunks]


def test_a_row_that_does_not_end(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,y\n1,2\n"' + "1" * (3 << 12) + '",2\n')
    with pytest.raises(UserMistake, match="a row is longer than"):
        as_frame(open_table(str(path), block_bytes=1 << 12))


@pytest.fixture
def parts(tmp_path, monkeypatch):
    """Three files of several row groups, one with another order of columns, and what Spark leaves
    beside them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    whole = make_houses(240)
    for k, rows in enumerate(np.array_split(np.arange(240), 3)):
        part = whole.iloc[rows]
        part = part[part.columns[::-1]] if k == 1 else part
        part.to_parquet(f"data/{k}.parquet", row_group_size=30, index=False)
    (tmp_path / "data" / "_SUCCESS").write_text("")
    return whole


@pytest.mark.parametrize("data", ["data", "data/*.parquet"])
def test_a_folder_or_a_pattern_is_one_table(parts, data):
    table = open_table(data)
    pd.testing.assert_frame_equal(as_frame(table), parts)
    rows = [(first, batch.num_rows) for batch, first in table.chunks()]
    assert [first for first, _ in rows] == np.cumsum([1, *(n for _, n in rows)])[:-1].tolist()


def test_files_that_are_not_one_table(parts, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "data" / "a.csv").write_text("a\n1\n")
    for data, message in (
        ("nothing/*.parquet", "no file matches"),
        ("data/*", "is not a Parquet file"),
        ("empty", "is a folder without Parquet files"),
    ):
        with pytest.raises(UserMistake, match=message):
            open_table(data)
    pd.DataFrame({"size": [1.0]}).to_parquet("data/3.parquet")
    with pytest.raises(UserMistake, match="have different columns"):
        open_table("data")


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
        ("a.csv", b"x,z\0z\n1,2\n", "it holds NUL characters"),
        ("a.xyz", b"a,b\n", "give --format"),
        ("a.parquet", b"no parquet", "a.parquet: "),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserMistake, match=message):
        as_frame(open_table(str(path)))


def test_a_pipe_is_read_as_often_as_a_file(tmp_path):
    """From a copy of what it holds."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("a,b\n1,x\n2,y\n",))
    writer.start()
    table = open_table(str(pipe))
    writer.join()
    assert as_frame(table).equals(as_frame(table))
    assert list(as_frame(table)["b"]) == ["x", "y"]
    assert table.source == str(pipe)
    with pytest.raises(UserMistake, match="is empty"):
        open_table(os.devnull)
