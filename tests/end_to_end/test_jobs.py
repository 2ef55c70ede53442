"""Whole jobs over real services, Ray, ZeroMQ and SQLite give the reference's result."""

import pytest

from ppodc.errors import InputError, WidthError
from ppodc.service.job_state import JobState
from tests.end_to_end.two_services import TwoServices, make_spec, make_tables

JOBS = {
    "one-owner": ((9,), 1, "shares", {"k": 3}),
    "two-owners": ((7, 12), 2, "shares", {"k": 4, "labels": False}),
    "three-owners": ((1, 10, 6), 4, "shares", {"k": 2, "max_iter": 2}),
    "centres": ((8, 8), 2, "shares", {"k": 2, "init": [[1, 2], [20, 20]], "beta": "1/3"}),
    "published": ((6, 5), 2, "paillier", {"k": 2, "max_iter": 3}),
}


@pytest.mark.parametrize("name", JOBS)
def test_result_equals_the_reference(services: TwoServices, name: str):
    rows, pairs, suite, options = JOBS[name]
    spec = make_spec(name, 2, **options)
    tables = make_tables(len(name), rows, 2)
    services.upload(spec, tables)
    end = services.run(name, suite, pairs)
    assert end.state == JobState.DONE
    services.check(spec, tables)
    events = {}
    for party in ("cloud1", "cloud2"):
        with services.store(party) as store:
            assert store.jobs.get(name).state == JobState.DONE
            assert store.ledger.verify().broken is None
            events[party] = [entry.event for entry in store.ledger.entries(name)]
    for seen in events.values():
        assert seen.count("stop bit revealed") == end.facts["n_iter"]
        assert seen.count("result half stored") == 1
        assert seen.count("labels half stored") == int(spec.job.labels)


def test_running_a_finished_job_again_changes_nothing(services: TwoServices):
    spec, tables = make_spec("again", 1, k=1), make_tables(1, (3,), 1)
    services.upload(spec, tables)
    first = services.run("again", pairs=1)
    assert services.run("again", pairs=1).facts == first.facts
    services.check(spec, tables)


def test_more_pairs_than_records_use_one_pair_per_record(services: TwoServices):
    spec, tables = make_spec("few", 2, k=2), make_tables(2, (2,), 2)
    services.upload(spec, tables)
    services.run("few", pairs=4)
    services.check(spec, tables)


def test_too_few_records_are_refused_before_sealing(services: TwoServices):
    services.upload(make_spec("small", 2, k=5), make_tables(3, (4,), 2))
    with pytest.raises(InputError, match=r"at least 5 records.*k of at most 4"):
        services.run("small")
    for party in ("cloud1", "cloud2"):
        with services.store(party) as store:
            assert store.jobs.get("small").state == JobState.CREATED


def test_a_job_too_wide_for_the_key_is_refused_before_sealing(services: TwoServices):
    spec = make_spec("wide", 2, k=64)
    services.upload(spec, make_tables(4, (200,), 2))
    with pytest.raises(WidthError, match="It holds"):
        services.run("wide", suite="paillier")
    with services.store("cloud2") as store:
        assert store.jobs.get("wide").state == JobState.CREATED


def test_more_pairs_than_ray_offers_are_refused_with_advice(services: TwoServices):
    services.upload(make_spec("many", 1, k=1), make_tables(5, (40,), 1))
    with pytest.raises(Exception, match=r"offers 8 'cloud1'.*ppodc resume many"):
        services.run("many", pairs=30)
