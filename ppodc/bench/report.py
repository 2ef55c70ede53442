"""`ppodc bench report`: a set of measurements as one page of Markdown, with plots beside it.

Every section is a command of `ppodc bench`, run exactly as the page shows it. The page has the
tables, notes and plot of its document. Finished sections and plots are kept in a folder beside the
page: an interrupted report continues when it is repeated. A section that fails says why and does
not stop the others.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ppodc.bench import document, machine
from ppodc.bench.document import Document, Table, plural
from ppodc.bench.kmeans.published import (
    BUSY_MINUTES,
    COMPARING,
    ITERATION_MINUTES,
    TABLE_5_3,
    minutes_table,
)  # fmt: skip
from ppodc.bench.points import Key, Points, notices
from ppodc.errors import InputError, PpodcError

_KEY = "--key-bits 1024"  # the chapter's, for comparison with its numbers
_QUICK_KEGG = "--m 2000,10000 --l 10,27 --k 4 --paillier-rows none"
# Name, title, options of a full report (mostly defaults), options of a quick one (None: left out)
_SECTIONS = (
    ("iteration", "One iteration, shares suite", "--m 10000", "--m 10000"),
    ("start", "A start by k-means++", "", "--k 4"),
    ("platform", "The platform on this machine", "", None),
    ("primitives", "Table 5.3: primitives", _KEY, f"{_KEY} --records 8"),
    ("sweep", "Figure 5.3: seconds per iteration over m, k, l", _KEY,
     "--suite shares --m 2000,10000 --k 2,4,8 --l 5,10,20 --iterations 2"),
    ("breakdown", "Figure 5.4: share of each primitive", _KEY,
     f"{_KEY} --k 2,8 --records 4 --iterations 2"),
    ("modes", "Figure 5.5: modes", _KEY, f"{_KEY} --m 2000,10000 --records 4"),
    ("pairs", "Figure 5.6: worker pairs", "--pairs 1,2,4,8", "--pairs 1,2 --iterations 3"),
    ("simulate", "Simulation: many pairs", "--within 1h", "--within 1h"),
    ("kegg", "KEGG, a real data set", "", ""),
    ("peers", "Beside SecretFlow SPU", "", "--m 2000 --runs 2"),
    ("linkage", "Chapter 3: pairs left to compare", "", "--m 1500,6000 --seeds 2 --no-sweeps"),
    ("linkage-pairs", "Comparing on shares", "", "--side 128 --strings 64"),
    ("join", "Joining columns", "", "--rows 600 --cells 6 --relation 1:1 --no-clusters"),
    ("linkage-texts", "Texts on shares", "", "--side 30"),
    ("linkage-paillier", "Chapter 3: three parties", "", "--side 2 --key-bits 1024"),
    ("ldp privbv", "PrivBV and DPBV", "", "--starts 2 --epsilons 1,2"),
    ("ldp ldpseg", "LDPseg", "", "--knn-rows 4000"),
    ("ldp kmodes", "LDPK-modes", "", "--runs 3"),
    ("ldp beyond", "Loss over epsilon", "", "--sets s1-5000 --epsilons 1 --runs 1"),
    ("ldp usable", "Results that say they are usable", "", "--sets s1 --epsilons 1 --runs 1"),
    ("ldp speed", "Reports a second", "", "--rows 100000"),
    ("ldp clouds", "Noise in the two clouds", "", "--m 1000 --iterations 1"),
)  # fmt: skip
_ANEW = ("iteration", "start", "platform", "ldp privbv", "ldp ldpseg", "ldp kmodes",
         "ldp beyond", "ldp usable", "ldp speed")  # without points  # fmt: skip
_UNDRAWN = ("iteration", "start", "platform", "linkage-pairs", "join", "linkage-texts",
            "linkage-paillier", "ldp usable", "ldp speed", "ldp clouds")  # fmt: skip
_ADULT = "linkage"  # its data are a file, those of the others the whole folder
_OF_DATA = (_ADULT, "ldp privbv", "ldp ldpseg", "ldp kmodes", "ldp beyond", "ldp usable")


@dataclass(frozen=True, slots=True)
class Section:
    """One command. `keeps` if it keeps points, `draws` if it draws."""

    name: str
    title: str
    arguments: tuple[str, ...] = ()
    keeps: bool = True
    draws: bool = True

    def words(self) -> list[str]:
        """The command as a person would type it."""
        return ["ppodc", "bench", *self.name.split(), *self.arguments]

    @property
    def file(self) -> str:
        """The name of its files."""
        return self.name.replace(" ", "-")

    def shown(self) -> str:
        """The command with paths reduced to names, to reveal nothing of this machine."""
        words = self.words()
        return " ".join(Path(word).name if Path(word).is_absolute() else word for word in words)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The document of a section, or why there is none."""

    document: Document | None
    seconds: float
    failed: str = ""


