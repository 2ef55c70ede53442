"""Several testers take each file once: end-to-end files first, in two chains."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import turns
from tests.harness.patience import LONG

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


def test_everything_else_runs_if_a_test_kills_its_tester(tmp_path):
    (tmp_path / "conftest.py").write_text("""
from tests.turns import Chains
def pytest_xdist_make_scheduler(config, log):
    return Chains(config, log)
""")
    for number in range(4):
        (tmp_path / f"test_{number}.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    (tmp_path / "test_1b.py").write_text("""
import os
def test_before(): pass
def test_fatal(): os._exit(1)
def test_after(): pass
""")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"],
        cwd=tmp_path, capture_output=True, text=True, timeout=LONG,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "1 failed, 10 passed" in done.stdout, done.stdout + done.stderr
    assert "crashed while running 'test_1b.py::test_fatal'" in done.stdout
