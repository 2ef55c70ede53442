"""The operations of a cloud's gateway for owners and operators.

Owners: datasets, spec, uploads, room, extents, begin, chunk or seed (as the dataset's kind wants
it), missing, commit, withdraw, progress, result, rows, ledger. Operators: datasets, spec, uploads,
may_create, create, leave_out, delete, ledger. Auditors: spec, ledger. All: known_as.

Who learns what: only an owner whose key the spec names, or whose key has replaced that one, can do
anything with a dataset; for anyone else there is none of that name. An owner sees its own uploads
and the job's state; if it has records in it, the iteration, this cloud's half of the result, and
this cloud's half of its own rows of the row outputs (labels) that the spec offers. An operator sees
counts and states, never a half, a stop bit or who fetched. An auditor sees every spec and the whole
ledger, nothing else. Handing out a half is in the ledger before it is sent.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ppodc.errors import AccessError, ProtocolError, StateError, without_places
from ppodc.records.result_shares import halves_digest, modulus_to_bytes, pack_facts
from ppodc.service.job_state import JobState
from ppodc.service.ledger_entries import FOR_OPERATORS, HALF_GIVEN, LEFT_OUT, Entry
from ppodc.service.messages import (
    LEDGER_PAGE,
    PAGE,
    ROWS_PIECE,
    Begin,
    ChunkPlace,
    Commit,
    Dataset,
    DatasetList,
    DatasetsAsk,
    KnownAs,
    LeaveOut,
    LedgerAsk,
    LedgerReply,
    Named,
    ProgressReply,
    ResultReply,
    Room,
    RowsAsk,
    RowsReply,
    Seed,
    ShareName,
    SpecText,
    UploadList,
    UploadRef,
    UploadsAsk,
    UploadState,
)
from ppodc.service.quotas import Quotas
from ppodc.service.sealed_uploads import Upload
from ppodc.service.spec_check import SpecCheck
from ppodc.service.store import Store
from ppodc.service.store.job_lock import held
from ppodc.service.store.uploads import check_not_removed, no_upload
from ppodc.spec import Spec
from ppodc.transport.call_server import Answer, Operation, Peer, PeerRole
from ppodc.transport.wire import Array, Body, Empty


def owner_operations(
    store: Store, quotas: Quotas | None = None, check: SpecCheck | None = None
) -> list[Operation]:
    """The operations of this store's cloud for owners, within these quotas, and operators.

    `check` refuses new specs that nobody could use here.
    """
    return _Operations(store, quotas or Quotas(), check or (lambda _: None)).list()


class _Operations:
    def __init__(self, store: Store, quotas: Quotas, check: SpecCheck) -> None:
        self._store, self._quotas, self._check = store, quotas, check

    def list(self) -> list[Operation]:
        owner: tuple[PeerRole, ...] = ("owner",)
        operator: tuple[PeerRole, ...] = ("operator",)
        both: tuple[PeerRole, ...] = ("owner", "operator")
        readers: tuple[PeerRole, ...] = (*both, "auditor")
        return [
            _operation("datasets", both, DatasetsAsk, self.datasets),
            _operation("spec", readers, Named, self.spec),
            _operation("known_as", readers, Empty, self.known_as),
            _operation("uploads", both, UploadsAsk, self.uploads),
            _operation("room", owner, Named, self.room),
            _operation("extents", owner, Named, self.extents),
            _operation("begin", owner, Begin, self.begin, arrays=(0, 1)),
            _operation("chunk", owner, ChunkPlace, self.chunk, arrays=(1,)),
            _operation("seed", owner, Seed, self.seed),
            _operation("missing", owner, UploadRef, self.missing),
            _operation("commit", owner, Commit, self.commit),
            _operation("withdraw", owner, UploadRef, self.withdraw),
            _operation("progress", owner, Named, self.progress),
            _operation("result", owner, Named, self.result),
            _operation("rows", owner, RowsAsk, self.rows),
            _operation("may_create", operator, SpecText, self.may_create),
            _operation("create", operator, SpecText, self.create),
            _operation("leave_out", operator, LeaveOut, self.leave_out),
            _operation("delete", operator, Named, self.delete),
            _operation("ledger", readers, LedgerAsk, self.ledger),
        ]

    # ------------------------------------------------------- looking around

    def datasets(self, peer: Peer, body: DatasetsAsk) -> Answer:
        page: list[Dataset] = []
        for name in self._store.datasets.names(body.after):
            owner = self._name_in(peer, name) if peer.role == "owner" else None
            if owner is not None:
                page.append(self._store.datasets.get(name, owner))
            elif peer.role == "operator":
                disk = self._store.figures.disk(name, self._store.uploads.folder)
                page.append(msgspec.structs.replace(self._store.datasets.get(name), disk=disk))
            if len(page) == PAGE:
                break
        return DatasetList(tuple(page)), ()

    def known_as(self, peer: Peer, _: Empty) -> Answer:
        return KnownAs(peer.role, peer.name), ()

    def spec(self, peer: Peer, body: Named) -> Answer:
        if peer.role == "owner":
            self._member(peer, body.dataset)
        return SpecText(self._store.datasets.spec(body.dataset).canonical()), ()

    def uploads(self, peer: Peer, body: UploadsAsk) -> Answer:
        owner = self._member(peer, body.dataset) if peer.role == "owner" else None
        page = self._store.uploads.of(body.dataset, owner=owner, skip=body.skip, limit=PAGE)
        return UploadList(tuple(page)), ()

    def ledger(self, peer: Peer, body: LedgerAsk) -> Answer:
        entries = self._store.ledger.entries(after=body.after, limit=LEDGER_PAGE)
        shown = (entry if self._may_read(peer, entry) else entry.hide() for entry in entries)
        return LedgerReply(tuple(shown)), ()

    # -------------------------------------------------------------- uploads

    def room(self, peer: Peer, body: Named) -> Answer:
        """Refuse an upload that `begin` would refuse: owners ask before they spend any privacy."""
        owner = self._member(peer, body.dataset)
        return Room(self._store.uploads.room(body.dataset, owner, self._quotas)), ()

    def extents(self, peer: Peer, body: Named) -> Answer:
        self._member(peer, body.dataset)
        return None, (self._store.uploads.extents(body.dataset),)

    def begin(self, peer: Peer, body: Begin, outline: Array | None = None) -> Answer:
        owner = self._member(peer, body.dataset)
        spec = self._store.datasets.spec(body.dataset)
        if spec.digest != body.spec_digest:
            raise AccessError(
                f"the spec of dataset {body.dataset!r} is another one here; nothing was taken."
            )
        uploads = self._store.uploads
        uploads.begin(body.dataset, owner, body.upload_id, body.rows, self._quotas, outline)
        return self._state(uploads.get(body.upload_id)), ()

    def chunk(self, peer: Peer, body: ChunkPlace, rows: Array) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.uploads.put_chunk(body.upload_id, body.first_row, rows)
        return None, ()

    def seed(self, peer: Peer, body: Seed) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.uploads.put_seed(body.upload_id, body.seed)
        return None, ()

    def missing(self, peer: Peer, body: UploadRef) -> Answer:
        upload = self._find_own(peer, body.upload_id)
        if upload is None or upload.removed == "withdrawn":
            return UploadState(False), ()
        self._check_not_deleted(upload.dataset)
        return self._state(upload), ()

    def commit(self, peer: Peer, body: Commit) -> Answer:
        self._check_own(peer, body.upload_id)
        self._store.uploads.commit(body.upload_id, body.salt, body.other)
        return None, ()

    def withdraw(self, peer: Peer, body: UploadRef) -> Answer:
        if self._find_own(peer, body.upload_id) is not None:
            self._store.removal.withdraw(body.upload_id)
        return None, ()

    # -------------------------------------------------------------- results

    def progress(self, peer: Peer, body: Named) -> Answer:
        owner = self._member(peer, body.dataset)
        job = self._store.jobs.get(body.dataset)
        iteration = job.iteration if self._has_records(owner, body.dataset) else 0
        deleted = self._store.datasets.deleted(body.dataset)
        message, alone = without_places(job.message), self._interrupted(body.dataset, job.state)
        return ProgressReply(job.state, iteration, message, deleted, alone), ()

    def result(self, peer: Peer, body: Named) -> Answer:
        owner = self._member(peer, body.dataset)
        self._check_not_deleted(body.dataset)
        self._check_has_records(owner, body.dataset)
        job = self._store.jobs.get(body.dataset)
        message = without_places(job.message)
        if not self._has_result(body.dataset):
            alone = self._interrupted(body.dataset, job.state)
            return ResultReply(job.state, job.iteration, message, False, interrupted=alone), ()
        result = self._store.results.half(body.dataset, owner)
        learnt = "this owner, with the other cloud's half: the result"
        facts, detail = pack_facts(result.facts), {"owner": owner}
        if self._store.datasets.spec(body.dataset).audit:
            detail["half"] = halves_digest(result.halves, facts)
        self._store.ledger.append(f"result {HALF_GIVEN}", body.dataset, detail, learnt)
        names = tuple(
            ShareName(name, modulus_to_bytes(half.modulus)) for name, half in result.halves.items()
        )
        session_id = self._store.results.session_id(body.dataset)
        reply = ResultReply(job.state, job.iteration, message, True, session_id, facts, names)
        return reply, [half.data for half in result.halves.values()]

    def rows(self, peer: Peer, body: RowsAsk) -> Answer:
        owner = self._member(peer, body.dataset)
        self._check_own(peer, body.upload_id)
        spec = self._store.datasets.spec(body.dataset)
        if body.name not in spec.kind.row_outputs(spec):
            raise AccessError(f"the spec of dataset {body.dataset!r} offers no {body.name}.")
        if not self._has_result(body.dataset):
            raise StateError(f"dataset {body.dataset!r} has no {body.name} yet.")
        half = self._store.results.own_rows(
            body.dataset, body.name, body.upload_id, body.first_row, ROWS_PIECE
        )
        detail = {"owner": owner, "upload": body.upload_id, "first_row": body.first_row}
        if spec.audit:
            detail["half"] = halves_digest({body.name: half})
        learnt = f"this owner, with the other cloud's half: {body.name} of its own records"
        self._store.ledger.append(f"{body.name} {HALF_GIVEN}", body.dataset, detail, learnt)
        return RowsReply(modulus_to_bytes(half.modulus)), (half.data,)

    # ------------------------------------------------------------ operators

    def may_create(self, peer: Peer, body: SpecText) -> Answer:
        """Refuse what `create` would refuse: asked of every cloud before any creates it."""
        spec = Spec.from_bytes(body.spec)
        if not self._store.datasets.has(spec):
            self._check(spec)
        return None, ()

    def create(self, peer: Peer, body: SpecText) -> Answer:
        self.may_create(peer, body)
        self._store.datasets.create(Spec.from_bytes(body.spec))
        return None, ()

    def leave_out(self, peer: Peer, body: LeaveOut) -> Answer:
        self._store.removal.leave_out(body.dataset, body.upload_id, peer.name)
        return None, ()

    def delete(self, peer: Peer, body: Named) -> Answer:
        self._store.removal.dataset(body.dataset, peer.name)
        return None, ()

    # --------------------------------------------------------------- access

    def _name_in(self, peer: Peer, dataset: str) -> str | None:
        """The caller's name in the spec, by its key or one that this replaces; None if none."""
        members = self._store.datasets.spec(dataset).require_owners()
        names = (members.name_of(key) for key in (peer.key, *peer.former))
        return next((name for name in names if name is not None), None)

    def _member(self, peer: Peer, dataset: str) -> str:
        """`_name_in` for callers: a stranger learns only that there is nothing for it."""
        if self._store.datasets.exists(dataset):
            name = self._name_in(peer, dataset)
            if name is not None:
                return name
        raise AccessError(
            f"there is no dataset {dataset!r} here that {peer.name} takes part in. If there should "
            "be, ask the operators whether its spec names your public key."
        )

    def _may_read(self, peer: Peer, entry: Entry) -> bool:
        if peer.role == "auditor":
            return True
        if peer.role == "operator":
            return entry.event in FOR_OPERATORS
        if not self._store.datasets.exists(entry.dataset):
            return False
        name = self._name_in(peer, entry.dataset)
        if name is not None and entry.event == LEFT_OUT:
            return True  # every owner sees that there are fewer others than it thinks
        return name is not None and json.loads(entry.detail).get("owner", name) == name

    def _find_own(self, peer: Peer, upload_id: str) -> Upload | None:
        """The caller's upload of this id; AccessError if it is somebody else's."""
        upload = self._store.uploads.find(upload_id)
        if upload is not None and upload.owner != self._name_in(peer, upload.dataset):
            raise AccessError(f"upload {upload_id} is not of {peer.name}.")
        return upload

    def _check_own(self, peer: Peer, upload_id: str) -> None:
        if self._find_own(peer, upload_id) is None:
            raise no_upload()

    def _check_has_records(self, owner: str, dataset: str) -> None:
        if not self._has_records(owner, dataset):
            raise AccessError(f"{owner} has no records in dataset {dataset!r}.")

    def _has_records(self, owner: str, dataset: str) -> bool:
        still_open = self._store.datasets.get(dataset).state == JobState.CREATED
        own = self._store.uploads.of(dataset, owner=owner, committed=True)
        return any(upload.sealed or still_open for upload in own)

    def _has_result(self, dataset: str) -> bool:
        """Whether halves may be given: a cloud is done once both have stored theirs.

        A job that is done never runs again, so no cloud gives halves of two sessions.
        """
        self._check_not_deleted(dataset)
        return (
            self._store.results.has(dataset)
            and self._store.jobs.get(dataset).state == JobState.DONE
        )

    def _check_not_deleted(self, dataset: str) -> None:
        if self._store.datasets.deleted(dataset):
            raise StateError(
                f"dataset {dataset!r} was deleted here; its records and its result are gone."
            )

    def _interrupted(self, dataset: str, state: JobState) -> bool:
        """Whether nobody runs a job that is under way; only cloud 1, which drives it, can tell."""
        under_way = state in (JobState.PREPARING, JobState.RUNNING)
        return under_way and self._store.role == "cloud1" and not held(self._store.folder, dataset)

    def _state(self, upload: Upload) -> UploadState:
        check_not_removed(upload)
        missing = self._store.uploads.missing(upload.upload_id)[:PAGE]
        return UploadState(True, upload.committed, tuple(missing))


def _operation(
    name: str,
    roles: Sequence[PeerRole],
    request: type[Body],
    handler: Callable[..., Answer],
    arrays: tuple[int, ...] = (0,),
) -> Operation:
    def checked(peer: Peer, body: Any, given: tuple[Array, ...]) -> Answer:
        if len(given) not in arrays:
            raise ProtocolError(f"{name!r} takes {' or '.join(map(str, arrays))} arrays.")
        return handler(peer, body, *given)

    return Operation(name, frozenset(roles), request, checked)
