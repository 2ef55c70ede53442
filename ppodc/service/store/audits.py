"""Records of audited jobs that a cloud keeps until an auditor has asked or the records are deleted.

Of each session: the seeds of its halves, the other cloud's commitments, the running digests that
both clouds have signed, and files of records (`ppodc.pairs.recording`). They are encrypted under
keys that follow from the seeds: `erase` removes the seeds, so no copy of a file opens any more.

A seed is kept before the other cloud hears of the commitment to it. If no answer comes it stays as
an offer, so that this cloud can open every commitment that the other one may show.
"""

import contextlib
import hashlib
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ppodc.errors import InputError, ProtocolError, StateError
from ppodc.files import key_file
from ppodc.records.part_digest import SALT_BYTES, PartDigest
from ppodc.records.upload_form import SeedPart
from ppodc.service.job_state import JobState
from ppodc.service.sealed_uploads import Sealed, Upload
from ppodc.service.store.database import Database
from ppodc.service.store.ledger import Ledger

if TYPE_CHECKING:
    from ppodc.service.store.uploads import Uploads

_ROWS = 1 << 16  # rows of a part that are hashed at a time

SCHEMA = """
CREATE TABLE audit_part (
    upload_id TEXT PRIMARY KEY REFERENCES upload (upload_id) ON DELETE CASCADE,
    salt BLOB NOT NULL,
    other BLOB NOT NULL
) STRICT;
CREATE TABLE audit_session (
    number INTEGER PRIMARY KEY,
    dataset TEXT NOT NULL REFERENCES dataset (name),
    session_id TEXT NOT NULL UNIQUE,
    suite TEXT NOT NULL,
    pairs INTEGER NOT NULL,
    shards_per_pair INTEGER NOT NULL,
    resume_from INTEGER,
    peer_key BLOB NOT NULL,
    peer_parts BLOB NOT NULL
) STRICT;
CREATE TABLE audit_pair (
    session_id TEXT NOT NULL REFERENCES audit_session (session_id) ON DELETE CASCADE,
    pair TEXT NOT NULL,
    seed BLOB NOT NULL,
    salt BLOB NOT NULL,
    file TEXT NOT NULL,
    peer_commitment BLOB NOT NULL,
    peer_signature BLOB NOT NULL,
    PRIMARY KEY (session_id, pair)
) STRICT;
CREATE TABLE audit_offer (
    seed BLOB PRIMARY KEY,
    dataset TEXT NOT NULL REFERENCES dataset (name),
    pair TEXT NOT NULL,
    salt BLOB NOT NULL,
    file TEXT NOT NULL
) STRICT;
CREATE TABLE audit_step (
    session_id TEXT NOT NULL REFERENCES audit_session (session_id) ON DELETE CASCADE,
    pair TEXT NOT NULL,
    step INTEGER NOT NULL,
    statement BLOB NOT NULL,
    own_signature BLOB NOT NULL,
    peer_signature BLOB NOT NULL,
    PRIMARY KEY (session_id, pair, step)
) STRICT
"""


@dataclass(frozen=True, slots=True)
class AuditSession:
    """A session of an audited job, as both clouds opened it."""

    session_id: str
    suite: str
    pairs: int
    shards_per_pair: int
    resume_from: int | None
    peer_key: bytes  # verifies the other cloud's signatures
    peer_parts: bytes  # the other cloud's signed word on the digests of this cloud's parts


@dataclass(frozen=True, slots=True)
class AuditPair:
    """This cloud's half of a pair: its seed, the salt of the commitment, and its record.

    The other cloud's commitment is signed by it. Both are empty while it has not answered.
    """

    pair: str
    seed: bytes = field(repr=False)
    salt: bytes = field(repr=False)
    file: str
    peer_commitment: bytes = b""
    peer_signature: bytes = b""


@dataclass(frozen=True, slots=True)
class AuditStep:
    """The running digests of a pair after a step, signed by both clouds."""

    pair: str
    step: int
    statement: bytes
    own_signature: bytes
    peer_signature: bytes


