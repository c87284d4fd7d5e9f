"""Tables in many Parquet files, here and on a cluster."""

import numpy as np
import pandas as pd
import pytest

from dotsketch import load
from dotsketch.cli.tables import open_table

from .houses import make_houses

FAST = ("--components", "40", "--kernel", "gaussian:3", "--features", "fourier: independent")


@pytest.fixture
def parts(folder):
    """Three files of several row groups, and what Spark leaves beside them."""
    (folder / "data").mkdir()
    frame = make_houses(240)
    for k, rows in enumerate(np.array_split(np.arange(240), 3)):
        frame.iloc[rows].to_parquet(f"data/{k}.parquet", row_group_size=30, index=False)
    (folder / "data" / "_SUCCESS").write_text("")
    frame.to_parquet("whole.parquet", index=False)
    return folder


def test_a_folder_or_a_pattern_is_one_table(parts):
    [whole] = [chunk.batch.to_pandas() for chunk in open_table("whole.parquet").chunks()]
    for data in ("data", "data/*.parquet"):
        table = open_table(data)
        chunks = list(table.chunks())
        pd.testing.assert_frame_equal(
            pd.concat([c.batch.to_pandas() for c in chunks], ignore_index=True), whole
        )
        assert [c.first_row for c in chunks][:4] == [1, 31, 61, 81]
        assert chunks[-1].fraction == 1.0
        assert sum(part.n_rows for part in table.parts) == 240


def test_columns_in_another_order_are_found_by_name(parts):
    pd.read_parquet("data/1.parquet")[["town", "price", "sold", "rooms", "size"]].to_parquet(
        "data/1.parquet", index=False
    )
    [whole] = [chunk.batch.to_pandas() for chunk in open_table("whole.parquet").chunks()]
    found = [chunk.batch.to_pandas()[list(whole)] for chunk in open_table("data").chunks()]
    pd.testing.assert_frame_equal(pd.concat(found, ignore_index=True), whole)


def test_mistakes(parts, fails):
    words = ("--target", "price", "-o", "a.model")
    assert "no file matches nothing/*.parquet" in fails("fit", "nothing/*.parquet", *words)
    assert "is no Parquet file" in fails("fit", "*.*", *words)
    (parts / "empty").mkdir()
    assert "is a folder without Parquet files" in fails("fit", "empty", *words)
    assert "needs Parquet files" in fails("fit", "houses.csv", *words, "--scheduler", "tcp://a:1")
    line = fails("fit", "data", *words, "--impute", "--scheduler", "tcp://a:1")
    assert "cannot be combined" in line
    pd.DataFrame({"size": [1.0]}).to_parquet("data/3.parquet")
    assert "have different columns" in fails("fit", "data", *words)
    assert not (parts / "a.model").exists()


@pytest.mark.parametrize("target", ["price", "sold"])
def test_a_model_of_a_cluster_is_that_of_one_process(parts, run_json, target):
    distributed = pytest.importorskip("distributed", reason="needs distributed")
    other = "sold" if target == "price" else "price"
    words = ("--target", target, "--ignore", other, *FAST)
    run_json("fit", "whole.parquet", *words, "-o", "whole.model")
    with distributed.LocalCluster(
        n_workers=1, processes=False, protocol="tcp://", host="127.0.0.1", dashboard_address=":0"
    ) as cluster:
        address = cluster.scheduler_address
        known = run_json("fit", "data", *words, "--scheduler", address, "-o", "parts.model")
    assert (known["rows"], known["source"]) == (240, "data")
    frame = pd.read_csv("new.csv")
    whole, found = load("whole.model"), load("parts.model")
    if target == "price":
        np.testing.assert_allclose(found.predict(frame), whole.predict(frame), rtol=1e-6)
    else:
        np.testing.assert_allclose(
            found.predict_proba(frame), whole.predict_proba(frame), atol=1e-4
        )


def test_no_scheduler_answers(parts, fails):
    pytest.importorskip("distributed", reason="needs distributed")
    import dask

    words = ("--target", "price", "--ignore", "sold", *FAST, "-o", "a.model")
    with dask.config.set({"distributed.comm.timeouts.connect": "200ms"}):
        line = fails("fit", "data", *words, "--scheduler", "tcp://127.0.0.1:9")
    assert "no scheduler answers at tcp://127.0.0.1:9" in line
    assert not (parts / "a.model").exists()
