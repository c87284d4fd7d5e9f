"""How much memory a process may use."""

from __future__ import annotations

import os
from pathlib import Path


def usable_memory(root: Path = Path("/")) -> int:
    """Bytes: of the machine, of the container or the job, or twice what is free at the moment.

    `root` is the folder of proc and sys.
    """
    limits = [*_physical(), *_limits(root), *_free(root)]
    return min(limits, default=4 << 30)  # the system may not say


def _physical() -> list[int]:
    try:
        pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return []
    return [pages * page] if min(pages, page) > 0 else []


def _limits(root: Path) -> list[int]:
    """Those of the control groups of this process, in both versions, up to the root."""
    limits, groups = [], root / "sys" / "fs" / "cgroup"
    for line in _lines(root / "proc" / "self" / "cgroup"):
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            top, name = groups, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = groups / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = top / group.lstrip("/")
        for place in (folder, *folder.parents):
            limits += [int(text) for text in _lines(place / name) if text.isdigit()]
            if place == top:
                break
    return limits


def _free(root: Path) -> list[int]:
    for line in _lines(root / "proc" / "meminfo"):
        if line.startswith("MemAvailable:"):
            return [2 * 1024 * int(line.split()[1])]
    return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # no such file, or not for us
        return []
