"""What owners and operators may ask of a cloud's gateway.

Owners: datasets, spec, uploads, begin, chunk (cloud 1) or seed (cloud 2), missing, commit, result,
labels. Operators: datasets, spec, uploads, create, status, ledger.

Who learns what: an owner sees its own uploads, this cloud's half of the result of datasets it has
records in, and this cloud's half of the labels of its own rows if the spec offers them. An
operator sees counts and states, never a half. Handing out a half is in the ledger before it is
sent.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ppodc.errors import AccessError, InputError
from ppodc.records.output_half import modulus_to_bytes
from ppodc.service.job_state import JobState
from ppodc.service.messages import (
    PAGE,
    Begin,
    ChunkPlace,
    DatasetEntry,
    DatasetList,
    DatasetsAsk,
    LabelsAsk,
    LabelsReply,
    LedgerAsk,
    LedgerLine,
    LedgerReply,
    Named,
    ResultReply,
    Seed,
    SpecText,
    StatusReply,
    UploadEntry,
    UploadList,
    UploadRef,
    UploadsAsk,
    UploadState,
)
from ppodc.service.store import Store, UploadInfo
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
        found = [
            _operation("datasets", both, DatasetsAsk, self.datasets),
            _operation("spec", both, Named, self.spec),
            _operation("uploads", both, UploadsAsk, self.uploads),
            _operation("begin", owner, Begin, self.begin),
            _operation("missing", owner, UploadRef, self.missing),
            _operation("commit", owner, UploadRef, self.commit),
            _operation("result", owner, Named, self.result),
            _operation("labels", owner, LabelsAsk, self.labels),
            _operation("create", operator, SpecText, self.create),
            _operation("status", operator, Named, self.status),
            _operation("ledger", operator, LedgerAsk, self.ledger),
        ]
        if self._store.role == "cloud1":
            found.append(_operation("chunk", owner, ChunkPlace, self.chunk, arrays=1))
        else:
            found.append(_operation("seed", owner, Seed, self.seed))
        return found

    def datasets(self, peer: Peer, body: DatasetsAsk, arrays: tuple[Array, ...]) -> Answer:
        entries = []
        for info in [d for d in self._store.datasets() if d.name > body.after][:PAGE]:
            uploads, rows = info.uploads, info.rows
            if peer.role == "owner":
                own = [u for u in self._own(info.name, peer) if u.committed]
                uploads, rows = len(own), sum(upload.rows for upload in own)
            entries.append(DatasetEntry(info.name, info.digest, info.state, uploads, rows))
        return DatasetList(tuple(entries)), ()

    def spec(self, peer: Peer, body: Named, arrays: tuple[Array, ...]) -> Answer:
        return SpecText(self._store.spec(body.dataset).canonical()), ()

    def uploads(self, peer: Peer, body: UploadsAsk, arrays: tuple[Array, ...]) -> Answer:
        found = self._store.uploads(body.dataset)
        if peer.role == "owner":
            found = [upload for upload in found if upload.owner == peer.name]
        page = found[body.skip : body.skip + PAGE]
        entries = (UploadEntry(u.upload_id, u.owner, u.rows, u.committed, u.sealed) for u in page)
        return UploadList(tuple(entries)), ()

    def begin(self, peer: Peer, body: Begin, arrays: tuple[Array, ...]) -> Answer:
        if self._store.dataset(body.dataset).digest != body.spec_digest:
            raise AccessError(
                f"the spec of dataset {body.dataset!r} is another one here; nothing was taken."
            )
        self._store.begin_upload(body.dataset, peer.name, body.upload_id, body.rows)
        return self._state(body.upload_id), ()

    def chunk(self, peer: Peer, body: ChunkPlace, arrays: tuple[Array, ...]) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.put_chunk(body.upload_id, body.first_row, arrays[0])
        return None, ()

    def seed(self, peer: Peer, body: Seed, arrays: tuple[Array, ...]) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.put_seed(body.upload_id, body.seed)
        return None, ()

    def missing(self, peer: Peer, body: UploadRef, arrays: tuple[Array, ...]) -> Answer:
        try:
            self._check_own(peer, body.upload_id)
        except InputError:
            return UploadState(False), ()
        return self._state(body.upload_id), ()

    def commit(self, peer: Peer, body: UploadRef, arrays: tuple[Array, ...]) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.commit_upload(body.upload_id)
        return None, ()

    def result(self, peer: Peer, body: Named, arrays: tuple[Array, ...]) -> Answer:
        self._check_has_records(peer, body.dataset)
        job = self._store.job(body.dataset)
        # Cloud 1 is done only after both clouds have saved halves of the same run.
        ready = self._store.has_result(body.dataset)
        if self._store.role == "cloud1":
            ready = ready and job.state == JobState.DONE
        if not ready:
            return ResultReply(job.state, job.iteration, job.message, False), ()
        half = self._store.result(body.dataset)
        self._store.ledger.append("result half given", body.dataset, {"owner": peer.name})
        modulus = modulus_to_bytes(half.values.modulus)
        facts = (job.state, job.iteration, job.message, True, half.n_iter, half.converged, modulus)
        return ResultReply(*facts), (half.values.data,)

    def labels(self, peer: Peer, body: LabelsAsk, arrays: tuple[Array, ...]) -> Answer:
        self._check_own(peer, body.upload_id)
        if not self._store.spec(body.dataset).job.to_dict()["labels"]:
            raise AccessError(f"the spec of dataset {body.dataset!r} offers no labels.")
        for part in self._store.labels_of(body.dataset, peer.name):
            if part.upload_id == body.upload_id:
                detail = {"owner": peer.name, "upload": part.upload_id}
                self._store.ledger.append("labels half given", body.dataset, detail)
                modulus = modulus_to_bytes(part.half.modulus)
                return LabelsReply(modulus), (part.half.data,)
        raise InputError(f"dataset {body.dataset!r} has no labels for this upload (yet).")

    def create(self, peer: Peer, body: SpecText, arrays: tuple[Array, ...]) -> Answer:
        self._store.create_dataset(Spec.from_bytes(body.spec))
        return None, ()

    def status(self, peer: Peer, body: Named, arrays: tuple[Array, ...]) -> Answer:
        info, job = self._store.dataset(body.dataset), self._store.job(body.dataset)
        facts = (job.state, job.iteration, job.suite, job.pairs, job.message)
        return StatusReply(info.digest, *facts, info.uploads, info.rows), ()

    def ledger(self, peer: Peer, body: LedgerAsk, arrays: tuple[Array, ...]) -> Answer:
        entries = self._store.ledger.entries(after=body.after, limit=PAGE)
        lines = (
            LedgerLine(e.number, e.time, e.event, e.dataset, e.detail, e.previous, e.hash)
            for e in entries
        )
        return LedgerReply(tuple(lines)), ()

    def _state(self, upload_id: str) -> UploadState:
        committed = self._store.upload(upload_id).committed
        return UploadState(True, committed, tuple(self._store.missing(upload_id)[:PAGE]))

    def _own(self, dataset: str, peer: Peer) -> Sequence[UploadInfo]:
        return [u for u in self._store.uploads(dataset) if u.owner == peer.name]

    def _check_own(self, peer: Peer, upload_id: str) -> None:
        if self._store.upload(upload_id).owner != peer.name:
            raise AccessError(f"upload {upload_id} is not of {peer.name}.")

    def _check_has_records(self, peer: Peer, dataset: str) -> None:
        own = self._own(dataset, peer)
        still_open = self._store.dataset(dataset).state == JobState.CREATED
        if not any(u.sealed or (still_open and u.committed) for u in own):
            raise AccessError(f"{peer.name} has no records in dataset {dataset!r}.")


def _operation(
    name: str,
    roles: Sequence[PeerRole],
    request: type[Body],
    handler: Callable[[Peer, Any, tuple[Array, ...]], Answer],
    arrays: int = 0,
) -> Operation:
    def checked(peer: Peer, body: Any, given: tuple[Array, ...]) -> Answer:
        if len(given) != arrays or any(array.dtype != np.uint64 for array in given):
            raise InputError(f"{name!r} takes {arrays} arrays of 64-bit numbers.")
        return handler(peer, body, given)

    return Operation(name, frozenset(roles), request, checked)
