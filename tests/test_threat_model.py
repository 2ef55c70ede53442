"""The threat model speaks of every message of the engine, and claims name tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_KIND = re.compile(r'"(shares\.[a-z-]+)"')
_TEST = re.compile(r"`(tests/[a-z_/]+\.py)`")


def test_every_message_of_the_shares_suite_has_its_line():
    sources = [*(ROOT / "ppodc/mpc").rglob("*.py"), *(ROOT / "ppodc/kmeans").rglob("*.py")]
    kinds = {kind for path in sources for kind in _KIND.findall(path.read_text())}
    text = (ROOT / "docs/threat_model.md").read_text()
    assert kinds - set(re.findall(r"`(shares\.[a-z-]+)`", text)) == set()
    assert len(kinds) > 15


@pytest.mark.parametrize("name", ["SECURITY.md", "docs/threat_model.md"])
def test_the_tests_that_a_claim_names_are_there(name):
    named = _TEST.findall((ROOT / name).read_text())
    assert len(named) >= 5
    assert [path for path in named if not (ROOT / path).is_file()] == []
