"""Taking in a table of small numbers, once: from t + r at C1 and r at C2 to shares of t.

1. The low b bits of (t + r) - r by a ripple subtractor give XOR-shared bits of t. Whatever was
   uploaded is thereby a number of b bits.
2. Static transfers (`static_ot`) with these bits as choices; they serve any later step in which
   the bits of t choose.
3. Additive shares of t modulo 2^(64 L): sum_j 2^j tbit_j by correlated transfers from C1.

Who learns what: nothing. Rounds: b + 3 per chunk of rows. Bytes per value: 4 b each way for the
transfers, 8 b L from C1 to C2, and b/2 for the subtractor with its offline part. Supplies: b - 1
AND pairs per value. Memory: 32 b bytes per value for the keys (on disk beyond a budget) and
8 L + 4 for the shares.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.mpc import and_bits, correlated_ot
from ppodc.mpc.additive import U64, AdditiveShare, Words, limbs_of
from ppodc.mpc.correlated_ot import Batch, Bits, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget, Spool
from ppodc.mpc.static_ot import StaticTransfers
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import WORD, XorShare, pack, padded

MAX_BITS = 32
_VALUES = 1 << 19  # values taken in at a time


@dataclass(frozen=True, slots=True, repr=False)
class SharedTable:
    """One cloud's shares of a table, and the transfers whose choices are its bits.

    Bits and transfers are numbered row by row, column by column, lowest bit first.
    """

    rows: int
    columns: int
    bits: int  # per value
    limbs: int  # of the additive shares
    values: Spool  # additive shares: rows x (columns * limbs) words
    xor: Spool  # XOR shares: rows x columns words of 32 bits
    transfers: StaticTransfers

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
        words = np.ascontiguousarray(self.xor.read(start, end), "<u4").view(np.uint8)
        shape = (end - start, self.columns, MAX_BITS // 8)
        bits = np.unpackbits(words.reshape(shape), axis=-1, count=self.bits, bitorder="little")
        return bits.reshape(-1)

    def close(self) -> None:
        """Forget all shares and keys."""
        self.values.close()
        self.xor.close()
        self.transfers.close()


def needs(rows: int, columns: int, bits: int) -> Needs:
    """Supplies for taking in a table."""
    step = _step(columns)
    full, rest = divmod(rows, step)
    values = full * padded(step * columns, WORD) + padded(rest * columns, WORD)
    return Needs(pairs=(bits - 1) * values // WORD)


def unmask(
    session: Session,
    share: NDArray[np.uint64],
    bits: int,
    budget: Budget,
    *,
    limbs: int = 1,
    top: int = 8,
) -> SharedTable:
    """Shares of the table (rows, columns) of which this cloud has t + r (C1) or r (C2).

    The additive shares have `limbs` limbs, of the last of which `top` bytes (1, 2, 4, 8) count.
    """
    if share.ndim != 2 or share.dtype != np.uint64:
        raise InputError("a shard must be a two-dimensional array of 64-bit unsigned integers.")
    rows, columns = share.shape
    table = SharedTable(
        rows,
        columns,
        bits,
        limbs,
        Spool(rows, columns * limbs, np.uint64, budget),
        Spool(rows, columns, np.uint32, budget),
        StaticTransfers(session.ot, rows * columns * bits, budget),
    )
    step = _step(columns)
    for start in range(0, rows, step):
        end = min(start + step, rows)
        values = np.ascontiguousarray(share[start:end]).reshape(-1)
        choices = low_bits(session, values, bits)
        table.xor.append(_woven(choices).reshape(end - start, columns))
        table.transfers.append(choices.reshape(-1))
        table.values.append(_numbers(session, table, choices.reshape(-1), start, end, top))
    return table


def low_bits(session: Session, values: Words, bits: int) -> Bits:
    """XOR shares of the low bits of C1's numbers minus C2's: (n) -> (n, bits), a byte per bit.

    x - r = x + not(r) + 1 bit by bit, with carry c_0 = 1:
    s_j = x_j ^ not(r)_j ^ c_j and c_(j+1) = c_j ^ ((x_j ^ c_j) & (not(r)_j ^ c_j)).
    One round for each bit but the last.
    """
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
            carry = carry ^ and_bits.and_one(session, x, y)
    return np.ascontiguousarray(XorShare(out).unpack(len(values)).T)


def _step(columns: int) -> int:
    """Rows taken in at a time."""
    return max(1, _VALUES // columns)


def _woven(bits: Bits) -> NDArray[np.uint32]:
    """The bits (n, b) of each value in one word."""
    full = np.pad(bits, ((0, 0), (0, MAX_BITS - bits.shape[1])))
    words = np.packbits(full, axis=-1, bitorder="little").view("<u4")
    return words.astype(np.uint32, copy=False)


def _numbers(
    session: Session, table: SharedTable, choices: Bits, start: int, end: int, top: int
) -> Words:
    """Additive shares of t = sum_j 2^j (u_j xor v_j), u_j at C1, v_j at C2: one transfer a bit."""
    sums = np.zeros(((end - start) * table.columns, table.limbs), U64)
    first = session.ot.tweaks.reserve(len(choices))
    batch = Batch(len(choices), table.bits, table.limbs, first, sums, top)
    keys = table.transfers.starting_at(start * table.per_row)
    if session.role == 1:
        powers = limbs_of([1 << j for j in range(table.bits)], table.limbs)
        sending = Sending(powers, choices, np.zeros_like(choices))
        correlated_ot.run(session.ot, keys, batch, sending, None)
    else:
        correlated_ot.run(session.ot, keys, batch, None, choices)
    return sums.reshape(end - start, table.columns * table.limbs)
