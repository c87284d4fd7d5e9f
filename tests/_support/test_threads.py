"""One function over many items on several threads: all of them, once; errors; no deadlock."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from joblib import effective_n_jobs, parallel_config
from sklearn import config_context, get_config

from dotsketch import AutoFeatures, FeatureGPRegressor, Gaussian, NystromFeatures
from dotsketch._support import threads as pool
from dotsketch._support.threads import run_all
from dotsketch.features.nystrom import whitening
from dotsketch.gp import algebra


class Library:
    """A BLAS of which threadpoolctl sets the threads of the process."""

    user_api, prefix, filepath = "blas", "library", "library.so"

    def __init__(self, threads):
        self.threads = threads

    @property
    def num_threads(self):
        return self.threads

    def info(self, **options):
        return {"user_api": "blas", "num_threads": self.threads}

    def set_num_threads(self, threads):
        self.threads = threads


@pytest.fixture
def blas(monkeypatch):
    """A BLAS with eight threads in the place of the machine's."""
    library = Library(8)
    pools = pool.ThreadpoolController()
    pools.lib_controllers = [library]
    monkeypatch.setattr(pool, "_blas_pools", lambda: pools)
    return library


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("n_items", [0, 1, 2, 97])
def test_every_item_is_done_once(workers, n_items):
    done = []
    run_all(done.append, range(n_items), workers)
    assert sorted(done) == list(range(n_items))


def test_the_threads_work_at_the_same_time():
    meeting = threading.Barrier(3, timeout=60)
    run_all(lambda _: meeting.wait(), range(3), 3)  # BrokenBarrierError unless all three meet


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("culprit", [0, 1, 50])
def test_an_error_is_raised_and_stops_the_rest(workers, culprit):
    done = []

    def function(item):
        if item == culprit:
            raise KeyError(item)
        done.append(item)

    with pytest.raises(KeyError):
        run_all(function, range(100_000), workers)
    assert len(done) < 100_000 - 1


def test_an_error_of_another_thread_reaches_the_caller():
    meeting = threading.Barrier(2, timeout=60)
    caller = threading.get_ident()

    def function(_):
        meeting.wait()
        if threading.get_ident() != caller:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_all(function, range(2), 2)


def test_settings_of_the_caller_hold_on_all_threads():
    """NumPy's errstate and the configuration of scikit-learn."""
    meeting, seen = threading.Barrier(3, timeout=60), []

    def function(_):
        meeting.wait()
        seen.append((get_config()["assume_finite"], np.geterr()["over"]))

    for finite, over in ((True, "ignore"), (False, "raise")):
        with config_context(assume_finite=finite), np.errstate(over=over):
            run_all(function, range(3), 3)
    assert seen == [(True, "ignore")] * 3 + [(False, "raise")] * 3


def test_nested_calls_cannot_block():
    done = []
    run_all(lambda i: run_all(lambda j: done.append((i, j)), range(10), 2), range(10), 2)
    assert sorted(done) == [(i, j) for i in range(10) for j in range(10)]


def test_blas_keeps_to_one_thread_meanwhile(blas):
    seen = []
    run_all(lambda _: seen.append(blas.threads), range(4), 2)
    assert seen == [1] * 4
    assert blas.threads == 8
    run_all(lambda _: seen.append(blas.threads), range(2), 1)  # no threads of ours, no limit
    assert seen[4:] == [8, 8]


