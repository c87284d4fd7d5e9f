"""How much memory there is."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

UNKNOWN = 4 << 30  # where the system does not say
# The limits of a container, in both versions of control groups; "max" means none
LIMITS = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"


@cache
def usable_memory() -> int:
    """Bytes of the machine, or of the container that this process is in."""
    try:
        pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        pages = page = -1
    sizes = [pages * page if min(pages, page) > 0 else UNKNOWN]
    for path in LIMITS:
        try:
            sizes.append(int(Path(path).read_text()))
        except (OSError, ValueError):
            continue
    return min(sizes)
