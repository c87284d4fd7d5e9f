"""A comparison as a table, on the terminal and in a report."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.table import Table as RichTable

from ..planning import BestPossible
from .choice import Comparison
from .measure import Compared, Difference
from .page import table as table_of

HEADINGS = {
    "classification": ("features", "error", "accuracy", "MNLL", "±", "µs/row"),
    "regression": ("features", "error", "R²", "MNLL", "±", "µs/row"),
}


def cells(one: Compared, best: Compared, task: str) -> tuple[str, ...]:
    """One line of the table."""

    def number(value: float | None, digits: str) -> str:
        return "" if value is None else format(value, digits)

    first = one.figures["accuracy" if task == "classification" else "r2"]
    difference = None if one is best else Difference.of(one, best)
    return (
        one.name,
        number(one.measured_error, ".2g"),
        number(first, ".3f"),
        number(one.figures["mnll"], ".3f"),
        "" if difference is None else f"{difference.standard_error:.3f}",
        number(one.microseconds, ".1f"),
    )


def limit_cells(limit: BestPossible) -> tuple[str, ...]:
    """The line of what is possible, which is no candidate."""
    return ("best possible", f"{limit.relative_error:.2g}", "", "", "", "")


def caption(summary: dict[str, Any]) -> str:
    data = summary["data"]
    return (
        f"{summary['kernel_in_short']}, {summary['n_components']} columns, fitted to "
        f"{data['rows_fitted']:,} rows, scored on {data['rows_held_out']:,} held out. error: of "
        "the kernel, relative. MNLL: mean negative log likelihood, smaller is better. ±: standard "
        "error of its difference from the first row; smaller differences are ties. µs/row: time of "
        "the features, or of a prediction by scikit-learn."
        + (
            " best possible: an estimate of the least error with this number of columns."
            if summary["best_possible"]
            else ""
        )
        + (
            " Always predicting the most frequent class has an accuracy of "
            f"{data['most_frequent_class']:.3f}."
            if data["most_frequent_class"] is not None
            else ""
        )
    )


def report_table(found: Comparison, task: str) -> str:
    """The comparison as HTML; the recommended candidate is marked."""
    rows: list[list[Any]] = []
    best, limit = found.best, found.limit
    for one in found.compared:
        name, *figures = cells(one, best, task)
        mark = " best" if one is best else ""
        predicted = "" if one.predicted_error is None else f"{one.predicted_error:.2g}"
        figures = [predicted, *figures, f"{one.fit_seconds:.2f}"]
        rows.append([(name, mark), *((text, f"number{mark}") for text in figures)])
    if limit is not None:
        name, *figures = limit_cells(limit)
        rows.append([(name, ""), *((text, "number") for text in ("", *figures, ""))])
    first, *others = HEADINGS[task]
    return table_of((first, "predicted error", *others, "seconds to fit"), rows)


def comparison_table(summary: dict[str, Any], found: Comparison) -> RichTable:
    """The comparison for people, on 80 columns; the recommended candidate stands in bold."""
    task = summary["data"]["task"]
    table = RichTable(
        caption=caption(summary), caption_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for position, heading in enumerate(HEADINGS[task]):
        table.add_column(heading, justify="right" if position else "left", no_wrap=True)
    best = found.best
    for one in found.choice.measured:
        table.add_row(*cells(one, best, task), style="bold green" if one is best else None)
    if found.limit is not None:
        table.add_row(*limit_cells(found.limit), style="dim")
    table.add_section()
    for one in found.references:
        table.add_row(*cells(one, best, task))
    return table
