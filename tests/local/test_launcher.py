"""Two processes of a local pair: told what to do, ended in order, failures in their own words."""

import json
import os
import signal
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from ppodc.errors import PpodcError
from ppodc.kmeans.job import Job
from ppodc.kmeans.suites import NAMES
from ppodc.local.pair import make_key, started, write_folders
from ppodc.local.pair_process import SETTING, Setting, load_half, save_half
from ppodc.records.result_shares import OutputShare
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec

WAITING = "ppodc.bench.kmeans.iteration_process"  # its processes wait for commands
RECORDS = np.random.default_rng(3).integers(0, 11, (8, 2))
KEY = make_key(512, insecure=True)
SPEC = Spec("d", Schema((Column("x", 0, 10), Column("y", 0, 10)), 10), Job(2, min_size=1))


def folders_of(place, suite="shares", **changed):
    setting = Setting(1, suite, 8, 2, 2, 10, "0", insecure_key=True, **changed)
    return write_folders(place, setting, KEY, [RECORDS[:3], RECORDS[3:]], SPEC)


@pytest.mark.parametrize("suite", NAMES)
def test_both_are_told_and_answer_and_end_when_the_block_is_left(tmp_path, suite):
    with started(folders_of(tmp_path, suite), WAITING) as pair:
        assert [pair.answer(role)["event"] for role in (1, 2)] == ["ready", "ready"]
        for role in (1, 2):
            pair.write(role, json.dumps({"do": "ingest"}))
        assert pair.answer(2)["bytes"] > 0, "cloud 2's answer, while cloud 1's is kept"
        assert pair.answer(1)["result"] is None
        processes = pair.processes
    assert all(process.poll() is not None for process in processes)


@pytest.mark.parametrize("suite", NAMES)
@pytest.mark.parametrize("role", [1, 2])
def test_the_killed_one_is_named_whoever_is_asked(tmp_path, suite, role):
    with started(folders_of(tmp_path, suite), WAITING) as pair:
        for each in (1, 2):
            pair.answer(each)
        os.kill(pair.processes[role - 1].pid, signal.SIGKILL)
        pair.write(3 - role, json.dumps({"do": "ingest"}))
        with pytest.raises(PpodcError, match=rf"^cloud{role} stopped: it was killed \(signal 9\)"):
            pair.answer(3 - role)


def test_a_folder_without_a_setting_is_told(tmp_path):
    folders = folders_of(tmp_path)
    (folders[0] / SETTING).unlink()
    with (
        pytest.raises(PpodcError, match=r"^cloud1 stopped: .*setting.json cannot be used"),
        started(folders) as pair,
    ):
        list(pair.events())


def test_clouds_that_disagree_about_the_job_are_told(tmp_path):
    folders = folders_of(tmp_path)
    setting = msgspec.json.decode((folders[1] / SETTING).read_bytes(), type=Setting)
    other = msgspec.structs.replace(setting, min_size=9)
    (folders[1] / SETTING).write_bytes(msgspec.json.encode(other))
    with pytest.raises(PpodcError, match="job"), started(folders) as pair:
        list(pair.events())


def test_clouds_with_different_specs_are_told(tmp_path):
    folders = folders_of(tmp_path)
    other = replace(SPEC, job=Job(2, seed=9, min_size=1))
    (folders[1] / "spec.json").write_bytes(other.canonical())
    with pytest.raises(PpodcError, match="spec"), started(folders) as pair:
        list(pair.events())


def test_the_cause_is_told_not_its_consequence(tmp_path):
    """Cloud 1 only loses its link; cloud 2 knows why."""
    folders = folders_of(tmp_path, "paillier")
    (folders[1] / "paillier.key").write_text("no key")
    with pytest.raises(PpodcError, match=r"^cloud2 stopped: .*key"), started(folders) as pair:
        list(pair.events())


@pytest.mark.parametrize("modulus", [1 << 64, 2**521 - 1])
def test_halves_come_back_from_their_files(tmp_path, modulus):
    half = OutputShare.of(modulus, [0, 5, modulus - 1])
    save_half(tmp_path / "clusters", half)
    kept = load_half(tmp_path / "clusters")
    assert (kept.modulus, kept.values) == (half.modulus, half.values)
