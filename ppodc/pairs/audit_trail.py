"""One cloud's part in keeping an audited job accountable (`docs/audit.md`).

    before the hello   each cloud draws the seed of each half, keeps it, sends a signed commitment,
                       and writes the commitments of both clouds into its ledger
    after each step    both clouds sign the running digests of every pair; a disagreement ends the
                       job

A cloud that kills, repeats or drops a control message gets nothing to show against the other: each
keeps a seed before its commitment leaves, and whatever it signs is in its own record before.

Who learns what: each cloud the other's commitments, signatures and signing key. Bytes: some 300 a
pair for a session and 80 a pair for a step, in messages that are sent anyway.
"""

import dataclasses
import secrets
from collections.abc import Mapping, Sequence

from ppodc.errors import ProtocolError
from ppodc.mpc.session_secrets import SEED_BYTES
from ppodc.pairs.recording import Recording, commitment
from ppodc.pairs.statements import (
    Committed,
    Signed,
    SignedParts,
    StepPlace,
    commitment_statement,
    parts_statement,
    public_key,
    require,
    step_statement,
)
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store import Store
from ppodc.service.store.audits import AuditPair, AuditSession, AuditStep
from ppodc.transport.message_log import Heads


class AuditTrail:
    """Draws, signatures and records of one cloud in one session of an audited job."""

    def __init__(self, store: Store, dataset: str, job: str, sealed: Sealed) -> None:
        self._store, self._dataset, self._job, self._sealed = store, dataset, job, sealed
        self._role = 1 if store.role == "cloud1" else 2
        self._key = store.audits.signing_key()
        self._drawn: dict[str, AuditPair] = {}  # by pair; the other's commitment is still to come
        self._session_id, self._peer_key = "", b""

    def own_word(self) -> SignedParts:
        """This cloud's key, and its word on the other cloud's parts."""
        digest = self._store.audits.other_parts(self._sealed)
        statement = parts_statement(self._job, self._role, digest)
        return SignedParts(public_key(self._key), digest, self._key.sign(statement))

    def draw(self, pair: str) -> Recording:
        """A new seed and a new file for this cloud's half of a pair."""
        seed, salt = secrets.token_bytes(SEED_BYTES), secrets.token_bytes(SEED_BYTES)
        drawn = AuditPair(pair, seed, salt, self._store.audits.new_file())
        self._drawn[pair] = drawn
        return Recording(drawn.seed, drawn.file)

    def recording(self, pair: str) -> Recording:
        """The seed and the file that were drawn for this pair."""
        return Recording(self._drawn[pair].seed, self._drawn[pair].file)

    def offer(self, pairs: Sequence[str]) -> tuple[Committed, ...]:
        """Keep the seeds of these pairs, and only then say what this cloud commits to."""
        self._store.audits.offer(self._dataset, [self._drawn[pair] for pair in pairs])
        return tuple(map(self.committed, pairs))

    def committed(self, pair: str) -> Committed:
        """This cloud's word on the seed of its half of the pair; it must be kept before."""
        digest = self._commitment(pair)
        statement = commitment_statement(self._job, self._role, pair, digest)
        return Committed(digest, self._key.sign(statement))

    def _commitment(self, pair: str) -> bytes:
        drawn = self._drawn[pair]
        return commitment(self._job, self._role, pair, drawn.salt, drawn.seed)

    def open(
        self,
        session_id: str,
        suite: str,
        shape: tuple[int, int],
        resume_from: int | None,
        word: SignedParts | None,
        theirs: Mapping[str, Committed | None],
    ) -> None:
        """Keep the session before its first hello: `theirs` are the other cloud's commitments.

        `shape`: pairs and shards a pair.
        """
        said = {pair: at for pair, at in theirs.items() if at is not None}
        if word is None or set(said) != set(self._drawn):
            raise ProtocolError("the other cloud did not commit to the seeds of an audited job.")
        statement = parts_statement(self._job, 3 - self._role, word.digest)
        require(word.key, word.signature, statement, "the parts of the uploads")
        if word.digest != self._store.audits.own_parts(self._sealed):
            raise ProtocolError(
                "owners have told the other cloud of other parts than this cloud has. The job does "
                "not start. Compare the uploads of both clouds."
            )
        self._session_id, self._peer_key = session_id, word.key
        parts = word.digest + word.signature
        session = AuditSession(session_id, suite, *shape, resume_from, word.key, parts)
        detail: dict[str, object] = {
            "session": session_id,
            "resumed": resume_from,
            **{f"cloud{self._role} {p}": self._commitment(p).hex() for p in self._drawn},
            **{f"cloud{3 - self._role} {p}": at.digest.hex() for p, at in said.items()},
            f"cloud{self._role} key": public_key(self._key).hex(),
            f"cloud{3 - self._role} key": word.key.hex(),
        }
        pairs = [self._with(pair, committed) for pair, committed in said.items()]
        self._store.audits.begin(self._dataset, session, pairs, detail)

    def replace(self, pair: str, theirs: Committed | None) -> None:
        """Keep a pair that takes the place of one that failed, before its hello."""
        if theirs is None:
            raise ProtocolError("the other cloud did not commit to the seed of an audited pair.")
        detail = {
            "session": self._session_id,
            f"cloud{self._role} {pair}": self._commitment(pair).hex(),
            f"cloud{3 - self._role} {pair}": theirs.digest.hex(),
        }
        kept = self._with(pair, theirs)
        self._store.audits.add_pair(self._dataset, self._session_id, kept, detail)

    def sign(self, step: int, heads: Mapping[str, Heads]) -> tuple[Signed, ...]:
        """This cloud's signatures after a step, by pair."""
        return tuple(
            Signed(pair, self._key.sign(self._statement(step, pair, at)))
            for pair, at in heads.items()
        )

    def agreed(
        self, step: int, heads: Mapping[str, Heads], theirs: Sequence[Signed]
    ) -> list[AuditStep]:
        """The signatures of both clouds; ProtocolError if they saw different messages."""
        signatures = {signed.pair: signed.signature for signed in theirs}
        if set(signatures) != set(heads):
            raise ProtocolError(f"the other cloud did not sign step {step} for every pair.")
        kept = []
        for own in self.sign(step, heads):
            statement = self._statement(step, own.pair, heads[own.pair])
            other = signatures[own.pair]
            require(self._peer_key, other, statement, f"the messages of step {step}")
            kept.append(AuditStep(own.pair, step, statement, own.signature, other))
        return kept

    def keep(self, agreed: Sequence[AuditStep]) -> None:
        """Keep what both clouds have signed, inside the caller's transaction if there is one."""
        self._store.audits.sign(self._session_id, agreed)

    def signed(self, step: int) -> tuple[Signed, ...]:
        """This cloud's signatures under a step that was accepted before."""
        kept = self._store.audits.steps(self._session_id, step)
        return tuple(Signed(at.pair, at.own_signature) for at in kept)

    def _statement(self, step: int, pair: str, heads: Heads) -> bytes:
        place = StepPlace(self._job, self._session_id, pair, step)
        return step_statement(place, self._role, heads)

    def _with(self, pair: str, theirs: Committed) -> AuditPair:
        statement = commitment_statement(self._job, 3 - self._role, pair, theirs.digest)
        require(self._peer_key, theirs.signature, statement, f"the commitment of pair {pair}")
        drawn = self._drawn[pair]
        return dataclasses.replace(
            drawn, peer_commitment=theirs.digest, peer_signature=theirs.signature
        )
