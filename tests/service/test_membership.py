"""Only the owners whose keys a spec names can do anything with its dataset."""

import json
import secrets
from dataclasses import replace

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.members import MAX_OWNERS, Members
from ppodc.records.sharing import split
from ppodc.service.job_state import JobState
from ppodc.service.ledger_entries import verify
from ppodc.service.messages import (
    Begin,
    ChunkPlace,
    DatasetList,
    DatasetsAsk,
    LeaveOut,
    LedgerAsk,
    LedgerReply,
    Named,
    ResultReply,
    RowsAsk,
    Seed,
    SpecText,
    UploadList,
    UploadRef,
    UploadsAsk,
    UploadState,
)
from ppodc.service.quotas import Quotas
from ppodc.spec import Spec
from ppodc.transport.call_server import Peer
from tests.service.data import make_spec, members, put_upload, records
from tests.service.test_operations import ANN, BOB, EVE, OPERATOR, client, code, finish

MALLORY = Peer("owner", "ann", f"{'mallory':.<40}")  # a cloud's configuration calls her ann
ALIAS = Peer("owner", "another-name", ANN.key)


def begin(store, peer: Peer, rows=4, **changes) -> str:
    body = Begin("clinic", make_spec().digest, secrets.token_hex(16), rows)
    client(store, peer).call("begin", body, reply=UploadState)
    return body.upload_id


def refused(store, peer: Peer, upload_id: str) -> set[str]:
    """The codes of every operation of an owner, on an upload and a dataset of another's."""
    share, seed = split(records(4))
    calls = [
        ("spec", Named("clinic"), []),
        ("uploads", UploadsAsk("clinic"), []),
        ("begin", Begin("clinic", make_spec().digest, secrets.token_hex(16), 4), []),
        ("begin", Begin("clinic", make_spec().digest, upload_id, 4), []),
        ("chunk", ChunkPlace(upload_id, 0), [share]),
        ("seed", Seed(upload_id, seed), []),
        ("missing", UploadRef(upload_id), []),
        ("commit", UploadRef(upload_id), []),
        ("withdraw", UploadRef(upload_id), []),
        ("progress", Named("clinic"), []),
        ("result", Named("clinic"), []),
        ("rows", RowsAsk("clinic", upload_id, "labels"), []),
    ]
    return {code(client(store, peer), op, body, arrays) for op, body, arrays in calls}


@pytest.mark.parametrize("stranger", [EVE, MALLORY], ids=["another key", "a member's name"])
@pytest.mark.parametrize("ended", [False, True], ids=["open", "done"])
def test_a_stranger_can_do_nothing(two, stranger, ended):
    upload_id = finish(two) if ended else put_upload(*two, "clinic", "ann", records(4))
    for store in two:
        before = store.ledger.entries(), store.uploads.of("clinic")
        assert refused(store, stranger, upload_id) == {"access"}
        listed = client(store, stranger).call("datasets", DatasetsAsk(), reply=DatasetList)[0]
        assert listed.datasets == ()
        entries = client(store, stranger).call("ledger", LedgerAsk(), reply=LedgerReply)[0].entries
        assert all(entry.hidden for entry in entries)
        assert before == (store.ledger.entries(), store.uploads.of("clinic"))


def test_a_stranger_cannot_tell_a_dataset_from_none(two):
    caller = client(two[0], EVE)
    texts = []
    for name in ("clinic", "nothing"):
        with pytest.raises(Exception, match="takes part in") as caught:
            caller.call("spec", Named(name), reply=SpecText)
        texts.append(str(caught.value).replace(name, ""))
    assert texts[0] == texts[1]


def test_the_key_counts_and_not_the_name_in_a_configuration(two):
    upload_id = begin(two[0], ALIAS)
    (upload,) = two[0].uploads.of("clinic")
    assert (upload.upload_id, upload.owner) == (upload_id, "ann")
    listed = client(two[0], ANN).call("uploads", UploadsAsk("clinic"), reply=UploadList)[0]
    assert listed.uploads == (upload,)


