"""Pages of the repository: links lead somewhere, commands exist, the README stays short."""

import re
from pathlib import Path

import pytest
import typer

from ppodc.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for folder in (ROOT, ROOT / "docs", ROOT / "cluster_configs")
    for page in (folder.glob("*.md") if folder == ROOT else folder.rglob("*.md"))
)
OF_THE_SITE = {"CHANGELOG", "CONTRIBUTING", "SECURITY"}  # of the top folder
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"`ppodc ((?:[a-z0-9][a-z0-9-]*)(?: [a-z0-9][a-z0-9-]*)?)")


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


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page):
    tree = typer.main.get_command(app)
    for words in COMMAND.findall(page.read_text()):
        first, _, second = words.partition(" ")
        command = tree.get_command(None, first)
        assert command is not None, words
        commands = getattr(command, "commands", None)
        if second and commands:
            assert command.get_command(None, second) is not None, words


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