class Audits:
    """The part of a store that an auditor may ask for."""

    def __init__(
        self, database: Database, ledger: Ledger, uploads: "Uploads", folder: Path
    ) -> None:
        self._database, self._ledger, self._uploads = database, ledger, uploads
        self._cloud = uploads.cloud
        self._key, self.folder = folder / "signing.key", folder / "audit"

    def signing_key(self) -> Ed25519PrivateKey:
        """The key that signs for this cloud; made at its first use."""
        return Ed25519PrivateKey.from_private_bytes(key_file(self._key))

    def new_file(self) -> str:
        """A name for a record that no other has."""
        return str(self.folder / f"{secrets.token_hex(16)}.record")

    def other_parts(self, sealed: Sealed) -> bytes:
        """One digest over what owners have told this cloud of the other cloud's parts."""
        return all_parts(sealed, [self._part(upload)["other"] for upload in sealed.uploads])

    def own_parts(self, sealed: Sealed) -> bytes:
        """One digest over this cloud's own parts, as they are here."""
        return all_parts(sealed, [self._own_part(upload) for upload in sealed.uploads])

    def fit(self, upload: Upload) -> bytes:
        """A digest over both parts of an upload; equal at both clouds if its owner told the truth.

        Each cloud takes its own part as it is and the owner's word for the other one.
        """
        both = [self._own_part(upload), self._part(upload)["other"]]
        return hashlib.sha256(b"".join(both if self._cloud == 1 else reversed(both))).digest()

    def salt(self, upload: Upload) -> bytes:
        """The salt of the digest that the other cloud has of this cloud's part."""
        salt: bytes = self._part(upload)["salt"]
        return salt

    def _own_part(self, upload: Upload) -> bytes:
        digest, part = PartDigest(self.salt(upload)), self._uploads.part(upload.dataset)
        if isinstance(part, SeedPart):
            return digest.of_seed(self._uploads.seed(upload.upload_id))
        for first in range(0, upload.rows, _ROWS):
            rows = np.empty((min(_ROWS, upload.rows - first), part.columns), part.dtype)
            self._uploads.read(upload, part, first, rows)
            digest.add(rows)
        return digest.value()

    def _part(self, upload: Upload) -> sqlite3.Row:
        query = "SELECT salt, other FROM audit_part WHERE upload_id = ?"
        with self._database.reading() as sql:
            row: sqlite3.Row | None = sql.execute(query, (upload.upload_id,)).fetchone()
        if row is None:
            raise StateError(f"upload {upload.upload_id} came without the digests of an audit.")
        return row

    def offer(self, dataset: str, pairs: Sequence[AuditPair]) -> None:
        """Keep seeds whose commitments are about to leave; `begin` or `add_pair` takes them up."""
        with self._database.transaction() as sql:
            for at in pairs:
                values = (at.seed, dataset, at.pair, at.salt, at.file)
                sql.execute("INSERT INTO audit_offer VALUES (?, ?, ?, ?, ?)", values)

    def offers(self, dataset: str) -> list[AuditPair]:
        """Seeds that were offered and that no session of this cloud's took up."""
        query = "SELECT * FROM audit_offer WHERE dataset = ? ORDER BY rowid"
        with self._database.reading() as sql:
            rows = sql.execute(query, (dataset,)).fetchall()
        return [AuditPair(row["pair"], row["seed"], row["salt"], row["file"]) for row in rows]

    def begin(
        self,
        dataset: str,
        session: AuditSession,
        pairs: Sequence[AuditPair],
        detail: Mapping[str, object],
    ) -> None:
        """Keep a session and its seeds, and the commitments of both clouds in the ledger."""
        query = (
            "INSERT INTO audit_session (dataset, session_id, suite, pairs, shards_per_pair,"
            " resume_from, peer_key, peer_parts) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        )
        with self._database.transaction() as sql:
            known = "SELECT 1 FROM audit_session WHERE session_id = ?"
            if sql.execute(known, (session.session_id,)).fetchone() is not None:
                raise ProtocolError("the other cloud gave this session the name of another one.")
            sql.execute(query, (dataset, *astuple(session)))
            for pair in pairs:
                self.add_pair(dataset, session.session_id, pair, {})
            self._ledger.append("audit session opened", dataset, dict(detail))

    def add_pair(
        self, dataset: str, session_id: str, pair: AuditPair, detail: Mapping[str, object]
    ) -> None:
        """Keep the seed of one more pair; `detail` has the commitments for the ledger."""
        with self._database.transaction() as sql:
            values = (session_id, *astuple(pair))
            sql.execute("INSERT INTO audit_pair VALUES (?, ?, ?, ?, ?, ?, ?)", values)
            sql.execute("DELETE FROM audit_offer WHERE seed = ?", (pair.seed,))
            if detail:
                self._ledger.append("audit pair replaced", dataset, dict(detail))

    def sign(self, session_id: str, steps: Sequence[AuditStep]) -> None:
        """Keep what both clouds have signed; the same again is harmless."""
        with self._database.transaction() as sql:
            for step in steps:
                values = (session_id, *astuple(step))
                sql.execute("INSERT OR REPLACE INTO audit_step VALUES (?, ?, ?, ?, ?, ?)", values)

    def sessions(self, dataset: str) -> list[AuditSession]:
        """The sessions of a dataset, in order."""
        query = "SELECT * FROM audit_session WHERE dataset = ? ORDER BY number"
        with self._database.reading() as sql:
            rows = sql.execute(query, (dataset,)).fetchall()
        return [AuditSession(*(row[name] for name in AuditSession.__slots__)) for row in rows]

    def pairs(self, session_id: str) -> list[AuditPair]:
        """The halves of a session."""
        query = "SELECT * FROM audit_pair WHERE session_id = ? ORDER BY rowid"
        with self._database.reading() as sql:
            rows = sql.execute(query, (session_id,)).fetchall()
        return [AuditPair(*(row[name] for name in AuditPair.__slots__)) for row in rows]

    def steps(self, session_id: str, step: int | None = None) -> list[AuditStep]:
        """Everything signed in a session, or after one step of it."""
        query = "SELECT * FROM audit_step WHERE session_id = ? AND ? IN (step, -1)"
        with self._database.reading() as sql:
            rows = sql.execute(query, (session_id, -1 if step is None else step)).fetchall()
        return [AuditStep(*(row[name] for name in AuditStep.__slots__)) for row in rows]

    def exported(self, dataset: str) -> None:
        """Note that an auditor was given this cloud's record."""
        learnt = "the auditor: this cloud's view of the job"
        self._ledger.append("audit record exported", dataset, {}, learnt)

    def erase(self, dataset: str) -> int:
        """Erase the seeds and records of a dataset; how many sessions there were."""
        with self._database.reading() as sql:
            query = "SELECT state FROM dataset WHERE name = ?"
            state = JobState(sql.execute(query, (dataset,)).fetchone()["state"])
        if not state.final and self.sessions(dataset):
            raise StateError(
                f"the job of {dataset!r} is {state} and can go on. An auditor would then miss what "
                "was erased. End the job first; ppodc cancel gives it up."
            )
        return erase(self._database, self._ledger, dataset)


def keep_part(sql: sqlite3.Connection, upload_id: str, salt: bytes, other: bytes) -> None:
    """Keep the salt of this cloud's part, and the digest of the other cloud's."""
    if len(salt) != SALT_BYTES or len(other) != SALT_BYTES:
        raise InputError(
            "the dataset is audited, and the upload came without digests of its parts. Upload with "
            "the release that the clouds run."
        )
    sql.execute("INSERT OR REPLACE INTO audit_part VALUES (?, ?, ?)", (upload_id, salt, other))


def all_parts(sealed: Sealed, digests: Sequence[bytes]) -> bytes:
    """One digest over the digests of one cloud's parts of all sealed uploads."""
    hasher = hashlib.sha256(b"ppodc audit parts" + bytes.fromhex(sealed.digest))
    for upload, digest in zip(sealed.uploads, digests, strict=True):
        hasher.update(bytes.fromhex(upload.upload_id) + digest)
    return hasher.digest()


def erase(database: Database, ledger: Ledger, dataset: str) -> int:
    """Erase what is kept of a dataset's sessions; how many there were."""
    sessions = "SELECT session_id FROM audit_session WHERE dataset = ?"
    records = "SELECT file FROM audit_pair JOIN audit_session USING (session_id) WHERE dataset = ?"
    with database.transaction() as sql:
        ids = [row["session_id"] for row in sql.execute(sessions, (dataset,))]
        files = [row["file"] for row in sql.execute(records, (dataset,))]
        sql.execute("DELETE FROM audit_session WHERE dataset = ?", (dataset,))
        sql.execute("DELETE FROM audit_offer WHERE dataset = ?", (dataset,))
        if ids:
            ledger.append("audit record erased", dataset, {"sessions": len(ids)})
    for file in files:
        with contextlib.suppress(OSError):  # without its seed it tells nothing
            Path(file).unlink()
    if ids:
        database.flush_deleted()
    return len(ids)
