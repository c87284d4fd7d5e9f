"""Every mistake of the ordinary kind: one line with the cause, exit code 2, no traceback."""

import errno
import os
import sys
import tempfile

import numpy as np
import pandas as pd
import pytest

import dotsketch_command
from dotsketch.cli.main import main

FIT = ("fit", "a.csv", "--target", "y", "-o", "a.model", "--features", "fourier")
COMPARE = ("compare", "a.csv", "--target", "y", "--no-report")


def rows(n, **columns):
    """A table with a column x, and y = x unless it is given."""
    x = np.linspace(0, 1, n).round(3)
    return pd.DataFrame({"x": x, "y": x} | columns)


@pytest.mark.parametrize("words", [FIT, COMPARE], ids=["fit", "compare"])
@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("", "a.csv: the file is empty"),
        ("x,y\n", "a.csv has no rows of data"),
        ("x,y\n1,2\n", "a.csv has one row of data"),
        ("x,x,y\n1,2,3\n", "the column name x more than once"),
        ("x,z\n1,2\n3,4\n", "a.csv has no column 'y'; its columns are x, z"),
        ("x,y\n1,2\nabc,4\n3,5\n", "column 'x', row 2: 'abc' is not a number"),
        ("x,y\n1,2\n,4\n3,5\n", "column 'x', row 2: no value"),
        ("x,y\n1,2\n3,nan\n3,5\n", "column 'y', row 2: the target has no value"),
        ("x,y\n1,a\n2,a\n3,a\n", "the target 'y' has only one class"),
        ("x,y\n1,2\n2,2\n3,2\n", "the target 'y' has only one class"),
        ("x,y\n1,2\n3,4,5\n", "Expected 2 columns, got 3"),
        ("1,2\n3,4\n", "the first line holds numbers"),
        ("y\n1\n2\n", "no column besides the target"),
    ],
)
def test_tables(folder, fails, words, content, cause):
    (folder / "a.csv").write_text(content)
    assert cause in fails(*words)


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (("--kernel", "laplace"), "the kernel 'laplace' is not known; there are gaussian"),
        (("--kernel", "poly"), "the kernel 'poly' cannot be made: it needs a degree, as in poly:3"),
        (("--kernel", "poly:abc"), "the degree must be a whole number; got 'abc'."),
        (("--kernel", "gaussian:x"), "the lengthscale must be a number; got 'x'."),
        (("--features", "furrier"), "give auto or one of maclaurin, polynomial, fourier"),
        (("--kernel", "poly:-1"), "the kernel 'poly:-1' cannot be made"),
        (("--components", "0"), "--components"),
        (("--components", "many"), "--components"),
        (("--task", "ranking"), "--task"),
        (("--format", "xls"), "--format"),
        (("--delimiter", "ab"), "must be one character"),
        (("--encoding", "klingon"), "there is no encoding 'klingon'"),
        (("--ignore", "z"), "no column 'z'"),
        (("--jobs", "0"), "--jobs"),
        (("--wrong",), "--wrong"),
        (("--target", "yy"), "Did you mean 'y'?"),
        (("-o", os.devnull), "is not an ordinary file"),
    ],
)
def test_options(folder, fails, options, cause):
    rows(30).to_csv("a.csv", index=False)
    assert cause in fails(*FIT, *options)


@pytest.mark.parametrize("options", [("--kernel", "laplace"), ("--features", "furrier")])
def test_options_are_checked_before_the_table_is_read(folder, fails, options):
    (folder / "a.csv").write_text("")
    assert options[1] in fails(*FIT, *options)


def test_too_few_rows_to_compare(folder, fails):
    rows(5).to_csv("a.csv", index=False)
    assert "5 rows: comparing needs at least 10" in fails(*COMPARE)


def test_files(folder, fails):
    assert "there is no file nothing.csv" in fails("compare", "nothing.csv", "--target", "y")
    assert "is a folder" in fails("compare", str(folder))
    rows(30).to_csv("b.csv", index=False)
    assert "cannot be left out" in fails("compare", "b.csv", "--target", "y", "--ignore", "y")
    (folder / "a.doc").write_text("x")
    assert "give --format" in fails("compare", "a.doc")
    assert "Missing argument 'DATA'" in fails("compare")
    assert "--output" in fails("fit", "iris")


def test_a_target_is_asked_for(folder, fails):
    rows(30).to_csv("a.csv", index=False)
    assert "Give --target, one of x, y" in fails("compare", "a.csv")


