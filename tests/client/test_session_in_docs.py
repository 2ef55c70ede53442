"""The session in docs/from_scikit_learn.md gives what it shows."""

import doctest
from pathlib import Path

import pytest

from client.platforms import threads
from ppodc.crypto.paillier import generate_insecure

PAGE = Path(__file__).parents[2] / "docs" / "from_scikit_learn.md"


def test_the_session_gives_what_it_shows(monkeypatch: pytest.MonkeyPatch):
    # nothing in it depends on the size of the key, and a small one is quick
    monkeypatch.setattr(threads, "generate", lambda _bits: generate_insecure(256))
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert found.attempted > 20
    assert found.failed == 0
