"""The folder that one cloud gives to an auditor, and its check from beginning to end.

A bundle holds one cloud's view of one dataset: spec, seal, the cloud's parts of all uploads, seeds,
records, signatures and ledger. It is for the auditor alone (0700, 0600). Together with the other
cloud's bundle of the same dataset it would hold every record.

`check` verifies, in this order: the seal, the ledger's chain, the commitments to all seeds, the
parts against what owners told the other cloud, the signatures of both clouds, the other cloud's
testimony (`testimony`); then it runs the cloud's part again (`replay`).
"""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.audit.given_halves import check_given
from ppodc.audit.replay import JobRecord, PairRecord, SessionRecord, Verdict, replay
from ppodc.audit.testimony import Audited, Examined, Testimony, examine, shown_entries, told
from ppodc.errors import DeviationError, NotFoundError, OptionError, StateError
from ppodc.files import disk_errors, private_folder, write_private
from ppodc.pairs.plan import Step
from ppodc.pairs.recording import commitment
from ppodc.pairs.shards import Shard
from ppodc.pairs.statements import (
    DIGEST_BYTES,
    StepPlace,
    parts_statement,
    statement_heads,
    verified,
)
from ppodc.records.part_digest import PartDigest
from ppodc.records.upload_form import Cloud, RowsPart, SeedPart
from ppodc.service.ledger_entries import Entry
from ppodc.service.sealed_uploads import Sealed, Upload, seal_digest
from ppodc.service.store import Store
from ppodc.service.store.audits import AuditPair, AuditSession, AuditStep, all_parts
from ppodc.spec import Spec
from ppodc.transport.message_log import Heads

VERSION = 2
_FACTS = "audit.json"


class _Session(msgspec.Struct, frozen=True):
    """A session and all that is kept of it; the files of its pairs lie in the bundle."""

    session: AuditSession
    pairs: list[AuditPair]
    steps: list[AuditStep]


class _Part(msgspec.Struct, frozen=True):
    """One upload's part: its salt, and its seed if that stands for its rows."""

    salt: bytes
    seed: bytes


class _Facts(msgspec.Struct, frozen=True):
    version: int
    role: Cloud
    spec: bytes
    seal: str
    uploads: list[Upload]
    parts: list[_Part]
    sessions: list[_Session]
    offers: list[AuditPair]  # seeds whose commitments left, and no answer came
    ledger: list[Entry]


def export(store: Store, dataset: str, folder: Path) -> None:
    """Write this cloud's view of a finished job into a new folder; the ledger notes it."""
    spec, job = store.datasets.spec(dataset), store.jobs.get(dataset)
    if not spec.audit:
        raise OptionError(f"the spec of dataset {dataset!r} does not ask for an audit.")
    if not job.state.final:
        raise StateError(
            f"the job of {dataset!r} is {job.state}. An auditor asks after the last session, so "
            "that no cloud knows before whose record it will be."
        )
    sessions = store.audits.sessions(dataset)
    if not sessions:
        raise NotFoundError(f"no record of dataset {dataset!r} is kept here (any more).")
    if folder.exists():
        raise OptionError(f"{folder} exists. Name a folder that does not.")
    private_folder(folder)
    sealed, role = store.seals.sealed(dataset), 1 if store.role == "cloud1" else 2
    parts = []
    for upload in sealed.uploads:
        part, seed = store.uploads.part(dataset), b""
        if isinstance(part, SeedPart):
            seed = store.uploads.seed(upload.upload_id)
        else:
            rows = np.empty((upload.rows, part.columns), part.dtype)
            store.uploads.read(upload, part, 0, rows)
            write_private(_rows_file(folder, upload), rows.tobytes())
        parts.append(_Part(store.audits.salt(upload), seed))
    kept = [
        _Session(at, store.audits.pairs(at.session_id), store.audits.steps(at.session_id))
        for at in sessions
    ]
    for pair in (pair for at in kept for pair in at.pairs):
        _copy(Path(pair.file), folder / Path(pair.file).name)
    facts = _Facts(
        VERSION,
        1 if role == 1 else 2,
        spec.canonical(),
        sealed.digest,
        list(sealed.uploads),
        parts,
        kept,
        store.audits.offers(dataset),
        shown_entries(store, dataset),
    )
    store.audits.exported(dataset)
    write_private(folder / _FACTS, msgspec.json.encode(facts))


