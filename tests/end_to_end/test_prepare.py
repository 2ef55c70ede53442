"""`prepare` fills pools ahead of a run, which then uses them up and gives the same result."""

from collections.abc import Collection
from pathlib import Path

import pytest

from master.job import cancel_job, prepare_job, seal_dataset
from ppodc.errors import InputError
from ppodc.pairs.cloud_job import drop_pools
from ppodc.service.job_state import JobState
from tests.end_to_end.two_services import TwoServices, make_spec, make_tables


def pool_states(services: TwoServices, others: Collection[Path] = ()) -> dict[Path, bytes]:
    """Cursor and end of every pool on disk, at both clouds; without those of failed jobs before."""
    folders = (services.config1.pools, services.config2.pools)
    found = (f for folder in folders for f in folder.rglob("state"))
    return {f: f.read_bytes() for f in found if f not in others}


@pytest.mark.parametrize(("suite", "kinds"), [("shares", 3), ("paillier", 1)])
def test_pools_made_ahead_serve_the_run_and_go_with_it(
    services: TwoServices, monkeypatch: pytest.MonkeyPatch, suite: str, kinds: int
):
    name = f"ahead-{suite}"
    spec, tables = make_spec(name, 2, k=3, max_iter=3), make_tables(6, (20, 11), 2)
    services.upload(spec, tables)
    others = pool_states(services)
    with pytest.raises(InputError, match="dataset seal"):
        prepare_job(services.config1, name, 2, suite, pairs=2)
    seal_dataset(services.config1, name, suite)
    events = []
    prepare_job(services.config1, name, 2, suite, pairs=2, progress=events.append)
    assert {event.phase for event in events} >= {"starting", "prepare"}
    before = pool_states(services, others)
    for party in ("cloud1", "cloud2"):
        assert len([f for f in before if party in f.parts]) == 2 * kinds  # for each of 2 pairs
        with services.store(party) as store:
            assert store.jobs.get(name).state == JobState.SEALED
    dropped = []
    monkeypatch.setattr("master.driver.drop_pools", lambda *given: dropped.append(given))
    services.run(name, suite, 2)
    services.check(spec, tables)
    after = pool_states(services, others)
    assert len(after) == 2 * kinds, "cloud 2's are gone, cloud 1's are still here to be looked at"
    assert all(state != before[file] for file, state in after.items()), "a pool was not used"
    assert [given[1:] for given in dropped] == [(name, services.config1.pools)]
    with services.store("cloud1") as store:
        drop_pools(store, *dropped[0][1:])
    assert not pool_states(services, others)


def test_pools_of_a_cancelled_job_are_removed(services: TwoServices):
    spec = make_spec("unwanted", 2, k=2, max_iter=3)
    services.upload(spec, make_tables(6, (20,), 2))
    seal_dataset(services.config1, "unwanted")
    others = pool_states(services)
    prepare_job(services.config1, "unwanted", 1, pairs=1)
    assert len(pool_states(services, others)) == 6  # 3 kinds at each cloud
    cancel_job(services.config1, "unwanted")
    assert not pool_states(services, others)


def test_what_cannot_be_prepared_is_told(services: TwoServices):
    with pytest.raises(InputError, match="no dataset"):
        prepare_job(services.config1, "nowhere", 1, pairs=1)
