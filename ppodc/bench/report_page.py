"""The page of `ppodc bench report`: sections of measurements, with a table of them at a glance.

Nothing is loaded from anywhere: style and pictures are in the page. All text is escaped.
"""

import base64
import html
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from ppodc.bench import document, machine
from ppodc.bench.document import Document, Table, plural
from ppodc.bench.published import (
    BUSY_MINUTES,
    COMPARING,
    ITERATION_MINUTES,
    TABLE_5_3,
    minutes_table,
)

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


@dataclass(frozen=True, slots=True)
class Section:
    """One command; `draws` if it can plot, `resumes` if it keeps points."""

    name: str
    title: str
    arguments: tuple[str, ...] = ()
    draws: bool = True
    resumes: bool = True

    def words(self) -> list[str]:
        """The command as a person would type it."""
        return ["ppodc", "bench", self.name, *self.arguments]

    def shown(self) -> str:
        """The same with paths reduced to names: where files are is told to nobody."""
        words = self.words()
        return " ".join(Path(word).name if Path(word).is_absolute() else word for word in words)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a section gave: its document, or why there is none."""

    document: Document | None
    seconds: float
    failed: str = ""


def page(done: Sequence[tuple[Section, Outcome]], count: int) -> str:
    """The page with what is done of so many sections."""
    written = (
        f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {len(done)} of {count} sections. "
        "Simulated and extrapolated values say so where they stand. Times are of this machine; "
        "the published ones are of 16 computers with Xeon E5-5320 processors."
    )
    chapters = {
        "At a glance": [_table(_glance(done))],
        "This machine": [_table(_machine())],
        "Published values": _published(),
        **{section.title: _section(section, outcome) for section, outcome in done},
        "Commands": [_code("\n".join(section.shown() for section, _ in done))],
    }
    links = "".join(
        f'<li><a href="#{_anchor(title)}">{html.escape(title)}</a></li>' for title in chapters
    )
    parts = [_paragraph(written), f"<nav><ul>{links}</ul></nav>"]
    for title, content in chapters.items():
        parts += [f'<h2 id="{_anchor(title)}">{html.escape(title)}</h2>', *content]
    body, name = "\n".join(parts), "ppodc: measurements"
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n"
        f"<body><h1>{name}</h1>\n{body}\n</body></html>\n"
    )


def _anchor(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def _code(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _table(table: Table) -> str:
    def line(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    caption = f"<caption>{html.escape(table['title'])}</caption>" if table["title"] else ""
    rows = "\n".join(line(row, "td") for row in table["rows"])
    head = line(table["columns"], "th")
    return f'<div class="wide"><table>{caption}{head}\n{rows}</table></div>'


def _picture(content: bytes, text: str) -> str:
    """A PNG, put into the page; half as wide as its pixels, so that it is sharp and not huge."""
    width = int.from_bytes(content[16:20]) // 2  # where every PNG has it
    data = base64.b64encode(content).decode()
    alt = html.escape(text)
    return f'<p><img alt="{alt}" width="{width}" src="data:image/png;base64,{data}"></p>'


def _section(section: Section, outcome: Outcome) -> list[str]:
    parts = [_code(section.shown())]
    if outcome.document is None:
        parts.append(_paragraph(f"This section failed: {outcome.failed}"))
    else:
        if section.draws:
            picture = io.BytesIO()
            import_module(f"ppodc.bench.{section.name}").draw(outcome.document, picture)
            parts.append(_picture(picture.getvalue(), section.title))
        parts += [_table(table) for table in outcome.document["tables"]]
        parts += [_paragraph(note) for note in outcome.document["notes"]]
    return [*parts, _paragraph(f"Took {document.seconds(outcome.seconds)}.")]


def _machine() -> Table:
    about = machine.describe()
    versions = about.pop("packages")
    rows = {name.replace("_gb", ", GB"): value for name, value in about.items()} | versions
    return document.table("", ("what", "value"), ((k, str(v)) for k, v in rows.items()))


def _published() -> list[str]:
    """The chapter's numbers, all of those that its text or its tables state."""
    modes = list(TABLE_5_3["SMP"])
    times = document.table_of(
        "Table 5.3: milliseconds per invocation, key of 1,024 bits, m = 6,000, l = 10, k = 4, one "
        "pair of servers",
        " | ".join(("primitive", *modes)),
        " | ".join(("{primitive}", *(f"{{{mode}:,}}" for mode in modes))),
        [{"primitive": name, **row} for name, row in TABLE_5_3.items()],
    )
    title = "Section 5.4.2: minutes of one iteration, key of 1,024 bits"
    parts = "; ".join(f"k = {k}: {part:.0%}" for k, part in COMPARING.items())
    busy = " and ".join(f"{value} for a server of {cloud}" for cloud, value in BUSY_MINUTES.items())
    return [
        _table(times),
        _table(minutes_table(title, ITERATION_MINUTES)),
        _paragraph(
            f"Of the 337 minutes, computing took {busy}. SBD and SMIN_k take part of an iteration "
            f"(m = 6,000, l = 10, 8 pairs): {parts}."
        ),
    ]


