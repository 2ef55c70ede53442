"""Shared bits times shared rows of bits, added up modulo 2: no AND, one short transfer a bit.

For each transfer o with a shared bit x_o = u_o ^ v_o (u at C1, v at C2) and a shared row of bits
Y_o = Y1 ^ Y2, both clouds get XOR shares of the sum over a group of x_o Y_o:

    x Y = (u ^ v) Y1 ^ (u ^ v) Y2

of which u Y1 and v Y2 are local and v Y1, u Y2 are transfers, one in each direction. With pads
p0, p1 = H(keys), of which the receiver has p_v, the sender sends p0 ^ p1 ^ Y and keeps p0; the
receiver has p_v ^ v (p0 ^ p1 ^ Y) = p0 ^ v Y.

Who learns what: nothing; the message is masked by the pad that the receiver does not have.
Rounds: 1 (parts overlap). Bytes per transfer and direction: the row of bits. Operations: two pads
as sender, one as receiver, a hash block per 128 bits of the row.
"""

import numpy as np

from ppodc.mpc.ot.correlated_ot import Bits, Keys
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.xor_bits import XorShare

_MESSAGE = "shares.bit-products"
_PART_BYTES = 1 << 20
_NONE = U64(0)


def products(session: Session, keys: Keys, bits: Bits, rows: U64Array, group: int) -> XorShare:
    """Sums over `group` bits in a row of bit o times rows[o % len(rows)]: (groups, words).

    `keys` are transfers whose choices are this cloud's `bits`; rows (R, words) are its shares.
    """
    count, (_, words) = len(bits), rows.shape
    first = session.ot.tweaks.reserve(count)
    out = np.zeros((count // group, words), U64)
    step = group * max(1, _PART_BYTES // (8 * words * group))
    spans = [(at, min(at + step, count)) for at in range(0, count, step)]
    # The peer's message is awaited only after the next own one is on its way.
    for number in range(len(spans) + 1):
        if number < len(spans):
            _send(session, keys, bits, rows, group, first, spans[number], out)
        if number > 0:
            _receive(session, keys, bits, group, first, spans[number - 1], out)
    return XorShare(out)


def _send(
    session: Session,
    keys: Keys,
    bits: Bits,
    rows: U64Array,
    group: int,
    first: int,
    span: tuple[int, int],
    out: U64Array,
) -> None:
    start, end = span
    words = rows.shape[1]
    zero, one = keys.as_sender(start, end)
    pads = _pads(session, zero, first + start, session.role, words)
    message = _pads(session, one, first + start, session.role, words)
    own = rows[np.arange(start, end) % len(rows)]
    # p0 ^ p1 ^ Y to the peer, p0 ^ u Y here
    message ^= pads
    message ^= own
    session.link.send(_MESSAGE, message)
    own &= _mask(bits[start:end])
    pads ^= own
    _add(pads, group, start, out)


def _receive(
    session: Session,
    keys: Keys,
    bits: Bits,
    group: int,
    first: int,
    span: tuple[int, int],
    out: U64Array,
) -> None:
    start, end = span
    words = out.shape[1]
    message = session.link.receive(_MESSAGE, U64, end - start, words)
    pads = _pads(session, keys.as_receiver(start, end), first + start, session.ot.peer, words)
    # p_v ^ v (p0 ^ p1 ^ Y)
    pads ^= message & _mask(bits[start:end])
    _add(pads, group, start, out)


def _pads(session: Session, keys: U64Array, first: int, sender: int, words: int) -> U64Array:
    """As many words of pad as a row has, for each key."""
    blocks = -(-words // 2)
    return session.ot.hash.expand(keys, first, sender, blocks)[:, :words]


def _mask(bits: Bits) -> U64Array:
    """All ones where a bit is 1: (n, 1)."""
    return (_NONE - bits.astype(U64))[:, None]


def _add(rows: U64Array, group: int, start: int, out: U64Array) -> None:
    parts = rows.reshape(len(rows) // group, group, -1)
    at = start // group
    out[at : at + len(parts)] ^= np.bitwise_xor.reduce(parts, axis=1)