def test_a_member_cannot_touch_another_members_upload(two):
    upload_id = begin(two[0], ANN)
    share, _ = split(records(4))
    for op, body, arrays in (
        ("chunk", ChunkPlace(upload_id, 0), [share]),
        ("commit", UploadRef(upload_id), []),
        ("missing", UploadRef(upload_id), []),
        ("withdraw", UploadRef(upload_id), []),
        ("rows", RowsAsk("clinic", upload_id, "labels"), []),
    ):
        assert code(client(two[0], BOB), op, body, arrays) == "access"
    taken = Begin("clinic", make_spec().digest, upload_id, 4)
    assert code(client(two[0], BOB), "begin", taken) == "input"


def test_out_of_order_twice_and_too_late(two):
    first, second = two
    ann = client(first, ANN)
    share, seed = split(records(4))
    never = UploadRef(secrets.token_hex(16))
    assert code(ann, "chunk", ChunkPlace(never.upload_id, 0), [share]) == "not-found"
    assert code(ann, "commit", never) == "not-found"
    upload_id = begin(first, ANN)
    assert code(ann, "commit", UploadRef(upload_id)) == "state"  # before its rows
    assert code(ann, "begin", Begin("clinic", "0" * 64, upload_id, 4)) == "access"
    assert code(ann, "begin", Begin("clinic", make_spec().digest, upload_id, 5)) == "input"
    for _ in range(2):
        ann.tell("chunk", ChunkPlace(upload_id, 0), [share])
        ann.tell("commit", UploadRef(upload_id))
    assert code(ann, "chunk", ChunkPlace(upload_id, 0), [share + np.uint64(1)]) == "input"
    begin_second = Begin("clinic", make_spec().digest, upload_id, 4)
    client(second, ANN).call("begin", begin_second, reply=UploadState)
    client(second, ANN).tell("seed", Seed(upload_id, seed))
    assert code(client(second, ANN), "seed", Seed(upload_id, bytes(32))) == "input"
    client(second, ANN).tell("commit", UploadRef(upload_id))
    late = begin(first, ANN)
    for store in two:
        store.seals.seal("clinic", [upload_id])
    for op, body, arrays in (
        ("begin", Begin("clinic", make_spec().digest, secrets.token_hex(16), 4), []),
        ("chunk", ChunkPlace(late, 0), [share]),
        ("withdraw", UploadRef(upload_id), []),
    ):
        assert code(ann, op, body, arrays) == "state"
    leave_out = LeaveOut("clinic", upload_id)
    assert code(client(first, OPERATOR), "leave_out", leave_out) == "state"
    assert [store.seals.sealed("clinic").m for store in two] == [4, 4]


def test_quotas_of_one_owner_are_not_anothers(two):
    quotas = Quotas(uploads=2, rows=10)
    put = two[0].uploads.begin
    put("clinic", "ann", "1" * 32, 6, quotas)
    with pytest.raises(InputError, match=r"10 records.* would make 11"):
        put("clinic", "ann", "2" * 32, 5, quotas)
    put("clinic", "ann", "2" * 32, 4, quotas)
    put("clinic", "ann", "2" * 32, 4, quotas)  # the same again is no new one
    two[0].removal.withdraw("2" * 32)
    put("clinic", "ann", "3" * 32, 4, quotas)
    with pytest.raises(InputError, match="2 uploads"):
        put("clinic", "ann", "4" * 32, 1, quotas)
    put("clinic", "bob", "5" * 32, 10, quotas)
    with pytest.raises(InputError, match="1 megabytes"):  # three columns of eight bytes
        put("clinic", "ann", "6" * 32, 50_000, Quotas(megabytes=1))
    two[1].uploads.begin("clinic", "ann", "6" * 32, 50_000, Quotas(megabytes=1))


