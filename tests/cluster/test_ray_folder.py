"""Folders of Ray: whose they are, what is left after a kill, who may look into a spilled object."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ppodc.cluster import ray_folder
from ppodc.cluster.ray_folder import RayFolder, remove_leftovers

_HOLDER = """
import sys
from ppodc.cluster.ray_folder import RayFolder
print(RayFolder.new().path, flush=True)
sys.stdin.read()
"""
# Puts more into the object store than fits, so that Ray spills, and says where its files are.
_DRIVER = """
import sys
import numpy as np
from ppodc.cluster.ray_cluster import RayPlacement, connect
from ppodc.cluster.ray_folder import RayFolder
folder = RayFolder.new()
connect(RayPlacement("local", "cloud1", 1), folder)
import ray
kept = [ray.put(np.full(6_000_000, i, np.uint64)) for i in range(6)]
print(folder.path, flush=True)
sys.stdin.read()
ray.shutdown()
"""


@pytest.fixture(autouse=True)
def temporary(monkeypatch):
    """A place of its own, so that no Ray of anybody else is met; short, for Ray's sockets."""
    with tempfile.TemporaryDirectory(prefix="t") as place:
        monkeypatch.setenv("TMPDIR", place)
        monkeypatch.setattr(tempfile, "tempdir", place)
        yield Path(place)


def start(code: str) -> tuple["subprocess.Popen[str]", Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_a_folder_is_for_this_user_alone_and_goes():
    folder = RayFolder.new()
    assert folder.path.stat().st_mode & 0o077 == 0
    folder.remove()
    folder.remove()
    assert not folder.path.exists()


def test_the_living_keep_their_folders_and_the_dead_do_not():
    dead, left = start(_HOLDER)
    living, kept = start(_HOLDER)
    kill(dead)
    ours = RayFolder.new()
    assert not left.exists()
    assert kept.exists()
    living.communicate("")
    ours.remove()


def test_a_folder_outlives_its_starter_while_another_process_is_in_it():
    starter, path = start(_HOLDER)
    joined = RayFolder.join(path)
    kill(starter)
    remove_leftovers()
    assert path.exists()
    joined.remove()
    assert not path.exists()


def test_what_is_not_ours_is_not_touched(temporary, monkeypatch):
    target = temporary / "precious"
    target.mkdir()
    link = temporary / "ppodc-ray-link"
    link.symlink_to(target)
    fresh = temporary / "ppodc-ray-fresh"  # somebody is about to lock it
    fresh.mkdir()
    foreign = temporary / "ppodc-ray-foreign"
    foreign.mkdir()
    (foreign / "lock").touch()
    with monkeypatch.context() as patched:
        other = os.getuid() + 1
        patched.setattr(ray_folder.os, "getuid", lambda: other)
        remove_leftovers()
        assert foreign.exists()
    remove_leftovers()
    assert not foreign.exists()
    assert link.is_symlink()
    assert target.exists()
    assert fresh.exists()


def test_spilled_objects_are_closed_to_others_and_gone_at_the_next_start():
    driver, path = start(_DRIVER)
    spilled = [file for file in path.rglob("*") if "spill" in str(file) and file.is_file()]
    assert spilled, "nothing was spilled; put more into the store"
    assert path.stat().st_mode & 0o077 == 0
    assert not [file for file in spilled if file.stat().st_mode & 0o077]
    kill(driver)
    RayFolder.new().remove()
    assert not path.exists()
