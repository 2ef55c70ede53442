"""Taking in a table of small numbers, once: from t + r at C1 and r at C2 to shares of t.

Additive shares modulo 2^(64 L) of min(t mod 2^b, u) by `bounded`: whatever was uploaded is thereby
a number of 0..u, or of b bits where no largest value u is given.

Made only if someone asks, alike at both clouds:

1. XOR-shared bits of t, from its additive shares by a ripple adder of b bits (`low_bits`).
2. Static transfers (`static_ot`) with these bits as choices; they serve any later step in which
   the bits of t choose.

Who learns what: nothing; whether a value was too large stays shared. Rounds per chunk of values:
those of `bounded`; b for the bits, 1 for the transfers. Bytes per value and direction: those of
`bounded`; b/2 and 4 b. Supplies: see `needs`. Memory: 8 L bytes per value for the shares; 4 and
32 b more for bits and keys (all on disk beyond a budget).
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.static_ot import StaticTransfers
from ppodc.mpc.session import Session
from ppodc.mpc.shares import and_bits
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.bounded import bounded
from ppodc.mpc.shares.bounded import needs as bounded_needs
from ppodc.mpc.shares.xor_bits import WORD, XorShare, pack, padded
from ppodc.mpc.spill import Budget, Spool
from ppodc.mpc.supplies import Needs

MAX_BITS = 32
VALUES = 1 << 18  # values taken in at a time


@dataclass(slots=True, repr=False)
class SharedTable:
    """One cloud's shares of a table; bits and transfers whose choices they are on demand.

    Bits and transfers are numbered row by row, column by column, lowest bit first. They are made
    for the whole table when they are asked for first, so both clouds must ask alike.
    """

    session: Session
    rows: int
    columns: int
    bits: int  # per value
    limbs: int  # of the additive shares
    values: Spool  # additive shares: rows x (columns * limbs) words
    budget: Budget
    xor: Spool | None = None  # XOR shares: rows x columns words of 32 bits
    keys: StaticTransfers | None = None

    @property
    def per_row(self) -> int:
        """Bits, and static transfers per direction, of a row."""
        return self.columns * self.bits

    def additive(self, start: int, end: int) -> AdditiveShare:
        """Additive shares of rows start..end-1: (rows, columns)."""
        words = self.values.read(start, end)
        return AdditiveShare(words.reshape(end - start, self.columns, self.limbs))

    def choices(self, start: int, end: int) -> Bits:
        """This cloud's shares of the bits of rows start..end-1, a byte per bit."""
        if self.xor is None:
            self.xor = self._bits()
        words = np.ascontiguousarray(self.xor.read(start, end), "<u4").view(np.uint8)
        shape = (end - start, self.columns, MAX_BITS // 8)
        bits = np.unpackbits(words.reshape(shape), axis=-1, count=self.bits, bitorder="little")
        return bits.reshape(-1)

    @property
    def transfers(self) -> StaticTransfers:
        """Transfers whose choices are all bits."""
        if self.keys is None:
            self.keys = StaticTransfers(self.session.ot, self.rows * self.per_row, self.budget)
            for start, end in _stretches(self.rows, self.columns):
                self.keys.append(self.choices(start, end))
        return self.keys

    def forget_bits(self) -> None:
        """Bits and transfers go, until somebody asks for them again."""
        for held in (self.xor, self.keys):
            if held is not None:
                held.close()
        self.xor = self.keys = None

    def close(self) -> None:
        """Forget all shares and keys."""
        self.values.close()
        self.forget_bits()

    def _bits(self) -> Spool:
        """The bits of t = t1 + t2 modulo 2^b."""
        xor = Spool(self.rows, self.columns, np.uint32, self.budget)
        for start, end in _stretches(self.rows, self.columns):
            own = self.additive(start, end).limbs[..., 0].reshape(-1)
            bits = low_bits(self.session, own if self.session.role == 1 else -own, self.bits)
            xor.append(_woven(bits).reshape(end - start, self.columns))
        return xor


def needs(rows: int, columns: int, bits: int, largest: int | None = None) -> Needs:
    """Supplies for taking in a table."""
    total = Needs()
    for start, end in _stretches(rows, columns):
        total += bounded_needs((end - start) * columns, bits, largest)
    return total


def bit_needs(rows: int, columns: int, bits: int) -> Needs:
    """Supplies for the bits of a table."""
    stretches = _stretches(rows, columns)
    words = sum(padded((end - start) * columns, WORD) // WORD for start, end in stretches)
    return Needs(pairs=(bits - 1) * words)


def unmask(
    session: Session,
    share: NDArray[np.uint64],
    bits: int,
    budget: Budget,
    *,
    largest: int | None = None,
    limbs: int = 1,
    top: int = 8,
) -> SharedTable:
    """Shares of the table (rows, columns) of which this cloud has t + r (C1) or r (C2).

    A value is t mod 2^bits, or `largest` if it is more than that. The additive shares have `limbs`
    limbs, of the last of which `top` bytes (1, 2, 4, 8) count.
    """
    if share.ndim != 2 or share.dtype != np.uint64:
        raise InputError("a shard must be a two-dimensional array of 64-bit unsigned integers.")
    rows, columns = share.shape
    values = Spool(rows, columns * limbs, np.uint64, budget)
    for start, end in _stretches(rows, columns):
        own = np.ascontiguousarray(share[start:end]).reshape(-1)
        numbers = bounded(session, own, bits, largest, limbs, top)
        values.append(numbers.reshape(end - start, columns * limbs))
    return SharedTable(session, rows, columns, bits, limbs, values, budget)


def low_bits(session: Session, values: U64Array, bits: int) -> Bits:
    """XOR shares of the low bits of C1's numbers minus C2's: (n) -> (n, bits), a byte per bit."""
    return np.ascontiguousarray(_difference(session, values, bits).unpack(len(values)).T)


def _difference(session: Session, values: U64Array, bits: int) -> XorShare:
    """The low bits of C1's numbers minus C2's, lowest first: (bits, words).

    x - r = x + not(r) + 1 bit by bit, with carry c_0 = 1:
    s_j = x_j ^ not(r)_j ^ c_j and c_(j+1) = c_j ^ ((x_j ^ c_j) & (not(r)_j ^ c_j)).
    One round for each bit but the last.
    """
    own = np.stack([pack(((values >> U64(j)) & U64(1)).astype(np.uint8)) for j in range(bits)])
    if session.role == 2:
        own = ~own
    carry = XorShare(np.zeros_like(own[0])).negated(session.role)
    session.supplies.reserve(Needs(pairs=(bits - 1) * own.shape[1]))  # or each bit makes its own
    out = np.empty_like(own)
    for j in range(bits):
        with_carry = XorShare(own[j]) ^ carry
        out[j] = with_carry.words
        if j + 1 < bits:
            # C1 knows x and C2 knows not(r): the other factor's share is the carry alone.
            x, y = (with_carry, carry) if session.role == 1 else (carry, with_carry)
            carry = carry ^ and_bits.and_one(session, x, y)
    return XorShare(out)


def _stretches(rows: int, columns: int) -> list[tuple[int, int]]:
    """Rows taken in at a time, start and end."""
    return list(pairwise([*range(0, rows, max(1, VALUES // columns)), rows]))


def _woven(bits: Bits) -> NDArray[np.uint32]:
    """The bits (n, b) of each value in one word."""
    full = np.pad(bits, ((0, 0), (0, MAX_BITS - bits.shape[1])))
    words = np.packbits(full, axis=-1, bitorder="little").view("<u4")
    return words.astype(np.uint32, copy=False)
