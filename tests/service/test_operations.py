"""Owners' and operators' operations at a desk without a socket: whose, how often, how malformed."""

import secrets
from itertools import repeat

import msgspec
import numpy as np
import pytest

from ppodc.errors import RefusedError, StateError, StoreError
from ppodc.records.result_shares import OutputShare, ResultShare, modulus_from_bytes
from ppodc.records.sharing import split
from ppodc.service.job_state import JobState
from ppodc.service.messages import (
    LEDGER_PAGE,
    PAGE,
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
    RowsReply,
    Seed,
    SpecText,
    UploadList,
    UploadRef,
    UploadsAsk,
    UploadState,
)
from ppodc.service.operations import owner_operations
from ppodc.service.store import Store
from ppodc.transport import wire
from ppodc.transport.call_client import Client
from ppodc.transport.call_server import CallServer, Operation, Peer
from ppodc.transport.wire import Empty
from tests.service.data import make_spec, put_upload, records, sealed_rows
from tests.transport.memory_carrier import MemoryCarrier

ANN, BOB, EVE = (Peer("owner", name, f"{name:.<40}") for name in ("ann", "bob", "eve"))
OPERATOR = Peer("operator", "olga", f"{'olga':.<40}")
OPERATIONS = {
    "datasets": DatasetsAsk(),
    "spec": Named("clinic"),
    "uploads": UploadsAsk("clinic"),
    "begin": Begin("clinic", "0" * 64, "1" * 32, 4),
    "chunk": ChunkPlace("1" * 32, 0),
    "seed": Seed("1" * 32, bytes(32)),
    "missing": UploadRef("1" * 32),
    "commit": UploadRef("1" * 32),
    "progress": Named("clinic"),
    "result": Named("clinic"),
    "rows": RowsAsk("clinic", "1" * 32, "labels"),
    "create": SpecText(b"{}"),
    "withdraw": UploadRef("1" * 32),
    "leave_out": LeaveOut("clinic", "1" * 32),
    "delete": Named("nothing"),
    "ledger": LedgerAsk(),
}


def client(store: Store, peer: Peer, times: int = 1) -> Client:
    """Every frame of it arrives this many times."""
    return Client(MemoryCarrier(CallServer(owner_operations(store)), peer, repeat(times)))


def code(caller: Client, op: str, body: msgspec.Struct | None, arrays=()) -> str:
    with pytest.raises(RefusedError) as caught:
        caller.call(op, body, arrays, reply=Empty)
    return caught.value.code


def finish(two, labels=(0, 1, 1, 0)) -> str:
    """A job of one upload of ann's, done at both clouds; the upload's id."""
    upload_id = put_upload(*two, "clinic", "ann", records(len(labels)))
    for side, store in enumerate(two):
        store.seals.seal("clinic", [upload_id])
        for state in (JobState.PREPARING, JobState.RUNNING):
            store.jobs.transition("clinic", state)
        clusters = OutputShare.of_words(np.arange(8, dtype=np.uint64) + np.uint64(side))
        halves = {"clusters": clusters, "spread": OutputShare.of(2**521 - 1, [side])}
        facts = {"n_iter": 3, "converged": True}
        rows = {"labels": OutputShare.of(1 << 71, labels)}
        store.results.save("clinic", ResultShare(facts, halves, rows))
        store.jobs.transition("clinic", JobState.DONE)
    return upload_id


class Extra(wire.Body, frozen=True):
    dataset: str = "clinic"
    surplus: int = 1


class WrongTypes(wire.Body, frozen=True):
    dataset: int = 5
    upload_id: float = 0.5
    spec: int = 1
    after: list[int] = []  # noqa: RUF012 - a malformed body
    seed: str = "x"


class LongTexts(wire.Body, frozen=True):
    dataset: str = "x" * 5000
    upload_id: str = "../" * 11


@pytest.mark.parametrize("op", OPERATIONS)
@pytest.mark.parametrize("peer", [ANN, OPERATOR], ids=["owner", "operator"])
def test_malformed_bodies_are_refused_and_change_nothing(two, op, peer):
    caller = client(two[0], peer)
    before = two[0].ledger.entries(), two[0].datasets.all(), two[0].uploads.of("clinic")
    for body in (Extra(), WrongTypes(), LongTexts()):
        assert code(caller, op, body) in ("wire", "access")
    for arrays in ([np.zeros(3, np.uint8)], [np.zeros((1, 3), np.uint64)] * 2):
        refusals = ("input", "access", "protocol", "not-found")
        assert code(caller, op, OPERATIONS[op], arrays) in refusals
    after = two[0].ledger.entries(), two[0].datasets.all(), two[0].uploads.of("clinic")
    assert before == after


@pytest.mark.parametrize("op", OPERATIONS)
def test_an_operation_is_for_its_roles_alone(two, op):
    both = {"datasets", "spec", "uploads", "ledger"}
    operators = {"create", "leave_out", "delete"}
    strangers = [Peer("cloud1", "cloud1"), Peer("cloud2", "cloud2")]
    if op in operators:
        strangers.append(ANN)
    elif op not in both:
        strangers.append(OPERATOR)
    for peer in strangers:
        assert code(client(two[0], peer), op, OPERATIONS[op]) == "access"


