"""Removal from a store: withdrawn, left-out, expired and deleted data, and their traces."""

import secrets
from datetime import timedelta

import pytest

from ppodc.errors import InputError, WithdrawnError
from ppodc.records.sharing import split
from ppodc.service.job_state import JobState
from ppodc.service.messages import LeaveOut, Named, ResultReply, UploadRef, UploadState
from ppodc.service.quotas import Quotas
from ppodc.service.running import forget_old, regularly
from ppodc.service.store import Checkpoint, Store
from ppodc.transport.wire import Empty
from tests.service.data import make_spec, put_upload, records, sealed_rows
from tests.service.test_operations import ANN, OPERATOR, client, code, finish

NOW = timedelta()


def files(store: Store) -> list[str]:
    return [path.name for path in store.folder.rglob("*") if path.parent.parent.name == "uploads"]


def has(store: Store, secret: bytes) -> bool:
    """Whether any file of the store holds these bytes."""
    return any(secret in path.read_bytes() for path in store.folder.rglob("*") if path.is_file())


def events(store: Store) -> list[str]:
    return [entry.event for entry in store.ledger.entries()]


def put(two, rows=4) -> tuple[str, bytes, bytes]:
    """An upload of ann's at both clouds; its id, and what each cloud keeps of it."""
    upload_id = secrets.token_hex(16)
    share, seed = split(records(rows))
    for store in two:
        store.uploads.begin("clinic", "ann", upload_id, rows)
    two[0].uploads.put_chunk(upload_id, 0, share)
    two[1].uploads.put_seed(upload_id, seed)
    return upload_id, share.tobytes(), seed


@pytest.mark.parametrize("by", ["owner", "operator"])
def test_a_removed_upload_is_gone_and_its_id_stays_taken(two, by):
    upload_id, share, seed = put(two)
    for store, secret in zip(two, (share, seed), strict=True):
        store.uploads.commit(upload_id)
        assert has(store, secret)
        for _ in range(2):  # again is harmless
            if by == "owner":
                client(store, ANN).tell("withdraw", UploadRef(upload_id))
            else:
                client(store, OPERATOR).tell("leave_out", LeaveOut("clinic", upload_id))
        assert not has(store, secret)
        assert events(store).count("upload withdrawn" if by == "owner" else "upload left out") == 1
        (upload,) = store.uploads.of("clinic")
        assert not upload.committed
        assert (store.datasets.get("clinic").uploads, store.datasets.get("clinic").rows) == (0, 0)
        with pytest.raises(InputError):
            store.seals.seal("clinic", [upload_id])
        with pytest.raises(WithdrawnError if by == "owner" else InputError):
            store.uploads.begin("clinic", "ann", upload_id, 4)
        with pytest.raises(InputError):
            store.uploads.commit(upload_id)
        state = client(store, ANN)
        if by == "owner":
            reply = state.call("missing", UploadRef(upload_id), reply=UploadState)[0]
            assert reply == UploadState(False)
        else:
            assert code(state, "missing", UploadRef(upload_id)) == "state"


def test_what_was_never_finished_can_be_begun_again_after_its_withdrawal(two):
    upload_id, share, _ = put(two)
    client(two[0], ANN).tell("withdraw", UploadRef(upload_id))
    client(two[0], ANN).tell("withdraw", UploadRef("0" * 32))  # never begun: nothing to do
    assert not has(two[0], share)
    two[0].uploads.begin("clinic", "ann", upload_id, 4)
    assert two[0].uploads.missing(upload_id) == [(0, 4)]


def test_an_unfinished_upload_that_is_left_out_stays_out(two):
    upload_id, _, _ = put(two)
    two[0].removal.leave_out("clinic", upload_id, "olga")
    with pytest.raises(InputError, match="left out by an operator"):
        two[0].uploads.begin("clinic", "ann", upload_id, 4)
    for unknown in (LeaveOut("other", upload_id), LeaveOut("clinic", "0" * 32)):
        assert code(client(two[0], OPERATOR), "leave_out", unknown) == "not-found"


def test_uploads_that_are_never_committed_expire(two):
    old, share, seed = put(two)
    kept = put_upload(*two, "clinic", "ann", records(3, case=1))
    for store, secret in zip(two, (share, seed), strict=True):
        assert store.removal.expire(timedelta(days=1)) == []
        assert store.removal.expire(NOW) == [old]
        assert not has(store, secret)
        assert [upload.upload_id for upload in store.uploads.of("clinic")] == [kept]
        assert events(store).count("upload expired") == 1
        store.uploads.begin("clinic", "ann", old, 4)  # its owner goes on with the same id


