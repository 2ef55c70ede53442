"""Random fault schedules end exact; and what checks them notices what is wrong."""

from pathlib import Path

import numpy as np
import pytest

from ppodc.bench import faults
from ppodc.bench.fault_world import Fate, Fault, RowWatch
from ppodc.cli.bench import _parties

SCHEDULES = 100


def test_schedules_end_exact_with_nothing_lost_or_doubled():
    document = faults.run(SCHEDULES, seed=7, **_parties())
    assert document["schedules"] == SCHEDULES
    assert {name: document[name] for name in faults.COUNTS} == dict.fromkeys(faults.COUNTS, 0), (
        document["bad"]
    )
    assert sum(document["struck"].values()) > SCHEDULES


def test_a_seed_gives_the_same_schedule():
    one, other = faults.draw(12), faults.draw(12)
    assert one.faults == other.faults
    assert one.spec == other.spec
    assert all(np.array_equal(a, b) for a, b in zip(one.tables, other.tables, strict=True))
    assert faults.draw(13).faults != one.faults


def test_a_fault_strikes_once_at_its_pass():
    fate = Fate([Fault("control reply", 2, "lose")])
    assert [fate.at("control reply") for _ in range(3)] == [None, "lose", None]
    assert fate.at("owner reply") is None
    assert len(fate.struck) == 1


def test_a_row_that_comes_twice_is_noticed():
    watch, folder = RowWatch(), Path("pool")
    watch(folder, "added", 0, 10)
    watch(folder, "taken", 0, 4)
    assert watch.reused == 0
    watch(folder, "taken", 3, 6)
    assert watch.reused == 1
    watch(folder, "emptied", 0, 0)
    watch(folder, "taken", 0, 2)
    assert watch.reused == 3


def test_a_result_that_differs_is_noticed():
    schedule = next(s for s in map(faults.draw, range(50)) if s.spec.job.kind == "totals")
    plain = faults.totals(schedule.spec, np.concatenate(schedule.tables))
    off = faults.totals(schedule.spec, np.concatenate(schedule.tables)[1:])
    assert faults._exact(schedule, [plain])
    assert not faults._exact(schedule, [plain, off])


@pytest.mark.parametrize("broken", ["forgets to drop", "forgets to agree"])
def test_a_platform_that_mixes_two_attempts_is_noticed(monkeypatch, broken):
    """Without the rule that later checkpoints are dropped first, or that only iterations both
    clouds have count, some schedule gives a wrong result or gets stuck."""
    from ppodc.pairs.cloud_job import CloudJob
    from ppodc.service.store.jobs import Jobs

    if broken == "forgets to drop":
        monkeypatch.setattr(Jobs, "drop_checkpoints_after", lambda *_: None)
    else:
        monkeypatch.setattr(CloudJob, "resume_point", lambda self, theirs: max(theirs, default=None))
    faulty = [Fault("cloud1 write", count, "kill before") for count in range(12, 40, 7)]
    bad = 0
    with faults._campaign(_parties()["parties"]) as campaign:
        for seed in (3, 5, 8, 11):
            schedule = faults.draw(seed)
            bad += campaign.run(faults.with_faults(schedule, faulty)).bad
    assert bad