@pytest.mark.parametrize("words", [FIT, COMPARE], ids=["fit", "compare"])
@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("x,y\n", "test.csv has no rows of data"),
        ("z,y\n1,2\n", "test.csv lacks 1 column of the model: x."),
        ("x,z\n1,2\n", "test.csv lacks 1 column of the model: y."),
    ],
)
def test_tables_to_test_on(folder, fails, words, content, cause):
    rows(30).to_csv("a.csv", index=False)
    (folder / "test.csv").write_text(content)
    assert cause in fails(*words, "--components", "8", "--test", "test.csv")
    assert not (folder / "a.model").exists()


def test_columns_that_csv_cannot_hold_are_not_kept(folder, fails, run):
    rows(30).to_csv("a.csv", index=False)
    run(*FIT, "--components", "8")
    rows(30, tags=[["red", "blue"]] * 30).to_parquet("a.parquet")
    words = ("predict", "a.model", "a.parquet", "--keep", "tags")
    assert "--keep: CSV cannot hold these columns" in fails(*words)
    run(*words, "-o", "kept.parquet")
    assert list(pd.read_parquet("kept.parquet")["tags"][0]) == ["red", "blue"]


@pytest.mark.parametrize(("given", "named"), [((), "UTF-8"), (("--encoding", "ascii"), "ASCII")])
def test_text_in_another_encoding(folder, fails, given, named):
    (folder / "a.csv").write_bytes("x,y\né,1\nè,2\n".encode("latin-1"))
    assert f"not {named} text: give --encoding latin-1" in fails(*FIT, *given)


@pytest.mark.parametrize("command", ["fit", "predict"])
def test_outputs_that_cannot_be_written(folder, fails, run, monkeypatch, command):
    rows(30).to_csv("a.csv", index=False)
    run(*FIT, "--components", "8")
    words = FIT[:4] if command == "fit" else ("predict", "a.model", "a.csv")
    assert "does not exist: make it first" in fails(*words, "-o", "no/such/file")
    (folder / "sub").mkdir()
    assert "is a folder" in fails(*words, "-o", "sub")

    def refuse(**options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)  # to root nothing is forbidden
    assert "cannot be written to: Permission denied" in fails(*words, "-o", "sub/file")


def test_what_is_read_is_not_overwritten(folder, fails, run):
    rows(30).to_csv("a.csv", index=False)
    assert "a.csv is the input" in fails(*FIT[:4], "-o", "../" + folder.name + "/a.csv")
    assert "a.csv is the input" in fails(*COMPARE[:4], "--report", "a.csv")
    rows(30).to_csv("test.csv", index=False)
    test = ("--test", "test.csv", "--report", "test.csv")
    assert "test.csv is the input" in fails(*COMPARE[:4], *test)
    run(*FIT, "--components", "8")
    for name in ("a.csv", "a.model"):
        assert "is the input" in fails("predict", "a.model", "a.csv", "-o", name)
    assert len(pd.read_csv("a.csv")) == 30


def test_endings_of_predictions(folder, fails, run):
    rows(30).to_csv("a.csv", index=False)
    run(*FIT, "--components", "8")
    assert "ends in .csv, .txt, .parquet, .pq" in fails(
        "predict", "a.model", "a.csv", "-o", "a.xlsx"
    )


def test_constant_columns_are_named(folder, run):
    rows(30, z=3, town="Bern").to_csv("a.csv", index=False)
    result = run(*FIT, "--components", "8")
    assert "the same value in every row, of no use: z, town" in result.stderr


def test_an_index_of_pandas_is_no_feature(folder, run_json, run):
    rows(30).sample(frac=1, random_state=0).to_parquet("a.parquet")
    words = ("fit", "a.parquet", *FIT[2:], "--components", "8")
    assert run_json(*words)["numeric"] == ["x"]
    assert "left out, an index of pandas: __index_level_0__" in run(*words).stderr


def test_too_many_classes(folder, fails):
    frame = rows(1100, y=[f"id{k}" for k in range(1100)])
    frame.to_csv("a.csv", index=False)
    assert "looks like an identifier or free text. Choose another --target" in fails(*FIT)
    rows(1100, y=range(1100)).to_csv("a.csv", index=False)
    assert "--task regression" in fails(*FIT, "--task", "classification")


