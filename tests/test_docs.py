"""Pages of the repository: links lead somewhere, commands exist, the README stays short."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from ppodc.cli import app
from tests.cluster_configs.samples import parse, resolve

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for folder in (ROOT, ROOT / "docs", ROOT / "cluster_configs")
    for page in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)
OF_THE_SITE = {"CHANGELOG", "CONTRIBUTING", "SECURITY"}  # of the top folder
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"(?:^|\s)(?:ppodc|(?=bench )) ?((?!import)[a-z][a-z0-9-]*\b(?!\.).*)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as repositories make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        if anchor:
            assert anchor in anchors(there), target


_UNFINISHED = ("MissingParameter", "NoArgsIsHelpError", "BadOptionUsage", "Exit")


def commands(text: str) -> Iterator[list[str]]:
    """The arguments of every `ppodc` in code; the papers write `bench` for `ppodc bench`."""
    shell = "".join(block for kind, block in FENCED.findall(text) if kind in ("bash", "sh"))
    code = [*shell.replace("\\\n", "").splitlines(), *INLINE.findall(FENCED.sub("", text))]
    for line in (" ".join(each.split()) for each in code):
        said = re.split(r" [>&#]|;", line.replace("...", "").replace(" FILE", " FILE.png"))[0]
        if match := COMMAND.search(said):
            yield shlex.split(match[1])


@pytest.mark.parametrize("page", [p for p in PAGES if p.stem != "CHANGELOG"], ids=name_of)
def test_commands_and_their_options_exist(page, monkeypatch):
    monkeypatch.setenv("PPODC_CONFIG", "any.toml")
    tree = typer.main.get_command(app)
    for words in commands(page.read_text()):
        try:
            if resolve(tree, words)[2]:
                parse(tree, words)
        except Exception as error:  # running text names commands without their arguments
            if type(error).__name__ not in _UNFINISHED:
                raise AssertionError(f"{words}: {error!r} {error}") from error


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_page_is_in_the_index_of_the_site():
    """A new page needs one line in docs/index.md; an index line needs its page."""
    index = (ROOT / "docs" / "index.md").read_text()
    listed = [
        line
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", index, re.DOTALL)
        for line in tree.splitlines()
        if line and not line.startswith(":")
    ]
    places = [(ROOT / "docs" / f"{line}.md").resolve() for line in listed]
    of_site = [page for page in PAGES if page.parent != ROOT or page.stem in OF_THE_SITE]
    assert sorted(places) == sorted(set(of_site) - {ROOT / "docs" / "index.md"})
