"""HTML pages that need nothing else: style, tables and figures are inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: #222 }
h2 { margin-top: 2.5rem } h2 small { color: #555; font-weight: normal }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem }
th, td { padding: .3rem .7rem; text-align: left; vertical-align: top;
         border-bottom: 1px solid #e4e4e4 }
.number { text-align: right; white-space: nowrap }
.best { background: #e8f5ec; font-weight: 600 }
.wide { overflow-x: auto } img { width: 56rem; max-width: 100%; height: auto }
@media (max-width: 40rem) { .wide img { width: 42rem; max-width: none } }
pre { background: #f6f6f6; padding: .8rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere }
.note { color: #555; font-size: .92rem }
.yes { color: #17693a; font-weight: 600 } .no, .error { color: #a3262a; font-weight: 600 }
summary { cursor: pointer; color: #2a5c8a } nav a { margin-right: .9rem; white-space: nowrap }
"""
Cell = tuple[str, str]  # a text and the class of its style


def page(title: str, body: str) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>
{body}
</body></html>
"""


def table(headings: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    """One line per row, in a box that scrolls if it is wide."""
    head = "".join(f"<th>{html.escape(heading)}</th>" for heading in headings)
    lines = [
        "".join(f'<td class="{css}">{html.escape(text)}</td>' for text, css in row) for row in rows
    ]
    body = "\n".join(f"<tr>{line}</tr>" for line in (head, *lines))
    return f'<div class="wide"><table>\n{body}\n</table></div>'


def image(title: str, svg: bytes) -> str:
    """A figure whose bytes are in the page; on a narrow screen it scrolls and stays readable."""
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    return f'<div class="wide"><img alt="{html.escape(title)}" src="{source}"></div>'
