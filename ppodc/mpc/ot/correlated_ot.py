"""Correlated transfers: shares of sum_o (u_o xor v_o) * x_o, or of sum_o v_o * x_o, in one round.

For each transfer o the sender holds a row x_o of numbers and its bit u_o, the receiver a bit v_o.
The sender has pads p0, p1 = H(keys), the receiver p_c for a random choice c of its own. With
C = (1 - 2u) x, that is x or -x, both send at once:

    sender    sends  y = p0 + C - p1      receiver  sends  f = v ^ c
    receiver  keeps  z = p_c + c y = p0 + c C  if f = 0, and -z if f = 1
    sender    keeps  u x - p0  if f = 0,  and  (1 - u) x + p0  if f = 1

f = 0: the sum is u x + c C = (u xor v) x, since v = c. f = 1: (1 - u) x - c C = u x + (1 - c) C,
and v = 1 - c. With all u = 0 it is v x. The sender keeps p0 until f is there. Keys whose choices
are v itself (`static_ot`) need no f.

Both directions run at once, in parts of 1 MB, of which 8 are on their way before one is awaited.

Who learns what: nothing. y is masked by the pad that the receiver lacks, f by the receiver's c.
*A sender that deviates* with y + d gives the receiver's share an error (-1)^f (v ^ f) d, a function
of its bit; a receiver that sends f ^ 1 has chosen v ^ 1, and one that adds d to z adds d. No
message of the honest cloud depends on any of it: y does not depend on f, nor f on y.

Rounds: 1. Bytes per transfer and direction: the row x_o, and a bit. Operations per transfer: two
pads as sender, one as receiver, of one hash block per two words of the row and one more.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.compiled import compiled, i64, in_u1, in_u8_2, inlined, out_u8_2
from ppodc.mpc.ot import lanes
from ppodc.mpc.ot.aes import BATCH_BLOCKS
from ppodc.mpc.ot.transfer import ObliviousTransfer
from ppodc.mpc.shares.additive import LIMB_BITS, U64, U64Array, add_carry, sub_borrow
from ppodc.mpc.shares.xor_bits import WORD, pack, unpack

Bits = NDArray[np.uint8]
_MESSAGE, _WISHES = "shares.correlated", "shares.choices"
_MESSAGE_BYTES = 1 << 20
_AHEAD_BYTES = 1 << 23  # on their way before the peer's messages are awaited
_WORD_BYTES = 8
_TOP_TYPES: dict[int, type[np.generic]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
}


class Keys(Protocol):
    """The keys of numbered transfers, in both directions."""

    @property
    def random(self) -> Bits | None:
        """The choices c that the receiver's keys are of; None if they are those of each use."""

    def as_sender(self, start: int, end: int) -> tuple[U64Array, U64Array]:
        """Both keys of transfers start..end-1: (n, 2) each."""

    def as_receiver(self, start: int, end: int) -> U64Array:
        """The chosen keys."""


@dataclass(frozen=True, slots=True, repr=False)
class Sending:
    """A sender's part: transfer o carries row o % len(rows), and its bit u is signs[o]."""

    rows: NDArray[Any]  # (R, columns * limbs), of the type of the sums
    signs: Bits


@dataclass(frozen=True, slots=True, repr=False)
class Batch:
    """A run of transfers and its sums: transfer o goes to row o // group of `sums`.

    Of the last limb of every number only `top` bytes (1, 2, 4 or 8) are computed and sent: sums
    are right modulo 2^(64 (limbs - 1) + 8 top), and their higher bits mean nothing. Sums of one
    limb and groups of one may be of the type of `top` bytes, as rows then are (`lanes`).
    """

    count: int
    group: int
    limbs: int
    first: int  # instance number of transfer 0
    sums: NDArray[Any]  # (count / group, columns * limbs), added to in place
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
    def narrow(self) -> bool:
        """Whether rows, messages and sums are lanes of `top` bytes."""
        return self.group == self.limbs == 1 and self.sums.itemsize == self.top < _WORD_BYTES

    @property
    def row_bytes(self) -> int:
        """Bytes of a message for one transfer."""
        return self.columns * (8 * (self.limbs - 1) + self.top)


