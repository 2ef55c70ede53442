"""Yao's garbled circuit for [x > y] of a number at C1 and one at C2, as the published systems use.

Carries c_0 = 0, c_(i+1) = x_i ^ ((x_i ^ c_i) & (y_i ^ c_i)); the last one is [x > y]. XOR is free
(labels of a wire differ by a secret R), so a bit costs one AND: a table of 4 entries, picked by the
lowest bits of the two labels. C1 garbles; C2 gets the labels of its own bits by oblivious transfer
and evaluates. It is slower than `compare` and here to reproduce what others measured.

Who learns what: both learn [x > y], and nothing else. Rounds: 4 for
2^17 bits. Bytes per bit: 16 for C1's label,
64 for the table, 16 and 4 for the transfer: 7 labels of 16 bytes with those of the transfer counted
twice, as published.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.transfer import LOT_ROWS
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.xor_bits import BLOCK, WORD, pack, padded

Labels = NDArray[np.uint64]  # (..., 2)
_OWN, _TRANSFER, _TABLE = "garbled.labels", "garbled.transfer", "garbled.table"
_DECODE, _RESULT = "garbled.decode", "garbled.result"
_ONE = U64(1)


def greater(session: Session, numbers: list[int], width: int) -> Bits:
    """[x > y] for C1's numbers x and C2's y below 2^width, opened to both."""
    half = _garble if session.role == 1 else _evaluate
    step = max(1, LOT_ROWS // width)
    parts = [numbers[start : start + step] for start in range(0, len(numbers), step)]
    found = [half(session, _bits(part, width)) for part in parts]
    return np.concatenate(found) if found else np.empty(0, np.uint8)


def _bits(numbers: list[int], width: int) -> Bits:
    """Binary digits, lowest first: (width, n)."""
    size = -(-width // 8)
    data = b"".join([int(number).to_bytes(size, "little") for number in numbers])
    table = np.frombuffer(data, np.uint8).reshape(len(numbers), size)
    return np.ascontiguousarray(np.unpackbits(table, axis=1, count=width, bitorder="little").T)


def _garble(session: Session, bits: Bits) -> Bits:
    """C1's part."""
    width, count = bits.shape
    offset = session.random.uint64(2)
    offset[0] |= _ONE  # so that the lowest bits of a wire's two labels differ
    x = session.random.uint64((width, count, 2))
    session.link.send(_OWN, np.where(bits[..., None] > 0, x ^ offset, x))
    y = _send_labels(session, offset, width * count).reshape(width, count, 2)
    carry = np.zeros((count, 2), U64)
    table = np.empty((width, 4, count, 2), U64)
    for place in range(width):
        out = session.random.uint64((count, 2))
        table[place] = _and_table(session, x[place] ^ carry, y[place] ^ carry, out, offset)
        carry = x[place] ^ out
    session.link.send(_TABLE, table)
    session.link.send(_DECODE, np.packbits((carry[:, 0] & _ONE).astype(np.uint8)))
    packed = session.link.receive(_RESULT, np.uint8, -(-count // 8))
    return np.unpackbits(packed, count=count)


def _evaluate(session: Session, bits: Bits) -> Bits:
    """C2's part."""
    width, count = bits.shape
    x = session.link.receive(_OWN, U64, width, count, 2)
    y = _receive_labels(session, bits.reshape(-1)).reshape(width, count, 2)
    table = session.link.receive(_TABLE, U64, width, 4, count, 2)
    decode = session.link.receive(_DECODE, np.uint8, -(-count // 8))
    carry = np.zeros((count, 2), U64)
    for place in range(width):
        a, b = x[place] ^ carry, y[place] ^ carry
        chosen = table[place][_row(a, b), np.arange(count)]
        carry = x[place] ^ chosen ^ _hash(session, a, b, session.ot.tweaks.reserve(count))
    result = (carry[:, 0] & _ONE).astype(np.uint8) ^ np.unpackbits(decode, count=count)
    session.link.send(_RESULT, np.packbits(result))
    return result


# ------------------------------------------------------------- gates


def _and_table(session: Session, a: Labels, b: Labels, out: Labels, offset: U64Array) -> Labels:
    """H(a, b) ^ out for the four pairs of labels, each in the place that their lowest bits name."""
    count = len(a)
    first = session.ot.tweaks.reserve(count)
    table = np.empty((4, count, 2), U64)
    for u in (0, 1):
        for v in (0, 1):
            left, right = (a ^ offset if u else a), (b ^ offset if v else b)
            entry = _hash(session, left, right, first) ^ (out ^ offset if u and v else out)
            table[_row(left, right), np.arange(count)] = entry
    return table


def _row(a: Labels, b: Labels) -> NDArray[np.intp]:
    return (2 * (a[:, 0] & _ONE) + (b[:, 0] & _ONE)).astype(np.intp)


def _hash(session: Session, a: Labels, b: Labels, first: int) -> Labels:
    """H(2a ^ b, gate): doubling in GF(2^128) keeps a and b apart."""
    doubled = np.empty_like(a)
    doubled[:, 1] = a[:, 1] << _ONE ^ a[:, 0] >> U64(63)
    doubled[:, 0] = a[:, 0] << _ONE ^ (a[:, 1] >> U64(63)) * U64(0x87)
    return session.ot.hash.expand(doubled ^ b, first, 1)


# ------------------------------------------------------------- C2's labels


def _send_labels(session: Session, offset: U64Array, count: int) -> Labels:
    """Labels of 0 of `count` wires whose bits C2 has: H(q); C2 is sent H(q) ^ H(q ^ D) ^ R."""
    nothing = np.zeros(padded(count, BLOCK) // WORD, U64)
    (made,) = session.ot.chosen([nothing])
    first = session.ot.tweaks.reserve(len(made.q))
    zero = session.ot.hash.expand(made.q, first, session.role)
    one = session.ot.hash.expand(made.q ^ session.ot.delta, first, session.role)
    session.link.send(_TRANSFER, zero ^ one ^ offset)
    return zero[:count]


def _receive_labels(session: Session, bits: Bits) -> Labels:
    """The labels of these bits."""
    full = np.pad(bits, (0, padded(len(bits), BLOCK) - len(bits)))
    (made,) = session.ot.chosen([pack(full)])
    first = session.ot.tweaks.reserve(len(made.t))
    own = session.ot.hash.expand(made.t, first, session.ot.peer)
    sent = session.link.receive(_TRANSFER, U64, *own.shape)
    return np.where(full[:, None] > 0, own ^ sent, own)[: len(bits)]
