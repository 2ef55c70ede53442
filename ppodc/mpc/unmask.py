"""Taking in a table of small numbers, once: from t + r at C1 and r at C2 to shares of t.

1. The low b bits of (t + r) - r by a ripple subtractor give XOR-shared bits of t. Whatever was
   uploaded is thereby a number of b bits.
2. With a largest value u, t becomes min(t, u): one comparison with u and one select (`clamp`), so
   that no upload can be a number that no record has. Nothing to do if u = 2^b - 1.
3. Static transfers (`static_ot`) with these bits as choices; they serve any later step in which
   the bits of t choose.
4. Additive shares of t modulo 2^(64 L): sum_j 2^j tbit_j by correlated transfers from C1.

Who learns what: nothing; whether a value was too large stays shared. Rounds: b + 3 per chunk of
rows, at most b + 1 more for step 2. Bytes per value: 4 b each way for the transfers, 8 b L from C1
to C2, and b/2 for the subtractor with its offline part. Supplies: b - 1 AND pairs per value and at
most 3 b / 2 more for step 2. Memory: 32 b bytes per value for the keys (on disk beyond a budget)
and 8 L + 4 for the shares.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.mpc import and_bits, circuits, correlated_ot
from ppodc.mpc.additive import U64, AdditiveShare, Words, limbs_of
from ppodc.mpc.circuits import Circuit, Gate
from ppodc.mpc.correlated_ot import Batch, Bits, Sending
from ppodc.mpc.oblivious_transfer import ObliviousTransfer
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget, Spool
from ppodc.mpc.static_ot import StaticKeys, StaticTransfers
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import WORD, XorShare, pack, padded

MAX_BITS = 32
_VALUES = 1 << 18  # values taken in at a time


@dataclass(slots=True, repr=False)
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
    ot: ObliviousTransfer
    budget: Budget
    kept_keys: StaticTransfers | None

    @property
    def transfers(self) -> StaticTransfers:
        """The keys; if they were not kept they are made now, so both clouds must ask alike."""
        if self.kept_keys is None:
            self.kept_keys = StaticTransfers(self.ot, self.rows * self.per_row, self.budget)
            step = _step(self.columns)
            for start in range(0, self.rows, step):
                self.kept_keys.append(self.choices(start, min(start + step, self.rows)))
        return self.kept_keys

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
        if self.kept_keys is not None:
            self.kept_keys.close()


def needs(rows: int, columns: int, bits: int, largest: int | None = None) -> Needs:
    """Supplies for taking in a table."""
    step = _step(columns)
    full, rest = divmod(rows, step)
    values = full * padded(step * columns, WORD) + padded(rest * columns, WORD)
    pairs = bits - 1 + (0 if largest is None else _clamp_pairs(bits, largest))
    return Needs(pairs=pairs * values // WORD)


def unmask(
    session: Session,
    share: NDArray[np.uint64],
    bits: int,
    budget: Budget,
    *,
    largest: int | None = None,
    limbs: int = 1,
    top: int = 8,
    keep_keys: bool = True,
) -> SharedTable:
    """Shares of the table (rows, columns) of which this cloud has t + r (C1) or r (C2).

    A value is t mod 2^bits, or `largest` if it is more than that. The additive shares have `limbs`
    limbs, of the last of which `top` bytes (1, 2, 4, 8) count.
    Without `keep_keys` the transfers' keys are forgotten, and made again if anyone asks.
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
        session.ot,
        budget,
        StaticTransfers(session.ot, rows * columns * bits, budget) if keep_keys else None,
    )
    step = _step(columns)
    for start in range(0, rows, step):
        end = min(start + step, rows)
        values = np.ascontiguousarray(share[start:end]).reshape(-1)
        choices = low_bits(session, values, bits, largest)
        table.xor.append(_woven(choices).reshape(end - start, columns))
        flat, keys = choices.reshape(-1), table.kept_keys
        first = start * table.per_row
        if keys is None:  # of this step only
            first, keys = 0, StaticTransfers(session.ot, len(flat), Budget(32 * len(flat)))
        keys.append(flat)
        table.values.append(_numbers(session, table, flat, keys.starting_at(first), top))
    return table