def test_an_upload_is_its_owners(two):
    first, second = two
    upload_id = secrets.token_hex(16)
    share, seed = split(records(4))
    for store in two:
        begin = Begin("clinic", make_spec().digest, upload_id, 4)
        state = client(store, ANN).call("begin", begin, reply=UploadState)[0]
        assert state == UploadState(True, False, ((0, 4),))
        bob = client(store, BOB)
        assert code(bob, "begin", begin) == "input"  # the id is taken
        for op, body, arrays in (
            ("chunk", ChunkPlace(upload_id, 0), [share]),
            ("seed", Seed(upload_id, seed), []),
            ("missing", UploadRef(upload_id), []),
            ("commit", UploadRef(upload_id), []),
        ):
            assert code(bob, op, body, arrays) == "access"
        assert bob.call("uploads", UploadsAsk("clinic"), reply=UploadList)[0].uploads == ()
    assert first.uploads.missing(upload_id) == second.uploads.missing(upload_id) == [(0, 4)]
    unknown = client(first, ANN).call("missing", UploadRef("0" * 32), reply=UploadState)[0]
    assert unknown == UploadState(False)


def test_requests_that_come_twice_are_done_once(two):
    first, second = two
    upload_id = secrets.token_hex(16)
    share, seed = split(records(4))
    for store, op, body, arrays in (
        (first, "chunk", ChunkPlace(upload_id, 0), [share]),
        (second, "seed", Seed(upload_id, seed), []),
    ):
        ann = client(store, ANN, times=2)
        begin = Begin("clinic", make_spec().digest, upload_id, 4)
        ann.call("begin", begin, reply=UploadState)
        ann.tell(op, body, arrays)
        ann.tell("commit", UploadRef(upload_id))
        again = client(store, ANN)  # after a restart of the owner
        again.tell(op, body, arrays)
        again.tell("commit", UploadRef(upload_id))
        events = [entry.event for entry in store.ledger.entries()]
        assert events.count("upload committed") == 1
        assert [upload.rows for upload in store.uploads.of("clinic")] == [4]


def test_chunks_and_seeds_go_where_the_form_wants_them(two):
    first, second = two
    upload_id = secrets.token_hex(16)
    share, seed = split(records(4))
    for store in two:
        store.uploads.begin("clinic", "ann", upload_id, 4)
    assert code(client(second, ANN), "chunk", ChunkPlace(upload_id, 0), [share]) == "input"
    assert code(client(first, ANN), "seed", Seed(upload_id, seed)) == "input"
    short = [share[:, :2], share.astype(np.uint32), share[:0], np.repeat(share, 2, axis=0)]
    for chunk in short:
        assert code(client(first, ANN), "chunk", ChunkPlace(upload_id, 0), [chunk]) == "input"
    assert code(client(first, ANN), "commit", UploadRef(upload_id)) == "state"


@pytest.mark.parametrize("side", [0, 1])
def test_a_result_is_given_to_owners_of_records_and_is_in_the_ledger_once(two, side):
    upload_id = finish(two)
    store = two[side]
    ann = client(store, ANN, times=2)
    reply, arrays = ann.call("result", Named("clinic"), reply=ResultReply)
    assert (reply.state, reply.ready) == (JobState.DONE, True)
    assert msgspec.json.decode(reply.facts) == {"n_iter": 3, "converged": True}
    halves = {
        half.name: OutputShare(modulus_from_bytes(half.modulus), array)
        for half, array in zip(reply.halves, arrays, strict=True)
    }
    assert halves == store.results.half("clinic").halves
    ask = RowsAsk("clinic", upload_id, "labels")
    reply, (rows,) = ann.call("rows", ask, reply=RowsReply)
    assert OutputShare(modulus_from_bytes(reply.modulus), rows).values == [0, 1, 1, 0]
    later = RowsAsk("clinic", upload_id, "labels", 2)
    reply, (rows,) = ann.call("rows", later, reply=RowsReply)
    assert OutputShare(modulus_from_bytes(reply.modulus), rows).values == [1, 0]
    beyond = RowsAsk("clinic", upload_id, "labels", 1 << 30)
    assert len(ann.call("rows", beyond, reply=RowsReply)[1][0]) == 0
    details = [e.detail for e in store.ledger.entries() if e.event == "labels half given"]
    given = [msgspec.json.decode(detail)["first_row"] for detail in details]
    assert given == [0, 2, 1 << 30]
    events = [entry.event for entry in store.ledger.entries()]
    assert (events.count("result half given"), events.count("labels half given")) == (1, 3)
    eve = client(store, EVE)
    assert code(eve, "result", Named("clinic")) == "access"
    assert code(eve, "rows", ask) == "access"
    assert code(client(store, ANN), "rows", RowsAsk("clinic", upload_id, "ranks")) == "access"
    assert len(store.ledger.entries()) == len(events)


