"""Frames survive the trip, and whatever is not a frame is a WireError and nothing else."""

import hashlib

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ppodc.errors import WireError
from ppodc.transport import wire
from ppodc.transport.wire import Body, BufferSpec, Empty, Header

SESSION = bytes(range(16))
EMPTY = wire.encode_body(None)

arrays = hnp.arrays(
    dtype=st.sampled_from(["u1", "u2", "u4", "u8", ">u8", ">u2"]),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
)


class Point(Body, frozen=True):
    x: int
    name: str


def frame(*buffers: np.ndarray, kind: str = "k", **changes: object) -> list[bytes]:
    return [bytes(part) for part in wire.encode(SESSION, 7, kind, EMPTY, buffers, **changes)]


def forged(header: object, *buffers: bytes) -> list[bytes]:
    """A frame with any header, under a digest that fits it."""
    raw = msgspec.msgpack.encode(header)
    digest = hashlib.blake2b(raw, digest_size=16, person=b"ppodc-header").digest()
    return [digest + raw, *buffers]


@given(st.lists(arrays, max_size=5), st.integers(0, 1 << 62), st.text(min_size=1, max_size=64))
def test_round_trip(buffers: list[np.ndarray], seq: int, kind: str) -> None:
    body = wire.encode_body(Point(-3, "here"))
    got = wire.decode(wire.encode(SESSION, seq, kind, body, buffers))
    assert (got.session, got.seq, got.message.kind) == (SESSION, seq, kind)
    assert got.message.decode(Point) == Point(-3, "here")
    assert len(got.message.arrays) == len(buffers)
    for ours, theirs in zip(buffers, got.message.arrays, strict=True):
        assert ours.shape == theirs.shape
        assert theirs.dtype.isnative or theirs.dtype.itemsize == 1
        assert not theirs.flags.writeable
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("size", [wire.PIECE_BYTES, wire.PIECE_BYTES + 1, 3 * wire.PIECE_BYTES])
def test_large_buffers_travel_in_pieces(size: int) -> None:
    data = np.arange(size, dtype=np.uint32).astype(np.uint8)
    parts = wire.encode(SESSION, 0, "k", EMPTY, [data, data[:5]])
    assert len(parts) == 2 + -(-size // wire.PIECE_BYTES)
    assert max(map(len, parts)) <= wire.PIECE_BYTES
    one, two = wire.decode(parts).message.arrays
    np.testing.assert_array_equal(one, data)
    np.testing.assert_array_equal(two, data[:5])


def test_arrays_are_not_copied() -> None:
    data = np.zeros(100, np.uint64)
    parts = wire.encode(SESSION, 0, "k", EMPTY, [data])
    assert np.shares_memory(np.frombuffer(parts[1], np.uint8), data)
    (got,) = wire.decode(parts).message.arrays
    assert np.shares_memory(got, data)


def test_a_part_is_read_only_exactly_when_nobody_can_change_it() -> None:
    data = np.zeros((4, 4), np.uint64)
    fixed = data.copy()
    fixed.flags.writeable = False
    _, own, strided, constant = wire.encode(SESSION, 0, "k", EMPTY, [data, data[:, ::2], fixed])
    assert isinstance(own, memoryview)
    assert isinstance(strided, memoryview)
    assert isinstance(constant, memoryview)
    assert (own.readonly, strided.readonly, constant.readonly) == (False, True, True)
    assert data.flags.writeable


def test_unaligned_bytes_become_aligned_arrays() -> None:
    parts = frame(np.arange(9, dtype=np.uint64))
    shifted = memoryview(b"x" + parts[1])[1:]
    (got,) = wire.decode([parts[0], shifted]).message.arrays
    assert got.flags.aligned
    np.testing.assert_array_equal(got, np.arange(9))


@pytest.mark.parametrize(
    "array",
    [np.zeros(3), np.zeros(3, np.int64), np.zeros(3, bool), np.zeros((1,) * 5, np.uint8)],
    ids=["float", "signed", "bool", "five dimensions"],
)
def test_other_arrays_are_not_sent(array: np.ndarray) -> None:
    with pytest.raises(WireError):
        wire.encode(SESSION, 0, "k", EMPTY, [array])


def test_limits_hold_when_sending() -> None:
    with pytest.raises(WireError, match="arrays"):
        frame(*[np.zeros(1, np.uint8)] * (wire.MAX_BUFFERS + 1))
    with pytest.raises(WireError, match="limit"):
        frame(np.zeros(2000, np.uint8), max_frame_bytes=2000)
    with pytest.raises(WireError, match="header"):
        wire.encode(SESSION, 0, "k", wire.encode_body(Point(1, "x" * wire.MAX_HEADER_BYTES)))


def test_limits_hold_when_receiving() -> None:
    parts = frame(np.zeros(2000, np.uint8))
    with pytest.raises(WireError, match="limit"):
        wire.decode(parts, max_frame_bytes=2000)
    with pytest.raises(WireError, match="header"):
        wire.decode([b"x" * (wire.MAX_HEADER_BYTES + 17)])


def header(**changes: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "version": wire.VERSION,
        "session": SESSION,
        "seq": 0,
        "kind": "k",
        "body": {},
        "buffers": [("u4", (2, 3))],
    }
    return fields | changes


def test_the_forged_header_is_good_as_it_stands() -> None:
    assert wire.decode(forged(header(), bytes(24))).message.arrays[0].shape == (2, 3)


@pytest.mark.parametrize(
    "changes",
    [
        {"version": wire.VERSION + 1},
        {"session": b"short"},
        {"seq": -1},
        {"seq": 1 << 63},
        {"seq": "0"},
        {"kind": ""},
        {"kind": "k" * 65},
        {"extra": 1},
        {"buffers": [("i4", (2, 3))]},
        {"buffers": [("u4", (2, 3), 1)]},
        {"buffers": [("u4", (2, 2))]},
        {"buffers": [("u8", (2, 3))]},
        {"buffers": [("u4", (-2, -3))]},
        {"buffers": [("u4", (1, 1, 1, 2, 3))]},
        {"buffers": [("u4", (1 << 40, 1 << 40, 1 << 40, 1 << 40))]},
        {"buffers": [("u4", (0, 1 << 40, 1 << 40, 1 << 40))]},
        {"buffers": []},
        {"buffers": [("u4", (2, 3)), ("u4", (2, 3))]},
        {"buffers": [("u1", ())] * 65},
    ],
    ids=str,
)
def test_wrong_headers(changes: dict[str, object]) -> None:
    with pytest.raises(WireError):
        wire.decode(forged(header(**changes), bytes(24)))


def test_a_dimension_beyond_all_bounds_in_an_empty_array() -> None:
    shape = (0, 1 << 40, 1 << 40, 1 << 40)
    with pytest.raises(WireError, match="shape"):
        wire.decode(forged(header(buffers=[("u8", shape)])))


def test_missing_field() -> None:
    fields = header()
    del fields["session"]
    with pytest.raises(WireError):
        wire.decode(forged(fields, bytes(24)))


def test_deep_nesting_is_refused() -> None:
    raw = msgspec.msgpack.encode(header(body=0))
    bomb = raw.replace(
        msgspec.msgpack.encode("body") + b"\0", b"\xa4body" + b"\x91" * 60000 + b"\0"
    )
    assert len(bomb) > 60000
    digest = hashlib.blake2b(bomb, digest_size=16, person=b"ppodc-header").digest()
    with pytest.raises(WireError):
        wire.decode([digest + bomb, bytes(24)])


def test_truncated_and_missing_parts() -> None:
    parts = frame(np.zeros(10, np.uint32))
    for cut in range(len(parts[0])):
        with pytest.raises(WireError):
            wire.decode([parts[0][:cut], parts[1]])
    for bad in (
        [],
        parts[:1],
        [*parts, b""],
        [parts[0], parts[1][:-1]],
        [parts[0], parts[1] + b"x"],
    ):
        with pytest.raises(WireError):
            wire.decode(bad)


@given(st.lists(st.binary(max_size=200), max_size=4))
def test_noise_is_a_wire_error(parts: list[bytes]) -> None:
    with pytest.raises(WireError):
        wire.decode(parts)


@given(st.binary(max_size=300), st.lists(st.binary(max_size=40), max_size=3))
def test_noise_under_a_right_digest_is_a_wire_error_or_a_frame(
    raw: bytes, buffers: list[bytes]
) -> None:
    digest = hashlib.blake2b(raw, digest_size=16, person=b"ppodc-header").digest()
    try:
        wire.decode([digest + raw, *buffers])
    except WireError:
        return


@given(st.data())
def test_a_mutated_header_under_a_right_digest(data: st.DataObject) -> None:
    raw = bytearray(msgspec.msgpack.encode(header()))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    digest = hashlib.blake2b(raw, digest_size=16, person=b"ppodc-header").digest()
    try:
        message = wire.decode([digest + bytes(raw), bytes(24)]).message
        message.decode(Empty)
    except WireError:
        return


@given(st.data())
def test_a_changed_header_byte_is_noticed(data: st.DataObject) -> None:
    parts = frame(np.zeros(3, np.uint8))
    at = data.draw(st.integers(0, len(parts[0]) - 1))
    flip = data.draw(st.integers(1, 255))
    changed = bytearray(parts[0])
    changed[at] ^= flip
    with pytest.raises(WireError):
        wire.decode([bytes(changed), parts[1]])


@pytest.mark.parametrize("body", [{"x": 1}, {"x": "1", "name": "n"}, {"x": 1, "name": "n", "y": 1}])
def test_bodies_that_do_not_fit(body: dict[str, object]) -> None:
    raw = msgspec.Raw(msgspec.msgpack.encode(body))
    got = wire.decode(wire.encode(SESSION, 0, "k", raw)).message
    with pytest.raises(WireError, match="'k'"):
        got.decode(Point)


def test_content_digest_covers_everything() -> None:
    data = np.arange(6, dtype=np.uint16)
    other = wire.encode_body(Point(1, ""))
    digests = {
        wire.content_digest("a", EMPTY, [data]),
        wire.content_digest("b", EMPTY, [data]),
        wire.content_digest("a", other, [data]),
        wire.content_digest("a", EMPTY, [data + np.uint16(1)]),
        wire.content_digest("a", EMPTY, [data.reshape(2, 3)]),
        wire.content_digest("a", EMPTY, [data.view(np.uint8)]),
        wire.content_digest("a", EMPTY, [data[:3], data[3:]]),
        wire.content_digest("a", EMPTY, []),
    }
    assert len(digests) == 8
    assert wire.content_digest("a", EMPTY, [data.copy()]) in digests


def test_header_fields_are_what_the_documentation_says() -> None:
    assert Header.__struct_fields__ == ("version", "session", "seq", "kind", "body", "buffers")
    assert BufferSpec("u8", (3, 2)).nbytes == 48
