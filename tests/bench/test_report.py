"""The page of a report: tables, plots beside it, resuming, and its first table."""

import re

import pytest
from typer.testing import CliRunner

from ppodc.bench import document, machine, report
from ppodc.bench.kmeans import kegg
from ppodc.bench.report import Outcome, Section
from ppodc.cli import app
from ppodc.errors import InputError

SMALL = Section(
    "iteration",
    "One iteration",
    ("--m", "40", "--l", "2", "--k", "2", "--iterations", "1"),
    False,
    False,
)
DRAWN = Section("kegg", "KEGG, a real data set")
WRONG = Section("iteration", "Too many pairs", ("--m", "4", "--pairs", "9"), False, False)


def test_a_table_is_escaped():
    rows = [("first", "1 | 2 *"), ("second", "")]
    lines = report._markdown(document.table("A title", ("name", "<unit>"), rows)).splitlines()
    assert lines[0] == "**A title**"
    assert lines[2:] == [
        r"| name | \<unit\> |", "| --- | ---: |", r"| first | 1 \| 2 \* |", "| second |  |",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A small report that was really run."""
    file = tmp_path_factory.mktemp("report") / "page.md"
    assert report.run(file, [SMALL, DRAWN]) == []
    return file


def test_the_page_needs_only_the_folder_beside_it(written):
    text = written.read_text()
    pictures = re.findall(r"!\[[^]]*\]\(([^)]*)\)", text)
    assert pictures == ["page.md.d/kegg.png"]
    assert (written.parent / pictures[0]).read_bytes().startswith(b"\x89PNG")
    assert not re.search(r"https?://", text)
    processor = re.sub(r"([\\`*_<>|\[\]])", r"\\\1", machine.describe()["processor"])
    for value in ("33,486", "1,190", "2,676", "online, s", "exact", processor):
        assert value in text, value
    assert "ppodc bench iteration --m 40 --l 2 --k 2 --iterations 1" in text
    assert str(written.parent) not in text, "no path of this machine"


def test_a_finished_section_is_not_run_again(written, monkeypatch):
    before = written.read_text()
    monkeypatch.setattr(report.subprocess, "Popen", None)
    assert report.run(written, [SMALL, DRAWN]) == []
    clean = [re.sub(r"Written [^,]*,", "", text) for text in (before, written.read_text())]
    assert clean[0] == clean[1]


def test_a_failed_section_says_why_and_is_tried_again(tmp_path, monkeypatch):
    """Results of an earlier run are not shown for one that failed."""
    file, folder = tmp_path / "page.md", tmp_path / "page.md.d"
    folder.mkdir()
    (folder / "iteration.json").write_text('{"tables": [], "notes": ["old"]}')
    assert report.run(file, [WRONG]) == ["iteration"]
    page = file.read_text()
    assert "This section failed: error: use 1 to m pairs" in page
    assert "old" not in page
    monkeypatch.setattr(report, "_run", lambda *_: small_document())
    assert report.run(file, [WRONG]) == [], "it was tried again"
    assert "This section failed" not in file.read_text()


def small_document():
    figures = {"suite": "shares", "m": 4, "l": 1, "k": 1, "pairs": 1}
    return document.make("iteration", lambda _: [], **figures)


def test_paths_in_failures_are_reduced_to_names():
    said = "cannot read /home/ann/secret place/x.csv: no such file '/home/b.txt'"
    assert report._without_paths("error: /home/ann/data/x.csv: gone") == "error: x.csv: gone"
    assert "/home" not in report._without_paths(said)
    assert report._without_paths("3 of 4, and/or none") == "3 of 4, and/or none"


def test_sections_are_chosen_by_name(tmp_path):
    names = [s.name for s in report.sections(full=False)]
    assert {"primitives", "sweep", "breakdown", "modes", "pairs", "simulate", "kegg"} <= set(names)
    (only,) = report.sections(full=True, kegg=tmp_path / "data.csv", only=["kegg"])
    assert only.arguments[0] == str(tmp_path / "data.csv")
    with pytest.raises(InputError, match="no section"):
        report.sections(full=False, only=["nothing"])


@pytest.mark.parametrize("section", [*report.QUICK, *report.FULL], ids=lambda s: s.name)
def test_every_section_is_a_command_with_these_options(section):
    """Options are checked without running anything: help after them shows only if all are known."""
    command = [*section.words()[1:], "--json", "x.json"]
    command += ["--points", "x.jsonl"] if section.keeps else []
    command += ["--plot", "x.png"] if section.draws else []
    done = CliRunner().invoke(app, [*command, "--help"])
    assert done.exit_code == 0, done.output
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.output)
    for option in (word for word in command if word.startswith("--")):
        assert option in shown, option
    assert ("--points" in shown) == section.keeps
    if section.name != "linkage-pairs":  # which draws only with --pairs
        assert ("--plot" in shown) == section.draws


def test_data_sets_come_from_one_folder(tmp_path):
    without = {s.name for s in report.sections(full=False)}
    assert {"linkage-pairs", "linkage-paillier", "ldp speed"} <= without
    assert not without & set(report._OF_DATA)
    linkage, privbv = report.sections(False, only=["linkage", "ldp privbv"], data=tmp_path)
    assert linkage.arguments[0] == str(tmp_path / "adult" / "adult.data")
    assert privbv.words()[:4] == ["ppodc", "bench", "ldp", "privbv"]
    assert str(tmp_path) not in privbv.shown()


# ------------------------------------------------------------- at a glance

ITERATION = {"suite": "shares", "m": 10_000, "l": 10, "k": 4, "pairs": 1, "total_s": 2.022,
             "exact": True}  # fmt: skip


def glance(name, figures):
    """Lines of the report's first table for one section."""
    return report._glance([(Section(name, name), Outcome(figures, 1.0))])["rows"]


def test_times_faster_than_published():
    (line,) = glance("iteration", ITERATION)
    assert line[1:4] == ["337 min, 8 pairs", "2.02 s", "10,000"]
    assert line[-1] == "iteration"


def test_another_size_is_not_compared_with_the_published_one():
    assert glance("iteration", {**ITERATION, "m": 9_999}) == []


def test_a_wrong_result_is_said():
    (line,) = glance("iteration", {**ITERATION, "exact": False})
    assert "NOT EXACT" in line[4]


def test_modes_compare_the_published_size_only():
    points = [
        {"m": m, "mode": mode, "iteration_s": 2676 * 6.0}
        for m in (2_000, 10_000)
        for mode in ("online", "pipelined")
    ]
    parameters = {"l": 10, "k": 4, "key_bits": 1024, "records": 4}
    (line,) = glance("modes", {"parameters": parameters, "points": points})
    assert line[1:4] == ["2,676 min, 1 pair", "4.46 h", "10"]
    assert "estimated" in line[4]


def test_the_worst_check_of_a_simulation():
    errors = [(0.9, True), (0.02, False), (-0.11, False)]
    checks = [
        {"pairs": 1, "link": "wan" if e < 0 else None, "error": e, "used_to_calibrate": used}
        for e, used in errors
    ]
    (line,) = glance("simulate", {"parameters": {"checks": checks}})
    assert line[2] == "11.0% off at most"
    assert line[4] == "pairs: 1, 1 (wan)"


def test_stored_kegg_jobs_are_counted():
    jobs, largest = glance("kegg", kegg.stored())
    count = sum(p["suite"] == "shares" for p in kegg.stored()["points"])
    assert jobs[2] == f"{count} of {count} exact"
    assert "63,608 records" in largest[0]


def test_a_section_that_failed_or_compares_nothing_has_no_line():
    assert glance("iteration", None) == []
    assert glance("sweep", {}) == []
