"""Sealing takes the uploads that both clouds have, in C1's order, and checks before it fixes."""

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cloud2.follower import Follower
from cloud2.service import control_operations
from master.job import run_job, seal_dataset
from ppodc import kinds
from ppodc.errors import InputError, RefusedError, WidthError
from ppodc.kmeans.job import Job
from ppodc.linkage import schedule
from ppodc.linkage.job import Job as LinkageJob
from ppodc.linkage.rules import SquaredDistance
from ppodc.local.platform import free_ports
from ppodc.members import Members
from ppodc.records.schema import Column, Schema
from ppodc.records.sharing import split
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, Cloud2Config, load, peers
from ppodc.service.job_state import JobState
from ppodc.service.store import Store
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from tests.harness.thread_workers import ThreadWorkers


@dataclass
class Clouds:
    config: Cloud1Config
    first: Store
    second: Store

    def create(self, k: int, least: int = 1) -> None:
        owners = Members.of(self.config.owners, least)
        self.open(Job(k=k), owners)

    def open(self, job: kinds.Job, owners: Members) -> None:
        spec = Spec("d", Schema((Column("x", 0.0, 9.0),), 9), job, owners)
        for store in (self.first, self.second):
            store.datasets.create(spec)

    def upload(self, rows: int, *stores: Store, owner: str = "owner1") -> str:
        upload_id = secrets.token_hex(16)
        share, seed = split(np.zeros((rows, 1), np.int64))
        for store in stores or (self.second, self.first):
            store.uploads.begin("d", owner, upload_id, rows)
            if store is self.first:
                store.uploads.put_chunk(upload_id, 0, share)
            else:
                store.uploads.put_seed(upload_id, seed)
            store.uploads.commit(upload_id)
        return upload_id


@pytest.fixture
def clouds(tmp_path: Path) -> Iterator[Clouds]:
    listen = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    parties = deployment.create(
        tmp_path / "d",
        2,
        cloud2_listen_control=listen,
        insecure_key_bits=256,
        suites=("shares", "paillier"),
    )
    config1 = load(parties.party("cloud1").config, Cloud1Config)
    config2 = load(parties.party("cloud2").config, Cloud2Config)
    with (
        Store.open(config1.store, "cloud1") as first,
        Store.open(config2.store, "cloud2") as second,
        Gateway(
            listen,
            CurveKeys.load(config2.key),
            peers(config2),
            control_operations(Follower(second, config2, ThreadWorkers(id))),
        ),
    ):
        yield Clouds(config1, first, second)


def test_only_what_both_have_in_order_of_arrival_at_cloud1(clouds: Clouds):
    clouds.create(k=2)
    kept = [clouds.upload(3), clouds.upload(1, owner="owner2")]
    lonely = [clouds.upload(5, clouds.first), clouds.upload(7, clouds.second)]
    kept.append(clouds.upload(2))
    report = seal_dataset(clouds.config, "d")
    assert (report.m, report.uploads) == (6, 3)
    assert sorted(report.left_out) == sorted(lonely)
    for store in (clouds.first, clouds.second):
        sealed = store.seals.sealed("d")
        assert [upload.upload_id for upload in sealed.uploads] == kept
        assert sealed.digest == report.digest


def test_sealing_again_is_harmless_even_if_more_arrived(clouds: Clouds):
    clouds.create(k=1)
    clouds.upload(3)
    first = seal_dataset(clouds.config, "d")
    assert seal_dataset(clouds.config, "d").digest == first.digest


def test_a_seal_that_only_cloud1_made_is_completed(clouds: Clouds):
    clouds.create(k=1)
    upload = clouds.upload(4)
    digest = clouds.first.seals.seal("d", [upload])
    assert seal_dataset(clouds.config, "d").digest == digest
    assert clouds.second.seals.sealed("d").digest == digest


def test_more_uploads_than_one_message_holds(clouds: Clouds):
    clouds.create(k=1)
    ids = [clouds.upload(1) for _ in range(205)]
    assert seal_dataset(clouds.config, "d").uploads == 205
    assert [upload.upload_id for upload in clouds.second.seals.sealed("d").uploads] == ids


@pytest.mark.parametrize(
    ("k", "rows", "suite", "error", "text"),
    [
        (3, 0, "shares", InputError, "no upload that both clouds have"),
        (3, 2, "shares", InputError, "k of at most 2"),
        (40, 60, "paillier", WidthError, "It holds"),
        (1, 2, "magic", InputError, "no suite 'magic'"),
    ],
)
def test_what_cannot_run_is_not_sealed(clouds: Clouds, k, rows, suite, error, text):
    clouds.create(k=k)
    if rows:
        clouds.upload(rows)
    with pytest.raises(error, match=text):
        seal_dataset(clouds.config, "d", suite)
    for store in (clouds.first, clouds.second):
        assert store.jobs.get("d").state == JobState.CREATED


