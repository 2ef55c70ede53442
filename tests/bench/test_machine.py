"""Load of other programs on this process's cores, child processes, fingerprint of the code."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ppodc.bench import machine

STAT = """cpu  999 0 0 999 0 0 0 0 0 0
cpu0 100 1 2 50 7 3 4 5 0 0
cpu1 600 0 0 50 0 0 0 0 0 0
cpu2 700 0 0 50 0 0 0 0 0 0
intr 1 2 3
"""


def test_only_own_cores_count(tmp_path, monkeypatch):
    (tmp_path / "stat").write_text(STAT)
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 2})
    tick = os.sysconf("SC_CLK_TCK")
    assert machine._busy() == pytest.approx((100 + 1 + 2 + 3 + 4 + 5 + 700) / tick)


def test_own_work_is_not_the_load_of_others():
    with machine.watched() as load:
        while sum(os.times()[:2]) - sum(load._times[:2]) < 0.1:
            pass
    assert load.own * load.seconds > 0.099
    assert 0 <= load.others <= machine.cores()


CHILD = """
import subprocess, sys
with subprocess.Popen([sys.executable, "-c", "input()", "grandchild"], stdin=sys.stdin):
    print("started", flush=True)
"""


def test_all_processes_below_this_one_are_seen():
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, "child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        child.stdout.readline()
        seen = {process.pid: process for process in machine.processes()}
        child.communicate(b"\n")
    assert os.getpid() not in seen
    (grandchild,) = [process for process in seen.values() if process.title.endswith("grandchild")]
    for process in (seen[child.pid], grandchild):
        assert process.title.startswith(sys.executable)
        assert process.memory > 1 << 20
        assert process.cpu_s >= 0
    assert not {child.pid, grandchild.pid} & {process.pid for process in machine.processes()}


def test_a_watch_looks_until_the_end_and_once_more():
    seen, value = [], 0
    with machine.looking(lambda: seen.append(value), 0.001):
        while not seen:
            pass
        value = 1
    assert seen[0] == 0
    assert seen[-1] == 1


def test_the_fingerprint_is_of_what_is_measured(tmp_path, monkeypatch):
    expected = {
        "ppodc/records/sharing.py": True,
        "ppodc/bench/report.py": False,
        "ppodc/bench/iteration.py": True,
        "ppodc/cli/bench.py": False,
        "master/job.py": True,
    }
    for name in expected:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
    monkeypatch.setattr(machine, "__file__", str(tmp_path / "ppodc" / "bench" / "machine.py"))
    before, changes = machine._code(), {}
    for name in expected:
        (tmp_path / name).write_text("x = 2\n")
        changes[name] = machine._code() != before
        (tmp_path / name).write_text("x = 1\n")
    assert changes == expected


def test_every_file_that_only_presents_values_exists():
    package = Path(machine.__file__).parents[1]
    assert all((package / f"{name}.py").exists() for name in machine._PRESENTATION)