@pytest.mark.parametrize("size", [5000, 1280, 1281, 2])
def test_strips_are_everything_once(blas, size):
    seen = []
    pool.run_strips(lambda own: seen.append((own.start, own.stop, blas.threads)), size, 512)
    starts, stops, threads = zip(*sorted(seen), strict=True)
    assert starts == (0, *stops[:-1])
    assert stops[-1] == size
    assert len(seen) <= max(size // 512, 1)  # no strip is short
    assert set(threads) == ({8} if len(seen) == 1 else {1})
    assert (len(seen) == 1) == (size == 2)


def test_features_of_a_solver_have_the_threads_of_blas(blas):
    with pool.threads_for_features():
        assert pool.workers_for(None) == 8
        assert effective_n_jobs(None) == 1  # what others compute keeps its own number
        assert pool.workers_for(2) == 2
    assert pool.workers_for(None) == 1
    with parallel_config("threading", n_jobs=9), pool.threads_for_features():
        assert pool.workers_for(None) == 9
    with pool.single_blas_thread(), pool.threads_for_features():
        assert pool.workers_for(None) == 1


def test_small_matrices_have_one_thread_of_blas(blas):
    with pool.suited_blas_threads(1500), pool.suited_blas_threads(5):
        assert blas.threads == 1
    assert blas.threads == 8
    with pool.suited_blas_threads(1501):
        assert blas.threads == 8


def test_searches_and_plans_of_small_tables_have_one_thread_of_blas(blas, monkeypatch, rng):
    X = rng.standard_normal((60, 3))
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    seen = []
    for module, name in ((whitening, "cholesky"), (algebra.lapack, "dpotrf")):
        function = getattr(module, name)

        def noted(*args, function=function, **options):
            seen.append(blas.threads)
            return function(*args, **options)

        monkeypatch.setattr(module, name, noted)
    features = NystromFeatures(Gaussian(), n_components=10, random_state=0)
    FeatureGPRegressor(features, optimize=True).fit(X, y)
    AutoFeatures(Gaussian(), n_components=10, random_state=0).fit(X)
    assert len(seen) > 10
    assert set(seen) == {1}
    assert blas.threads == 8


@pytest.mark.parametrize("first", [0, 1])
def test_overlapping_calls_leave_blas_as_it_was(blas, first):
    """Two calls overlap, and either of them ends first."""
    inside, leave = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]

    def call(number):
        def function(_):
            inside[number].set()
            assert leave[number].wait(60)

        run_all(function, range(2), 2)

    threads = [threading.Thread(target=call, args=(number,)) for number in (0, 1)]
    for thread, entered in zip(threads, inside, strict=True):
        thread.start()
        assert entered.wait(60)  # the second call enters after the first has set its limit
    for number in (first, 1 - first):
        assert blas.threads == 1
        leave[number].set()
        threads[number].join(60)
    assert blas.threads == 8


def test_nested_calls_and_errors_leave_blas_as_it_was(blas):
    def nested(item):
        run_all(lambda _: None, range(3), 2)
        assert blas.threads == 1
        if item == 3:
            raise KeyError(item)

    with pytest.raises(KeyError):
        run_all(nested, range(5), 2)
    assert blas.threads == 8


FORK_INSIDE = """
import os, threading
from dotsketch._support import threads as pool
from dotsketch._support.threads import run_all

def threads():
    pools = pool._blas_pools().info()
    return [p["num_threads"] for p in pools if p["user_api"] == "blas"]

caller, before = os.getpid(), threads()
main = pool.threading.get_ident()

def function(item):
    if pool.threading.get_ident() == main and not children:
        children.append(os.fork())
        if os.getpid() != caller:
            # nobody in the child would ever release the limit: it is free
            assert threads() == before, threads()
            children[:] = [0]

children = []
while not children:
    run_all(function, range(100), 2)
meeting = threading.Barrier(3, timeout=30)
run_all(lambda _: meeting.wait(), range(3), 3)  # threads of its own
if os.getpid() != caller:
    assert threads() == before and pool._blas_limit.holders == 0
    os._exit(0)
assert os.waitpid(children[0], 0)[1] == 0
assert threads() == before and pool._blas_limit.holders == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork on this system")
def test_a_child_forked_inside_a_call_has_its_blas_threads():
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK_INSIDE],
        check=True,
        timeout=120,
        env=environment,
    )
