"""k-means++ on shares: the next record to start from, far from those chosen before.

D_i is the squared distance of record i to the nearest chosen record, P_i = D_0 + ... + D_i over all
records of all shards, T the last of them, u = word / 2^64 a public fraction from the seed. Chosen
is the first record with P_i > u T, or the last of all where there is none (T = 0).

*Distances.* d = ||x||^2 - 2 x.c + ||c||^2 for a newly chosen c: x.c as in SSED_OP, D becomes
D + [d < D] (d - D). Products by lattices are off by at most 1; where they are used, x is multiplied
by -32 c instead, C1 adds 2, and 16 (-2 x.c) + e with 1 <= e <= 3 is divided by 16 exactly
(`mpc.shares.quotient`): distances are then right modulo 2^60, or 2^(w - 4) for products of w < 64
bits, which is more than bits of T + 1 as F + t exceeds log2 m by far (`fixed_point`).

*Threshold.* P_i > u T is P_i > floor(u T) for whole P_i; the floor is exact: word T in a ring of
more limbs, each cloud drops the low bits of its share, and the carry out of them is added
(`threshold`). *Choice.* b_i = [floor(u T) - P_i < 0] is 0...01...1, so that b_i ^ b_(i-1) is the
one-hot of the chosen record; b before a shard comes from what lies before it.

Numbers are whole and of so many bits that none wraps: l ub^2 for a distance, m l ub^2 for a sum.
They are right modulo 2^(bits of T + 1), as are the records' products (`fixed_point`: F >= log2 m).

Who learns what: nothing, neither which record nor any distance or total. Rounds per record chosen:
about 27, for all shards of a pair one behind the other. Bytes per record and record chosen: two
comparisons (of a distance and of a sum), two selects and one product column. Supplies: see the
`needs` of each.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares.products import RandomProducts
from ppodc.kmeans.shares.ssed_op import masked_products
from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, multiply, quotient, select, widen
from ppodc.mpc.shares.additive import LIMB_BITS, AdditiveShare, public
from ppodc.mpc.shares.truncate import drop_bits
from ppodc.mpc.supplies import Needs

FRACTION_BITS = 64  # of u
_SPARE_BITS = 4  # of a product that is not exact
_SURPLUS = 2  # added to it, so that it is never below what it should be


@dataclass(frozen=True, slots=True)
class SpreadBits:
    """Bits of a squared distance and of the sum of all, and the limbs of such a sum's ring."""

    distance: int
    total: int

    @classmethod
    def of(cls, p: Parameters) -> "SpreadBits":
        largest = p.l * ((1 << p.ub.bit_length()) - 1) ** 2
        return cls(largest.bit_length(), (p.m * largest).bit_length())

    @property
    def limbs(self) -> int:
        """Limbs of a sum and its sign."""
        return -(-(self.total + 1) // LIMB_BITS)

    @property
    def spare(self) -> int:
        """Highest bits of that ring that mean nothing."""
        return LIMB_BITS * self.limbs - self.total - 1


def norm_needs(l: int) -> Needs:
    """Supplies of ||c||^2 of one record."""
    return multiply.needs(l, 1)


def distances(
    session: Session,
    records: AdditiveShare,
    norms: AdditiveShare,
    centre: tuple[AdditiveShare, AdditiveShare | None],
    random: RandomProducts,
    *,
    exact: bool,
) -> tuple[AdditiveShare, AdditiveShare]:
    """d of some records (n, l) with these norms (n) to a record c: (n); and ||c||^2 (1).

    Of c may be known what ||c||^2 is; if not, it is computed in the same round. `exact`: random
    products are.
    """
    c, square = centre
    beside: Callable[[], None] | None = None
    if square is None:
        squares, runs = multiply.multiply_runs(session, c, c)
        beside = correlated_ot.begin_all(session.ot, runs)
    factor = -2 if exact else -2 << _SPARE_BITS
    scaled = c.times(factor).reshape(-1, 1)
    products = masked_products(session, records.low(1), scaled, random, beside).reshape(-1)
    if square is None:  # received only now
        square = squares.sum().reshape(1)
    if not exact:
        products = products + public([_SURPLUS], 1, session.role)
        products = quotient.quotient(session, products, _SPARE_BITS)
    # ||x||^2 - 2 x.c + ||c||^2
    return norms + products + square, square


def counted(session: Session, keep: Bits, distances: AdditiveShare) -> AdditiveShare:
    """Distances of the rows that count, 0 of the others: (n)."""
    return select.select(session, keep, distances.reshape(-1, 1)).reshape(-1)


def nearer_needs(rows: int, bits: SpreadBits, *, exact: bool, slow: bool) -> Needs:
    """Supplies of `distances`, `nearer` and `widened`; more over a `slow` link (`compare`)."""
    both = compare.needs(rows, bits.distance, slow=slow) + select.needs(rows)
    divided = Needs() if exact else quotient.needs(rows)
    return both + divided + (select.needs(rows) if _is_widened(bits, exact) else Needs())


def widened(
    session: Session, distances: AdditiveShare, bits: SpreadBits, *, exact: bool
) -> AdditiveShare:
    """Distances in the ring of their sums: (n)."""
    if not _is_widened(bits, exact):
        return distances
    return widen.widen(session, distances, bits.limbs, _right_bits(exact))


def _right_bits(exact: bool) -> int:
    """Bits of a word that are right in a distance."""
    return LIMB_BITS if exact else LIMB_BITS - _SPARE_BITS


def _is_widened(bits: SpreadBits, exact: bool) -> bool:
    """Whether sums of distances take more bits than are right in one."""
    return bits.total + 1 > _right_bits(exact)


def nearer(
    session: Session, old: AdditiveShare, new: AdditiveShare, bits: SpreadBits
) -> AdditiveShare:
    """The lesser of two distances of each record: (n)."""
    # D + [d - D < 0] (d - D)
    gap = new - old
    wins = compare.sign(session, gap, bits.distance, slow=session.slow).unpack(len(gap.limbs))
    return old + select.select(session, wins, gap.reshape(-1, 1)).reshape(-1)


def threshold_needs(bits: SpreadBits, *, slow: bool) -> Needs:
    """Supplies of `threshold`."""
    return (
        widen.needs(1, LIMB_BITS * bits.limbs, bits.limbs + 1)
        + compare.needs(1, FRACTION_BITS + bits.spare, slow=slow)
        + select.needs(1)
    )


def threshold(session: Session, total: AdditiveShare, word: int, bits: SpreadBits) -> AdditiveShare:
    """floor(u T) for u = word / 2^64: (1) -> (1), right modulo 2^(bits of T + 1)."""
    # T 2^spare, whose meaningless bits are gone, in a ring that holds 2^64 times as much
    wide = widen.widen(session, total.times(1 << bits.spare), bits.limbs + 1)
    product, dropped = wide.times(word), FRACTION_BITS + bits.spare
    # `drop_bits` adds 1 where the carry out of the dropped bits belongs: less [no carry]
    out = compare.carry(session, product, dropped, slow=session.slow)
    none = out.negated(session.role).unpack(1)
    one = public([1], bits.limbs, session.role).reshape(1, 1)
    less = select.select(session, none, one).reshape(1)
    return drop_bits(product, dropped, session.role).low(bits.limbs) - less


def above_needs(rows: int, bits: SpreadBits, *, slow: bool) -> Needs:
    """Supplies of `above` and of a select with a one-hot made from it."""
    return compare.needs(rows, bits.total, slow=slow) + select.needs(rows)


def above(session: Session, sums: AdditiveShare, bound: AdditiveShare, bits: SpreadBits) -> Bits:
    """This cloud's shares of [P > bound], a byte each: (n)."""
    signs = compare.sign(session, bound - sums, bits.total, slow=session.slow)
    return signs.unpack(len(sums.limbs))


def one_hot(steps: Bits) -> Bits:
    """Of bits 0...01...1 that begin with the one before the first record: (n + 1) -> (n). Local."""
    hot: Bits = steps[1:] ^ steps[:-1]
    return hot


def chosen(session: Session, hot: Bits, rows: AdditiveShare) -> np.ndarray:
    """sum_i hot_i rows[i] (n, C): the chosen row, or zeros: (1, C)."""
    return select.select(session, hot, rows, len(hot)).limbs[..., 0]
