"""One map-and-reduce over blocks of rows, which survives being killed (`checkpoint`).

Blocks are added to the state of their group, and groups to each other as a `Tree` says: the result
does not depend on where the rows come from, on how many machines compute it or, to the rounding of
BLAS, on an interruption.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._support.progress import progress as progress_bar
from .._typing import Block
from .checkpoint import Checkpoint as Checkpoint
from .checkpoint import Followed as Followed
from .checkpoint import chained as chained
from .checkpoint import fingerprint as fingerprint

FAN_IN = 16  # nodes of a tree that are added to one of the next level


class Foldable:
    """What comes in blocks of rows, and can be summed over them."""

    @property
    def n_rows(self) -> int | None:
        """The number of rows, or None if it is not known."""
        raise NotImplementedError

    def blocks(self, size: int) -> Iterator[Block]:
        """All rows in blocks of `size` (the last may be shorter)."""
        raise NotImplementedError

    def fold(
        self,
        zero: Callable[[], Any],
        add: Callable[[Any, Block, int], Any],
        *,
        block_rows: int,
        group_blocks: int = 1,
        checkpoint: Checkpoint | None = None,
        progress: str | None = None,
    ) -> Any:
        """The sum of what `add` makes of all blocks, in a fixed order.

        Parameters
        ----------
        zero : callable
            `zero()` is a state of no rows. States are added by `+` (by `+=` where they have it).
        add : callable
            `add(state, block, first)` is the state with the rows of the block, of which `first` is
            the number of the first; it may change the state in place.
        block_rows, group_blocks : int
            Rows of a block, and blocks of a group. Every group starts at `zero()`, so that groups
            can be computed elsewhere with the same result.
        checkpoint : Checkpoint or None
            Written after every group.
        progress : str or None
            What a progress bar counts; None for no bar.
        """
        done = 0 if checkpoint is None else checkpoint.begin([block_rows, group_blocks, FAN_IN])
        tree = Tree()
        group: Any = None
        number = first = 0
        with progress_bar(progress or "", self.n_rows, progress is not None) as advance:
            for number, block in enumerate(self.blocks(block_rows), start=1):
                if checkpoint is not None:
                    checkpoint.follow(block)
                if number > done:
                    group = add(zero() if group is None else group, block, first)
                    if number % group_blocks == 0:
                        tree.add(group)
                        group = None
                        if checkpoint is not None:
                            checkpoint.write(tree, number)
                elif number == done and checkpoint is not None:
                    tree = Tree.restored(checkpoint.saved(), checkpoint.restore)
                first += block[0].shape[0]
                advance(block[0].shape[0])
        if checkpoint is not None and number < done:
            raise ValueError(
                f"The checkpoint {checkpoint.path} holds more rows than the data given now."
            )
        if group is not None:
            tree.add(group)
            if checkpoint is not None:
                checkpoint.write(tree, number)
        total = tree.total()
        return zero() if total is None else total


def most_states(n_groups: int | None) -> int:
    """How many states a fold holds at once: that of a group, and a sum of every level of the tree.

    A single group is its own sum. An unknown number counts as one of two levels.
    """
    if n_groups is not None and n_groups <= 1:
        return 1
    levels, reached = 1, FAN_IN
    while reached < (FAN_IN**2 if n_groups is None else n_groups):
        levels, reached = levels + 1, reached * FAN_IN
    return 1 + levels


class Tree:
    """States added in the order of a tree: every node is the sum of 16 nodes below it, in order.

    The tree depends on the number of states alone, so that its nodes can be computed anywhere (see
    `dask`). Here states come one after the other, and one unfinished node of every level is held.
    """

    def __init__(self) -> None:
        self.counts: list[int] = []  # of the unfinished nodes, from below
        self.sums: list[Any] = []

    def add(self, state: Any) -> None:
        """Add the next state, which becomes the tree's own."""
        for level in range(len(self.counts) + 1):
            if level == len(self.counts):
                self.counts.append(0)
                self.sums.append(None)
            self.counts[level] += 1
            self.sums[level] = _joined(self.sums[level], state)
            if self.counts[level] < FAN_IN:
                return
            state, self.counts[level], self.sums[level] = self.sums[level], 0, None

    def total(self) -> Any:
        """The sum of all states, or None without any; the tree is used up."""
        total: Any = None
        for node in self.sums:
            total = total if node is None else node if total is None else _joined(node, total)
        return total

    def arrays(self) -> dict[str, Any]:
        """All of it by name, for a checkpoint."""
        found: dict[str, Any] = {"counts": np.array(self.counts)}
        for level, node in enumerate(self.sums):
            if node is not None:
                found |= {f"{level}.{name}": value for name, value in node.arrays().items()}
        return found

    @classmethod
    def restored(cls, arrays: dict[str, Any], restore: Callable[[dict[str, Any]], Any]) -> Tree:
        """The way back from `arrays`; `restore` is that of a state."""
        tree = cls()
        tree.counts = arrays.pop("counts").tolist()
        nodes: list[dict[str, Any]] = [{} for _ in tree.counts]
        for key, value in arrays.items():
            level, name = key.split(".", 1)
            nodes[int(level)][name] = value
        tree.sums = [restore(node) if node else None for node in nodes]
        return tree


def _joined(total: Any, state: Any) -> Any:
    if total is None:
        return state
    total += state  # in place where the state can: it may be large, and the fold alone knows it
    return total
