"""The memory of the machine, or of a container."""

import os

from dotsketch._support import memory


def found(monkeypatch, tmp_path, limits, sysconf=None):
    paths = []
    for k, text in enumerate(limits):
        paths.append(tmp_path / str(k))
        if text is not None:
            paths[-1].write_text(text)
    monkeypatch.setattr(memory, "LIMITS", paths)
    if sysconf is not None:
        monkeypatch.setattr(os, "sysconf", sysconf)
    return memory.usable_memory.__wrapped__()


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    def pages(name):
        return {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 1 << 20}[name]

    for limits, expected in (
        (("max\n", None), 1 << 32),
        (("1000000\n", None), 1_000_000),
        ((None, "2000000"), 2_000_000),
        ((None, str(1 << 62)), 1 << 32),
        ((None, None), 1 << 32),
    ):
        for path in tmp_path.iterdir():
            path.unlink()
        assert found(monkeypatch, tmp_path, limits, pages) == expected


def test_a_system_that_does_not_say(monkeypatch, tmp_path):
    def refused(name):
        raise ValueError(name)

    assert found(monkeypatch, tmp_path, (None, None), refused) == memory.UNKNOWN
    assert found(monkeypatch, tmp_path, (None, None), lambda name: -1) == memory.UNKNOWN