def top_bytes(bits: int) -> int:
    """Bytes of the last limb that numbers of this many bits need, rounded up to a machine type."""
    needed = -(-bits // 8) - 8 * ((bits - 1) // LIMB_BITS)
    return next(size for size in _TOP_TYPES if size >= needed)


@dataclass(frozen=True, slots=True, repr=False)
class Run:
    """Transfers to send (unless `sending` is None) and to receive (unless `choices` is None)."""

    keys: Keys
    batch: Batch
    sending: Sending | None
    choices: Bits | None  # v


def run(
    ot: ObliviousTransfer,
    keys: Keys,
    batch: Batch,
    sending: Sending | None,
    choices: Bits | None,
) -> None:
    """Send and receive all transfers of one `Run`."""
    run_all(ot, [Run(keys, batch, sending, choices)])


def run_all(ot: ObliviousTransfer, runs: Iterable[Run]) -> None:
    """Send and receive the transfers of several runs, without waiting between them.

    Runs are asked for one after the other, so that their tables need not be there at once.
    """
    finish = begin_all(ot, runs)
    ot.link.turn()
    finish()


def begin_all(ot: ObliviousTransfer, runs: Iterable[Run]) -> Callable[[], None]:
    """Send as `run_all` does; the rest is received when the result is called.

    Until then other messages may be sent, but none received that the peer sent later.
    """
    waiting: deque[tuple[int, Callable[[], None]]] = deque()
    ahead = 0
    for each in runs:
        for size, send, receive in _Running(ot, each).messages():
            send()
            waiting.append((size, receive))
            ahead += size
            while ahead > _AHEAD_BYTES:
                size, awaited = waiting.popleft()
                awaited()
                ahead -= size

    def finish() -> None:
        for _, rest in waiting:
            rest()

    return finish


@dataclass(slots=True, repr=False)
class _Running:
    """One run on its way: the peer's wishes f when they are known, and pads p0 until then."""

    ot: ObliviousTransfer
    each: Run
    flips: Bits | None = None
    kept: list[tuple[int, U64Array]] = field(default_factory=list)

    def messages(self) -> Iterator[tuple[int, Callable[[], None], Callable[[], None]]]:
        """Bytes of each message, how it is sent, and how the peer's of this number is received."""
        batch = self.each.batch
        step = max(64, _MESSAGE_BYTES // batch.row_bytes)
        yield batch.count // 8, self._send_wishes, self._receive_wishes
        for start in range(0, batch.count, step):
            end = min(start + step, batch.count)
            yield (
                (end - start) * batch.row_bytes,
                partial(self._send, start, end),
                partial(self._receive, start, end),
            )

    def _send_wishes(self) -> None:
        """f = v ^ c of all transfers."""
        random, choices = self.each.keys.random, self.each.choices
        if random is None:
            self.flips = np.zeros(self.each.batch.count, np.uint8)
        elif choices is not None:
            self.ot.link.send(_WISHES, pack(choices ^ random))

    def _receive_wishes(self) -> None:
        count = self.each.batch.count
        if self.each.keys.random is not None and self.each.sending is not None:
            words = self.ot.link.receive(_WISHES, np.uint64, -(-count // WORD))
            self.flips = unpack(words, count)
            for at, pads in self.kept:
                self._keep(at, pads, self.flips)
            self.kept.clear()

    def _send(self, start: int, end: int) -> None:
        """y of some transfers; the own share follows now or when f is known."""
        ot, batch, sending = self.ot, self.each.batch, self.each.sending
        if sending is None:
            return
        full = np.empty((end - start, batch.columns * (batch.limbs - 1)), U64)
        last = np.empty((end - start, batch.columns), batch.sums.dtype)
        step = max(1, BATCH_BLOCKS // batch.blocks)
        for at in range(start, end, step):
            to, tweak = min(at + step, end), batch.first + at
            zero, one = self.each.keys.as_sender(at, to)
            pads = ot.hash.expand(zero, tweak, ot.role, batch.blocks)
            others = ot.hash.expand(one, tweak, ot.role, batch.blocks)
            signs, rows, part = sending.signs[at:to], sending.rows, slice(at - start, to - start)
            if batch.narrow:
                kind = rows.dtype
                lanes.message(kind)(pads.view(kind), others.view(kind), signs, rows, at, last[part])
            else:
                shape = batch.limbs, batch.top
                _message(pads, others, signs, rows, at, *shape, full[part], last[part])
            if self.flips is None:
                self.kept.append((at, pads))
            else:
                self._keep(at, pads, self.flips)
        ot.link.send(_MESSAGE, full, last.astype(_TOP_TYPES[batch.top], copy=False))

    def _keep(self, at: int, pads: U64Array, flips: Bits) -> None:
        batch, sending = self.each.batch, self.each.sending
        if sending is not None:
            part, rows, sums = slice(at, at + len(pads)), sending.rows, batch.sums
            own = flips[part], sending.signs[part], rows, at
            if batch.narrow:
                lanes.keep(sums.dtype)(pads.view(sums.dtype), *own, sums)
            else:
                _keep(pads, *own, batch.group, batch.limbs, batch.top, sums)

    def _receive(self, start: int, end: int) -> None:
        """The own share of some transfers, from the peer's y."""
        ot, batch, keys = self.ot, self.each.batch, self.each.keys
        choices = self.each.choices
        if choices is None:
            return
        size, kind = end - start, _TOP_TYPES[batch.top]
        full, small = ot.link.receive_two(
            _MESSAGE,
            (U64, (size, batch.columns * (batch.limbs - 1))),
            (kind, (size, batch.columns)),
        )
        last = small.astype(batch.sums.dtype, copy=False)
        random = choices if keys.random is None else keys.random
        step = max(1, BATCH_BLOCKS // batch.blocks)
        for at in range(start, end, step):
            to = min(at + step, end)
            pads = ot.hash.expand(keys.as_receiver(at, to), batch.first + at, ot.peer, batch.blocks)
            part, flips = slice(at - start, to - start), choices[at:to] ^ random[at:to]
            own, sums = (random[at:to], flips), batch.sums
            if batch.narrow:
                lanes.receive(sums.dtype)(pads.view(sums.dtype), *own, last[part], at, sums)
            else:
                shape = batch.group, batch.limbs, batch.top
                _receive(pads, *own, full[part], last[part], at, *shape, sums)


@inlined
def _last(pads: U64Array, o: int, full: int, column: int, top: int) -> np.uint64:
    """The pad of a column's last limb: `top` bytes, packed behind the full limbs."""
    at = column * top
    return U64(pads[o, full + (at >> 3)] >> U64(8 * (at & 7)))


@compiled(in_u8_2, in_u8_2, in_u1, in_u8_2, i64, i64, i64, out_u8_2, out_u8_2)
def _message(
    zero: U64Array,
    one: U64Array,
    signs: Bits,
    rows: U64Array,
    start: int,
    limbs: int,
    top: int,
    out: U64Array,
    last: U64Array,
) -> None:
    """The messages p0 + C - p1, limb by limb with carries."""
    row = start % rows.shape[0]
    inner = limbs - 1
    full = out.shape[1]
    for o in range(last.shape[0]):
        minus = U64(signs[o])
        mask = U64(0) - minus
        for column in range(last.shape[1]):
            plus, borrow = minus, U64(0)
            for e in range(inner):
                i, j = column * inner + e, column * limbs + e
                t, plus = add_carry(zero[o, i], rows[row, j] ^ mask, plus)
                out[o, i], borrow = sub_borrow(t, one[o, i], borrow)
            p0, p1 = _last(zero, o, full, column, top), _last(one, o, full, column, top)
            x = rows[row, column * limbs + inner] ^ mask
            last[o, column] = p0 + x + plus - p1 - borrow
        row += 1
        if row == rows.shape[0]:
            row = 0


@compiled(in_u8_2, in_u1, in_u1, in_u8_2, i64, i64, i64, i64, out_u8_2)
def _keep(
    zero: U64Array,
    flips: Bits,
    signs: Bits,
    rows: U64Array,
    start: int,
    group: int,
    limbs: int,
    top: int,
    sums: U64Array,
) -> None:
    """u x - p0 where f = 0 and (1 - u) x + p0 where f = 1 into the sums."""
    row, total = start % rows.shape[0], start // group
    left = group - start % group
    inner, columns = limbs - 1, sums.shape[1] // limbs
    full = columns * inner
    for o in range(flips.shape[0]):
        flip = U64(flips[o])
        less = flip ^ U64(1)
        invert = U64(0) - less  # -p0 is ~p0 + 1
        mask = U64(0) - (U64(signs[o]) ^ flip)
        for column in range(columns):
            first, second = less, U64(0)
            for e in range(inner):
                i, j = column * inner + e, column * limbs + e
                t, first = add_carry(sums[total, j], zero[o, i] ^ invert, first)
                sums[total, j], second = add_carry(t, rows[row, j] & mask, second)
            j = column * limbs + inner
            p0 = _last(zero, o, full, column, top) ^ invert
            sums[total, j] += p0 + first + (rows[row, j] & mask) + second
        row += 1
        if row == rows.shape[0]:
            row = 0
        left -= 1
        if left == 0:
            left = group
            total += 1


@compiled(in_u8_2, in_u1, in_u1, in_u8_2, in_u8_2, i64, i64, i64, i64, out_u8_2)
def _receive(
    pads: U64Array,
    random: Bits,
    wishes: Bits,
    message: U64Array,
    last: U64Array,
    start: int,
    group: int,
    limbs: int,
    top: int,
    sums: U64Array,
) -> None:
    """z = p_c + c y where f = 0 and -z where f = 1 into the sums."""
    total = start // group
    left = group - start % group
    inner = limbs - 1
    for o in range(last.shape[0]):
        mask, minus = U64(0) - U64(random[o]), U64(wishes[o])
        invert = U64(0) - minus  # -z is ~z + 1
        for column in range(last.shape[1]):
            first, second = U64(0), minus
            for e in range(inner):
                i, j = column * inner + e, column * limbs + e
                z, first = add_carry(pads[o, i], message[o, i] & mask, first)
                sums[total, j], second = add_carry(sums[total, j], z ^ invert, second)
            z = _last(pads, o, message.shape[1], column, top) + (last[o, column] & mask) + first
            sums[total, column * limbs + inner] += (z ^ invert) + second
        left -= 1
        if left == 0:
            left = group
            total += 1
