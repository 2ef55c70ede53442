"""Several testers take each file once: end-to-end files first, in two chains."""

import re
from pathlib import Path

from tests import turns

ROOT = Path(__file__).parents[2]


def test_end_to_end_files_are_two_chains_and_each_room_file_is_its_own():
    files = [str(file.relative_to(ROOT)) for file in (ROOT / "tests").rglob("test_*.py")]
    whole = {file for file in files if file.startswith(turns.WHOLE)}
    chains = {file: turns.chain(file) for file in files}
    assert len({chains[file] for file in whole}) == 2
    assert all(chains[file] == file for file in files if file not in whole)


def test_no_file_of_the_second_chain_needs_the_shared_services():
    """A second tester would start Ray and the services once more."""
    for name in turns.OWN:
        text = (ROOT / turns.WHOLE / f"test_{name}.py").read_text()
        assert not re.search(r"def test_\w+\([^)]*\b(services|ray_head)\b", text), name
