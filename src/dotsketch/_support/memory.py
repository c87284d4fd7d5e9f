"""How much memory a process may use."""

from __future__ import annotations

import os
from pathlib import Path

GROUPS, ROOT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
AVAILABLE = Path("/proc/meminfo")


def usable_memory() -> int:
    """Bytes: of the machine, of the container or the job, or twice what is free at the moment."""
    return min([*_physical(), *_limits(), *_free()], default=4 << 30)  # the system may not say


def _physical() -> list[int]:
    try:
        pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return []
    return [pages * page] if min(pages, page) > 0 else []


def _limits() -> list[int]:
    """Those of the control groups of this process, in both versions, up to the root."""
    limits = []
    for line in _lines(GROUPS):
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            root, name = ROOT, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = ROOT / "memory", "memory.limit_in_bytes"
        else:
            continue
        folder = root / group.lstrip("/")
        for place in (folder, *folder.parents):
            limits += [int(text) for text in _lines(place / name) if text.isdigit()]
            if place == root:
                break
    return limits


def _free() -> list[int]:
    for line in _lines(AVAILABLE):
        if line.startswith("MemAvailable:"):
            return [2 * 1024 * int(line.split()[1])]
    return []


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:  # no such file, or not for us
        return []
