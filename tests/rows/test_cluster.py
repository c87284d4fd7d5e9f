"""Fits on a cluster of two worker processes: the same bits, whatever happens to the workers."""

import os
import signal
import threading
import time

import numpy as np
import pytest

import dotsketch.rows.dask
from dotsketch import FeatureGPClassifier, FeatureGPRegressor, Gaussian, NystromFeatures
from dotsketch.gp.solvers import ConjugateGradients

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed", reason="needs distributed: pip install '.[dask]'")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pandas = pytest.importorskip("pandas")

N, CHUNK = 600, 20
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
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N)


def process(kind=FeatureGPRegressor, **options):
    features = NystromFeatures(Gaussian(lengthscale=2.0), n_components=12, random_state=0)
    return kind(features, chunk_rows=CHUNK, **options)


def chunked(*columns):
    return tuple(da.from_array(c, chunks=(CHUNK, *c.shape[1:])) for c in columns)


def assert_same_bits(found, expected):
    other = expected.statistics_.arrays()
    for name, value in found.statistics_.arrays().items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


def test_regression_has_the_bits_of_the_local_loop(client, data):
    X, y = data
    found = process().fit(*chunked(X, y))
    assert_same_bits(found, process().fit(X, y))
    names = set(client.cluster.scheduler.task_prefixes)
    assert {"dotsketch-sums", "dotsketch-reduce"} <= names  # what the dashboard shows
    mean, std = dask.compute(*found.predict(chunked(X)[0], return_std=True))
    for mine, local in zip((mean, std), found.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(mine, local, rtol=1e-10)


@pytest.mark.parametrize(
    ("kind", "share", "n_reads"), [("arrays", 0.25, 1), ("arrays", 0.0, 2), ("frames", 0.25, 2)]
)
def test_rows_are_read_once_if_workers_can_keep_them(
    client, data, tmp_path, monkeypatch, kind, share, n_reads
):
    """Otherwise once for the sample and once for the sums; data frames also to count their rows."""
    monkeypatch.setattr(dotsketch.rows.dask, "KEPT_SHARE", share)
    X, y = data
    journal = tmp_path / "reads"

    def read(block):
        with open(journal, "a") as file:
            file.write("x")
        return block

    if kind == "arrays":
        rows, targets = chunked(X, y)
        found = process().fit(rows.map_blocks(read, **KNOWN), targets)
    else:
        frame = pandas.DataFrame(X, columns=[*"abc"]).assign(y=y)
        lazy = dd.from_pandas(frame, npartitions=N // CHUNK).map_partitions(read, meta=frame[:0])
        found = process().fit(lazy, target="y")
    assert journal.stat().st_size == n_reads * N // CHUNK
    local = process().fit(X, y)
    gram = local.statistics_.gram()
    np.testing.assert_allclose(found.statistics_.gram(), gram, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("memory", [1 << 20, 1], ids=["kept on the workers", "computed again"])
def test_iterations_have_the_bits_of_the_local_loop(client, data, memory):
    X, y = data
    given = {"noise_variance": 0.05, "prior_variance": 1.0}
    solver = ConjugateGradients(memory=memory, n_samples=4)
    local = process(solver=solver, **given).fit(X, y)
    found = process(solver=solver, **given).fit(*dask.persist(*chunked(X, y)))
    np.testing.assert_array_equal(found.posterior_.weights, local.posterior_.weights)
    np.testing.assert_array_equal(found.residuals_, local.residuals_)


def test_classification_of_persisted_rows(client, data):
    X, y = data
    rows, labels = dask.persist(*chunked(X, (y > 0).astype(int)))
    found = process(FeatureGPClassifier, likelihood="softmax").fit(rows, labels)
    local = process(FeatureGPClassifier, likelihood="softmax").fit(X, y > 0)
    np.testing.assert_array_equal(found._weights(), local._weights())
    probabilities = found.predict_proba(rows).compute()
    np.testing.assert_allclose(probabilities, local.predict_proba(X), rtol=1e-8)


def test_data_frames_from_parquet_files(client, data, tmp_path):
    X, y = data
    frame = pandas.DataFrame(X, columns=[*"abc"]).assign(y=y, other="text")
    for k, part in enumerate(np.array_split(np.arange(N), 3)):
        frame.iloc[part].to_parquet(tmp_path / f"part{k}.parquet")
    lazy = dd.read_parquet(tmp_path)[[*"abc", "y"]]
    found = process().fit(lazy, target="y")
    np.testing.assert_array_equal(found.feature_names_in_, [*"abc"])
    local = process().fit(frame[[*"abc"]], y)
    np.testing.assert_allclose(
        found.statistics_.gram(), local.statistics_.gram(), rtol=1e-9, atol=1e-9
    )
    mean = found.predict(lazy[[*"abc"]])
    assert len(mean.compute()) == N


def test_a_killed_worker_changes_nothing(client, data):
    """`kill -9` while partitions become sums: Dask computes again what is lost."""
    X, y = data
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
    rows, targets = chunked(X, y)
    found = process().fit(rows.map_blocks(slow, **KNOWN), targets)
    killer.join()
    assert_same_bits(found, process().fit(X, y))
    client.wait_for_workers(2, timeout=60)


def test_errors_of_workers_come_to_the_client(client, data):
    X, y = data
    rows, targets = chunked(X, y)

    def read(block, block_id=None):
        if block_id[0] == 7:
            raise OSError("the disk went away")
        return block

    model = process()
    with pytest.raises(OSError, match="the disk went away"):
        model.fit(rows.map_blocks(read, **KNOWN), targets)
    assert not hasattr(model, "posterior_")
    broken = X.copy()
    broken[7 * CHUNK] = np.nan
    with pytest.raises(ValueError, match=r"Partition 7 .*NaN"):
        process().fit(*chunked(broken, y))


def test_a_worker_out_of_memory(client, data, monkeypatch):
    """The nanny ends a worker beyond its limit, as this task does it, wherever it runs."""
    X, y = data
    monkeypatch.setattr(client.cluster.scheduler, "allowed_failures", 0)

    def die(block, block_id=None):
        if block_id[0] == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    rows, targets = chunked(X, y)
    with pytest.raises(RuntimeError, match="ran out of memory"):
        process().fit(rows.map_blocks(die, **KNOWN), targets)
    client.wait_for_workers(2, timeout=60)


def test_a_cancelled_computation(client, data):
    X, y = data
    rows, targets = chunked(X, y)
    started, gate = distributed.Event("started"), distributed.Event("gate")

    def wait(block):
        distributed.Event("started").set()
        distributed.Event("gate").wait(60)
        return block

    def cancel():
        started.wait(60)
        client.cancel([distributed.Future(key, client) for key in client.futures], force=True)
        gate.set()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(RuntimeError, match="was cancelled"):
        process().fit(rows.map_blocks(wait, **KNOWN), targets)
    canceller.join()
