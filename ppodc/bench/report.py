"""`ppodc bench report`: a set of measurements as one page that needs nothing else.

Every section is a command of the `bench` family, run exactly as it stands on the page; the page
shows the tables, notes and plot of the document that it writes. A finished section is a measured
point like any other and is kept with them in a folder beside the page: a report that was
interrupted goes on where it stopped. A section that fails says why and does not stop the others.

Nothing is loaded from anywhere: style and pictures are in the page. All text is escaped.
"""

import base64
import html
import io
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from ppodc.bench import document, machine
from ppodc.bench.document import Document, Table, plural
from ppodc.bench.points import Key, Points, notices
from ppodc.bench.published import (
    BUSY_MINUTES,
    COMPARING,
    ITERATION_MINUTES,
    TABLE_5_3,
    minutes_table,
)
from ppodc.errors import InputError, PpodcError


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


_KEY = "--key-bits 1024"  # the chapter's, beside whose numbers the paillier suite runs
_QUICK_SWEEP = "--suite shares --m 2000,10000 --k 2,4,8 --l 5,10,20 --iterations 2"
_QUICK_KEGG = "--m 2000,10000 --l 10,27 --k 4 --paillier-rows none"
# Full: every command's own defaults. Quick: no platform, no phe (None); fewer sizes and fewer
# records of the paillier suite.
_SECTIONS = (
    ("iteration", "One iteration, shares suite", "--m 10000", "--m 10000"),
    ("platform", "The platform on this machine", "", None),
    ("paillier", "Paillier beside phe", "", None),
    ("primitives", "Table 5.3: primitives", _KEY, f"{_KEY} --records 8"),
    ("sweep", "Figure 5.3: seconds per iteration over m, k, l", _KEY, _QUICK_SWEEP),
    (
        "breakdown",
        "Figure 5.4: share of each primitive",
        _KEY,
        f"{_KEY} --k 2,8 --records 4 --iterations 2",
    ),
    ("modes", "Figure 5.5: modes", _KEY, f"{_KEY} --m 2000,10000 --records 4"),
    ("pairs", "Figure 5.6: worker pairs", "--pairs 1,2,4,8", "--pairs 1,2 --iterations 3"),
    ("simulate", "Simulation: many pairs", "--within 1h", "--within 1h"),
    ("kegg", "KEGG, a real data set", "", ""),
    ("peers", "Beside SecretFlow SPU", "", "--m 2000 --runs 2"),
)
_ANEW = ("iteration", "platform", "paillier")  # measured again every time, and not drawn


def _section_of(name: str, title: str, arguments: str) -> Section:
    return Section(name, title, tuple(arguments.split()), name not in _ANEW, name not in _ANEW)


FULL = tuple(_section_of(name, title, full) for name, title, full, _ in _SECTIONS)
QUICK = tuple(
    _section_of(name, title, quick) for name, title, _, quick in _SECTIONS if quick is not None
)


def sections(
    full: bool,
    kegg: Path | None = None,
    spu_python: Path | None = None,
    only: Sequence[str] | None = None,
) -> list[Section]:
    """The chosen sections with their arguments."""
    known = FULL if full else QUICK
    names = [section.name for section in known]
    for name in only or ():
        if name not in names:
            raise InputError(f"there is no section {name!r}; choose from {', '.join(names)}.")
    more: dict[str, tuple[str, ...]] = {}
    if kegg is not None:
        more["kegg"] = (str(kegg.absolute()), *(() if full else _QUICK_KEGG.split()))
    if spu_python is not None:
        more["peers"] = ("--python", str(spu_python.absolute()))
    return [
        replace(section, arguments=(*more.get(section.name, ()), *section.arguments))
        for section in known
        if only is None or section.name in only
    ]


def run(file: Path, chosen: Sequence[Section]) -> list[str]:
    """Run what is not finished, write the page after every section; names of what failed."""
    folder = file.with_name(file.name + ".d")
    points = Points(folder / "points.jsonl")
    done: list[tuple[Section, Outcome]] = []
    for number, section in enumerate(chosen, 1):
        notices.print(f"report {number}/{len(chosen)}: {section.title}", markup=False)
        done.append((section, _outcome(section, folder, points)))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_page(done, len(chosen)))
    return [section.name for section, outcome in done if outcome.failed]


def _outcome(section: Section, folder: Path, points: Points) -> Outcome:
    """What was kept of this very command and code, or what running it now gives."""
    key: Key = {"bench": "report", "command": section.words()}
    kept = points.get(key)
    if kept is None:
        began = time.perf_counter()
        try:
            written = _run(section, folder)
        except PpodcError as error:
            return Outcome(None, time.perf_counter() - began, str(error))
        kept = points.add(key, {"document": written, "seconds": time.perf_counter() - began})
    return Outcome(kept["document"], kept["seconds"])


def _run(section: Section, folder: Path) -> Document:
    """The document of a command; its progress is shown while it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = folder / f"{section.name}.json"
    figures.unlink(missing_ok=True)  # of another command; nobody may take it for this
    options = ["--json", str(figures)]
    if section.resumes:
        options += ["--points", str(folder / "points.jsonl")]
    last = ""
    process = subprocess.Popen(
        [sys.executable, "-m", "ppodc.cli", *section.words()[1:], *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr or ():
            notices.print(f"  {line.rstrip()}", markup=False)
            last = line.strip() or last
        code = process.wait()
    finally:
        process.terminate()
        process.wait()
    if code:
        raise PpodcError(_without_paths(last) or f"it ended with code {code}")
    written: Document = json.loads(figures.read_text())
    return written


def _without_paths(text: str) -> str:
    """Paths reduced to their names: where files are on this machine is told to nobody."""
    return re.sub(r"(?<!\w)(?:/[^\s/:'\"]+)*/([^\s/:'\"]+)", r"\1", text)


# ------------------------------------------------------------- the page


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


def _page(done: Sequence[tuple[Section, Outcome]], count: int) -> str:
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
