"""Taking in a shard, once: from t + r at C1 and r at C2 to shares that every iteration uses.

1. The low b = bits(ub) bits of (t + r) - r by a ripple subtractor give XOR-shared bits of t.
   Whatever an owner uploads is thereby a number of b bits.
2. Static transfers: one row of OT extension per bit of t and direction, with that bit as choice.
   The keys serve all iterations; only their expansions are new each time.
3. Additive shares of t modulo 2^(64 L): each bit times 2^j by correlated transfers from C1.

Who learns what: nothing. Rounds: b + 3 per chunk of rows. Bytes per value: 4 b each way for the
transfers, 8 b L from C1 to C2, and b/2 for the subtractor with its offline part. Memory: 32 b
bytes per value for the keys (on disk beyond a budget) and 8 L + 4 for the shares.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.mpc import and_triples, correlated_ot
from ppodc.mpc.additive import U64, AdditiveShare, Words, limbs_of
from ppodc.mpc.correlated_ot import Batch, Sending
from ppodc.mpc.ot_extension import CHUNK
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget, Spool
from ppodc.mpc.supplies import Needs, Stock
from ppodc.mpc.xor_bits import BLOCK, WORD, XorShare, pack, padded, unpack

_VALUES = 1 << 19  # values taken in at a time


@dataclass(slots=True, repr=False)
class Shard:
    """One cloud's shares of a shard's records, and the keys of their static transfers."""

    rows: int
    attributes: int
    bits: int  # per value
    limbs: int
    top: int  # bytes of the last limb that count
    values: Spool  # additive shares: rows x (l * L) words
    xor: Spool  # XOR shares: rows x l words of 32 bits
    sender_keys: Spool
    receiver_keys: Spool
    delta: Words
    hot: list[tuple[int, list[XorShare]]] = field(default_factory=list)  # of the last `assign`

    @property
    def per_row(self) -> int:
        """Static transfers per row and direction."""
        return self.attributes * self.bits

    def additive(self, start: int, end: int) -> AdditiveShare:
        """Additive shares of rows start..end-1: (rows, l)."""
        words = self.values.read(start, end)
        return AdditiveShare(words.reshape(end - start, self.attributes, self.limbs))

    def choices(self, start: int, end: int) -> NDArray[np.uint8]:
        """This cloud's shares of the bits of rows start..end-1, a byte per bit."""
        words = self.xor.read(start, end)
        bytes_ = np.ascontiguousarray(words, "<u4").view(np.uint8)
        shape = (end - start, self.attributes, 4)
        bits = np.unpackbits(bytes_.reshape(shape), axis=-1, count=self.bits, bitorder="little")
        return bits.reshape(-1)

    def close(self) -> None:
        for spool in (self.values, self.xor, self.sender_keys, self.receiver_keys):
            spool.close()


@dataclass(frozen=True, slots=True, repr=False)
class StaticKeys:
    """The static transfers of a shard from one row on."""

    shard: Shard
    first: int

    def as_sender(self, start: int, end: int) -> tuple[Words, Words]:
        keys = self.shard.sender_keys.read(self.first + start, self.first + end)
        return keys, keys ^ self.shard.delta

    def as_receiver(self, start: int, end: int) -> Words:
        keys: Words = self.shard.receiver_keys.read(self.first + start, self.first + end)
        return keys


def needs(rows: int, attributes: int, bits: int) -> Needs:
    """Supplies for taking in a shard."""
    step = _step(attributes)
    full, rest = divmod(rows, step)
    words = full * padded(step * attributes, WORD) + padded(rest * attributes, WORD)
    return Needs(pairs=(bits - 1) * words // WORD)


def ingest(
    session: Session,
    stock: Stock,
    share: NDArray[np.uint64],
    bits: int,
    limbs: int,
    top: int,
    budget: Budget,
) -> Shard:
    """A shard from this cloud's share (rows, l): t + r at C1, r at C2.

    Its distances take `limbs` limbs, of the last of which `top` bytes count.
    """
    if share.ndim != 2 or share.dtype != np.uint64:
        raise InputError("a shard must be a two-dimensional array of 64-bit unsigned integers.")
    rows, attributes = share.shape
    transfers = rows * attributes * bits
    shard = Shard(
        rows,
        attributes,
        bits,
        limbs,
        top,
        Spool(rows, attributes * limbs, np.uint64, budget),
        Spool(rows, attributes, np.uint32, budget),
        Spool(transfers, 2, np.uint64, budget),
        Spool(transfers, 2, np.uint64, budget),
        session.sender.delta,
    )
    step = _step(attributes)
    for start in range(0, rows, step):
        end = min(start + step, rows)
        values = np.ascontiguousarray(share[start:end]).reshape(-1)
        words = _low_bits(session, stock, values, bits)
        shard.xor.append(words.reshape(end - start, attributes))
        choices = shard.choices(start, end)
        _static_transfers(session, shard, choices)
        shard.values.append(_additive(session, shard, choices, start, end))
    return shard


def _step(attributes: int) -> int:
    return max(1, _VALUES // attributes)


def _low_bits(session: Session, stock: Stock, values: Words, bits: int) -> NDArray[np.uint32]:
    """XOR shares of the low bits of C1's number minus C2's: x + not(r) + 1, bit by bit."""
    own = np.stack([pack(((values >> U64(j)) & U64(1)).astype(np.uint8)) for j in range(bits)])
    if session.role == 2:
        own = ~own
    carry = XorShare(np.zeros_like(own[0])).negated(session.role)
    out = np.empty_like(own)
    for j in range(bits):
        with_carry = XorShare(own[j]) ^ carry
        out[j] = with_carry.words
        if j + 1 < bits:
            # C1 knows x and C2 knows not(r): the other factor's share is the carry alone.
            x, y = (with_carry, carry) if session.role == 1 else (carry, with_carry)
            carry = carry ^ and_triples.and_one(session, stock, x, y)
    planes = unpack(out, len(values)).astype(np.uint32)
    words: NDArray[np.uint32] = planes[0]
    for j in range(1, bits):
        words |= planes[j] << np.uint32(j)
    return words


def _static_transfers(session: Session, shard: Shard, choices: NDArray[np.uint8]) -> None:
    """Keys whose choice bits are this cloud's shares of the bits of the records."""
    for start in range(0, len(choices), CHUNK):
        part = choices[start : start + CHUNK]
        missing = padded(len(part), BLOCK) - len(part)
        q, t = session.extend(pack(np.pad(part, (0, missing))))
        shard.sender_keys.append(q[: len(part)])
        shard.receiver_keys.append(t[: len(part)])


def _additive(
    session: Session, shard: Shard, choices: NDArray[np.uint8], start: int, end: int
) -> Words:
    """Additive shares of t from its XOR-shared bits: rows x (l * L) words."""
    sums = np.zeros(((end - start) * shard.attributes, shard.limbs), U64)
    first = session.tweaks.reserve(len(choices))
    # The sums over records need the values modulo 2^64, whatever the distances need.
    top = 8 if shard.limbs == 1 else shard.top
    batch = Batch(len(choices), shard.bits, shard.limbs, first, sums, top)
    keys = StaticKeys(shard, start * shard.per_row)
    if session.role == 1:
        powers = limbs_of([1 << j for j in range(shard.bits)], shard.limbs)
        sending = Sending(powers, choices, np.zeros_like(choices))
        correlated_ot.run(session, keys, batch, sending, None)
    else:
        correlated_ot.run(session, keys, batch, None, choices)
    return sums.reshape(end - start, shard.attributes * shard.limbs)
