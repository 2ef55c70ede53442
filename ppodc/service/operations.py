"""What owners and operators may ask of a cloud's gateway, and how its service lives.

Owners: datasets, spec, uploads, begin, chunk or seed (as the dataset's kind wants it), missing,
commit, result, rows. Operators: datasets, spec, uploads, create, ledger.

Who learns what: an owner sees its own uploads, this cloud's half of the result of datasets it has
records in, and this cloud's half of its own rows of the row outputs (labels) that the spec offers.
An operator sees counts and states, never a half. Handing out a half is in the ledger before it is
sent.
"""

import resource
import signal
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import msgspec

from ppodc.errors import AccessError, InputError
from ppodc.records.output_half import modulus_to_bytes, pack_facts
from ppodc.service.job_state import JobState
from ppodc.service.messages import (
    LEDGER_PAGE,
    PAGE,
    Begin,
    ChunkPlace,
    DatasetList,
    DatasetsAsk,
    HalfName,
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
from ppodc.service.store import Dataset, Store, Upload
from ppodc.spec import Spec
from ppodc.transport.call_server import Answer, Operation, Peer, PeerRole
from ppodc.transport.wire import Array, Body


def owner_operations(store: Store) -> list[Operation]:
    """The operations of this store's cloud for owners and operators."""
    return _Operations(store).list()


class _Operations:
    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> list[Operation]:
        owner: tuple[PeerRole, ...] = ("owner",)
        operator: tuple[PeerRole, ...] = ("operator",)
        both: tuple[PeerRole, ...] = ("owner", "operator")
        return [
            _operation("datasets", both, DatasetsAsk, self.datasets),
            _operation("spec", both, Named, self.spec),
            _operation("uploads", both, UploadsAsk, self.uploads),
            _operation("begin", owner, Begin, self.begin),
            _operation("chunk", owner, ChunkPlace, self.chunk, arrays=1),
            _operation("seed", owner, Seed, self.seed),
            _operation("missing", owner, UploadRef, self.missing),
            _operation("commit", owner, UploadRef, self.commit),
            _operation("result", owner, Named, self.result),
            _operation("rows", owner, RowsAsk, self.rows),
            _operation("create", operator, SpecText, self.create),
            _operation("ledger", operator, LedgerAsk, self.ledger),
        ]

    def datasets(self, peer: Peer, body: DatasetsAsk) -> Answer:
        page = [d for d in self._store.datasets.all() if d.name > body.after][:PAGE]
        if peer.role == "owner":
            page = [self._as_owner_sees(dataset, peer) for dataset in page]
        return DatasetList(tuple(page)), ()

    def spec(self, peer: Peer, body: Named) -> Answer:
        return SpecText(self._store.datasets.spec(body.dataset).canonical()), ()

    def uploads(self, peer: Peer, body: UploadsAsk) -> Answer:
        everyone = peer.role == "operator"
        uploads = (
            self._store.uploads.of(body.dataset) if everyone else self._own(body.dataset, peer)
        )
        return UploadList(tuple(uploads[body.skip : body.skip + PAGE])), ()

    def begin(self, peer: Peer, body: Begin) -> Answer:
        if self._store.datasets.get(body.dataset).digest != body.spec_digest:
            raise AccessError(
                f"the spec of dataset {body.dataset!r} is another one here; nothing was taken."
            )
        self._store.uploads.begin(body.dataset, peer.name, body.upload_id, body.rows)
        return self._state(body.upload_id), ()

    def chunk(self, peer: Peer, body: ChunkPlace, rows: Array) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.uploads.put_chunk(body.upload_id, body.first_row, rows)
        return None, ()

    def seed(self, peer: Peer, body: Seed) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.uploads.put_seed(body.upload_id, body.seed)
        return None, ()

    def missing(self, peer: Peer, body: UploadRef) -> Answer:
        try:
            self._check_own(peer, body.upload_id)
        except InputError:
            return UploadState(False), ()
        return self._state(body.upload_id), ()

    def commit(self, peer: Peer, body: UploadRef) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.uploads.commit(body.upload_id)
        return None, ()

    def result(self, peer: Peer, body: Named) -> Answer:
        self._check_has_records(peer, body.dataset)
        job = self._store.jobs.get(body.dataset)
        if not self._has_result(body.dataset):
            return ResultReply(job.state, job.iteration, job.message, False), ()
        result = self._store.results.half(body.dataset)
        self._store.ledger.append("result half given", body.dataset, {"owner": peer.name})
        names = tuple(
            HalfName(name, modulus_to_bytes(half.modulus)) for name, half in result.halves.items()
        )
        facts = pack_facts(result.facts)
        reply = ResultReply(job.state, job.iteration, job.message, True, facts, names)
        return reply, [half.data for half in result.halves.values()]

    def rows(self, peer: Peer, body: RowsAsk) -> Answer:
        self._check_own(peer, body.upload_id)
        spec = self._store.datasets.spec(body.dataset)
        if body.name not in spec.kind.row_outputs(spec):
            raise AccessError(f"the spec of dataset {body.dataset!r} offers no {body.name}.")
        if not self._has_result(body.dataset):
            raise InputError(f"dataset {body.dataset!r} has no {body.name} yet.")
        half = self._store.results.own_rows(body.dataset, body.name, body.upload_id)
        detail = {"owner": peer.name, "upload": body.upload_id}
        self._store.ledger.append(f"{body.name} half given", body.dataset, detail)
        return RowsReply(modulus_to_bytes(half.modulus)), (half.data,)

    def create(self, peer: Peer, body: SpecText) -> Answer:
        self._store.datasets.create(Spec.from_bytes(body.spec))
        return None, ()

    def ledger(self, peer: Peer, body: LedgerAsk) -> Answer:
        entries = self._store.ledger.entries(after=body.after, limit=LEDGER_PAGE)
        return LedgerReply(tuple(entries)), ()

    def _has_result(self, dataset: str) -> bool:
        """Whether halves may be given: cloud 1 is done once both have theirs of the same run."""
        if not self._store.results.has(dataset):
            return False
        done = self._store.jobs.get(dataset).state == JobState.DONE
        return done or self._store.role == "cloud2"

    def _state(self, upload_id: str) -> UploadState:
        committed = self._store.uploads.get(upload_id).committed
        return UploadState(True, committed, tuple(self._store.uploads.missing(upload_id)[:PAGE]))

    def _own(self, dataset: str, peer: Peer) -> Sequence[Upload]:
        return [u for u in self._store.uploads.of(dataset) if u.owner == peer.name]

    def _as_owner_sees(self, dataset: Dataset, peer: Peer) -> Dataset:
        own = [upload for upload in self._own(dataset.name, peer) if upload.committed]
        rows = sum(upload.rows for upload in own)
        return msgspec.structs.replace(dataset, uploads=len(own), rows=rows)

    def _check_own(self, peer: Peer, upload_id: str) -> None:
        if self._store.uploads.get(upload_id).owner != peer.name:
            raise AccessError(f"upload {upload_id} is not of {peer.name}.")

    def _check_has_records(self, peer: Peer, dataset: str) -> None:
        own = self._own(dataset, peer)
        still_open = self._store.datasets.get(dataset).state == JobState.CREATED
        if not any(u.sealed or (still_open and u.committed) for u in own):
            raise AccessError(f"{peer.name} has no records in dataset {dataset!r}.")


def _operation(
    name: str,
    roles: Sequence[PeerRole],
    request: type[Body],
    handler: Callable[..., Answer],
    arrays: int = 0,
) -> Operation:
    def checked(peer: Peer, body: Any, given: tuple[Array, ...]) -> Answer:
        if len(given) != arrays:
            raise InputError(f"{name!r} takes {arrays} arrays.")
        return handler(peer, body, *given)

    return Operation(name, frozenset(roles), request, checked)


def raise_descriptor_limit() -> None:
    """A connection takes three descriptors: let there be as many as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def until_signal(ready: Callable[[], None]) -> None:
    """Block the main thread until SIGTERM or Ctrl-C; then the caller shuts down in order.

    `ready` is called once signals are handled, so that whoever it tells may stop us at once. A
    second signal does not cut the shutdown short.
    """
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    def handle() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)

    handle()
    ready()
    while not stopped.wait(1.0):
        handle()  # Ray, which starts later and in another thread, puts a handler of its own here
