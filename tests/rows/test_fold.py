"""The fold: groups of blocks that start at zero and are added in order; its checkpoint."""

import numpy as np
import pytest

from dotsketch.rows import Checkpoint, Rows, digest, fingerprint


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
    values = block[0].ravel()
    assert values[0] == first
    trace.text += f"[{','.join(str(v) for v in values)}]"  # in place
    return trace


def column(n):
    return np.arange(n)[:, None]


def fold(n, **options):
    return Rows.of(column(n)).fold(Trace, add, **options).text


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
    batches = ((np.arange(a, b)[:, None], np.arange(a, b)) for a, b in ((0, 1), (1, 4), (4, 7)))
    total = Rows.of(batches).fold(Trace, add, block_rows=2, group_blocks=2)
    assert total.text == fold(7, block_rows=2, group_blocks=2)
    assert Rows.of(iter(())).fold(Trace, add, block_rows=2).text == ""


def test_totals_are_added_in_place():
    states = []

    def zero():
        states.append(np.zeros(1))
        return states[-1]

    def ones(state, block, first):
        state += 1
        return state

    total = Rows.of(column(3)).fold(zero, ones, block_rows=1)
    assert total is states[0]
    assert total == 3


@pytest.mark.parametrize("killed", range(6))
def test_a_fold_goes_on_between_groups(killed, tmp_path):
    """Interrupted at every row in turn: whole groups are kept, and the order is the same."""
    rows, path, seen = Rows.of(column(6)), tmp_path / "state.npz", []
    options = {"block_rows": 1, "group_blocks": 2}

    def fragile(trace, block, first):
        if first == killed:
            raise KeyboardInterrupt
        return add(trace, block, first)

    def recorded(trace, block, first):
        seen.append(first)
        return add(trace, block, first)

    with pytest.raises(KeyboardInterrupt):
        rows.fold(Trace, fragile, checkpoint=Checkpoint(path, Trace.restored), **options)
    total = rows.fold(Trace, recorded, checkpoint=Checkpoint(path, Trace.restored), **options)
    assert total.text == fold(6, **options)
    assert seen == list(range(killed - killed % 2, 6))
    again = rows.fold(Trace, fragile, checkpoint=Checkpoint(path, Trace.restored), **options)
    assert again.text == total.text  # a finished file: no row is added


def checkpoint(path, **options):
    return Checkpoint(path, Trace.restored, **options)


@pytest.fixture
def written(tmp_path):
    """The file of a finished fold of all four columns."""
    columns = [np.arange(k, k + 6.0)[:, None] for k in range(1)]
    columns += [np.arange(6.0), np.arange(6.0) + 1, np.arange(6.0) + 2]
    rows, path = Rows.of(*columns), tmp_path / "state.npz"
    rows.fold(Trace, add, block_rows=1, checkpoint=checkpoint(path, fingerprint=b"a"))
    return columns, path


@pytest.mark.parametrize(
    ("n", "changed", "options", "block_rows", "message"),
    [
        # X, targets, noise and weights: a change of any of them is noticed
        *((6, k, {"fingerprint": b"a"}, 1, "was written for other rows") for k in range(4)),
        (6, None, {"fingerprint": b"b"}, 1, "belongs to another configuration"),
        (6, None, {"fingerprint": b"a"}, 2, "belongs to another configuration"),
        (4, None, {"fingerprint": b"a"}, 1, "has more rows than the data"),
    ],
)
def test_a_checkpoint_of_another_fold_is_refused(written, n, changed, options, block_rows, message):
    columns, path = written
    columns = [column[:n].copy() for column in columns]
    if changed is not None:
        columns[changed][3] = 0.25
    state = checkpoint(path, **options)
    with pytest.raises(ValueError, match=message):
        Rows.of(*columns).fold(Trace, lambda t, *_: t, block_rows=block_rows, checkpoint=state)


def test_files_that_are_not_checkpoints(tmp_path):
    rows = Rows.of(column(4))
    (tmp_path / "text.npz").write_text("no checkpoint")
    np.savez(tmp_path / "arrays.npz", a=1)
    for name in ("text.npz", "arrays.npz"):
        with pytest.raises(ValueError, match="is not a checkpoint"):
            rows.fold(Trace, add, block_rows=1, checkpoint=checkpoint(tmp_path / name))
    with pytest.raises(FileNotFoundError, match=r"no folder .*missing"):
        rows.fold(Trace, add, block_rows=1, checkpoint=checkpoint(tmp_path / "missing" / "state"))


def test_a_compressed_checkpoint_is_refused_before_it_is_read(written, monkeypatch):
    """Two megabytes would grow to two gigabytes; np.savez, which writes them, never compresses."""
    columns, path = written
    with np.load(path) as file:
        np.savez_compressed(path, **file, zeros=np.zeros(10**5))
    monkeypatch.delattr(np, "load")
    with pytest.raises(ValueError, match="members are compressed"):
        Rows.of(*columns).fold(Trace, add, block_rows=1, checkpoint=checkpoint(path))


def test_the_checkpoint_of_an_iteration(tmp_path):
    """A solver that reads the rows many times writes its own state."""
    rows, path = Rows.of(column(6), np.arange(6.0)), tmp_path / "state.npz"
    first = checkpoint(path)
    assert first.begin(digest(rows, 2)) is None
    for text in ("one", "two"):
        first.write(Trace(text))
    assert checkpoint(path).begin(digest(rows, 2)).text == "two"
    other = Rows.of(column(6), np.ones(6))
    with pytest.raises(ValueError, match="other rows"):
        checkpoint(path).begin(digest(other, 2))
    with pytest.raises(ValueError, match="another configuration"):
        checkpoint(path, fingerprint=b"a").begin(digest(rows, 2))


def test_digests():
    """The same for the same rows, however they arrive; strings and objects count."""
    X, y = column(7), np.array([*"abcabca"])
    stream = Rows.of(lambda: iter([(X[:3], y[:3]), (X[3:], y[3:])]))
    assert digest(Rows.of(X, y), 2) == digest(stream, 2)
    others = [(X, y.astype(object)), (X + 1, y), (X, np.roll(y, 1)), (X.astype(float), y), (X,)]
    digests = {digest(Rows.of(*columns), 2) for columns in [(X, y), *others]}
    assert len(digests) == 1 + len(others)
    assert fingerprint([1, "a"]) == fingerprint((1, "a")) != fingerprint([1, "b"])


@pytest.mark.parametrize("memory", [0, 100], ids=["computed again", "kept"])
@pytest.mark.parametrize("source", ["array", "stream"])
def test_results_for_many_folds(memory, source):
    X, calls = column(6), []

    def double(block):
        calls.append(1)
        return (2 * block[0],)

    rows = Rows.of(X if source == "array" else lambda: iter([(X, X[:, 0])]))
    if source == "stream":
        list(rows.blocks(4))  # how many rows it has is known after the first pass
    mapped = rows.mapped(double, block_rows=2, row_bytes=8, memory=memory)
    for _ in range(3):
        total = mapped.fold(Trace, lambda t, block, first: Trace(f"{block[0].ravel()}@{first}"))
        assert total.text == "(([0 2]@0+[4 6]@2)+[ 8 10]@4)"
    assert mapped.n_rows == 6
    assert len(calls) == (3 if memory else 9)


def test_progress(capsys):
    pytest.importorskip("rich")
    rows = Rows.of(column(6))
    rows.fold(Trace, add, block_rows=2)
    assert capsys.readouterr().out == ""
    rows.fold(Trace, add, block_rows=2, progress="rows")
    assert "6/6" in capsys.readouterr().out