def _known(full: bool) -> list[Section]:
    chosen = [(name, title, a if full else b) for name, title, a, b in _SECTIONS]
    return [
        Section(name, title, tuple(options.split()), name not in _ANEW, name not in _UNDRAWN)
        for name, title, options in chosen
        if options is not None
    ]


FULL, QUICK = _known(True), _known(False)


def sections(
    full: bool,
    kegg: Path | None = None,
    spu_python: Path | None = None,
    only: Sequence[str] | None = None,
    data: Path | None = None,
) -> list[Section]:
    """The chosen sections with their arguments; those of data sets only with the folder of them."""
    known = [s for s in (FULL if full else QUICK) if data is not None or s.name not in _OF_DATA]
    names = [section.name for section in known]
    for name in only or ():
        if name not in names:
            raise InputError(f"There is no section {name!r}. Choose from {', '.join(names)}.")
    more: dict[str, tuple[str, ...]] = {}
    if kegg is not None:
        more["kegg"] = (str(kegg.absolute()), *(() if full else _QUICK_KEGG.split()))
    if spu_python is not None:
        more["peers"] = ("--python", str(spu_python.absolute()))
    if data is not None:
        more |= {name: ("--data", str(data.absolute())) for name in _OF_DATA}
        more[_ADULT] = (str(data.absolute() / "adult" / "adult.data"),)
    return [
        replace(section, arguments=(*more.get(section.name, ()), *section.arguments))
        for section in known
        if only is None or section.name in only
    ]


def run(file: Path, chosen: Sequence[Section]) -> list[str]:
    """Run unfinished sections, write the page after each one, and name those that failed."""
    folder = file.with_name(file.name + ".d")
    points = Points(folder / "points.jsonl")
    done: list[tuple[Section, Outcome]] = []
    for number, section in enumerate(chosen, 1):
        notices.print(f"report {number}/{len(chosen)}: {section.title}", markup=False)
        done.append((section, _outcome(section, folder, points)))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page(done, len(chosen), folder))
    return [section.name for section, outcome in done if outcome.failed]


def _outcome(section: Section, folder: Path, points: Points) -> Outcome:
    """The kept outcome of this command and code, or that of running it now."""
    key: Key = {"bench": "report", "command": section.words()}
    kept = points.get(key)
    if kept is None or (section.draws and not (folder / f"{section.file}.png").exists()):
        began = time.perf_counter()
        try:
            written = _run(section, folder)
        except PpodcError as error:
            return Outcome(None, time.perf_counter() - began, str(error))
        kept = points.add(key, {"document": written, "seconds": time.perf_counter() - began})
    return Outcome(kept["document"], kept["seconds"])


