"""Kernels compile wherever a service may write, and nowhere else's files are run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNEL = """
import logging
import numpy as np
from ppodc.mpc.compiled import compiled, out_u8
logging.basicConfig(level="INFO", format="%(message)s")

@compiled(out_u8)
def double(values):
    for i in range(len(values)):
        values[i] *= 2

@compiled(out_u8)
def triple(values):
    for i in range(len(values)):
        values[i] *= 3

found = np.arange(3, dtype=np.uint64)
double(found)
triple(found)
print(*found, double.stats.cache_hits.total())
"""


@pytest.fixture
def confined(tmp_path):
    """A module where numba finds no place: neither beside it nor in the user's home."""
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "__pycache__").write_text("no folder")
    (tmp_path / "t").mkdir()
    return tmp_path


def run(folder: Path, temporary: str = "t") -> tuple[str, str]:
    """The output and the log of the module."""
    kept = {name: text for name, text in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null"}
    places = {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder / temporary)}
    ended = subprocess.run(
        [sys.executable, str(folder / "kernel.py")],
        env={**kept, **nowhere, **places},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.strip(), ended.stderr


def test_where_nothing_may_be_written_the_cache_is_among_temporary_files(confined):
    printed, said = run(confined)
    assert printed == "0 6 12 0"
    (cache,) = (confined / "t").iterdir()
    assert cache.stat().st_mode & 0o077 == 0
    assert said.count(f"kept in {cache}") == 1
    assert run(confined)[0] == "0 6 12 1", "the second process compiles nothing"


def test_a_folder_that_others_can_change_is_not_used(confined):
    folder = confined / "t" / f"ppodc-kernels-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    printed, said = run(confined)
    assert printed == "0 6 12 0"
    assert said.count("NUMBA_CACHE_DIR may name a folder") == 1
    assert not list(folder.iterdir())
