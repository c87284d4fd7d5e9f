"""The memory of the machine, or what a container leaves of it."""

import os

import pytest

from dotsketch._support.memory import usable_memory

GIB = 1 << 30


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of 64 GiB with no control groups, and 40 GiB of its memory free."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 16 << 20}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {40 << 20} kB\n")
    return tmp_path


def test_the_machine_and_what_is_free(machine):
    assert usable_memory(machine) == 64 * GIB
    (machine / "proc" / "meminfo").write_text(f"MemAvailable: {5 << 20} kB\n")
    assert usable_memory(machine) == 10 * GIB


@pytest.mark.parametrize(
    ("groups", "folder", "name"),
    [
        ("0::/job/step", "job", "memory.max"),
        ("0::/job", "job", "memory.max"),
        ("0::/", "", "memory.max"),
        ("5:cpu:/x\n9:memory:/job/step", "memory/job", "memory.limit_in_bytes"),
        ("9:cpu,memory:/", "memory", "memory.limit_in_bytes"),
    ],
)
def test_the_limit_of_a_group_or_of_one_above_it(machine, groups, folder, name):
    (machine / "proc" / "self" / "cgroup").write_text(groups + "\n")
    place = machine / "sys" / "fs" / "cgroup" / folder
    place.mkdir(parents=True)
    (place / name).write_text("max\n")
    assert usable_memory(machine) == 64 * GIB
    (place / name).write_text(f"{3 * GIB}\n")
    assert usable_memory(machine) == 3 * GIB


@pytest.mark.parametrize("answer", [-1, None])
def test_a_system_that_does_not_say(monkeypatch, tmp_path, answer):
    def sysconf(name):
        if answer is None:
            raise ValueError(name)
        return answer

    monkeypatch.setattr(os, "sysconf", sysconf)
    assert usable_memory(tmp_path) == 4 << 30
