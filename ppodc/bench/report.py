"""`ppodc bench report`: a set of measurements as one page that needs nothing else.

Every section is a command of the `bench` family, run exactly as it stands on the page; what it
printed becomes tables, its plot is put into the page. Sections that are finished are kept in a
folder beside the page, with their JSON, and so are single points: a report that was interrupted
goes on where it stopped. A section that fails says why and does not stop the others.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from ppodc.bench import figure, glance, page
from ppodc.bench.published import BUSY_MINUTES, COMPARING, ITERATION_MINUTES, TABLE_5_3
from ppodc.cli.options import err
from ppodc.errors import InputError

WIDTH = 400  # columns for what commands print, so that no table line is broken


@dataclass(frozen=True, slots=True)
class Section:
    """One command; `draws` if it can plot, `resumes` if it keeps points."""

    name: str
    title: str
    arguments: tuple[str, ...]
    draws: bool = True
    resumes: bool = True


@dataclass(slots=True)
class Outcome:
    """What a section's command left; kept as JSON."""

    command: list[str]
    said: str = ""
    failed: str = ""
    seconds: float = 0.0
    plot: bool = False
    code: str = field(default_factory=lambda: str(figure.machine()["code"]))


_COLUMNS = ("m", "l", "k", "pairs", "mode", "minutes")
# Quick: fewer sizes and fewer records of the paillier suite. Full: every command's own defaults.
# Beside the chapter's numbers the paillier suite runs with the chapter's key of 1,024 bits.
_PUBLISHED_KEY = ("--key-bits", "1024")
_QUICK_KEGG = ("--m", "2000,10000", "--l", "10,27", "--k", "4", "--paillier-rows", "none")
QUICK = (
    Section(
        "iteration", "One iteration, shares suite", ("--m", "10000"), draws=False, resumes=False
    ),
    Section(
        "primitives", "Table 5.3: primitives", (*_PUBLISHED_KEY, "--records", "8")
    ),
    Section(
        "sweep", "Figure 5.3: seconds per iteration over m, k, l",
        ("--suite", "shares", "--m", "2000,10000", "--k", "2,4,8", "--l", "5,10,20",
         "--iterations", "2"),
    ),
    Section(
        "breakdown", "Figure 5.4: share of each primitive",
        (*_PUBLISHED_KEY, "--k", "2,8", "--records", "4", "--iterations", "2"),
    ),
    Section("modes", "Figure 5.5: modes", (*_PUBLISHED_KEY, "--m", "2000,10000", "--records", "4")),
    Section("pairs", "Figure 5.6: worker pairs", ("--pairs", "1,2", "--iterations", "3")),
    Section("simulate", "Simulation: many pairs", ("--within", "1h")),
    Section("kegg", "KEGG, a real data set", ()),
    Section("peers", "Beside SecretFlow SPU", ("--m", "2000", "--runs", "2")),
)  # fmt: skip
FULL = (
    Section(
        "iteration", "One iteration, shares suite", ("--m", "10000"), draws=False, resumes=False
    ),
    Section(
        "platform", "The platform on this machine", (), draws=False, resumes=False
    ),
    Section("paillier", "Paillier beside phe", (), draws=False, resumes=False),
    Section("primitives", "Table 5.3: primitives", _PUBLISHED_KEY),
    Section("sweep", "Figure 5.3: seconds per iteration over m, k, l", _PUBLISHED_KEY),
    Section("breakdown", "Figure 5.4: share of each primitive", _PUBLISHED_KEY),
    Section("modes", "Figure 5.5: modes", _PUBLISHED_KEY),
    Section("pairs", "Figure 5.6: worker pairs", ("--pairs", "1,2,4,8")),
    Section("simulate", "Simulation: many pairs", ("--within", "1h")),
    Section("kegg", "KEGG, a real data set", ()),
    Section("peers", "Beside SecretFlow SPU", ()),
)  # fmt: skip


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
        more["kegg"] = (str(kegg.absolute()), *(() if full else _QUICK_KEGG))
    if spu_python is not None:
        more["peers"] = ("--python", str(spu_python.absolute()))
    return [
        Section(s.name, s.title, (*more.get(s.name, ()), *s.arguments), s.draws, s.resumes)
        for s in known
        if only is None or s.name in only
    ]


def run(
    file: Path,
    *,
    full: bool = False,
    kegg: Path | None = None,
    spu_python: Path | None = None,
    only: Sequence[str] | None = None,
    chosen: Sequence[Section] | None = None,
) -> list[str]:
    """Run what is not finished, write the page after every section; names of what failed."""
    wanted = list(chosen) if chosen is not None else sections(full, kegg, spu_python, only)
    folder = file.with_name(file.name + ".d")
    folder.mkdir(parents=True, exist_ok=True)
    done: list[tuple[Section, Outcome]] = []
    for number, section in enumerate(wanted, 1):
        err.print(f"report {number}/{len(wanted)}: {section.title}", markup=False)
        done.append((section, _outcome(section, folder)))
        file.write_text(_page(done, len(wanted), folder))
    return [section.name for section, outcome in done if outcome.failed]