# ------------------------------------------------------------- at a glance

_SHAPE = {"m": 10_000, "l": 10, "k": 4}
_WHAT = "one iteration, 10,000 records, l = 10, k = 4"

Line = tuple[str, str, str, str, str]


def _glance(done: Sequence[tuple[Section, Outcome]]) -> Table:
    """What the sections found, in a line or more each."""
    columns = ("what", "published", "here", "times faster", "how", "section")
    rows = [
        (*line, section.name)
        for section, outcome in done
        if section.name in _SUMMARIES and outcome.document is not None
        for line in _SUMMARIES[section.name](outcome.document)
    ]
    return document.table("", columns, rows)


def _faster(what: str, pairs: int, seconds: float, how: str) -> Line:
    """A time beside the published pipelined one on so many pairs."""
    minutes = next(
        entry["minutes"]
        for entry in ITERATION_MINUTES
        if entry["mode"] == "pipelined" and entry["pairs"] == pairs
    )
    published = f"{minutes:,} min, {plural(pairs, 'pair')}"
    times = document.digits(60 * float(str(minutes)) / seconds)
    return (what, published, document.seconds(seconds), times, how)


def _iteration(result: Document) -> list[Line]:
    if any(result[name] != value for name, value in _SHAPE.items()) or result["pairs"] != 1:
        return []
    exact = "exact" if result["exact"] else "NOT EXACT"
    return [_faster(f"{_WHAT}: {result['suite']}", 8, result["total_s"], f"1 pair, {exact}")]


def _modes(result: Document) -> list[Line]:
    p = result["parameters"]
    if (p["l"], p["k"]) != (_SHAPE["l"], _SHAPE["k"]):
        return []
    what = f"{_WHAT}: paillier, {p['key_bits']} bits, pipelined"
    how = f"1 pair, estimated from {p['records']} records"
    return [
        _faster(what, 1, point["iteration_s"], how)
        for point in result["points"]
        if point["mode"] == "pipelined" and point["m"] == _SHAPE["m"]
    ]


def _peers(result: Document) -> list[Line]:
    what = f"one iteration, {document.SHAPE}: ".format(**result["parameters"])
    lines = []
    for p in result["points"]:
        exact = "exact" if p["error"] == 0 else f"error up to {p['error']:.2g}"
        lines.append((what + p["system"], "", document.seconds(p["seconds"]), "", exact))
    return lines


def _simulate(result: Document) -> list[Line]:
    checks = [c for c in result["parameters"]["checks"] if not c["used_to_calibrate"]]
    worst = max(abs(c["error"]) for c in checks)
    runs = (f"{c['pairs']}{' (' + c['link'] + ')' if c['link'] else ''}" for c in checks)
    how = f"pairs: {', '.join(runs)}"
    return [("simulation against measured runs", "", f"{worst:.1%} off at most", "", how)]


def _kegg(result: Document) -> list[Line]:
    jobs = [p for p in result["points"] if p["suite"] == "shares"]
    exact = f"{sum(p['exact'] for p in jobs)} of {len(jobs)} exact"
    largest: dict[str, Any] = max(jobs, key=lambda p: (p["m"], p["l"], p["k"]))
    what = "KEGG, {m:,} records, l = {l}, k = {k}: whole job".format(**largest)
    how = f"{largest['iterations']} iterations, shares suite"
    return [
        ("KEGG jobs to convergence", "", exact, "", "shares suite"),
        (what, "", document.seconds(largest["job_s"]), "", how),
    ]


_SUMMARIES: dict[str, Callable[[Document], list[Line]]]
_SUMMARIES = {
    "iteration": _iteration,
    "modes": _modes,
    "peers": _peers,
    "simulate": _simulate,
    "kegg": _kegg,
}
