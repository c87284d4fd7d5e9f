"""One function over many items on several threads: all of them, once; errors; no deadlock."""

import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

from dotsketch._threads import run_all


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


def test_nested_calls_cannot_block():
    done = []
    run_all(lambda i: run_all(lambda j: done.append((i, j)), range(10), 2), range(10), 2)
    assert sorted(done) == [(i, j) for i in range(10) for j in range(10)]


def test_errstate_of_the_caller_holds_on_all_threads():
    meeting = threading.Barrier(2, timeout=60)

    def overflow(_):
        meeting.wait()
        np.float32(3e38) * np.float32(10)

    with warnings.catch_warnings(), np.errstate(over="ignore"):
        warnings.simplefilter("error")
        run_all(overflow, range(2), 2)


FORK = """
import os, threading
from dotsketch._threads import run_all

def meet():
    meeting = threading.Barrier(3, timeout=30)
    run_all(lambda _: meeting.wait(), range(3), 3)

meet()
child = os.fork()
if child == 0:
    meet()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork on this system")
def test_a_forked_child_has_threads_of_its_own():
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=120)
