"""Messages between parties as multipart frames: a typed header and raw integer buffers, no pickle.

A frame is [digest + header, buffer 1, buffer 2, ...]. The header is msgpack of `Header` and names
the dtype and shape of every buffer; buffers are little-endian unsigned integers in C order. A
buffer over 1 MiB travels in pieces of 1 MiB, so that one end decrypts while the other still
encrypts (twice the throughput of a single 100 MB part). All limits are checked before a buffer is
looked at. Decoded arrays are read-only; those in one piece are views of the received bytes.

The digest is BLAKE2b-128 over the header alone. It catches a frame that was cut, mixed or built
by another version; it is no signature. The bytes of the buffers are authenticated by CURVE, and
hashing them again would cost as much as encrypting them. Where content must be compared later
(a repeated request), `content_digest` covers the buffers too.

Ends of different versions refuse each other.
"""

import hashlib
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np

from ppodc.errors import WireError

VERSION = 1
SESSION_BYTES = 16
DIGEST_BYTES = 16
PIECE_BYTES = 1 << 20
MAX_HEADER_BYTES = 64 * 1024
MAX_BUFFERS = 64
MAX_DIMENSIONS = 4
MAX_FRAME_BYTES = 1 << 30

Array = np.ndarray[Any, np.dtype[Any]]
Part = bytes | memoryview
T = TypeVar("T")

_DTYPES: dict[str, np.dtype[Any]] = {
    code: np.dtype(f"<{code}") for code in ("u1", "u2", "u4", "u8")
}
_Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all message bodies: immutable, and a field the receiver does not know is an error."""


class Empty(Body, frozen=True):
    """The body of a message that says everything by its kind and its arrays."""


class BufferSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """Type and shape of the bytes of one buffer."""

    dtype: Literal["u1", "u2", "u4", "u8"]
    shape: Annotated[tuple[_Size, ...], msgspec.Meta(max_length=MAX_DIMENSIONS)]

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * _DTYPES[self.dtype].itemsize

    @property
    def pieces(self) -> int:
        return -(-self.nbytes // PIECE_BYTES)


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The header of every message. `seq` counts one direction of one session."""

    version: int
    session: Annotated[bytes, msgspec.Meta(min_length=SESSION_BYTES, max_length=SESSION_BYTES)]
    seq: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    body: msgspec.Raw
    buffers: Annotated[tuple[BufferSpec, ...], msgspec.Meta(max_length=MAX_BUFFERS)]


class Message(msgspec.Struct, frozen=True):
    """A decoded message with a body that is not yet converted to its type."""

    kind: str
    body: msgspec.Raw
    arrays: tuple[Array, ...]

    def decode(self, body_type: type[T]) -> T:
        """The body as `body_type`; WireError if it does not fit."""
        return decode_body(self.body, body_type, self.kind)


class Frame(msgspec.Struct, frozen=True):
    """A message with the place it claims in the conversation."""

    session: bytes
    seq: int
    message: Message


def encode_body(body: msgspec.Struct | None) -> msgspec.Raw:
    """The body of a message; none is the same as `Empty`."""
    return msgspec.Raw(_encode_msgpack(Empty() if body is None else body))


def decode_body(raw: msgspec.Raw, body_type: type[T], kind: str) -> T:
    """The typed body of a message of this kind; WireError if it does not fit."""
    return _decode_msgpack(raw, body_type, f"the body of message {kind!r}")


def encode(
    session: bytes,
    seq: int,
    kind: str,
    body: msgspec.Raw,
    arrays: Sequence[Array] = (),
    max_frame_bytes: int = MAX_FRAME_BYTES,
) -> list[Part]:
    """Parts of a frame. Contiguous arrays are not copied: the parts are views of them."""
    if len(arrays) > MAX_BUFFERS:
        raise WireError(f"message {kind!r} has {len(arrays)} arrays; at most {MAX_BUFFERS} fit.")
    pieces, specs = [], []
    for array in arrays:
        data, spec = _encode_array(array, kind)
        pieces += [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]
        specs.append(spec)
    header = _encode_msgpack(Header(VERSION, session, seq, kind, body, tuple(specs)))
    parts: list[Part] = [_header_digest(header) + header, *pieces]
    _check_sizes(parts, max_frame_bytes)
    return parts


