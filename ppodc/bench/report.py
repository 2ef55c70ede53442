"""`ppodc bench report`: a set of measurements as one page that needs nothing else.

Every section is a command of the `bench` family, run exactly as it stands on the page; the page
shows the tables, notes and plot of the document that it writes. A finished section is a measured
point like any other and is kept with them in a folder beside the page: a report that was
interrupted goes on where it stopped. A section that fails says why and does not stop the others.
"""

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ppodc.bench.document import Document
from ppodc.bench.points import Key, Points, notices
from ppodc.bench.report_page import Outcome, Section, page
from ppodc.errors import InputError, PpodcError

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
        file.write_text(page(done, len(chosen)))
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