def test_fewer_owners_than_agreed_are_not_sealed(two):
    spec = replace(make_spec("pair"), owners=members("ann", "bob", least=2))
    for store in two:
        store.datasets.create(spec)
    ids = [put_upload(*two, "pair", "ann", records(3)) for _ in range(2)]
    for store in two:
        with pytest.raises(InputError, match="at least 2 owners, and 1 have"):
            store.seals.seal("pair", ids)
        assert store.jobs.get("pair").state == JobState.CREATED
    ids.append(put_upload(*two, "pair", "bob", records(1)))
    assert two[0].seals.seal("pair", ids) == two[1].seals.seal("pair", ids)


def test_a_dataset_without_owners_is_refused(two):
    spec = replace(make_spec("draft"), owners=None)
    assert code(client(two[0], OPERATOR), "create", SpecText(spec.canonical())) == "spec"
    assert not two[0].datasets.exists("draft")


def test_readers_of_the_ledger_see_what_concerns_them_and_the_whole_chain(two):
    finish(two)
    first = two[0]
    client(first, ANN).call("result", Named("clinic"), reply=ResultReply)
    seen = {}
    for peer in (ANN, BOB, OPERATOR):
        entries = client(first, peer).call("ledger", LedgerAsk(), reply=LedgerReply)[0].entries
        assert verify(iter(entries)) == first.ledger.verify()
        seen[peer.name] = {entry.event for entry in entries if not entry.hidden}
    common = {"dataset created", "dataset sealed"}
    stored = {"result half stored", "labels half stored"}
    assert seen["ann"] == common | stored | {"upload committed", "result half given"}
    assert seen["bob"] == common | stored
    assert seen["olga"] == common | {"upload committed"}
    changed = [entry.hide() if entry.number == 2 else entry for entry in first.ledger.entries()]
    assert verify(iter(changed)).broken is None
    assert verify(iter([*changed[:1], *changed[2:]])).broken == 2


def test_every_entry_says_who_learnt_what(two):
    finish(two)
    for entry in two[0].ledger.entries():
        assert json.loads(entry.detail)["learnt"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"least": 0}, "least must be a whole number from 1 to 2"),
        ({"least": 3}, "least must be"),
        ({"least": True}, "least must be"),
        ({"keys": {}}, "1 to 400 owners"),
        ({"keys": []}, "a table of names"),
        ({"keys": {"ann": "short"}}, "40 characters"),
        ({"keys": {"ann": 5}}, "40 characters"),
        ({"keys": {"a/b": "x" * 40}}, "cannot be an owner's name"),
        ({"keys": {"ann": "x" * 40, "bob": "x" * 40}}, "the same public key"),
        ({"more": 1}, "unknown key 'more'"),
    ],
)
def test_refused_owners(change, words):
    table = {"least": 1, "keys": {"ann": "a" * 40, "bob": "b" * 40}, **change}
    with pytest.raises(InputError, match=words):
        Members.from_dict(table)


def test_as_many_owners_as_a_spec_can_name_travel(two):
    names = [f"{number:0>64}" for number in range(1, MAX_OWNERS + 1)]
    spec = replace(make_spec("wide"), owners=Members.of({name: name[-40:] for name in names}))
    client(two[0], OPERATOR).tell("create", SpecText(spec.canonical()))
    got = client(two[0], OPERATOR).call("spec", Named("wide"), reply=SpecText)[0].spec
    assert Spec.from_bytes(got) == spec


def test_the_owners_are_under_the_digest():
    spec = make_spec()
    assert Spec.loads(spec.to_toml()) == spec == Spec.from_bytes(spec.canonical())
    others = [
        replace(spec, owners=None),
        replace(spec, owners=members("ann", "bob", least=2)),
        replace(spec, owners=members("ann", "eve")),
        replace(spec, owners=Members.of({"ann": "x" * 40, "bob": "y" * 40}, 1)),
    ]
    assert len({each.digest for each in (spec, *others)}) == 5
