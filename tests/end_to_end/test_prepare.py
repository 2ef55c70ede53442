"""`prepare` fills pools ahead of a run, which then uses them up and gives the same result."""

from pathlib import Path

import pytest

from master.job import prepare_job, seal_dataset
from ppodc.errors import InputError
from ppodc.jobstate import JobState
from tests.end_to_end.two_services import TwoServices, make_spec, make_tables


def pool_states(services: TwoServices) -> dict[Path, bytes]:
    """Cursor and end of every pool on disk, at both clouds."""
    folders = (services.config1.pools, services.config2.pools)
    return {f: f.read_bytes() for folder in folders for f in folder.rglob("state")}


def test_pools_made_ahead_serve_the_run(services: TwoServices):
    spec, tables = make_spec("ahead", 2, k=3, max_iter=3), make_tables(6, (20, 11), 2)
    services.upload(spec, tables)
    others = pool_states(services)  # of the jobs that other tests have run
    with pytest.raises(InputError, match="dataset seal"):
        prepare_job(services.config1, "ahead", 2, 2)
    seal_dataset(services.config1, "ahead")
    events = []
    prepare_job(services.config1, "ahead", 2, 2, events.append)
    assert {event.phase for event in events} >= {"starting", "prepare"}
    before = {f: state for f, state in pool_states(services).items() if f not in others}
    for party in ("cloud1", "cloud2"):
        assert len([f for f in before if party in f.parts]) == 6  # 3 kinds for each of 2 pairs
        with services.store(party) as store:
            assert store.job("ahead").state == JobState.SEALED
    services.run("ahead", "shares", 2)
    services.check(spec, tables)
    after = pool_states(services)
    assert all(after[file] != state for file, state in before.items()), "a pool was not used"


def test_only_a_suite_that_keeps_supplies_can_be_prepared(services: TwoServices):
    with pytest.raises(InputError, match="no dataset"):
        prepare_job(services.config1, "nowhere", 1, 1)
