"""The session in docs/from_scikit_learn.md and all tutorials give what they show."""

import doctest
from pathlib import Path

import pytest

from ppodc.crypto import paillier
from ppodc.crypto.paillier import generate_insecure

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "from_scikit_learn.md", *sorted(DOCS.glob("tutorials/*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_session_gives_what_it_shows(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)  # for files that a session writes
    # nothing in it depends on the size of the key, and a small one is quick
    monkeypatch.setattr(paillier, "generate", lambda _bits: generate_insecure(256))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert found.attempted > 5
    assert found.failed == 0
