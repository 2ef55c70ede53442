"""The page: what commands printed as tables, plots inside, nothing from outside, resumable."""

import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from ppodc.bench import figure, page, report
from ppodc.bench.report import Section
from ppodc.errors import InputError

SMALL = Section(
    "iteration", "One iteration", ("--m", "40", "--l", "2", "--k", "2", "--iterations", "1"),
    draws=False, resumes=False,
)  # fmt: skip
DRAWN = Section(
    "sweep", "Figure 5.3",
    ("--suite", "shares", "--m", "20,40", "--k", "2", "--l", "2", "--iterations", "1"),
)  # fmt: skip
WRONG = Section("iteration", "Too many pairs", ("--m", "4", "--pairs", "9"), False, False)


class Reader(HTMLParser):
    """Cells of all tables, and every address the page names."""

    def __init__(self, text):
        super().__init__()
        self.cells, self.addresses, self._in = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._in = tag in ("td", "th")
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        if self._in:
            self.cells.append(data)
            self._in = False


def test_what_a_command_prints_becomes_tables(capsys):
    table = Table("name", "value & unit", title="A <title> that is longer than the table is wide")
    table.add_row("first", "1")
    table.add_row("second", "")
    Console(width=200).print(table, "A note below.", sep="\n")
    parts = page.printed("Before.\n" + capsys.readouterr().out)
    assert len(parts) == 3
    assert parts[0] == "<p>Before.</p>"
    assert "<caption>A &lt;title&gt; that is longer than the table is wide</caption>" in parts[1]
    assert Reader(parts[1]).cells[:4] == ["name", "value & unit", "first", "1"]
    assert parts[1].count("<tr>") == 3
    assert parts[2] == "<p>A note below.</p>"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A small report that was really run."""
    file = tmp_path_factory.mktemp("report") / "page.html"
    assert report.run(file, chosen=[SMALL, DRAWN]) == []
    return file


def test_the_page_needs_nothing_else(written):
    text = written.read_text()
    found = Reader(text)
    inside = [address for address in found.addresses if address.startswith("#")]
    pictures = [address for address in found.addresses if address not in inside]
    assert pictures
    assert all(address.startswith("data:image/png;base64,") for address in pictures)
    assert {f'id="{address[1:]}"' for address in inside} == set(re.findall(r'id="[^"]*"', text))
    assert not re.search(r"https?://", text)
    for value in ("33,486", "1,190", "2,676", "online, s", "exact", figure.machine()["processor"]):
        assert value in text, value
    assert "ppodc bench iteration --m 40 --l 2 --k 2 --iterations 1" in text
    assert str(written.parent) not in text, "no path of this machine"


def test_a_finished_section_is_not_run_again(written, monkeypatch):
    before = written.read_text()
    monkeypatch.setattr(report.subprocess, "Popen", None)
    assert report.run(written, chosen=[SMALL, DRAWN]) == []
    clean = [re.sub(r"Written [^,]*,", "", text) for text in (before, written.read_text())]
    assert clean[0] == clean[1]


def test_a_failed_section_says_why_and_is_tried_again(tmp_path):
    file = tmp_path / "page.html"
    assert report.run(file, chosen=[WRONG]) == ["iteration"]
    assert "This section failed" in file.read_text()
    kept = json.loads((tmp_path / "page.html.d" / "iteration.outcome.json").read_text())
    assert kept["failed"]
    assert report.run(file, chosen=[WRONG]) == ["iteration"]


def test_what_an_earlier_run_left_is_not_shown_for_one_that_failed(tmp_path):
    file = tmp_path / "page.html"
    folder = tmp_path / "page.html.d"
    folder.mkdir()
    (folder / "iteration.json").write_text('{"suite": "shares"}')
    (folder / "sweep.png").write_bytes(b"old")
    wrong = Section("sweep", "More clusters than records", ("--m", "2", "--k", "4"))
    assert report.run(file, chosen=[WRONG, wrong]) == ["iteration", "sweep"]
    assert not (folder / "iteration.json").exists()
    assert "<img" not in file.read_text()


def test_paths_in_failures_are_reduced_to_names():
    said = "cannot read /home/ann/secret place/x.csv: no such file '/home/b.txt'"
    assert report._named("error: /home/ann/data/x.csv: gone") == "error: x.csv: gone"
    assert "/home" not in report._named(said)
    assert report._named("3 of 4, and/or none") == "3 of 4, and/or none"


def test_sections_are_chosen_by_name(tmp_path):
    names = [s.name for s in report.sections(full=False)]
    assert {"primitives", "sweep", "breakdown", "modes", "pairs", "simulate", "kegg"} <= set(names)
    (only,) = report.sections(full=True, kegg=tmp_path / "data.csv", only=["kegg"])
    assert only.arguments[0] == str(tmp_path / "data.csv")
    with pytest.raises(InputError, match="no section"):
        report.sections(full=False, only=["nothing"])


@pytest.mark.parametrize("section", [*report.QUICK, *report.FULL], ids=lambda s: s.name)
def test_every_section_is_a_command_with_these_options(section, tmp_path):
    """Options are checked without running anything: help after them shows only if all are known."""
    import ppodc.bench.experiment_commands  # noqa: F401 - registers commands
    from ppodc.cli import app

    command = report._command(section, tmp_path)[1:]
    done = CliRunner().invoke(app, [*command, "--help"])
    assert done.exit_code == 0, done.output
    shown = re.sub(r"\x1b\[[0-9;]*m", "", done.output)
    for option in (word for word in command if word.startswith("--")):
        assert option in shown, option
