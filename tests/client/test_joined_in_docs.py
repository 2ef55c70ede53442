"""The session in docs/joined.md gives what it shows, and its spec is one."""

import doctest
import re
from pathlib import Path

import pytest

from ppodc.spec import Spec

PAGE = Path(__file__).parents[2] / "docs" / "joined.md"


def test_the_session_gives_what_it_shows(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    with pytest.warns(UserWarning, match="2 of the 2 clusters"):
        found = doctest.testfile(str(PAGE), module_relative=False, optionflags=flags)
    assert found.attempted > 10
    assert found.failed == 0


def test_the_spec_joins_two_sides():
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    spec = Spec.loads(text)
    assert [side.name for side in spec.job.joined(spec.schema).sides] == ["clinic", "insurer"]
