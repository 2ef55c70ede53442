"""One cloud's part in keeping an audited job accountable (`docs/audit.md`).

    before the hello   each cloud draws the seed of each half, sends a commitment, and writes the
                       commitments of both clouds into its ledger
    after each step    both clouds sign the running digests of every pair; a disagreement ends the
                       job

Who learns what: each cloud the other's commitments, signatures and signing key. Bytes: some 200 a
pair for a session and 80 a pair for a step, in messages that are sent anyway.
"""

import secrets
from collections.abc import Mapping, Sequence

from ppodc.errors import ProtocolError
from ppodc.mpc.session_secrets import SEED_BYTES
from ppodc.pairs.recording import Recording, commitment
from ppodc.pairs.statements import (
    Signed,
    SignedParts,
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
        drawn = AuditPair(pair, seed, salt, self._store.audits.new_file(), b"")
        self._drawn[pair] = drawn
        return Recording(drawn.seed, drawn.file)

    def recording(self, pair: str) -> Recording:
        """The seed and the file that were drawn for this pair."""
        return Recording(self._drawn[pair].seed, self._drawn[pair].file)

    def commitment(self, pair: str) -> bytes:
        """This cloud's word on the seed of its half of the pair."""
        drawn = self._drawn[pair]
        return commitment(self._job, self._role, pair, drawn.salt, drawn.seed)

    def open(
        self,
        session_id: str,
        suite: str,
        shape: tuple[int, int],
        resume_from: int | None,
        word: SignedParts | None,
        theirs: Mapping[str, bytes | None],
    ) -> None:
        """Keep the session before its first hello: `theirs` are the other cloud's commitments.

        `shape`: pairs and shards a pair.
        """
        said = {pair: digest for pair, digest in theirs.items() if digest is not None}
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
            **{f"cloud{self._role} {p}": self.commitment(p).hex() for p in self._drawn},
            **{f"cloud{3 - self._role} {p}": digest.hex() for p, digest in said.items()},
            f"cloud{self._role} key": public_key(self._key).hex(),
            f"cloud{3 - self._role} key": word.key.hex(),
        }
        pairs = [self._with(pair, digest) for pair, digest in said.items()]
        self._store.audits.begin(self._dataset, session, pairs, detail)

    def replace(self, pair: str, theirs: bytes | None) -> None:
        """Keep a pair that takes the place of one that failed, before its hello."""
        if theirs is None:
            raise ProtocolError("the other cloud did not commit to the seed of an audited pair.")
        detail = {
            "session": self._session_id,
            f"cloud{self._role} {pair}": self.commitment(pair).hex(),
            f"cloud{3 - self._role} {pair}": theirs.hex(),
        }
        kept = self._with(pair, theirs)
        self._store.audits.add_pair(self._dataset, self._session_id, kept, detail)

    def sign(self, step: int, heads: Mapping[str, Heads]) -> tuple[Signed, ...]:
        """This cloud's signatures after a step, by pair."""
        return tuple(
            Signed(pair, self._key.sign(self._statement(step, pair, at)))
            for pair, at in heads.items()
        )

    def accept(self, step: int, heads: Mapping[str, Heads], theirs: Sequence[Signed]) -> None:
        """Keep the signatures of both clouds; ProtocolError if they saw different messages."""
        signatures = {signed.pair: signed.signature for signed in theirs}
        if set(signatures) != set(heads):
            raise ProtocolError(f"the other cloud did not sign step {step} for every pair.")
        kept = []
        for own in self.sign(step, heads):
            statement = self._statement(step, own.pair, heads[own.pair])
            other = signatures[own.pair]
            require(self._peer_key, other, statement, f"the messages of step {step}")
            kept.append(AuditStep(own.pair, step, statement, own.signature, other))
        self._store.audits.sign(self._session_id, kept)

    def signed(self, step: int) -> tuple[Signed, ...]:
        """This cloud's signatures under a step that was accepted before."""
        kept = self._store.audits.steps(self._session_id, step)
        return tuple(Signed(at.pair, at.own_signature) for at in kept)

    def _statement(self, step: int, pair: str, heads: Heads) -> bytes:
        return step_statement(self._session_id, pair, step, self._role, heads)

    def _with(self, pair: str, theirs: bytes) -> AuditPair:
        drawn = self._drawn[pair]
        return AuditPair(pair, drawn.seed, drawn.salt, drawn.file, theirs)
