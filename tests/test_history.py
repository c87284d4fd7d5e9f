"""The history of ratios: a line is added to a file of the same columns, and the file is plotted."""

import matplotlib
import pytest

from benchmarks import history


def line(**changes):
    head = {"date": "2026-01-01", "commit": "abc", "machine": "one"}
    return head | dict.fromkeys(history.COLUMNS, 2.0) | changes


def test_lines_are_added_and_plotted(tmp_path):
    file = tmp_path / "history.csv"
    for machine in ("one", "one", "another"):
        history.append(file, line(machine=machine))
    assert [row["machine"] for row in history.read(file)] == ["one", "one", "another"]
    with matplotlib.rc_context({"backend": "agg"}):
        figure = history.plot(file)
        assert [panel.get_title() for panel in figure.axes] == ["one", "another"]
        assert {len(panel.lines) for panel in figure.axes} == {len(history.COLUMNS) + 1}
        matplotlib.pyplot.close(figure)


def test_other_columns_are_refused(tmp_path):
    history.append(tmp_path / "f", line())
    with pytest.raises(ValueError, match="has the columns"):
        history.append(tmp_path / "f", line(more=1.0))


def test_the_file_of_the_documentation_has_these_columns():
    if not history.FILE.exists():
        pytest.skip("needs the source tree")
    assert list(history.read()[0]) == ["date", "commit", "machine", *history.COLUMNS]
