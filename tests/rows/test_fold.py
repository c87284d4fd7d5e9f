"""The fold: groups of blocks that start at zero and are added in a fixed order."""

import numpy as np
import pytest

from dotsketch.rows import Checkpoint, Rows
from dotsketch.rows.fold import most_states


class Trace:
    """A state that records how it was made."""

    def __init__(self, text=""):
        self.text = text

    def __add__(self, other):
        return Trace(f"({self.text}+{other.text})")

    def arrays(self):
        return {"text": np.array(self.text)}

    @classmethod
    def restored(cls, arrays):
        return cls(str(arrays["text"]))


def add(trace, block, first):
    values = block[0]
    assert values[0] == first
    trace.text += f"[{','.join(str(v) for v in values)}]"  # in place
    return trace


def fold(n, **options):
    return Rows((np.arange(n),)).fold(Trace, add, **options).text


@pytest.mark.parametrize(
    ("n", "block_rows", "group_blocks", "expected"),
    [
        (3, 5, 1, "[0,1,2]"),
        (5, 2, 1, "(([0,1]+[2,3])+[4])"),
        (5, 1, 2, "(([0][1]+[2][3])+[4])"),
        (6, 1, 3, "([0][1][2]+[3][4][5])"),
    ],
)
def test_groups_start_at_zero_and_are_added_in_order(n, block_rows, group_blocks, expected):
    assert fold(n, block_rows=block_rows, group_blocks=group_blocks) == expected


def test_a_stream_is_folded_like_an_array():
    batches = ((np.arange(a, b), np.arange(a, b)) for a, b in ((0, 1), (1, 4), (4, 7)))
    found = Rows(stream=batches).fold(Trace, add, block_rows=2, group_blocks=2)
    assert found.text == fold(7, block_rows=2, group_blocks=2)


def test_no_rows_are_zero():
    assert Rows(stream=iter(())).fold(Trace, add, block_rows=2).text == ""


@pytest.mark.parametrize("killed", range(6))
def test_a_fold_goes_on_between_groups(killed, tmp_path):
    """Interrupted at every row in turn: whole groups are kept, and the order is the same."""

    def fragile(trace, block, first):
        if first == killed:
            raise KeyboardInterrupt
        return add(trace, block, first)

    seen = []

    def recorded(trace, block, first):
        seen.append(first)
        return add(trace, block, first)

    options = {"block_rows": 1, "group_blocks": 2}
    rows, path = Rows((np.arange(6),)), tmp_path / "state.npz"
    with pytest.raises(KeyboardInterrupt):
        rows.fold(Trace, fragile, checkpoint=Checkpoint(path, Trace.restored), **options)
    found = rows.fold(Trace, recorded, checkpoint=Checkpoint(path, Trace.restored), **options)
    assert found.text == fold(6, **options)
    assert seen == list(range(killed - killed % 2, 6))
    with pytest.raises(ValueError, match="another configuration"):
        rows.fold(Trace, add, checkpoint=Checkpoint(path, Trace.restored), block_rows=1)


class Counted:
    """A state that knows how many of its kind there are, and how many there were at most."""

    now = most = 0

    def __init__(self):
        Counted.now += 1
        Counted.most = max(Counted.most, Counted.now)

    def __del__(self):
        Counted.now -= 1

    def __iadd__(self, other):
        return self


@pytest.mark.parametrize("n", [1, 2, 15, 16, 18, 100, 256, 274])
def test_states_in_memory_are_counted(n):
    Counted.most = 0
    Rows((np.arange(n),)).fold(Counted, lambda state, block, first: state, block_rows=1)
    assert Counted.most == most_states(n)
    assert most_states(None) == most_states(256)