def decode(parts: Sequence[Part], max_frame_bytes: int = MAX_FRAME_BYTES) -> Frame:
    """Return the frame in these parts; WireError unless they are exactly one frame."""
    if not parts:
        raise WireError("received a frame without a header.")
    _check_sizes(parts, max_frame_bytes)
    first = bytes(parts[0])
    digest, raw = first[:DIGEST_BYTES], first[DIGEST_BYTES:]
    if digest != _header_digest(raw):
        raise WireError("received a frame whose header is damaged or not of this program.")
    header = _decode_msgpack(raw, Header, "the header of a frame")
    if header.version != VERSION:
        raise WireError(
            f"received a frame of wire version {header.version}; this program speaks {VERSION}. "
            "Run the same release of ppodc at both ends."
        )
    arrays = _decode_arrays(parts[1:], header.buffers)
    return Frame(header.session, header.seq, Message(header.kind, header.body, arrays))


def content_digest(kind: str, body: msgspec.Raw, arrays: Sequence[Array]) -> bytes:
    """BLAKE2b-128 over kind, body, and dtype, shape and bytes of every array."""
    encoded = [_encode_array(array, kind) for array in arrays]
    prefix = _encode_msgpack((kind, body, [spec for _, spec in encoded]))
    hasher = hashlib.blake2b(prefix, digest_size=DIGEST_BYTES, person=b"ppodc-content")
    for part, _ in encoded:
        hasher.update(part)
    return hasher.digest()


def frame_bytes(parts: Sequence[Part]) -> int:
    """Return the size of a frame without the overhead of the transport."""
    return sum(len(part) for part in parts)


def _header_digest(header: bytes) -> bytes:
    return hashlib.blake2b(header, digest_size=DIGEST_BYTES, person=b"ppodc-header").digest()


def _check_sizes(parts: Sequence[Part], max_frame_bytes: int) -> None:
    if len(parts[0]) > DIGEST_BYTES + MAX_HEADER_BYTES:
        raise WireError(f"the header of a frame is over {MAX_HEADER_BYTES} bytes.")
    if frame_bytes(parts) > max_frame_bytes:
        raise WireError(
            f"a frame of {frame_bytes(parts)} bytes is over the limit of {max_frame_bytes}. "
            "Send it in several messages."
        )


def _encode_array(array: Array, kind: str) -> tuple[memoryview, BufferSpec]:
    code = f"u{array.dtype.itemsize}"
    if array.dtype.kind != "u" or code not in _DTYPES or array.ndim > MAX_DIMENSIONS:
        raise WireError(
            f"message {kind!r}: an array of {array.dtype} with {array.ndim} dimensions cannot be "
            f"sent; only unsigned integers with at most {MAX_DIMENSIONS} dimensions can."
        )
    contiguous = np.ascontiguousarray(array, dtype=_DTYPES[code])
    flat = contiguous.reshape(-1).view(np.uint8)
    # A part that is read-only may be sent without copying it once more.
    flat.flags.writeable = array.flags.writeable and np.may_share_memory(contiguous, array)
    return flat.data, BufferSpec(code, array.shape)  # type: ignore[arg-type]


def _decode_arrays(pieces: Sequence[Part], specs: Sequence[BufferSpec]) -> tuple[Array, ...]:
    announced = sum(spec.pieces for spec in specs)
    if announced != len(pieces):
        raise WireError(f"a frame announces {announced} pieces of buffers and holds {len(pieces)}.")
    arrays, at = [], 0
    for spec in specs:
        arrays.append(_decode_array(pieces[at : at + spec.pieces], spec))
        at += spec.pieces
    return tuple(arrays)


def _decode_array(pieces: Sequence[Part], spec: BufferSpec) -> Array:
    if frame_bytes(pieces) != spec.nbytes:
        raise WireError(
            f"a buffer announced as {spec.dtype}{list(spec.shape)} holds {frame_bytes(pieces)} "
            f"bytes instead of {spec.nbytes}."
        )
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    try:
        array: Array = np.frombuffer(data, dtype=_DTYPES[spec.dtype]).reshape(spec.shape)
    except ValueError as error:  # empty, but with another dimension beyond all bounds
        raise WireError(f"a buffer cannot have the shape {list(spec.shape)}.") from error
    if not array.flags.aligned:
        # Short messages sit anywhere inside the transport's struct; compiled code wants alignment.
        array = array.copy()
    array.flags.writeable = False
    return array


def _encode_msgpack(value: object) -> bytes:
    try:
        return msgspec.msgpack.encode(value)
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"a message cannot be encoded: {error}.") from error


def _decode_msgpack(raw: bytes | msgspec.Raw, value_type: type[T], what: str) -> T:
    try:
        return msgspec.msgpack.decode(raw, type=value_type)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        # The reason names fields and types, never values.
        raise WireError(f"{what} does not decode: {error}.") from error
