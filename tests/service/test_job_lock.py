"""The lock of a job: one holder at a time, and nothing is left of it."""

import fcntl
import os

import pytest

from ppodc.errors import BusyError
from ppodc.service.store import job_lock as module
from ppodc.service.store.job_lock import job_lock


def test_one_at_a_time_and_nothing_is_left(tmp_path):
    with job_lock(tmp_path, "clinic"):
        again = job_lock(tmp_path, "clinic")
        with pytest.raises(BusyError, match="running the job of 'clinic'"), again:
            pass
        with job_lock(tmp_path, "other"):
            assert len(list(tmp_path.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError), job_lock(tmp_path, "clinic"):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_holder_left_is_taken_over(tmp_path):
    (tmp_path / "clinic.lock").touch()
    with job_lock(tmp_path, "clinic"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_its_holder_removed_meanwhile_is_no_lock(tmp_path, monkeypatch):
    flock, path, tries = fcntl.flock, tmp_path / "clinic.lock", []

    def late(file, how):
        tries.append(file)
        if len(tries) == 1:
            path.unlink()  # between our opening and our locking
        flock(file, how)

    monkeypatch.setattr(module.fcntl, "flock", late)
    with job_lock(tmp_path, "clinic"):
        assert len(tries) == 2
        other = os.open(path, os.O_RDWR)
        with pytest.raises(BlockingIOError):
            flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(other)
    assert list(tmp_path.iterdir()) == []
