"""Blocks of rows that went through a function, for many folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .._typing import Block
from .fold import Foldable


class MappedRows(Foldable):
    """Blocks of rows that went through a function; `Rows.mapped` makes them."""

    def __init__(
        self, rows: Foldable, function: Callable[[Block], Block], block_rows: int, memory: int
    ):
        self._rows, self._function, self._block_rows = rows, function, block_rows
        self._memory = memory
        self._kept: list[Block] | None = None

    @property
    def n_rows(self) -> int | None:
        return self._rows.n_rows

    @property
    def is_kept(self) -> bool:
        """Whether the results are in memory."""
        return self._kept is not None

    def blocks(self, size: int) -> Iterator[Block]:
        """The results of all blocks, whose size is given already."""
        if self._kept is not None:
            yield from self._kept
            return
        kept: list[Block] = []
        left = self._memory
        for block in self._rows.blocks(self._block_rows):
            found = self._function(block)
            left -= sum(column.nbytes for column in found)
            if left >= 0:
                kept.append(found)
            else:
                kept.clear()
            yield found
        if left >= 0:
            self._kept = kept
        else:
            self._memory = 0  # the next fold need not try

    def fold(
        self, zero: Callable[[], Any], add: Callable[[Any, Any, int], Any], **options: Any
    ) -> Any:
        """As `Rows.fold`, of the results, whose blocks have their size already."""
        return super().fold(zero, add, block_rows=self._block_rows, **options)