def _copy(source: Path, target: Path) -> None:
    with disk_errors(target):
        target.touch(0o600, exist_ok=False)
        if source.exists():  # a worker that died at its start has none, and both signed nothing
            shutil.copyfile(source, target)


class Bundle:
    """A bundle as an auditor reads it. Nothing in it is believed before `check`."""

    def __init__(self, folder: Path) -> None:
        try:
            self._facts = msgspec.json.decode((folder / _FACTS).read_bytes(), type=_Facts)
        except (OSError, msgspec.MsgspecError) as error:
            raise OptionError(f"{folder} holds no bundle of an audit ({error}).") from None
        if self._facts.version != VERSION:
            raise OptionError(f"{folder} is a bundle of another release.")
        self._folder, self.role = folder, self._facts.role
        self.spec = Spec.from_bytes(self._facts.spec)
        facts = self._facts
        self.sealed = Sealed(sum(u.rows for u in facts.uploads), facts.seal, tuple(facts.uploads))
        self._job = f"{self.spec.digest[:32]}/{facts.seal[:32]}"

    def check(
        self,
        other: Testimony | None = None,
        progress: Callable[[str, Step], None] = lambda *_: None,
    ) -> Verdict:
        """Everything, from the seal to the last message; the first deviation ends it.

        Without the other cloud's testimony the audited cloud's word is all there is for its
        commitments, and for there being no further sessions.
        """
        found = Examined({at.session.session_id: {} for at in self._facts.sessions})
        try:
            self._check_seal()
            own = self._audited()
            self._check_parts()
        except DeviationError as error:
            return Verdict(0, 0, 0, f"before the replay: {error}")
        except (ValueError, TypeError):  # no cloud of this release writes such a bundle
            return Verdict(0, 0, 0, "before the replay: the bundle contradicts itself.")
        try:
            if other is not None:
                found = examine(own, other)
        except DeviationError as error:
            return Verdict(0, 0, 0, f"by its own signature: {error}")
        sessions = [
            SessionRecord(
                at.session.session_id,
                at.session.suite,
                at.session.pairs,
                at.session.shards_per_pair,
                at.session.resume_from,
                [PairRecord(pair.pair, pair.seed, self._record(pair)) for pair in at.pairs],
                own.signed[at.session.session_id],
                found.bound[at.session.session_id],
            )
            for at in self._facts.sessions
        ]
        job = JobRecord(self.spec, self.sealed, self.role, self._rows, sessions)
        verdict = replace(replay(job, progress), doubts=tuple(found.doubts))
        if verdict.deviation:
            return verdict
        try:
            check_given(self.spec.name, self._facts.ledger, self.sealed, verdict.result)
        except DeviationError as error:
            return replace(verdict, deviation=f"after the replay: {error}")
        return verdict

    def _record(self, pair: AuditPair) -> Path:
        return self._folder / Path(pair.file).name

    def _check_seal(self) -> None:
        if seal_digest(self.spec.digest, self.sealed.uploads) != self.sealed.digest:
            raise DeviationError("the uploads are not those of the seal.")
        if not self.spec.audit:
            raise DeviationError("the spec does not ask for an audit.")

    def _audited(self) -> Audited:
        """The bundle's own account: its ledger has exactly its sessions, and signatures hold."""
        facts = self._facts
        try:
            ledger = told(facts.ledger, self.spec.name)
        except DeviationError as error:
            raise DeviationError(f"its ledger {error}.") from None
        if {(u.upload_id, u.owner, u.rows) for u in self.sealed.uploads} - ledger.uploads:
            raise DeviationError("its ledger does not have the uploads of the bundle.")
        commitments = dict(ledger.commitments)
        for at in facts.sessions:
            name = at.session.session_id
            keys = [ledger.keys.get((name, f"cloud{role}")) for role in (self.role, 3 - self.role)]
            if keys[0] is None or keys[1] != at.session.peer_key.hex():
                raise DeviationError("its ledger names other signing keys than the bundle.")
            for pair in at.pairs:
                said = [
                    commitments.pop((name, f"cloud{role}", pair.pair), None)
                    for role in (self.role, 3 - self.role)
                ]
                if said != [self._commitment(pair).hex(), pair.peer_commitment.hex()]:
                    raise DeviationError(
                        f"the seed of pair {pair.pair} in session {name} is not the one that was "
                        "committed to in its ledger."
                    )
        if commitments:
            raise DeviationError("its ledger has commitments to seeds that the bundle lacks.")
        if [(at.session.session_id, at.session.resume_from) for at in facts.sessions] != list(
            ledger.resumed.items()
        ):
            raise DeviationError("its ledger has other sessions, or in another order.")
        kept = [pair for at in facts.sessions for pair in at.pairs] + facts.offers
        return Audited(
            self.role,
            self.spec.name,
            self._job,
            self.sealed.uploads,
            facts.ledger,
            ledger,
            frozenset(map(self._commitment, kept)),
            {
                at.session.session_id: self._signed(
                    at, bytes.fromhex(ledger.keys[at.session.session_id, f"cloud{self.role}"])
                )
                for at in facts.sessions
            },
        )

    def _commitment(self, pair: AuditPair) -> bytes:
        return commitment(self._job, self.role, pair.pair, pair.salt, pair.seed)

    def _check_parts(self) -> None:
        """The parts are those that owners told the other cloud of, by its signature."""
        digests = [
            self._part_digest(upload, part)
            for upload, part in zip(self.sealed.uploads, self._facts.parts, strict=True)
        ]
        own = all_parts(self.sealed, digests)
        for at in self._facts.sessions:
            said = at.session.peer_parts
            digest, signature = said[:DIGEST_BYTES], said[DIGEST_BYTES:]
            statement = parts_statement(self._job, 3 - self.role, digest)
            if not verified(at.session.peer_key, signature, statement) or digest != own:
                raise DeviationError(
                    "the parts of the uploads are not those that owners told the other cloud of."
                )

    def _part_digest(self, upload: Upload, part: _Part) -> bytes:
        digest = PartDigest(part.salt)
        if isinstance(self.spec.form.part(self.role), SeedPart):
            return digest.of_seed(part.seed)
        digest.add(self._upload_rows(upload, part))
        return digest.value()

    def _upload_rows(self, upload: Upload, part: _Part) -> NDArray[Any]:
        form = self.spec.form.part(self.role)
        if isinstance(form, SeedPart):
            return form.rows(part.seed, 0, upload.rows)
        if not isinstance(form, RowsPart):
            raise DeviationError(f"cloud {self.role} has no part of the uploads.")
        try:
            rows = np.fromfile(_rows_file(self._folder, upload), form.dtype)
            return rows.reshape(upload.rows, form.columns)
        except (OSError, ValueError):
            raise DeviationError(f"the rows of upload {upload.upload_id} are missing.") from None

    def _rows(self, shard: Shard) -> NDArray[np.uint64]:
        """This cloud's share of a shard, as the sealed order has it."""
        found, end = [], shard.first + shard.rows
        for (first, upload), part in zip(self.sealed.places(), self._facts.parts, strict=True):
            start, stop = max(shard.first, first), min(end, first + upload.rows)
            if start < stop:
                found.append(self._upload_rows(upload, part)[start - first : stop - first])
        return np.concatenate(found)

    def _signed(self, at: _Session, own_key: bytes) -> dict[tuple[str, int], Heads]:
        """Chain heads that both clouds signed, by pair and step."""
        heads = {}
        for step in at.steps:
            keys = (own_key, step.own_signature), (at.session.peer_key, step.peer_signature)
            if not all(verified(key, signature, step.statement) for key, signature in keys):
                raise DeviationError(f"a signature under step {step.step} does not hold.")
            place = StepPlace(self._job, at.session.session_id, step.pair, step.step)
            heads[step.pair, step.step] = statement_heads(step.statement, place, self.role)
        return heads


def _rows_file(folder: Path, upload: Upload) -> Path:
    return folder / f"{upload.upload_id}.rows"
