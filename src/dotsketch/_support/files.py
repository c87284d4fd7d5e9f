"""Files that are replaced at once: a reader sees the old file or the new one, never a part."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file that replaces `path` when the block ends without an exception.

    The bytes go to a temporary file in the same folder with a name of its own, so that several
    writers of one path cannot write into each other's: the last to end wins. They are on disk
    before the name changes hands. After an exception `path` is as it was and the temporary file is
    gone; only a killed process leaves one behind, "<name>.<digits>.part".

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with atomic_write(Path(folder) / "numbers") as file:
    ...         _ = file.write(b"1 2 3")
    ...     (Path(folder) / "numbers").read_bytes()
    b'1 2 3'
    """
    path = Path(path)
    # beside the target: a rename is atomic within one file system only
    temporary = path.with_name(f"{path.name[:100]}.{uuid.uuid4().hex[:12]}.part")
    try:
        opened = temporary.open("x+b")
    except OSError as error:  # which names the temporary file, and the user named another
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with opened as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
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
