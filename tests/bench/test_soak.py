"""A soak of one job, on real services and Ray."""

import os
import subprocess
import sys

from client.operator import Operator
from client.owner import Owner
from ppodc.bench import faults, machine, soak

SEED = 57


def test_one_job_under_fire_is_exact_and_nothing_is_left():
    document = soak.run(0.001, SEED, Owner, Operator)
    (only,) = document["rounds"]
    assert only["problem"] == ""
    assert (document["jobs"], document["exact"], document["ledgers_hold"]) == (1, 1, 1)
    assert document["left_at_the_end"] == 0
    assert only["kind"] == f"{faults.draw(SEED * 1_000_000, private=False).spec.job.kind}, shares"
    assert only["footprint"]["files"] > only["footprint"]["sockets"] > 0


def test_marked_processes_are_found_whoever_their_parent_is():
    mark = "PPODC_TEST_MARK=7f3a"
    name, _, value = mark.partition("=")
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        env={**os.environ, name: value},
        stdin=subprocess.PIPE,
    )
    try:
        assert [found.pid for found in machine.marked(mark)] == [process.pid]
        assert machine.threads(process.pid) == 1
        assert len(machine.open_files(process.pid)) >= 3
    finally:
        process.communicate(b"\n")
    assert machine.marked(mark) == []
