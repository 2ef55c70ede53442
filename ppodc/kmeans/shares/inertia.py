"""Which of two starts is better, exactly, without anybody learning it.

The inertia is sum ||x||^2 - G with G = sum_h ||lambda_h||^2 / n_h over the clusters of a start; the
first sum is the same for all starts, so that the greatest G wins. With alpha = prod_h n_h and
alpha_h = alpha / n_h by a product tree (`stop_test.products`), G = N / alpha, N = sum_h alpha_h
||lambda_h||^2, and

    G' > G   is   [N alpha' - N' alpha < 0].

An empty cluster counts as n = 1, lambda = 0. The winner's clusters follow by a select. Ties stay
with the earlier start.

Sizes add up to at most m: alpha < 2^a, G <= m l ub^2, and both sides lie below 2^(2 a) m l ub^2.

Who learns what: nothing. Rounds: those of a comparison and a select (twice), of 2 log2(k) + 3
products, of widening. Bytes: those of k l squares and about 8 k products of the ring, which grows
with k, however many records. Supplies: made when needed.
"""

from dataclasses import dataclass

import numpy as np

from ppodc.errors import WidthError
from ppodc.kmeans import widths
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.shares import stop_test, update
from ppodc.kmeans.shares.ring_sizes import MAX_LIMBS, sum_bits
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, multiply, select, widen
from ppodc.mpc.shares.additive import LIMB_BITS, AdditiveShare, U64Array


@dataclass(frozen=True, slots=True)
class ScoreRings:
    """Limbs of ||lambda||^2 and of the comparison, and the bits of what is compared."""

    sums: int  # bits of the ring of sums
    norm: int
    score: int
    compared: int

    @classmethod
    def of(cls, p: Parameters) -> "ScoreRings":
        """The rings of a job; WidthError if its numbers are too large."""
        ub = (1 << p.ub.bit_length()) - 1
        norm = (p.l * (p.m * ub) ** 2).bit_length()
        compared = (widths.alpha_max(p.m, p.k) ** 2 * p.m * p.l * ub**2).bit_length()
        if compared >= LIMB_BITS * MAX_LIMBS:
            raise WidthError(
                f"comparing starts of {p.m} records in {p.k} clusters needs numbers of {compared} "
                f"bits; {LIMB_BITS * MAX_LIMBS} are supported. Use n_init = 1 or fewer clusters."
            )
        norm_limbs, score_limbs = (-(-(bits + 1) // LIMB_BITS) for bits in (norm, compared))
        return cls(sum_bits(p), norm_limbs, score_limbs, compared)


def better(session: Session, old: U64Array, new: U64Array, rings: ScoreRings) -> Bits:
    """The bit [the new start wins], of sums and counts (k, l + 1) of each; a byte, shared."""
    (n, alpha), (other_n, other_alpha) = (_score(session, sums, rings) for sums in (old, new))
    # N alpha' and N' alpha
    left = AdditiveShare.concat([n, other_n])
    sides = multiply.multiply(session, left, AdditiveShare.concat([other_alpha, alpha]))
    return compare.sign(session, sides[:1] - sides[1:], rings.compared).unpack(1)


def chosen(session: Session, bit: Bits, old: U64Array, new: U64Array) -> U64Array:
    """`new` where the shared bit is 1, else `old`: states of one shape."""
    # old + b (new - old)
    gap = AdditiveShare((new - old).reshape(1, -1, 1))
    out: U64Array = old + select.select(session, bit, gap).limbs.reshape(old.shape)
    return out


def _score(
    session: Session, sums: U64Array, rings: ScoreRings
) -> tuple[AdditiveShare, AdditiveShare]:
    """N and alpha of clusters (k, l + 1): (1) each."""
    k, l = sums.shape[0], sums.shape[1] - 1
    blank = np.zeros_like(sums)
    if session.role == 1:
        blank[:, -1] = 1
    # n = 1 and lambda = 0 for an empty one
    filled = update.reseed(session, sums, blank, update.empty(session, sums), rings.sums)
    values = AdditiveShare(filled[:, :-1].reshape(-1, 1))
    flat = widen.widen(session, values, rings.norm, rings.sums)
    norms = multiply.multiply(session, flat, flat).reshape(k, l).sum(axis=1)
    counts = AdditiveShare(filled[:, -1:].copy())
    counts = widen.widen(session, counts, rings.score, rings.sums)
    alpha, alphas = stop_test.products(session, counts)
    # N = sum_h alpha_h ||lambda_h||^2
    wide = widen.widen(session, norms, rings.score)
    total = multiply.multiply(session, alphas, wide).sum().reshape(1)
    return total, alpha