def test_no_cloud_gives_a_half_before_the_job_is_done_there(two):
    """Cloud 1 could otherwise run the job again and subtract what an owner had fetched before."""
    upload_id = put_upload(*two, "clinic", "ann", records(2))
    half = ResultShare({}, {}, {"labels": OutputShare.of(4, [0, 1])})
    ask = RowsAsk("clinic", upload_id, "labels")
    for store in two:
        store.seals.seal("clinic", [upload_id])
        store.jobs.transition("clinic", JobState.PREPARING)
        store.jobs.transition("clinic", JobState.RUNNING)
        store.results.save("clinic", half)
        reply, arrays = client(store, ANN).call("result", Named("clinic"), reply=ResultReply)
        assert (reply.ready, reply.state, arrays) == (False, JobState.RUNNING, ())
        assert code(client(store, ANN), "rows", ask) == "state"
        store.jobs.transition("clinic", JobState.DONE)
        assert client(store, ANN).call("result", Named("clinic"), reply=ResultReply)[0].ready
        client(store, ANN).call("rows", ask, reply=RowsReply)
        with pytest.raises(StateError, match="cannot become preparing"):
            store.jobs.transition("clinic", JobState.PREPARING)
        with pytest.raises(StateError, match="its result stays as it is"):
            store.results.save("clinic", half)


def test_nothing_is_given_that_the_ledger_cannot_note(two, monkeypatch):
    upload_id = finish(two)
    first = two[0]

    def full(*_):
        raise StoreError("the disk is full.")

    monkeypatch.setattr(first.ledger, "append", full)
    assert code(client(first, ANN), "result", Named("clinic")) == "store"
    assert code(client(first, ANN), "rows", RowsAsk("clinic", upload_id, "labels")) == "store"


def test_owners_see_their_own_counts_and_operators_all(two):
    put_upload(*two, "clinic", "ann", records(3))
    put_upload(*two, "clinic", "bob", records(5))
    for peer, listed in (
        (ANN, [("clinic", 1, 3)]),
        (BOB, [("clinic", 1, 5)]),
        (EVE, []),
        (OPERATOR, [("clinic", 2, 8)]),
    ):
        reply = client(two[0], peer).call("datasets", DatasetsAsk(), reply=DatasetList)[0]
        assert [(d.name, d.uploads, d.rows) for d in reply.datasets] == listed
    reply = client(two[0], OPERATOR).call("uploads", UploadsAsk("clinic"), reply=UploadList)[0]
    assert reply.uploads == tuple(two[0].uploads.of("clinic"))


def test_long_lists_come_in_pages(two):
    first = two[0]
    for i in range(PAGE + 5):
        first.datasets.create(make_spec(f"n{i:03d}" + "x" * 60))
        first.uploads.begin("clinic", "a" * 64, f"{i:032x}", 1 << 40)
    for i in range(LEDGER_PAGE):  # as long as an entry gets
        first.ledger.append(f"event {i}", "x" * 64, {"facts": {"long": "x" * 980}})
    operator = client(first, OPERATOR)
    names, uploads, numbers = [""], [], [0]
    while page := operator.call("datasets", DatasetsAsk(names[-1]), reply=DatasetList)[0].datasets:
        names += [dataset.name for dataset in page]
    ask = UploadsAsk("clinic")
    while page := operator.call("uploads", ask, reply=UploadList)[0].uploads:
        uploads += page
        ask = UploadsAsk("clinic", len(uploads))
    while page := operator.call("ledger", LedgerAsk(numbers[-1]), reply=LedgerReply)[0].entries:
        numbers += [entry.number for entry in page]
    assert names[1:] == [dataset.name for dataset in first.datasets.all()]
    assert uploads == first.uploads.of("clinic")
    assert numbers == list(range(first.ledger.verify().entries + 1))


def test_refusals_name_no_folder_of_the_cloud(two):
    upload_id = finish(two)
    first = two[0]
    chunk = next((first.folder / "uploads" / upload_id).iterdir())
    chunk.write_bytes(b"damaged")
    with pytest.raises(StoreError, match=str(chunk)):  # who runs the cloud is told
        sealed_rows(first, "clinic", 0, 4)

    def damaged(peer, body, arrays):
        sealed_rows(first, "clinic", 0, 4)

    desk = CallServer([Operation("damaged", frozenset({"owner"}), Empty, damaged)])
    with pytest.raises(RefusedError, match="is damaged") as caught:
        Client(MemoryCarrier(desk, ANN)).call("damaged", Empty(), reply=Empty)
    assert str(first.folder) not in str(caught.value)
    with first._database.transaction() as sql:
        sql.execute("DELETE FROM result")
        query = "UPDATE dataset SET state = 'failed', message = ?"
        sql.execute(query, (f"{first.folder}/store.sqlite is damaged.",))
    reply = client(first, ANN).call("result", Named("clinic"), reply=ResultReply)[0]
    assert reply.message == "(a file) is damaged."
