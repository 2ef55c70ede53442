"""Bundles for an auditor: who may get it, how long it is kept, and what a false bundle shows."""

import json
import re
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from client import sending
from ppodc.audit.bundle import Bundle
from ppodc.audit.register import Register
from ppodc.cli import app
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.job import Job
from ppodc.members import Members
from ppodc.service.ledger_entries import NOTED, check_crossed
from ppodc.spec import Spec
from ppodc.totals.job import Job as Totals
from tests.audit.audited_jobs import AuditedJob
from tests.audit.test_replay import SCHEMA, TABLES
from tests.campaigns import faults

SPEC = Spec("d", SCHEMA, Totals(variance=False, least=2))


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A finished job, of which nothing is erased."""
    return AuditedJob(tmp_path_factory.mktemp("audit"), SPEC, TABLES).run()


def check(job: AuditedJob, folder: Path, cloud: int = 1) -> str:
    return Bundle(folder).check(job.testimony(3 - cloud)).deviation


def facts(folder: Path) -> dict:
    return json.loads((folder / "audit.json").read_text())


def change(folder: Path, told: dict) -> None:
    (folder / "audit.json").write_text(json.dumps(told))


def test_a_bundle_is_for_one_user_and_holds_one_cloud(job):
    for cloud in (1, 2):
        folder = job.bundle(cloud)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert {file.stat().st_mode & 0o777 for file in folder.iterdir()} == {0o600}
        assert Bundle(folder).role == cloud
        assert check(job, folder, cloud) == ""
        assert bool(list(folder.glob("*.rows"))) == (cloud == 1)


def test_records_on_disk_are_encrypted_and_private(job):
    with job.store(1) as store:
        folder, (session,) = store.audits.folder, store.audits.sessions("d")
        (pair,) = store.audits.pairs(session.session_id)
    assert folder.stat().st_mode & 0o777 == 0o700
    record = Path(pair.file)
    assert record.parent == folder
    assert record.stat().st_mode & 0o777 == 0o600
    data = record.read_bytes()
    assert len(data) > 100_000
    assert b"shares." not in data  # kinds of messages
    counts = np.bincount(np.frombuffer(data, np.uint8), minlength=256)
    assert counts[1:].max() < 1.5 * len(data) / 256  # lengths of entries begin with zeros


def test_a_share_that_was_not_uploaded_is_found(job):
    folder = job.bundle(1)
    rows = next(iter(folder.glob("*.rows")))
    data = np.fromfile(rows, np.uint64)
    data[0] += np.uint64(1)
    data.tofile(rows)
    assert "not those that owners told the other cloud of" in check(job, folder)


def test_another_seed_is_found(job):
    folder = job.bundle(1)
    told = facts(folder)
    pair = told["sessions"][0]["pairs"][0]
    pair["seed"], pair["salt"] = pair["salt"], pair["seed"]
    change(folder, told)
    assert "not the one that was committed to in its ledger" in check(job, folder)


def test_a_withheld_session_is_found(job):
    folder = job.bundle(1)
    told = facts(folder)
    told["sessions"] = []
    change(folder, told)
    assert "signing keys" in check(job, folder) or "lacks" in check(job, folder)


def test_a_changed_or_shortened_record_is_found(job):
    folder = job.bundle(1)
    (record,) = folder.glob("*.record")
    data = record.read_bytes()
    record.write_bytes(data[: len(data) // 2])
    assert "signed" in check(job, folder)
    record.write_bytes(data[: len(data) // 2] + b"\0" + data[len(data) // 2 + 1 :])
    assert "signed" in check(job, folder)
    record.unlink()
    assert check(job, folder) != ""


def test_a_signature_of_somebody_else_is_found(job):
    folder = job.bundle(1)
    told = facts(folder)
    for step in told["sessions"][0]["steps"]:
        step["own_signature"], step["peer_signature"] = (
            step["peer_signature"],
            step["own_signature"],
        )
    change(folder, told)
    assert re.search("signature under step .* does not hold", check(job, folder))


def test_a_ledger_written_anew_is_found(job):
    """The other cloud has noted heads of it."""
    folder = job.bundle(1)
    told = facts(folder)
    last = told["ledger"][-1]
    told["ledger"] = told["ledger"][:3]
    change(folder, told)
    assert last["number"] > 3
    assert check(job, folder) != ""


def test_each_ledger_holds_the_heads_of_the_other(job):
    with job.store(1) as first, job.store(2) as second:
        one, two = first.ledger.entries(), second.ledger.entries()
    assert check_crossed(one, two) >= 2
    assert check_crossed(two, one) >= 2
    assert sum(entry.event == NOTED for entry in one) >= 2
    noted = max(json.loads(e.detail)["number"] for e in one if e.event == NOTED)
    with pytest.raises(PpodcError, match="cut off"):
        check_crossed(one, two[: noted - 1])
    other = [msgspec.structs.replace(entry, hash="0" * 64) for entry in two]
    with pytest.raises(PpodcError, match="written anew"):
        check_crossed(one, other)


def test_one_auditor_sees_one_side(tmp_path):
    register = Register(tmp_path / "audits.json")
    side = register.draw("a" * 64)
    assert {register.draw("a" * 64) for _ in range(20)} == {side}
    register.admit("a" * 64, side)
    with pytest.raises(InputError, match="must never see both"):
        register.admit("a" * 64, 3 - side)
    register.admit("b" * 64, 2)
    with pytest.raises(InputError, match="side of this dataset is cloud 2"):
        Register(tmp_path / "audits.json").admit("b" * 64, 1)
    assert (tmp_path / "audits.json").stat().st_mode & 0o777 == 0o600
    assert {Register(tmp_path / f"{i}.json").draw("c" * 64) for i in range(64)} == {1, 2}


def test_the_command_checks_and_refuses_the_other_side(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledgers = {}
    for cloud in (1, 2):
        ledgers[cloud] = tmp_path / f"ledger{cloud}.json"
        ledgers[cloud].write_bytes(msgspec.json.encode(job.testimony(cloud)))
    one, two = job.bundle(1), job.bundle(2)
    run = CliRunner().invoke
    ask = ["audit", "check", str(one), "--other-ledger", str(ledgers[2])]
    done = run(app, ask)
    assert done.exit_code == 0, done.output
    assert "are what the protocol sends" in done.output
    told = facts(one)
    told["sessions"][0]["pairs"][0]["salt"] = told["sessions"][0]["pairs"][0]["seed"]
    change(one, told)
    assert run(app, ask).exit_code == 1
    refused = run(app, ["audit", "check", str(two), "--other-ledger", str(ledgers[1])])
    assert isinstance(refused.exception, InputError)
    assert "must never see both" in str(refused.exception)


def test_an_owner_that_lies_about_its_parts_is_left_out(tmp_path, monkeypatch):
    """Its digests would keep the clouds from beginning; the job runs without it."""
    honest, third = sending._audited, TABLES[0][:3]

    def lying(record, upload):
        told = honest(record, upload)
        if len(upload.values) == len(third):
            told[2] = msgspec.structs.replace(told[2], other=bytes(32))
        return told

    monkeypatch.setattr(sending, "_audited", lying)
    two_of_three = SimpleNamespace(of=lambda keys: Members.of(keys, 2))
    monkeypatch.setattr(faults, "Members", two_of_three)
    job = AuditedJob(tmp_path, SPEC, [*TABLES, third])
    with suppress(TimeoutError):
        job.run()  # the liar gets no result, however often it asks
    with job.store(1) as store:
        assert store.jobs.get("d").state == "done"
        assert [u.rows for u in store.seals.sealed("d").uploads] == [len(t) for t in TABLES]
    assert job.verdict.lost_uploads
    assert job.audit(1).deviation == ""


def test_a_client_without_digests_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(sending, "_audited", lambda *_: {})
    job = AuditedJob(tmp_path, SPEC, TABLES)
    with pytest.raises(TimeoutError, match="came without digests of its parts"):
        job.run()


def test_erased_records_are_gone(tmp_path):
    job = AuditedJob(tmp_path, SPEC, TABLES).run()
    job.bundle(1)
    with job.store(1) as store:
        files = list(store.audits.folder.iterdir())
        assert len(files) == 1
        assert store.audits.erase("d") == 1
        assert not list(store.audits.folder.iterdir())
        assert store.audits.sessions("d") == []
        events = [entry.event for entry in store.ledger.entries("d")]
        assert events[-2:] == ["audit record exported", "audit record erased"]
    with pytest.raises(InputError, match="no record of dataset 'd' is kept"):
        job.bundle(1)
    with job.store(2) as store:
        store.removal.records("d")  # as after `records_days`
        assert not list(store.audits.folder.iterdir())
        assert store.audits.sessions("d") == []


def test_digests_of_old_specs_stay_and_other_kinds_are_refused():
    plain = Spec("d", SCHEMA, Job(k=2))
    assert b"audit" not in plain.canonical()
    audited = Spec("d", SCHEMA, Job(k=2), audit=True)
    assert audited.digest != plain.digest
    assert Spec.from_bytes(audited.canonical()) == audited
    assert Spec.loads(audited.to_toml()) == audited
    assert any("auditor" in line for line in audited.describe())
    from ppodc import kinds

    for kind in ("linkage", "local", "private-kmeans"):
        sample = kinds.named(kind).sample.replace("[job]\n", "[job]\naudit = true\n")
        with pytest.raises(InputError, match=r"job\.audit: .*cannot be audited"):
            Spec.loads(sample)
    linked = kinds.named("kmeans").sample.replace("[job]\n", "[job]\naudit = true\n")
    Spec.loads(linked)
    linked += '\n[linkage]\nrule = "sse"\nweights = [1, 1, 1]\nlimit = 0\nblocks = "none"\n'
    with pytest.raises(InputError, match="links or joins records cannot be audited"):
        Spec.loads(linked)