def test_missing_categories_are_not_unknown_ones(folder, run, run_json):
    frame = rows(30, town=["a", "b", None] * 10)
    frame.to_csv("a.csv", index=False)
    run(*FIT, "--components", "8", "--impute")
    found = run_json("predict", "a.model", "a.csv", "-o", "out.csv")
    assert found["unknown_levels"] == {"town": 0}


def test_nothing_of_the_data_reaches_the_terminal_raw(folder, run):
    rows(30).rename(columns={"x": "\x1b[31mx\x9b"}).to_csv("a.csv", index=False)
    result = run(*FIT, "--components", "8")
    shown = result.stdout + result.stderr + run("info", "a.model").stdout
    result = run("predict", "a.model", "a.csv", "-o", "out.csv")
    assert not {"\x1b", "\x9b"} & set(shown + result.stdout + result.stderr)


def test_the_command_without_its_extra(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "dotsketch.cli.main", None)
    with pytest.raises(ModuleNotFoundError):  # a module of ours is a bug, not an extra
        dotsketch_command.main()
    for name in ("main", "output", "options", "report", "compare"):
        monkeypatch.delitem(sys.modules, f"dotsketch.cli.{name}")
    monkeypatch.setitem(sys.modules, "rich.table", None)
    with pytest.raises(SystemExit) as stopped:
        dotsketch_command.main()
    assert stopped.value.code == 2
    assert "pip install 'dotsketch[cli]'" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "mkfifo") or os.geteuid() == 0, reason="root may read all")
def test_a_file_that_may_not_be_read(folder, fails):
    rows(30).to_csv("a.csv", index=False)
    os.chmod("a.csv", 0)
    assert "Permission denied" in fails(*COMPARE)


def test_predicting(folder, fails, run):
    rows(30, town=["a", "b"] * 15).to_csv("a.csv", index=False)
    run(*FIT, "--components", "8")
    for name, frame, cause in (
        ("missing", rows(3), "lacks 1 column of the model: town"),
        ("text", rows(3, x="abc", town="a"), "column 'x', row 1: 'abc' is not a number"),
        ("gap", rows(3, x=[1, None, 2], town="a"), "row 2: no value: fill it in, or fit"),
        ("empty", rows(0, town="a"), "has no rows of data"),
    ):
        frame.to_csv(f"{name}.csv", index=False)
        assert cause in fails("predict", "a.model", f"{name}.csv", "-o", "out.csv")
        assert not (folder / "out.csv").exists()
    assert "no column 'id'" in fails("predict", "a.model", "a.csv", "--keep", "id")
    rows(3, town="a", mean=1).to_csv("mean.csv", index=False)
    words = ("predict", "a.model", "mean.csv", "--keep", "mean", "-o", "out.csv")
    assert "--keep mean: the predictions have a column of that name" in fails(*words)
    words = ("predict", "a.model", "a.csv", "--quantiles")
    for levels in ("0.05;0.95", "95", "0"):
        assert "must be numbers between 0 and 1" in fails(*words, levels)
    damaged = (folder / "a.model").read_bytes()[:-100]
    (folder / "a.model").write_bytes(damaged)
    assert "a.model cannot be loaded" in fails("predict", "a.model", "a.csv")


def test_data_sets(folder, fails):
    assert "is not one of the pinned sets" in fails("datasets", "fetch", "nothing")


def test_unknown_commands(fails):
    assert "No such command 'fitt'" in fails("fitt")


def test_verbose_shows_where_it_happened(folder):
    from click.testing import CliRunner

    (folder / "a.csv").write_text("")
    result = CliRunner().invoke(main, [*COMPARE, "--verbose"])
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert result.stderr.endswith("dotsketch: error: a.csv: the file is empty.\n")


def test_endings_of_reports(folder, fails):
    rows(30).to_csv("a.csv", index=False)
    cause = fails("compare", "a.csv", "--target", "y", "--report", "a.pdf")
    assert "a.pdf: the report cannot be written in this format" in cause
    assert "ends in .html, .htm" in cause


@pytest.mark.parametrize("name", ["b.csv", "b.parquet"])
def test_a_full_disk_leaves_the_older_predictions(folder, fails, run, monkeypatch, name):
    rows(30).to_csv("a.csv", index=False)
    run(*FIT, "--components", "8")
    (folder / name).write_text("older")
    before = sorted(folder.iterdir())

    def full(*given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)  # where a late lack of space is reported
    assert "No space left" in fails("predict", "a.model", "a.csv", "-o", name)
    assert sorted(folder.iterdir()) == before
    assert (folder / name).read_text() == "older"
