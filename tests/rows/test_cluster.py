"""Folds on a cluster of two worker processes: the same bits, whatever happens to the workers."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from dask_rows import CHUNK, N, X, chunked, dask, dd, frame, y
from dotsketch import Gaussian, NystromFeatures
from dotsketch.rows import Rows, digest

distributed = pytest.importorskip("distributed", reason="needs distributed: pip install '.[dask]'")

KNOWN = {"dtype": float, "meta": np.empty((0, 3))}  # so that Dask does not call functions to see

# what distributed itself leaves behind when workers are killed or a cluster is closed
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def client():
    """Two processes of one thread, shared by all tests."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    settings = {"distributed.comm.timeouts.connect": "60s", "logging.distributed": "error"}
    with (
        dask.config.set(settings),
        distributed.LocalCluster(processes=True, **options) as cluster,
        distributed.Client(cluster, timeout="60s") as client,
    ):
        yield client


@pytest.fixture(scope="module")
def moments():
    """A fold of features, which are sent to the workers: ZᵀZ of every row."""
    features = NystromFeatures(Gaussian(lengthscale=2.0), n_components=12, random_state=0)
    features = features.fit(X)

    def add(total, block, first):
        Z = features.transform(np.asarray(block[0]))
        total += Z.T @ np.column_stack([Z, block[1], first + np.arange(len(Z))])
        return total

    def fold(rows):
        return rows.fold(lambda: np.zeros((12, 14)), add, block_rows=CHUNK)

    return fold


def test_sums_have_the_bits_of_the_local_loop(client, moments):
    lazily, local = Rows.of(*chunked(X, y)), Rows.of(X, y)
    np.testing.assert_array_equal(moments(lazily), moments(local))
    names = set(client.cluster.scheduler.task_prefixes)
    assert {"dotsketch-sums", "dotsketch-reduce"} <= names  # what the dashboard shows
    assert digest(lazily, CHUNK) == digest(local, CHUNK)
    for mine, other in zip(
        *(rows.sample(50, np.random.default_rng(0))[:2] for rows in (lazily, local)), strict=True
    ):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("memory", [1 << 20, 1], ids=["kept on the workers", "computed again"])
def test_results_for_many_folds(client, memory):
    def double(block):
        return 2 * block[0], block[1]

    def add(total, block, first):
        return total + block[0].T @ block[0]

    lazily, local = (
        rows.mapped(double, block_rows=CHUNK, row_bytes=32, memory=memory)
        for rows in (Rows.of(*chunked(X, y)), Rows.of(X, y))
    )
    for _ in range(3):
        total = lazily.fold(lambda: np.zeros((3, 3)), add)
        np.testing.assert_array_equal(total, local.fold(lambda: np.zeros((3, 3)), add))


def test_data_frames_from_parquet_files(client, moments, tmp_path):
    for k, part in enumerate(np.array_split(np.arange(N), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"part{k}.parquet")
    lazily = dd.read_parquet(tmp_path)
    rows = Rows.of(lazily[[*"abc"]], lazily["y"])
    assert rows.n_rows == N
    np.testing.assert_allclose(moments(rows), moments(Rows.of(X, y)), rtol=1e-9, atol=1e-9)


def test_a_killed_worker_changes_nothing(client, moments):
    """`kill -9` while partitions become sums: Dask computes again what is lost."""
    rows, targets = chunked(X, y)
    prefixes = client.cluster.scheduler.task_prefixes
    victim = client.submit(os.getpid, pure=False).result()

    def slow(block):
        time.sleep(0.03)
        return block

    def kill():
        end = time.monotonic() + 60
        while time.monotonic() < end:
            sums = prefixes.get("dotsketch-sums")
            if sums is not None and sums.states["memory"] > 3:
                break
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    total = moments(Rows.of(rows.map_blocks(slow, **KNOWN), targets))
    killer.join()
    np.testing.assert_array_equal(total, moments(Rows.of(X, y)))
    client.wait_for_workers(2, timeout=60)


def test_errors_of_workers_come_to_the_client(client, moments):
    rows, targets = chunked(X, y)

    def read(block, block_id=None):
        if block_id[0] == 7:
            raise OSError("the disk went away")
        return block

    with pytest.raises(OSError, match="the disk went away"):
        moments(Rows.of(rows.map_blocks(read, **KNOWN), targets))
    broken = X.copy()
    broken[7 * CHUNK] = np.nan
    with pytest.raises(ValueError, match="NaN") as raised:
        moments(Rows.of(*chunked(broken, y)))
    assert "Partition 7 (counted from 0)" in raised.value.__notes__


def test_a_worker_out_of_memory(client, moments, monkeypatch):
    """The nanny ends a worker beyond its limit, as this task does it, wherever it runs."""
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)

    def die(block, block_id=None):
        if block_id[0] == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    rows, targets = chunked(X, y)
    with pytest.raises(distributed.KilledWorker, match=r"dotsketch-sums|die"):
        moments(Rows.of(rows.map_blocks(die, **KNOWN), targets))
    client.wait_for_workers(2, timeout=60)
