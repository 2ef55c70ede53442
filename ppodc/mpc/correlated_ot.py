"""Correlated transfers: shares of sum_o (u_o xor v_o) * x_o, or of sum_o v_o * x_o.

For each transfer o the sender holds a row x_o of numbers and its bit u_o, the receiver a bit v_o.
With pads p0, p1 = H(keys), of which the receiver knows p_v, and c = (1 - 2u) x, that is x or -x:

    sender    sends  y = p0 + c - p1     keeps  u x - p0
    receiver  has    p_v + v y = p0 + v c   (p0 where v = 0; p1 + p0 + c - p1 where v = 1)

These add up to u x + v (1 - 2u) x = (u xor v) x. With all u = 0 it is v x.

Both directions run at once, in batches: a cloud sends a batch before it waits for the peer's.

Who learns what: nothing; the message is masked by the pad that the receiver does not have.
Rounds: 1 (batches overlap). Bytes per transfer and direction: the row x_o. Operations per
transfer: two pads as sender, one as receiver, one hash block per two words of the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.additive import LIMB_BITS, U64, Words, add_carry, sub_borrow
from ppodc.mpc.aes import BATCH_BLOCKS
from ppodc.mpc.compiled import compiled, i64, in_u1, in_u8_2, inlined, out_u8_2
from ppodc.mpc.oblivious_transfer import ObliviousTransfer

Bits = NDArray[np.uint8]
_MESSAGE = "shares.correlated"
_MESSAGE_BYTES = 1 << 20
_TOP_TYPES: dict[int, type[np.generic]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
}


class Keys(Protocol):
    """The keys of numbered transfers, in both directions."""

    def as_sender(self, start: int, end: int) -> tuple[Words, Words]:
        """Both keys of transfers start..end-1: (n, 2) each."""

    def as_receiver(self, start: int, end: int) -> Words:
        """The chosen keys."""


@dataclass(frozen=True, slots=True, repr=False)
class Sending:
    """A sender's part: transfer o carries row o % len(rows), negated where signs[o] is 1.

    flips[o] is 1 where the receiver asks for the keys to change places.
    """

    rows: Words  # (R, columns * limbs)
    signs: Bits
    flips: Bits


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """What a run of transfers adds up to: transfer o goes to row o // group of `sums`.

    Of the last limb of every number only `top` bytes (1, 2, 4 or 8) are computed and sent: sums
    are right modulo 2^(64 (limbs - 1) + 8 top), and their higher bits mean nothing.
    """

    count: int
    group: int
    limbs: int
    first: int  # instance number of transfer 0
    sums: Words  # (count / group, columns * limbs), added to in place
    top: int = 8

    @property
    def columns(self) -> int:
        """Numbers in a row."""
        return int(self.sums.shape[1]) // self.limbs

    @property
    def blocks(self) -> int:
        """Hash blocks of a pad: the full limbs of all columns, then their last limbs, packed."""
        full = self.columns * (self.limbs - 1)
        return -(-(full + -(-self.columns * self.top // 8)) // 2)

    @property
    def row_bytes(self) -> int:
        """Bytes of a message for one transfer."""
        return self.columns * (8 * (self.limbs - 1) + self.top)


def top_bytes(bits: int) -> int:
    """Bytes of the last limb that numbers of so many bits need, rounded up to a machine type."""
    needed = -(-bits // 8) - 8 * ((bits - 1) // LIMB_BITS)
    return next(size for size in _TOP_TYPES if size >= needed)


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """Transfers to send (unless `sending` is None) and to receive (unless `choices` is None)."""

    keys: Keys
    batch: Batch
    sending: Sending | None
    choices: Bits | None


def run(
    ot: ObliviousTransfer,
    keys: Keys,
    batch: Batch,
    sending: Sending | None,
    choices: Bits | None,
) -> None:
    """Send and receive all transfers of one `Run`."""
    run_all(ot, [Run(keys, batch, sending, choices)])


def run_all(ot: ObliviousTransfer, runs: Sequence[Run]) -> None:
    """Send and receive the transfers of several runs, without waiting between them."""
    parts = [part for each in runs for part in _parts(each)]
    # The peer's message is awaited only after the next own one is on its way.
    for number in range(len(parts) + 1):
        if number < len(parts):
            each, span, scratch = parts[number]
            if each.sending is not None:
                _send_part(ot, each.keys, each.batch, each.sending, span, scratch)
        if number > 0:
            each, span, scratch = parts[number - 1]
            if each.choices is not None:
                _receive_part(ot, each.keys, each.batch, each.choices, span, scratch)


def _parts(each: Run) -> list[tuple[Run, tuple[int, int], "_Scratch"]]:
    """Messages of a run: which transfers, and room for their pads."""
    batch = each.batch
    step = max(64, _MESSAGE_BYTES // batch.row_bytes)
    scratch = _Scratch(min(step, batch.count), batch)
    spans = [(at, min(at + step, batch.count)) for at in range(0, batch.count, step)]
    return [(each, span, scratch) for span in spans]


class _Scratch:
    """Room for the pads and the messages of one part."""

    def __init__(self, rows: int, batch: Batch) -> None:
        self.step = min(max(1, BATCH_BLOCKS // batch.blocks), rows)
        self.pads = np.empty((2, self.step * batch.blocks, 2), U64)
        self.full = np.empty((rows, batch.columns * (batch.limbs - 1)), U64)
        self.last = np.empty((rows, batch.columns), U64)


def _send_part(
    ot: ObliviousTransfer,
    keys: Keys,
    batch: Batch,
    sending: Sending,
    span: tuple[int, int],
    scratch: _Scratch,
) -> None:
    start, end = span
    for at in range(start, end, scratch.step):
        to = min(at + scratch.step, end)
        zero, one = keys.as_sender(at, to)
        tweak = batch.first + at
        _send(
            ot.hash.expand(zero, tweak, ot.role, batch.blocks, scratch.pads[0]),
            ot.hash.expand(one, tweak, ot.role, batch.blocks, scratch.pads[1]),
            sending.flips[at:to],
            sending.signs[at:to],
            sending.rows,
            at,
            batch.group,
            batch.limbs,
            batch.top,
            scratch.full[at - start : to - start],
            scratch.last[at - start : to - start],
            batch.sums,
        )
    size = end - start
    last = scratch.last[:size].astype(_TOP_TYPES[batch.top])
    ot.link.send(_MESSAGE, scratch.full[:size], last)


def _receive_part(
    ot: ObliviousTransfer,
    keys: Keys,
    batch: Batch,
    choices: Bits,
    span: tuple[int, int],
    scratch: _Scratch,
) -> None:
    start, end = span
    size, kind = end - start, _TOP_TYPES[batch.top]
    full, small = ot.link.receive_two(
        _MESSAGE,
        (U64, (size, batch.columns * (batch.limbs - 1))),
        (kind, (size, batch.columns)),
    )
    last = small.astype(U64)
    for at in range(start, end, scratch.step):
        to = min(at + scratch.step, end)
        pads = ot.hash.expand(
            keys.as_receiver(at, to), batch.first + at, ot.peer, batch.blocks, scratch.pads[0]
        )
        _receive(
            pads,
            choices[at:to],
            full[at - start : to - start],
            last[at - start : to - start],
            at,
            batch.group,
            batch.limbs,
            batch.top,
            batch.sums,
        )


@inlined
def _last(pads: Words, o: int, full: int, column: int, top: int) -> np.uint64:
    """The pad of a column's last limb: `top` bytes, packed behind the full limbs."""
    at = column * top
    return U64(pads[o, full + (at >> 3)] >> U64(8 * (at & 7)))


