"""Files that are replaced at once: a reader sees the old file or the new one, never a part."""

from __future__ import annotations

import glob
import os
import platform
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` when the block ends without an exception.

    The bytes go to a temporary file in the same folder with a name of its own, so that several
    writers of one path cannot write into each other's: the last to end wins. They are on disk
    before the name changes hands, and the file has the mode of the one that it replaces. After an
    exception `path` is as it was and the temporary file is gone; one that a killed process left,
    "<name>.<host>-<process>-<digits>.part", is removed by the next writer of the path. What is not
    a regular file, such as a pipe or a device, is not replaced but written to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "numbers") as file:
    ...         _ = file.write(b"1 2 3")
    ...     (Path(folder) / "numbers").read_bytes()
    b'1 2 3'
    """
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        with path.open("wb") as file:
            yield file
        return
    mode = stat.S_IMODE(path.stat().st_mode) if path.is_file() else 0o666  # less the umask
    host = platform.node().partition(".")[0][:20]
    _remove_orphans(path, host)
    # beside the target: a rename is atomic within one file system only
    own = f"{host}-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    temporary = path.with_name(f"{path.name[:100]}.{own}.part")
    try:
        opened = open(temporary, "x+b", opener=partial(os.open, mode=mode))  # noqa: SIM115
    except OSError as error:  # which names the temporary file, and the user named another
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if path.is_file():
            temporary.chmod(mode)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # the new name, too, is to outlive a power cut
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _remove_orphans(path: Path, host: str) -> None:
    """Remove what processes of this machine that are no more have left beside the path."""
    if os.name != "posix":  # where a signal 0 is not a question
        return
    for orphan in path.parent.glob(f"{glob.escape(path.name[:100])}.{glob.escape(host)}-*.part"):
        process = orphan.name.removesuffix(".part").split("-")[-2]
        try:
            os.kill(int(process), 0)
        except ProcessLookupError:
            orphan.unlink(missing_ok=True)
        except (PermissionError, ValueError, OverflowError):
            pass  # another user's process, or not a file of ours
