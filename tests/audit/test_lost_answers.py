"""An honest cloud is never accused: not by lost control messages, nor by its peer's false word.

A cheating one is, by what it has signed itself.
"""

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

from ppodc.audit import bundle, testimony
from ppodc.audit.bundle import Bundle
from ppodc.audit.replay import Verdict
from ppodc.cli import app
from ppodc.errors import InputError, ProtocolError, StateError
from ppodc.service.ledger_entries import NOTED, START, Entry
from ppodc.spec import Spec
from ppodc.totals.half import TotalsHalf
from ppodc.totals.job import Job as Totals
from tests.audit.audited_jobs import AuditedJob, Fault
from tests.audit.test_bundle import change, facts
from tests.audit.test_replay import JOBS, SCHEMA, TABLES

SPEC = Spec("d", SCHEMA, Totals(variance=False, least=2))
DIES = Fault("worker1 message", 10, "die", "ingest")
# the fault, and of each cloud: pairs and signed steps in its sessions, offers without an answer
LOST = {
    "no answer to open": (
        [Fault("control reply", 1, "kill master", "open")],
        (([1], [3], 1), ([1, 1], [0, 3], 0)),
    ),
    "cloud 2 dies with its answer to open, and is asked again": (
        [Fault("control reply", 1, "kill cloud2", "open")],
        (([1], [3], 0), ([1, 1], [0, 3], 0)),
    ),
    "cloud 2 dies before it keeps the session": (
        [Fault("cloud2 write", 3, "kill before", "open")],
        (([1], [3], 0), ([1], [3], 0)),
    ),
    "no answer to replace": (
        [DIES, Fault("control reply", 1, "kill master", "replace")],
        (([1, 1], [0, 3], 1), ([2, 1], [0, 3], 0)),
    ),
    "cloud 2 dies once it has replaced": (
        [DIES, Fault("cloud2 write", 1, "kill after", "replace")],
        (([1, 1], [0, 3], 1), ([2, 1], [0, 3], 0)),
    ),
    "no answer to the signatures of cloud 1": (
        [Fault("cloud1 write", 1, "kill before", "sum")],
        (([1, 1], [0, 3], 0), ([1, 1], [1, 3], 0)),
    ),
}


@pytest.mark.parametrize("name", LOST)
def test_neither_cloud_is_accused_if_an_answer_is_lost(name, tmp_path):
    fate, expected = LOST[name]
    job = AuditedJob(tmp_path, SPEC, TABLES, fate=fate).run()
    assert not job.verdict.bad, job.verdict.notes
    kept = []
    for cloud in (1, 2):
        verdict = job.audit(cloud)
        assert (verdict.deviation, verdict.doubts) == ("", ())
        assert verdict.result is not None
        with job.store(cloud) as store:
            at, audits = [s.session_id for s in store.audits.sessions("d")], store.audits
            counts = [[len(of(i)) for i in at] for of in (audits.pairs, audits.steps)]
            kept.append((*counts, len(audits.offers("d"))))
    assert tuple(kept) == expected


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A job of two sessions: the master dies after its last iteration, the second."""
    folder = tmp_path_factory.mktemp("resumed")
    fate = [Fault("control reply", 1, "kill master", "output")]
    made = AuditedJob(folder, Spec("d", SCHEMA, JOBS["fixed"]), TABLES, fate=fate).run()
    assert not made.verdict.bad
    with made.store(1) as store:
        assert [s.resume_from for s in store.audits.sessions("d")] == [None, 2]
    return made


def chained(entries: list[Entry]) -> list[Entry]:
    """The entries as a ledger that was written anew."""
    found: list[Entry] = []
    for number, entry in enumerate(entries, 1):
        previous = found[-1].hash if found else START
        new = msgspec.structs.replace(entry, number=number, previous=previous)
        found.append(msgspec.structs.replace(new, hash=new.expected_hash()))
    return found


def edited(entries: list[Entry], event: str, change_detail) -> list[Entry]:
    """The ledger with other details in all entries of this event."""
    made = []
    for entry in entries:
        if entry.event == event:
            detail = json.loads(entry.detail)
            change_detail(detail)
            entry = msgspec.structs.replace(entry, detail=json.dumps(detail))
        made.append(entry)
    return chained(made)


def false_head(told: testimony.Testimony, _: int) -> testimony.Testimony:
    ledger = edited(told.ledger, NOTED, lambda detail: detail.update(hash="0" * 64))
    return msgspec.structs.replace(told, ledger=ledger)


def other_key(told: testimony.Testimony, cloud: int) -> testimony.Testimony:
    def change_key(detail):
        detail[f"cloud{cloud} key"] = "ab" * 32

    ledger = edited(told.ledger, "audit session opened", change_key)
    return msgspec.structs.replace(told, ledger=ledger)


def made_up_session(told: testimony.Testimony, cloud: int) -> testimony.Testimony:
    """A session that never was, with a commitment that nobody made."""

    def rename(detail):
        detail |= {"session": "f" * 32, f"cloud{cloud} 0.0": "cd" * 32}

    opened = [e for e in told.ledger if e.event == "audit session opened"]
    made = edited(opened[-1:], "audit session opened", rename)
    offer = told.offers[-1]
    fake = msgspec.structs.replace(offer, session_id="f" * 32, commitment=bytes.fromhex("cd" * 32))
    return msgspec.structs.replace(
        told, ledger=chained(told.ledger + made), offers=[*told.offers, fake]
    )


def unsigned_commitment(told: testimony.Testimony, cloud: int) -> testimony.Testimony:
    made = made_up_session(told, cloud)
    return msgspec.structs.replace(made, offers=told.offers)


def made_up_step(told: testimony.Testimony, _: int) -> testimony.Testimony:
    """A step under a key of the peer's own."""
    key = Ed25519PrivateKey.generate()
    steps = [msgspec.structs.replace(s, signature=key.sign(s.statement)) for s in told.steps]
    return msgspec.structs.replace(told, steps=steps)