def low_bits(session: Session, values: Words, bits: int, largest: int | None = None) -> Bits:
    """XOR shares of the low bits of C1's numbers minus C2's: (n) -> (n, bits), a byte per bit.

    A number above `largest` becomes it.
    """
    digits = _difference(session, values, bits)
    if largest is not None:
        (clamped,) = circuits.run(session, [clamp([digits[j] for j in range(bits)], largest)])
        digits = XorShare(np.stack([digit.words for digit in clamped]))
    return np.ascontiguousarray(digits.unpack(len(values)).T)


def clamp(digits: Sequence[XorShare], largest: int) -> Circuit[list[XorShare]]:
    """The binary digits of min(x, largest), lowest first; `largest` has as many digits as x.

    o = [x > largest]; then x_j becomes x_j ^ (o & x_j) where `largest` has 0 and
    x_j ^ (o & x_j) ^ o where it has 1. Digits above its highest 0 stay: if o, they are ones.
    """
    changed = _below_leading_ones(len(digits), largest)
    if not changed:
        return list(digits)
    over = yield from circuits.above(digits, largest)
    low = digits[:changed]
    products = yield [Gate(over, *low[j : j + 2]) for j in range(0, changed, 2)]
    chosen = [
        digit ^ product ^ over if largest >> j & 1 else digit ^ product
        for j, (digit, product) in enumerate(zip(low, products, strict=True))
    ]
    return [*chosen, *digits[changed:]]


def _below_leading_ones(bits: int, largest: int) -> int:
    """How many of the lowest digits end with the highest 0 of `largest`."""
    if not 1 << (bits - 1) <= largest < 1 << bits:
        raise InputError(f"the largest value of {bits} bits cannot be {largest}.")
    return ((1 << bits) - 1 - largest).bit_length()


def _clamp_pairs(bits: int, largest: int) -> int:
    """AND pairs of `clamp` per value: a gate for each digit above the lowest 0, and the select."""
    changed = _below_leading_ones(bits, largest)
    if not changed:
        return 0
    lowest = (~largest & (largest + 1)).bit_length() - 1
    return bits - 1 - lowest + -(-changed // 2)


def _difference(session: Session, values: Words, bits: int) -> XorShare:
    """The low bits of C1's numbers minus C2's, lowest first: (bits, words).

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
    return XorShare(out)


def _step(columns: int) -> int:
    """Rows taken in at a time."""
    return max(1, _VALUES // columns)


def _woven(bits: Bits) -> NDArray[np.uint32]:
    """The bits (n, b) of each value in one word."""
    full = np.pad(bits, ((0, 0), (0, MAX_BITS - bits.shape[1])))
    words = np.packbits(full, axis=-1, bitorder="little").view("<u4")
    return words.astype(np.uint32, copy=False)


def _numbers(
    session: Session, table: SharedTable, choices: Bits, keys: StaticKeys, top: int
) -> Words:
    """Additive shares of t = sum_j 2^j (u_j xor v_j), u_j at C1, v_j at C2: one transfer a bit."""
    sums = np.zeros((len(choices) // table.bits, table.limbs), U64)
    first = session.ot.tweaks.reserve(len(choices))
    batch = Batch(len(choices), table.bits, table.limbs, first, sums, top)
    if session.role == 1:
        powers = limbs_of([1 << j for j in range(table.bits)], table.limbs)
        sending = Sending(powers, choices, np.zeros_like(choices))
        correlated_ot.run(session.ot, keys, batch, sending, None)
    else:
        correlated_ot.run(session.ot, keys, batch, None, choices)
    return sums.reshape(-1, table.columns * table.limbs)
