"""Small tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any


def html_table(headings: Iterable[str], rows: Iterable[Iterable[Any]], notes: str = "") -> str:
    """An HTML table; the first cell of every row is text, the others are numbers."""

    def line(cells: Iterable[Any], tag: str) -> str:
        parts = [
            f'<{tag} style="text-align: {"right" if place else "left"}">{escape(str(cell))}</{tag}>'
            for place, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    after = f"<pre>{escape(notes)}</pre>" if notes else ""
    return f"<table><thead>{line(headings, 'th')}</thead><tbody>{body}</tbody></table>{after}"
