"""Statements that the clouds of an audited job sign for each other.

After each step, for each pair: the running digests of both directions. Both clouds sign the same
bytes, so that neither can deny what it sent or change its record of what it received. When a
session begins: the digest of all parts that the other cloud was given, as owners have told it. With
each commitment to a seed: that it is this cloud's, so that the other cannot make one up.
"""

from typing import Annotated, NamedTuple

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ppodc.errors import DeviationError, ProtocolError
from ppodc.transport.message_log import Heads
from ppodc.transport.wire import Body

SIGNATURE_BYTES, KEY_BYTES, DIGEST_BYTES = 64, 32, 32

Signature = Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]
SigningKey = Annotated[bytes, msgspec.Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
Digest32 = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
_Fields = tuple[str, str, str, str, int, int, bytes, int, bytes]
PairName = Annotated[str, msgspec.Meta(pattern=r"\A\d{1,4}\.\d{1,9}\Z")]


class Signed(Body, frozen=True):
    """A cloud's signature under the running digests of a pair after a step."""

    pair: PairName
    signature: Signature


class Committed(Body, frozen=True):
    """A cloud's commitment to the seed of its half of a pair, and its signature under it."""

    digest: Digest32
    signature: Signature


class SignedParts(Body, frozen=True):
    """A cloud's key, and its word on the parts that owners gave to the other cloud."""

    key: SigningKey
    digest: Digest32
    signature: Signature


class StepPlace(NamedTuple):
    """A step of a pair, in a session of a job."""

    job: str
    session_id: str
    pair: str
    step: int


def public_key(key: Ed25519PrivateKey) -> bytes:
    """The key that others verify with."""
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def step_statement(place: StepPlace, role: int, heads: Heads) -> bytes:
    """The bytes that both clouds sign; `heads` are as the cloud `role` sees them."""
    first = heads if role == 1 else heads.mirrored()
    numbers = (first.sent, first.sent_head, first.received, first.received_head)
    return msgspec.msgpack.encode(("ppodc audit step 1", *place, *numbers))


def statement_heads(statement: bytes, place: StepPlace, role: int) -> Heads:
    """The running digests in a statement of this step, as the cloud `role` sees them."""
    try:
        first = Heads(*msgspec.msgpack.decode(statement, type=_Fields)[5:])
    except msgspec.MsgspecError:
        raise DeviationError("what is signed is no statement on a step.") from None
    heads = first if role == 1 else first.mirrored()
    if step_statement(place, role, heads) != statement:
        raise DeviationError(f"what is signed is not of step {place.step} of pair {place.pair}.")
    return heads


def commitment_statement(job: str, role: int, pair: str, digest: bytes) -> bytes:
    """The bytes that the cloud `role` signs about the seed of its half of a pair."""
    return msgspec.msgpack.encode(("ppodc audit commitment 1", job, role, pair, digest))


def parts_statement(job: str, role: int, digest: bytes) -> bytes:
    """The bytes that the cloud `role` signs about the other cloud's parts of a job."""
    return msgspec.msgpack.encode(("ppodc audit parts 1", job, role, digest))


def verified(key: bytes, signature: bytes, statement: bytes) -> bool:
    """Whether the holder of the key has signed exactly this."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, statement)
    except (InvalidSignature, ValueError):
        return False
    return True


def require(key: bytes, signature: bytes, statement: bytes, what: str) -> None:
    """ProtocolError unless the holder of the key has signed exactly this."""
    if not verified(key, signature, statement):
        raise ProtocolError(
            f"the clouds disagree on {what}: the other cloud's signature is not under what this "
            "cloud has seen. The job stops. Let an auditor compare the records of both."
        )
