"""Others' load counts on the cores that this process may use, and on no others."""

import os

from ppodc.bench import machine

STAT = """cpu  999 0 0 999 0 0 0 0 0 0
cpu0 {first} 1 2 50 7 3 4 5 0 0
cpu1 600 0 0 50 0 0 0 0 0 0
cpu12 700 0 0 50 0 0 0 0 0 0
intr 1 2 3
"""


def test_only_own_cores_count(tmp_path, monkeypatch):
    file = tmp_path / "stat"
    file.write_text(STAT.format(first=100))
    monkeypatch.setattr(machine, "_STAT", file)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 12})
    tick = os.sysconf("SC_CLK_TCK")
    assert machine._busy() == (100 + 1 + 2 + 3 + 4 + 5 + 700) / tick


def test_without_such_a_file_nothing_is_claimed(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_STAT", tmp_path / "nothing")
    with machine.watched() as seen:
        pass
    assert seen.others is None
    assert seen.seconds > 0