def _run(section: Section, folder: Path) -> Document:
    """The document of a command, whose progress is shown while it runs."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = folder / f"{section.file}.json"
    figures.unlink(missing_ok=True)  # it may belong to another command
    options = ["--json", str(figures)]
    if section.keeps:
        options += ["--points", str(folder / "points.jsonl")]
    if section.draws:
        options += ["--plot", str(folder / f"{section.file}.png")]
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
    """Paths reduced to names, to reveal nothing of this machine."""
    return re.sub(r"(?<!\w)(?:/[^\s/:'\"]+)*/([^\s/:'\"]+)", r"\1", text)


# ------------------------------------------------------------- the page


def page(done: Sequence[tuple[Section, Outcome]], count: int, folder: Path) -> str:
    """The page of the finished sections, of `count` in all. Plots are in `folder`."""
    chapters = {
        "At a glance": [_markdown(_glance(done))],
        "This machine": [_markdown(_machine())],
        "Published values": _published(),
        **{section.title: _section(section, outcome, folder) for section, outcome in done},
        "Commands": [_code("\n".join(section.shown() for section, _ in done))],
    }
    head = (
        f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {len(done)} of {count} sections. "
        "Simulated and extrapolated values say so where they stand. Times are of this machine; "
        "the published ones are of 16 computers with Xeon E5-5320 processors."
    )
    parts = ["# ppodc: measurements", head]
    for title, content in chapters.items():
        parts += [f"## {title}", *content]
    return "\n\n".join(parts) + "\n"


def _code(text: str) -> str:
    return f"```\n{text}\n```"


def _markdown(table: Table) -> str:
    """A table with its title. Signs that Markdown would interpret are escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(re.sub(r"([\\`*_<>|\[\]])", r"\\\1", c) for c in cells) + " |"

    rule = "| " + " | ".join(["---", *["---:"] * (len(table["columns"]) - 1)]) + " |"
    title = [f"**{table['title']}**", ""] if table["title"] else []
    return "\n".join([*title, line(table["columns"]), rule, *map(line, table["rows"])])


def _section(section: Section, outcome: Outcome, folder: Path) -> list[str]:
    parts = [_code(section.shown())]
    if outcome.document is None:
        parts.append(f"This section failed: {outcome.failed}")
    else:
        if section.draws:
            parts.append(f"![{section.title}]({folder.name}/{section.file}.png)")
        parts += [_markdown(table) for table in outcome.document["tables"]]
        parts += outcome.document["notes"]
    return [*parts, f"Took {document.seconds(outcome.seconds)}."]


def _machine() -> Table:
    about = machine.describe()
    versions = about.pop("packages")
    rows = {name.replace("_gb", ", GB"): value for name, value in about.items()} | versions
    return document.table("", ("what", "value"), ((k, str(v)) for k, v in rows.items()))


def _published() -> list[str]:
    """All numbers that the chapter states in its text or its tables."""
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
        _markdown(times),
        _markdown(minutes_table(title, ITERATION_MINUTES)),
        f"Of the 337 minutes, computing took {busy}. SBD and SMIN_k take part of an iteration "
        f"(m = 6,000, l = 10, 8 pairs): {parts}.",
    ]


# ------------------------------------------------------------- at a glance

_SHAPE = {"m": 10_000, "l": 10, "k": 4}
_WHAT = "one iteration, 10,000 records, l = 10, k = 4"

Line = tuple[str, str, str, str, str]


def _glance(done: Sequence[tuple[Section, Outcome]]) -> Table:
    """The main findings of the sections."""
    columns = ("what", "published", "here", "times faster", "how", "section")
    rows = [
        (*line, section.name)
        for section, outcome in done
        if section.name in _SUMMARIES and outcome.document is not None
        for line in _SUMMARIES[section.name](outcome.document)
    ]
    return document.table("", columns, rows)


def _faster(what: str, pairs: int, seconds: float, how: str) -> Line:
    """A time beside the published pipelined one on this number of pairs."""
    minutes = next(
        float(str(entry["minutes"]))
        for entry in ITERATION_MINUTES
        if entry["mode"] == "pipelined" and entry["pairs"] == pairs
    )
    published = f"{minutes:,.0f} min, {plural(pairs, 'pair')}"
    times = document.digits(60 * minutes / seconds)
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
    largest = max(jobs, key=lambda p: (p["m"], p["l"], p["k"]))
    what = "KEGG, {m:,} records, l = {l}, k = {k}: whole job".format(**largest)
    how = f"{largest['iterations']} iterations, shares suite"
    return [
        ("KEGG jobs to convergence", "", exact, "", "shares suite"),
        (what, "", document.seconds(largest["job_s"]), "", how),
    ]


_SUMMARIES: dict[str, Callable[[Document], list[Line]]] = {
    "iteration": _iteration,
    "modes": _modes,
    "peers": _peers,
    "simulate": _simulate,
    "kegg": _kegg,
}
