"""Mutations of real frames, drawn from a seed.

They follow the structure of a frame. A node of the header or of the body inside it is changed,
removed or repeated. Announced dtypes and shapes no longer fit. Buffers are cut, lengthened, swapped
or left out. Bytes are flipped. The digest of the header is usually computed again, so that the
checks behind it are reached.
"""

import hashlib
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from ppodc.transport import wire

Frame = list[bytes]
_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 255, 1 << 31, 1 << 40, (1 << 63) - 1, (1 << 64) - 1, -(1 << 63),
    0.5, float("nan"), "", "x", "a\nb", "\x00", "é" * 40, "x" * 300, "../../etc", b"", b"\xff" * 16,
    bytes(4096), [], [[]], {}, {"x": 1}, [1] * 70, {"": None}, [0, 0, 0, 0, 0],
)  # fmt: skip


def mutated(chance: random.Random, frame: Sequence[bytes]) -> Frame:
    """Change a frame in one to three places."""
    parts = list(frame)
    for _ in range(chance.choices((1, 2, 3), (8, 2, 1))[0]):
        change = chance.choices(
            (_change_tree, _change_parts, _flip_bytes, _cut, _noise), (10, 3, 2, 1, 1)
        )[0]
        parts = change(chance, parts) or [b""]
    return parts


def renumbered(frame: Sequence[bytes], session: bytes, seq: int) -> Frame:
    """Move a message to another session and sequence number."""
    tree = _tree(frame)
    return list(frame) if tree is None else _signed({**tree, "session": session, "seq": seq}, frame)


def _tree(frame: Sequence[bytes]) -> dict[str, Any] | None:
    try:
        tree = msgspec.msgpack.decode(frame[0][wire.DIGEST_BYTES :])
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def _signed(tree: Any, frame: Sequence[bytes]) -> Frame:
    header = msgspec.msgpack.encode(tree)
    digest = hashlib.blake2b(header, digest_size=wire.DIGEST_BYTES, person=b"ppodc-header")
    return [digest.digest() + header, *frame[1:]]


def _change_tree(chance: random.Random, parts: Frame) -> Frame:
    tree = _tree(parts)
    if tree is None:
        return _noise(chance, parts)
    return _signed(_changed(chance, tree), parts)


def _changed(chance: random.Random, node: Any) -> Any:
    """Change one node of the tree, at any depth."""
    if isinstance(node, dict) and node and chance.random() < 0.85:
        key = chance.choice(list(node))
        action = chance.random()
        if action < 0.1:
            return {name: value for name, value in node.items() if name != key}
        if action < 0.2:
            return {**node, chance.choice(("x", "", "version", 5)): chance.choice(_ODD)}
        return {**node, key: _changed(chance, node[key])}
    if isinstance(node, list) and node and chance.random() < 0.85:
        at = chance.randrange(len(node))
        action = chance.random()
        if action < 0.15:
            return node[:at] + node[at + 1 :]
        if action < 0.3:
            return node[:at] + [node[at]] * chance.choice((2, 3, 65)) + node[at + 1 :]
        return [*node[:at], _changed(chance, node[at]), *node[at + 1 :]]
    return _other_value(chance, node)


def _other_value(chance: random.Random, value: Any) -> Any:
    if chance.random() < 0.5:
        return chance.choice(_ODD)
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = value + chance.choice((-1, 1, 8, -8))
        return max(-(1 << 63), min((1 << 64) - 1, near * chance.choice((1, 1, -1, 1 << 20))))
    if isinstance(value, str):
        at = chance.randint(0, len(value))
        return value[:at] + chance.choice(("", "x", "\n", "'", "\x7f", value)) + value[at:]
    if isinstance(value, bytes):
        return _flipped(chance, value) if value else b"x"
    return [value]


def _change_parts(chance: random.Random, parts: Frame) -> Frame:
    at = chance.randrange(len(parts))
    return chance.choice(
        (
            lambda: parts[:at] + parts[at + 1 :],
            lambda: [*parts[:at], parts[at], *parts[at:]],
            lambda: [*parts, chance.randbytes(chance.choice((0, 1, 7, 8, 4096)))],
            lambda: [*parts[:at], parts[at][: chance.randint(0, len(parts[at]))], *parts[at + 1 :]],
            lambda: [*parts[:at], parts[at] + chance.randbytes(chance.randint(1, 9)),
                     *parts[at + 1 :]],
            lambda: chance.sample(parts, len(parts)),
            lambda: parts * chance.choice((2, 70)),
        )
    )()  # fmt: skip


def _flip_bytes(chance: random.Random, parts: Frame) -> Frame:
    at = chance.randrange(len(parts))
    return [*parts[:at], _flipped(chance, parts[at]), *parts[at + 1 :]]


def _flipped(chance: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        if changed:
            changed[chance.randrange(len(changed))] ^= chance.randint(1, 255)
    return bytes(changed)


def _cut(chance: random.Random, parts: Frame) -> Frame:
    tree = _tree(parts)
    raw = parts[0][: chance.randint(0, len(parts[0]))]
    if tree is None or chance.random() < 0.3:
        return [raw, *parts[1:]]
    body = raw[wire.DIGEST_BYTES :]
    digest = hashlib.blake2b(body, digest_size=wire.DIGEST_BYTES, person=b"ppodc-header").digest()
    return [digest + body, *parts[1:]]


def _noise(chance: random.Random, _parts: Frame) -> Frame:
    return [chance.randbytes(chance.randint(0, 200)) for _ in range(chance.randint(1, 5))]
