"""Private files: a key file is created once, a lock keeps other processes out."""

import multiprocessing
import stat
from pathlib import Path

import pytest

from ppodc.errors import KeyFileError
from ppodc.files import KEY_BYTES, key_file, locked
from tests.harness.patience import LONG


def _key(path: Path, begin, keys) -> None:
    begin.wait(LONG)
    keys.put(key_file(path))


def test_processes_that_start_together_make_one_key(tmp_path):
    context = multiprocessing.get_context("fork")
    begin, keys = context.Event(), context.Queue()
    path = tmp_path / "some.key"
    processes = [context.Process(target=_key, args=(path, begin, keys)) for _ in range(4)]
    for process in processes:
        process.start()
    begin.set()
    made = {keys.get(timeout=LONG) for _ in processes}
    for process in processes:
        process.join(LONG)
    assert made == {path.read_bytes()}
    assert len(path.read_bytes()) == KEY_BYTES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_damaged_key_file_is_refused_and_left_as_it_is(tmp_path):
    path = tmp_path / "some.key"
    path.write_bytes(b"cut")
    with pytest.raises(KeyFileError, match="damaged"):
        key_file(path)
    assert path.read_bytes() == b"cut"


def _hold(path: Path, held, release) -> None:
    with locked(path):
        held.set()
        release.wait(LONG)
        (path.parent / "first").write_text("done")


def test_a_lock_makes_another_process_wait(tmp_path):
    context = multiprocessing.get_context("fork")
    held, release = context.Event(), context.Event()
    path = tmp_path / "lock"
    process = context.Process(target=_hold, args=(path, held, release))
    process.start()
    assert held.wait(LONG)
    release.set()
    with locked(path):
        assert (tmp_path / "first").exists()
    process.join(LONG)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_error_inside_the_block_is_not_the_locks(tmp_path):
    with pytest.raises(FileNotFoundError), locked(tmp_path / "lock"):
        (tmp_path / "nothing").read_bytes()
    with locked(tmp_path / "lock"):
        pass
