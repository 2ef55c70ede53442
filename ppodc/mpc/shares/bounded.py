"""From numbers x at C1 and r at C2 to shares of min((x - r) mod 2^b, u), without its bits.

With a = x and a' = 2^b - 1 - r the number is t = a + a' + 1 mod 2^b: it looks the same from both
clouds. Of each number one of them is the sender, say with a; Y = 2^b - 1 - u is what u lacks.

    c1 = [2^b - 1 - a' > a]                     a + a' + 1 does not reach 2^b
    c2 = [2^b - 1 - a' > (a + Y) mod 2^b]       the same of t + Y
    w  = [a + Y >= 2^b]                         known to the sender

by one `digit_chain`. As t + Y - 2^b [t > u] = (a + Y - 2^b w) + a' + 1 - 2^b + 2^b c2 and
t = a + a' + 1 - 2^b + 2^b c1, t is too large where o = c1 - c2 + w = c1 ^ c2 ^ w is 1. If w = 1 and
o = 0 then c1 = 0, if w = 0 and o = 1 then c2 = 0, and if both are 0 then c1 = c2. So with p = 1 - o

    min(t, u) = u + p (a + a' + 1 - 2^b - u) + 2^b (1 - w) c2

modulo any power of two: one correlated transfer in each direction for p and one from the sender for
c2. If u = 2^b - 1, or there is no bound, t = a + a' + 1 - 2^b + 2^b c1 takes only the last one.

Who learns what: nothing, nor which numbers were too large. Rounds: those of the chain and 2. Bytes
per number and direction: half of those of the chain, and 3/2 numbers of the ring. Supplies: those
of the chain, and 3/2 transfers.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Bits, Run, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.shares import digit_chain
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public
from ppodc.mpc.shares.digit_chain import UNIT
from ppodc.mpc.shares.select import SuppliedKeys
from ppodc.mpc.shares.xor_bits import padded
from ppodc.mpc.supplies import Needs


def needs(count: int, bits: int, largest: int | None) -> Needs:
    """Supplies for `count` numbers."""
    comparisons, count = 2 if _lacking(bits, largest) else 1, padded(count, UNIT)
    transfers = count // 2 + (count if comparisons == 2 else 0)
    return Needs(leaves=digit_chain.leaves(count, bits, comparisons), transfers=transfers)


def bounded(
    session: Session, values: U64Array, bits: int, largest: int | None, limbs: int, top: int
) -> U64Array:
    """Shares of min((x - r) mod 2^bits, largest), of x at C1 and r at C2: (n) -> (n, limbs).

    Right modulo 2^(64 (limbs - 1) + 8 top).
    """
    session.supplies.reserve(needs(len(values), bits, largest))  # in one run, not one a digit
    lacking, below = _lacking(bits, largest), np.uint32((1 << bits) - 1)
    own = np.zeros(padded(len(values), UNIT), np.uint32)
    own[: len(values)] = (values if session.role == 1 else ~values) & U64(below)
    # C1 is the sender of the first half of the batch, C2 of the second.
    halves = slice(0, len(own) // 2), slice(len(own) // 2, None)
    mine, theirs = halves if session.role == 1 else halves[::-1]
    # a and, with a bound, (a + Y) mod 2^b; w
    reached = own[mine] + np.uint32(lacking)
    numbers = np.stack([own[mine], reached & below] if lacking else [own[mine]])
    beyond = (reached >> np.uint32(bits)).astype(np.uint8)
    sent, got = digit_chain.above(session, numbers, own[theirs] ^ below, bits)
    # a + a' + 1 - 2^b, of which C1 holds what is public
    offset = 1 - (1 << bits) if session.role == 1 else 0
    sums = _in_ring(own.astype(np.int64) + offset, limbs)
    if lacking:
        # p = 1 ^ c1 ^ c2 ^ w
        kept = np.empty(len(own), np.uint8)
        kept[mine] = 1 ^ (sent & 1) ^ (sent >> 1) ^ beyond
        kept[theirs] = (got & 1) ^ (got >> 1)
        sums = _less_where_kept(session, kept, sums, largest or 0, top)
        sent, got = sent >> np.uint8(1), got >> np.uint8(1)
    # 2^b (1 - w) c2, or 2^b c1
    rows = _in_ring((1 - beyond.astype(np.int64)) << bits, limbs)
    _add_carries(session, (sent, rows, sums[mine]), (got, sums[theirs]), top)
    return sums[: len(values)]


def _lacking(bits: int, largest: int | None) -> int:
    """Y; numbers have at most 31 bits."""
    if not 1 <= bits <= 31:
        raise InputError(f"numbers of {bits} bits cannot be taken in; 1 to 31 are supported.")
    if largest is None:
        return 0
    if not 1 << (bits - 1) <= largest < 1 << bits:
        raise InputError(f"the largest value of {bits} bits cannot be {largest}.")
    return (1 << bits) - 1 - largest


def _in_ring(numbers: NDArray[np.int64], limbs: int) -> U64Array:
    """Small numbers of any sign: (n, limbs)."""
    out = np.empty((len(numbers), limbs), U64)
    out[:, 0] = numbers.view(U64)
    out[:, 1:] = (numbers >> 63).view(U64)[:, None]
    return out


def _less_where_kept(
    session: Session, kept: Bits, numbers: U64Array, largest: int, top: int
) -> U64Array:
    """u + p (x - u) for shared bits p and numbers x."""
    count, limbs = numbers.shape
    bound = public([largest], limbs, session.role)
    rows = (AdditiveShare(numbers) - bound).limbs
    sums = np.repeat(bound.limbs, count, axis=0)
    batch = Batch(count, 1, limbs, session.ot.tweaks.reserve(count), sums, top)
    keys = SuppliedKeys.take(session, count)
    correlated_ot.run(session.ot, keys, batch, Sending(rows, kept), kept)
    return sums


def _add_carries(
    session: Session, sent: tuple[Bits, U64Array, U64Array], got: tuple[Bits, U64Array], top: int
) -> None:
    """Add the sender's rows where shared bits are 1: to its sums, and to those of the receiver."""
    (signs, rows, mine), (choices, theirs) = sent, got
    count, limbs = rows.shape
    keys, first = SuppliedKeys.take(session, count), session.ot.tweaks.reserve(count)
    sent_batch, got_batch = (Batch(count, 1, limbs, first, sums, top) for sums in (mine, theirs))
    both = [
        Run(keys, sent_batch, Sending(rows, signs), None),
        Run(keys, got_batch, None, choices),
    ]
    # C1 sends first in either cloud's order of runs
    correlated_ot.run_all(session.ot, both if session.role == 1 else both[::-1])