def step_elsewhere(told: testimony.Testimony, _: int) -> testimony.Testimony:
    """A signature under one step is shown as one under another."""
    steps = [msgspec.structs.replace(s, step=s.step + 1) for s in told.steps]
    return msgspec.structs.replace(told, steps=steps)


def no_sessions(told: testimony.Testimony, _: int) -> testimony.Testimony:
    kept = [e for e in told.ledger if not e.event.startswith("audit")]
    return msgspec.structs.replace(told, ledger=chained(kept))


def no_uploads(told: testimony.Testimony, _: int) -> testimony.Testimony:
    kept = [e for e in told.ledger if e.event != "upload committed"]
    return msgspec.structs.replace(told, ledger=chained(kept))


def torn(told: testimony.Testimony, _: int) -> testimony.Testimony:
    return msgspec.structs.replace(told, ledger=told.ledger[1:])


def nonsense(told: testimony.Testimony, _: int) -> testimony.Testimony:
    ledger = edited(told.ledger, "audit session opened", lambda detail: detail.clear())
    return msgspec.structs.replace(told, ledger=ledger)


def other_order(told: testimony.Testimony, _: int) -> testimony.Testimony:
    opened = [e for e in told.ledger if e.event == "audit session opened"]
    turn = dict(zip([e.number for e in opened], reversed(opened), strict=True))
    return msgspec.structs.replace(
        told, ledger=chained([turn.get(e.number, e) for e in told.ledger])
    )


LIES = [
    false_head,
    other_key,
    made_up_session,
    unsigned_commitment,
    made_up_step,
    step_elsewhere,
    no_sessions,
    no_uploads,
    torn,
    nonsense,
    other_order,
]


@pytest.mark.parametrize("lie", LIES)
def test_a_peer_that_lies_leaves_a_doubt_and_no_deviation(job, lie, monkeypatch):
    """Replaying is not needed to see it: it does not depend on the peer's testimony."""
    monkeypatch.setattr(bundle, "replay", lambda *_: Verdict(0, 0, 0))
    monkeypatch.setattr(bundle, "check_given", lambda *_: None)
    for cloud in (1, 2):
        honest = Bundle(job.bundle(cloud))
        assert honest.check(job.testimony(3 - cloud)) == Verdict(0, 0, 0)
        found = honest.check(lie(job.testimony(3 - cloud), cloud))
        assert found.deviation == ""
        assert found.doubts


def test_a_peer_that_shows_nothing_leaves_no_doubt(job):
    """It says no less than the ledger, which fits."""
    told = job.testimony(2)
    silent = msgspec.structs.replace(told, offers=[], steps=[])
    assert Bundle(job.bundle(1)).check(silent).deviation == ""


