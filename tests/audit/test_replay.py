"""An honest cloud's part in a job runs again bit for bit, whatever happened to the job."""

import random
import time

import numpy as np
import pytest

from ppodc.kmeans.job import Job
from ppodc.mpc import round_trip
from ppodc.mpc.session_secrets import SessionSecrets
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from ppodc.totals.job import Job as Totals
from ppodc.transport.channel import MemoryChannel
from tests.audit.audited_jobs import AuditedJob, Fault

SCHEMA = Schema((Column("x", 0.0, 99.0), Column("y", 0.0, 99.0)), 99)
_made = np.random.default_rng(3)
TABLES = [_made.integers(0, 100, (rows, 2)) for rows in (9, 6)]
JOBS = {
    "stop bits": Job(k=2, seed=3, labels=True, max_iter=4, min_size=2),
    "fixed": Job(k=3, seed=3, iterations=2, init="k-means++", min_size=2, inertia=True),
    "lattice": Job(k=2, seed=3, iterations=2, products="lattice", min_size=2),
    "totals": Totals(variance=True, least=2),
}


def passes(job: AuditedJob, cloud: int) -> int:
    """Messages that were compared."""
    verdict = job.audit(cloud)
    assert verdict.deviation == ""
    assert verdict.result is not None
    with job.store(cloud) as store:
        for owner in {upload.owner for upload in store.seals.sealed(job.name).uploads}:
            kept = store.results.half(job.name, owner).halves
            own = verdict.result.own_halves.items()
            again = {**verdict.result.halves, **{name: by[owner] for name, by in own}}
            assert kept.keys() == again.keys()
            for name, half in kept.items():
                assert half.data.tobytes() == again[name].data.tobytes()
    return verdict.messages


@pytest.mark.parametrize("name", JOBS)
def test_both_honest_halves_are_bit_equal(name, tmp_path, monkeypatch):
    """Also where supplies are made in the waits: that of "lattice" calls the link slow."""
    monkeypatch.setattr(round_trip, "SLOW_US", 0 if name == "lattice" else 1e9)
    job = AuditedJob(tmp_path, Spec("d", SCHEMA, JOBS[name]), TABLES).run()
    assert not job.verdict.bad, job.verdict.notes
    for cloud in (1, 2):
        assert passes(job, cloud) > 10


def test_a_half_is_bit_equal_however_its_messages_were_delayed(tmp_path, monkeypatch):
    """Delays change who waits for whom, and nothing that a half draws or sends."""
    chance, get, put = random.Random(5), MemoryChannel._get, MemoryChannel._put

    def late(call):
        def delayed(self, *arguments):
            if chance.random() < 0.2:
                time.sleep(chance.random() / 100)
            return call(self, *arguments)

        return delayed

    job = AuditedJob(tmp_path, Spec("d", SCHEMA, JOBS["fixed"]), TABLES, pairs=2)
    with monkeypatch.context() as patch:
        patch.setattr(MemoryChannel, "_get", late(get))
        patch.setattr(MemoryChannel, "_put", late(put))
        job.run()
    assert not job.verdict.bad, job.verdict.notes
    for cloud in (1, 2):
        passes(job, cloud)


def test_a_seed_gives_other_numbers_to_another_peer_and_another_lane():
    one = SessionSecrets(bytes(32))
    drawn = {
        one.nonce(),
        one.stream(b"hello").bytes(32),
        one.stream(b"hello", "leaves").bytes(32),
        one.stream(b"other").bytes(32),
        SessionSecrets(bytes(31) + b"1").stream(b"hello").bytes(32),
    }
    assert len(drawn) == 5
    assert one.stream(b"hello").bytes(32) in drawn


FAULTS = {
    "a worker dies": [Fault("worker1 message", 150, "die")],
    "a worker dies at cloud 2": [Fault("worker2 message", 200, "die")],
    "a link breaks in its first step": [Fault("worker1 message", 4, "cut", "ingest")],
    "the master is killed": [Fault("control reply", 2, "kill master", "update")],
    "cloud 2 is killed": [Fault("control request", 2, "kill cloud2", "assign")],
    "an answer is lost": [Fault("control reply", 1, "lose", "update")],
    "cloud 1 is killed as it writes": [Fault("cloud1 write", 2, "kill before", "update")],
    "a worker dies, silent": [Fault("worker1 message", 90, "die")],
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_job_that_was_struck_passes_at_both_clouds(name, tmp_path):
    silent = Job(k=2, seed=3, max_iter=2, min_size=2, supplies="silent")
    spec = Spec("d", SCHEMA, silent if "silent" in name else JOBS["stop bits"])
    job = AuditedJob(tmp_path, spec, TABLES, pairs=2, fate=FAULTS[name]).run()
    assert job.fate.struck
    assert not job.verdict.bad, job.verdict.notes
    for cloud in (1, 2):
        passes(job, cloud)