@compiled(in_u8_2, in_u8_2, in_u1, in_u1, in_u8_2, i64, i64, i64, i64, out_u8_2, out_u8_2, out_u8_2)
def _send(
    zero: Words,
    one: Words,
    flips: Bits,
    signs: Bits,
    rows: Words,
    start: int,
    group: int,
    limbs: int,
    top: int,
    out: Words,
    last: Words,
    sums: Words,
) -> None:
    """The messages p0 + c - p1, and u x - p0 into the sums, limb by limb with carries."""
    row, total = start % rows.shape[0], start // group
    left = group - start % group
    inner = limbs - 1
    full = out.shape[1]
    for o in range(last.shape[0]):
        swap = U64(0) - U64(flips[o])
        minus = U64(signs[o])
        mask = U64(0) - minus
        for column in range(last.shape[1]):
            plus, borrow, down, up = minus, U64(0), U64(0), U64(0)
            for e in range(inner):
                i, j = column * inner + e, column * limbs + e
                change = (zero[o, i] ^ one[o, i]) & swap
                p0, p1 = zero[o, i] ^ change, one[o, i] ^ change
                x = rows[row, j]
                t, plus = add_carry(p0, x ^ mask, plus)
                out[o, i], borrow = sub_borrow(t, p1, borrow)
                t, down = sub_borrow(sums[total, j], p0, down)
                sums[total, j], up = add_carry(t, x & mask, up)
            p0, p1 = _last(zero, o, full, column, top), _last(one, o, full, column, top)
            change = (p0 ^ p1) & swap
            p0, p1 = p0 ^ change, p1 ^ change
            j = column * limbs + inner
            x = rows[row, j]
            last[o, column] = p0 + (x ^ mask) + plus - p1 - borrow
            sums[total, j] += (x & mask) + up - p0 - down
        row += 1
        if row == rows.shape[0]:
            row = 0
        left -= 1
        if left == 0:
            left = group
            total += 1


@compiled(in_u8_2, in_u1, in_u8_2, in_u8_2, i64, i64, i64, i64, out_u8_2)
def _receive(
    pads: Words,
    choices: Bits,
    message: Words,
    last: Words,
    start: int,
    group: int,
    limbs: int,
    top: int,
    sums: Words,
) -> None:
    """p_v + v (p0 + c - p1) into the sums, limb by limb with carries."""
    total = start // group
    left = group - start % group
    inner = limbs - 1
    for o in range(last.shape[0]):
        mask = U64(0) - U64(choices[o])
        for column in range(last.shape[1]):
            first, second = U64(0), U64(0)
            for e in range(inner):
                i, j = column * inner + e, column * limbs + e
                t, first = add_carry(sums[total, j], pads[o, i], first)
                sums[total, j], second = add_carry(t, message[o, i] & mask, second)
            pad = _last(pads, o, message.shape[1], column, top)
            sums[total, column * limbs + inner] += pad + first + (last[o, column] & mask) + second
        left -= 1
        if left == 0:
            left = group
            total += 1
