"""A self-contained HTML page from headings, tables, plots and what commands print.

Nothing is loaded from anywhere: style and pictures are in the page. All text is escaped.
"""

import base64
import html
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem;
  color: #1b1b1b; background: #fff; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border: 1px solid #ccc; padding: .25rem .6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; } th { background: #f2f2f2; }
pre { background: #f6f6f6; padding: .6rem; overflow-x: auto; font-size: .85rem; }
img { max-width: 100%; height: auto; } .wide { overflow-x: auto; }
nav ul { columns: 2; padding-left: 1.2rem; }
"""


def whole(title: str, parts: Sequence[str]) -> str:
    """The page."""
    name = html.escape(title)
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{name}</h1>\n{body}\n</body></html>\n"
    )


def heading(text: str) -> str:
    return f'<h2 id="{_anchor(text)}">{html.escape(text)}</h2>'


def contents(headings: Sequence[str]) -> str:
    """Links to the headings of this page."""
    links = (f'<li><a href="#{_anchor(text)}">{html.escape(text)}</a></li>' for text in headings)
    return f"<nav><ul>{''.join(links)}</ul></nav>"


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def picture(file: Path, text: str) -> str:
    """A PNG, put into the page; half as wide as its pixels, so that it is sharp and not huge."""
    content = file.read_bytes()
    width = int.from_bytes(content[16:20]) // 2  # where every PNG has it
    data = base64.b64encode(content).decode()
    alt = html.escape(text)
    return f'<p><img alt="{alt}" width="{width}" src="data:image/png;base64,{data}"></p>'


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> str:
    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    head = "".join(f"<th>{html.escape(text)}</th>" for text in headings)
    lines = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table>{caption}<tr>{head}</tr>\n{lines}</table></div>'


def printed(text: str) -> list[str]:
    """What a command printed: drawn tables become tables, other lines paragraphs.

    The lines of a table's title stand right above its frame and are as wide as it. Table lines
    must not have been broken.
    """
    parts: list[str] = []
    plain: list[str] = []
    lines = iter(text.splitlines())
    for line in lines:
        if not line.startswith("┏"):
            plain.append(line)
            continue
        title: list[str] = []
        while plain and len(plain[-1]) == len(line):
            title.insert(0, plain.pop().strip())
        parts += [paragraph(each.strip()) for each in plain if each.strip()]
        plain = []
        drawn = list(takewhile(lambda each: not each.startswith("└"), lines))
        head = [_cells(each, "┃") for each in drawn if each.startswith("┃")]
        rows = [_cells(each, "│") for each in drawn if each.startswith("│")]
        parts.append(table(_joined(head), rows, " ".join(title)))
    return parts + [paragraph(each.strip()) for each in plain if each.strip()]


def _cells(line: str, border: str) -> list[str]:
    return [cell.strip() for cell in line.strip(border).split(border)]


def _joined(lines: Sequence[Sequence[str]]) -> list[str]:
    """Headings that are written on several lines."""
    return [" ".join(cell for cell in column if cell) for column in zip(*lines, strict=True)]