def test_records_go_after_the_job_and_the_result_stays(two):
    upload_id = finish(two)
    for store in two:
        store.jobs.save_checkpoint("clinic", Checkpoint(1, True, {}), "run")
        share_or_seed = files(store)
        assert store.removal.past_jobs(timedelta(days=1)) == []
        forget_old(store, Quotas())
        assert files(store) == share_or_seed
        assert store.removal.past_jobs(NOW) == ["clinic"]
        store.removal.records("clinic")
        store.removal.records("clinic")
        assert (files(store), store.jobs.checkpoints("clinic")) == ([], {})
        assert store.removal.past_jobs(NOW) == []
        assert events(store).count("records deleted") == 1
        assert client(store, ANN).call("result", Named("clinic"), reply=ResultReply)[0].ready
        assert store.results.own_rows("clinic", "labels", upload_id).values == [0, 1, 1, 0]


def test_records_of_a_job_that_is_not_over_stay(two):
    upload_id = put_upload(*two, "clinic", "ann", records(4))
    for store in two:
        store.seals.seal("clinic", [upload_id])
        store.jobs.transition("clinic", JobState.FAILED)
        assert store.removal.past_jobs(NOW) == []
        with pytest.raises(InputError, match="not over"):
            store.removal.records("clinic")
        assert len(sealed_rows(store, "clinic", 0, 4)) == 4


def test_a_deleted_dataset_leaves_name_digest_and_ledger(two):
    finish(two)
    for store in two:
        operator = client(store, OPERATOR)
        for _ in range(2):
            operator.tell("delete", Named("clinic"))
        assert files(store) == []
        assert not store.results.has("clinic")
        assert events(store).count("dataset deleted") == 1
        assert store.ledger.verify().broken is None
        assert store.datasets.get("clinic").digest == make_spec().digest
        assert code(client(store, ANN), "result", Named("clinic")) == "state"
        with pytest.raises(InputError, match="was deleted"):
            store.datasets.create(make_spec())


def test_a_dataset_at_work_is_not_deleted_and_an_open_one_never_runs(two):
    upload_id = put_upload(*two, "clinic", "ann", records(4))
    first, second = two
    second.seals.seal("clinic", [upload_id])
    second.jobs.transition("clinic", JobState.PREPARING)
    with pytest.raises(InputError, match="first: ppodc cancel clinic"):
        second.removal.dataset("clinic", "olga")
    assert len(sealed_rows(second, "clinic", 0, 4)) == 4
    first.removal.dataset("clinic", "olga")
    assert first.jobs.get("clinic").state == JobState.CANCELLED
    with pytest.raises(InputError, match="cancelled"):
        first.uploads.begin("clinic", "ann", "1" * 32, 4)
    first.removal.sweep()
    assert files(first) == []


def test_files_that_a_kill_has_left_are_swept(two):
    first = two[0]
    upload_id, share, _ = put(two)
    left = first.folder / "uploads" / secrets.token_hex(16)
    left.mkdir()
    (left / "0-x").write_bytes(share)
    with regularly(lambda: 1 // 0, lambda: forget_old(first, Quotas()), seconds=0.01):
        while left.exists():
            pass
    assert first.uploads.missing(upload_id) == []
    assert len(files(first)) == 1


def test_a_chunk_that_comes_too_late_changes_nothing(two, monkeypatch):
    """The upload is withdrawn while its chunk is being written."""
    from ppodc.service.store import chunks

    first = two[0]
    upload_id = secrets.token_hex(16)
    first.uploads.begin("clinic", "ann", upload_id, 4)
    write = chunks.save_chunk

    def slow(*arguments):
        first.removal.withdraw(upload_id)
        write(*arguments)

    monkeypatch.setattr(chunks, "save_chunk", slow)
    share, _ = split(records(4))
    with pytest.raises(InputError, match="Begin it first"):
        first.uploads.put_chunk(upload_id, 0, share)
    first.removal.sweep()
    assert files(first) == []
    with pytest.raises(Exception, match="Begin it first"):
        client(first, ANN).call("commit", UploadRef(upload_id), reply=Empty)