def withheld(job: AuditedJob, cloud: int) -> Path:
    """A bundle without the first session, and with a ledger that was written anew to fit."""
    folder = job.bundle(cloud)
    told = facts(folder)
    gone = told["sessions"].pop(0)["session"]["session_id"]
    ledger = [msgspec.convert(entry, Entry) for entry in told["ledger"]]
    kept = [e for e in ledger if gone not in e.detail]
    ledger = edited(kept, "audit session opened", lambda detail: detail.update(resumed=None))
    told["ledger"] = msgspec.to_builtins(ledger)
    told["sessions"][0]["session"]["resume_from"] = None
    change(folder, told)
    return folder


def test_a_session_that_a_cloud_withholds_is_proved_by_its_signatures(job):
    for cloud in (1, 2):
        found = Bundle(withheld(job, cloud)).check(job.testimony(3 - cloud))
        assert "by its own signature: it has signed a commitment" in found.deviation
        # it says that the answer to its offer got lost, and shows the seed
        folder = job.bundle(cloud)
        first = facts(folder)["sessions"][0]["pairs"]
        hidden = withheld(job, cloud)
        told = facts(hidden)
        told["offers"] = first
        change(hidden, told)
        found = Bundle(hidden).check(job.testimony(3 - cloud))
        assert "and the bundle lacks that session" in found.deviation


def test_a_step_that_a_cloud_withholds_is_proved_by_its_signature(job):
    """It signed more of a session than it shows: an iteration on altered shares, dropped again."""
    folder = job.bundle(1)
    told = facts(folder)
    last = told["sessions"][-1]
    end = max(step["step"] for step in last["steps"])
    last["steps"] = [step for step in last["steps"] if step["step"] < end]
    record = folder / Path(last["pairs"][-1]["file"]).name
    record.write_bytes(record.read_bytes()[: record.stat().st_size // 2])
    change(folder, told)
    found = Bundle(folder).check(job.testimony(2))
    assert "this cloud has signed" in found.deviation or "has signed step" in found.deviation


def test_no_session_goes_on_from_a_step_that_nobody_signed(job):
    """A made-up session cannot lend a state to the next one."""
    folder = job.bundle(1)
    told = facts(folder)
    first = told["sessions"][0]
    first["steps"] = []
    (folder / Path(first["pairs"][0]["file"]).name).write_bytes(b"")
    change(folder, told)
    found = Bundle(folder).check()
    assert "went on from iteration 2, which it had not computed" in found.deviation


def test_the_command_says_inconclusive(job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, ledger = job.bundle(2), tmp_path / "ledger.json"
    ledger.write_bytes(msgspec.json.encode(false_head(job.testimony(1), 2)))
    done = CliRunner().invoke(app, ["audit", "check", str(folder), "--other-ledger", str(ledger)])
    assert done.exit_code == 3, done.output
    assert "INCONCLUSIVE" in done.output
    assert "DEVIATION" not in done.output
    with pytest.raises(InputError, match="cloud 2's own"):
        Bundle(folder).check(job.testimony(2))


def test_a_message_that_breaks_the_half_is_no_deviation(tmp_path):
    """A peer's message at which this release fails by itself ends the session, and no more."""
    honest, due = TotalsHalf.sum, [1, 1]  # once at each cloud

    def fails(self, *arguments):
        if due:
            raise IndexError(due.pop())
        return honest(self, *arguments)

    job = AuditedJob(tmp_path, SPEC, TABLES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TotalsHalf, "sum", fails)
        job.run()
        due.append(1)
        assert job.audit(1).deviation == ""
        assert not due


def test_a_session_cannot_take_the_name_of_an_earlier_one(job):
    """Signatures of the earlier one would then seem to be under steps of this one."""
    with job.store(1) as store:
        before = store.audits.sessions("d")
        with pytest.raises(ProtocolError, match="name of another one"):
            store.audits.begin("d", before[0], [], {"session": before[0].session_id})
        assert store.audits.sessions("d") == before


def test_a_record_is_not_erased_while_the_job_can_go_on(tmp_path):
    job = AuditedJob(tmp_path, replace(SPEC, name="e"), TABLES).run()
    with job.store(1) as store:
        store._database._connection.execute("UPDATE dataset SET state = 'failed'")
        with pytest.raises(StateError, match="can go on"):
            store.audits.erase("e")
        assert store.audits.sessions("e")