def test_more_pairs_than_cloud2_gives_are_refused_before_sealing(clouds: Clouds):
    clouds.create(k=2)
    clouds.upload(700)
    with pytest.raises(RefusedError, match="cloud 2 gives at most 64 workers"):
        run_job(clouds.config, "d", pairs=65)
    assert clouds.first.jobs.get("d").state == JobState.CREATED
    assert clouds.second.jobs.get("d").state == JobState.CREATED


def test_fewer_owners_than_agreed_are_not_sealed(clouds: Clouds):
    clouds.create(k=1, least=2)
    clouds.upload(3)
    with pytest.raises(InputError, match="at least 2 owners"):
        seal_dataset(clouds.config, "d")
    assert clouds.second.jobs.get("d").state == JobState.CREATED
    clouds.upload(3, owner="owner2")
    assert seal_dataset(clouds.config, "d").m == 6


def test_what_one_cloud_has_withdrawn_is_left_out(clouds: Clouds):
    clouds.create(k=1)
    kept, *gone = [clouds.upload(rows) for rows in (3, 4, 5)]
    clouds.first.removal.withdraw(gone[0])
    clouds.second.removal.withdraw(gone[1])
    report = seal_dataset(clouds.config, "d")
    assert (report.m, sorted(report.left_out)) == (3, sorted(gone))
    assert [u.upload_id for u in clouds.second.seals.sealed("d").uploads] == [kept]


@pytest.mark.parametrize("again", [False, True], ids=["at once", "by the next master"])
def test_a_withdrawal_at_cloud2_between_the_two_seals_stops_nobody(
    clouds: Clouds, monkeypatch, again: bool
):
    """Otherwise one owner could keep a dataset from ever being sealed at both clouds."""
    clouds.create(k=1)
    kept, gone = clouds.upload(3), clouds.upload(4)
    if again:
        clouds.first.seals.seal("d", [kept, gone])
        clouds.second.removal.withdraw(gone)
    else:
        seal = clouds.first.seals.seal.__func__

        def racing(store, dataset, ids):
            digest = seal(store, dataset, ids)
            clouds.second.removal.withdraw(gone)
            return digest

        monkeypatch.setattr(type(clouds.first.seals), "seal", _first_only(racing, seal, clouds))
    report = seal_dataset(clouds.config, "d")
    assert (report.m, report.uploads) == (3, 1)
    for store in (clouds.first, clouds.second):
        assert [u.upload_id for u in store.seals.sealed("d").uploads] == [kept]
    events = [entry.event for entry in clouds.first.ledger.entries()]
    assert events.count("seal undone") == 1


def _first_only(changed, original, clouds):
    """`changed` at cloud 1's store, whoever has it open; `original` at cloud 2's."""

    def call(seals, dataset, ids):
        at_first = seals._uploads.folder == clouds.first.uploads.folder
        return (changed if at_first else original)(seals, dataset, ids)

    return call


def test_a_seal_that_both_have_is_never_undone(clouds: Clouds):
    clouds.create(k=1)
    clouds.upload(3)
    digest = seal_dataset(clouds.config, "d").digest
    for store in (clouds.first, clouds.second):
        for upload in store.uploads.of("d"):
            with pytest.raises(InputError, match="nor gives any back"):
                store.removal.withdraw(upload.upload_id)
    assert seal_dataset(clouds.config, "d").digest == digest


def test_a_linkage_that_cannot_be_is_refused_before_sealing(clouds: Clouds, monkeypatch):
    clouds.open(LinkageJob(SquaredDistance((1,), 0)), Members.of(clouds.config.owners, 1))
    clouds.upload(3)
    with pytest.raises(InputError, match="at least two owners"):
        seal_dataset(clouds.config, "d")
    many = clouds.upload(40, owner="owner2")
    monkeypatch.setattr(schedule, "_MOST_PAIRS", 100)
    with pytest.raises(InputError, match=r"too many pairs to compare.*leave-out"):
        seal_dataset(clouds.config, "d")
    # nothing is fixed yet: the operator leaves out what should not have been sent
    for store in (clouds.first, clouds.second):
        assert store.jobs.get("d").state == JobState.CREATED
        store.removal.leave_out("d", many, "operator")
    clouds.upload(4, owner="owner2")
    assert seal_dataset(clouds.config, "d").m == 7