def _outcome(section: Section, folder: Path) -> Outcome:
    """What was kept of this very command and code, or what running it now gives."""
    kept = folder / f"{section.name}.outcome.json"
    command = _command(section, folder)
    if kept.exists():
        found = Outcome(**json.loads(kept.read_text()))
        same = (found.command, found.code) == (command, figure.machine()["code"])
        if same and not found.failed:
            return found
    for old in ("outcome.json", "json", "png"):  # of another command; nobody may take it for this
        (folder / f"{section.name}.{old}").unlink(missing_ok=True)
    outcome = _run(section, command, folder)
    new = kept.with_suffix(".new")
    new.write_text(json.dumps(asdict(outcome)))
    new.replace(kept)
    return outcome


def _command(section: Section, folder: Path) -> list[str]:
    options = ["--json", str(folder / f"{section.name}.json")]
    if section.resumes:
        options += ["--points", str(folder / "points.jsonl")]
    if section.draws:
        options += ["--plot", str(folder / f"{section.name}.png")]
    return ["ppodc", "bench", section.name, *section.arguments, *options]


def _run(section: Section, command: list[str], folder: Path) -> Outcome:
    """Run a command; its progress is shown while it runs, its tables are kept."""
    began = time.perf_counter()
    printed = folder / f"{section.name}.txt"
    last = ""
    with printed.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "ppodc.cli", *command[1:]],
            env={**os.environ, "COLUMNS": str(WIDTH), "NO_COLOR": "1"},
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            for line in process.stderr or ():
                err.print(f"  {line.rstrip()}", markup=False)
                last = line.strip() or last
            code = process.wait()
        finally:
            process.terminate()
            process.wait()
    outcome = Outcome(command, printed.read_text(), seconds=time.perf_counter() - began)
    if code:
        outcome.failed = f"This section failed: {_named(last) or f'it ended with code {code}'}"
    outcome.plot = section.draws and (folder / f"{section.name}.png").exists()
    return outcome


# ------------------------------------------------------------- the page


def _page(done: Sequence[tuple[Section, Outcome]], count: int, folder: Path) -> str:
    titles = [section.title for section, _ in done]
    good = [section.name for section, outcome in done if not outcome.failed]
    parts = [
        page.paragraph(
            f"Written {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {len(done)} of {count} sections. "
            "Simulated and extrapolated values say so where they stand. Times are of this "
            "machine; the published ones are of 16 computers with Xeon E5-5320 processors."
        ),
        page.contents(["At a glance", "This machine", "Published values", *titles, "Commands"]),
        page.heading("At a glance"),
        page.table(glance.HEADINGS, glance.lines(folder, good)),
        page.heading("This machine"),
        page.table(["what", "value"], _machine()),
        page.heading("Published values"),
        *_published(),
    ]
    for section, outcome in done:
        parts += _section(section, outcome, folder)
    parts += [page.heading("Commands"), page.code("\n".join(_shown(o) for _, o in done))]
    return page.whole("ppodc: measurements", parts)


def _section(section: Section, outcome: Outcome, folder: Path) -> list[str]:
    parts = [page.heading(section.title), page.code(_shown(outcome))]
    if outcome.failed:
        parts.append(page.paragraph(outcome.failed))
    if outcome.plot:
        parts.append(page.picture(folder / f"{section.name}.png", section.title))
    parts += page.printed(outcome.said)
    parts.append(page.paragraph(f"Took {figure.seconds(outcome.seconds)}."))
    return parts


def _named(text: str) -> str:
    """Paths reduced to their names: where files are on this machine is nobody's business."""
    return re.sub(r"(?<!\w)(?:/[^\s/:'\"]+)*/([^\s/:'\"]+)", r"\1", text)


def _shown(outcome: Outcome) -> str:
    """The command without the files of this report, whose place is nobody's business."""
    words = list(outcome.command)
    for option in ("--json", "--points", "--plot"):
        if option in words:
            at = words.index(option)
            del words[at : at + 2]
    return " ".join(Path(word).name if Path(word).is_absolute() else word for word in words)


def _machine() -> list[list[str]]:
    rows = []
    for name, value in figure.machine().items():
        if isinstance(value, dict):
            rows += [[package, str(version)] for package, version in value.items()]
        else:
            rows.append([name.replace("_gb", ", GB"), str(value)])
    return rows


def _published() -> list[str]:
    """The chapter's numbers, all of those that its text or its tables state."""
    modes = list(TABLE_5_3["SMP"])
    primitives = [[name, *(f"{row[mode]:,}" for mode in modes)] for name, row in TABLE_5_3.items()]
    minutes = [
        [f"{x[name]:,}" if isinstance(x[name], int) else str(x[name]) for name in _COLUMNS]
        for x in ITERATION_MINUTES
    ]
    parts = "; ".join(f"k = {k}: {part:.0%}" for k, part in COMPARING.items())
    busy = " and ".join(f"{value} for a server of {cloud}" for cloud, value in BUSY_MINUTES.items())
    return [
        page.paragraph(
            "Table 5.3: milliseconds per invocation, key of 1,024 bits, m = 6,000, l = 10, k = 4, "
            "one pair of servers."
        ),
        page.table(["primitive", *modes], primitives),
        page.paragraph("Section 5.4.2: minutes of one iteration, key of 1,024 bits."),
        page.table(_COLUMNS, minutes),
        page.paragraph(
            f"Of the 337 minutes, computing took {busy}. SBD and SMIN_k take part of an iteration "
            f"(m = 6,000, l = 10, 8 pairs): {parts}."
        ),
    ]
