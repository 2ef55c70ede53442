"""Distances in fixed point, exact: how many bits keep every comparison right, for any k.

With c_h = lambda_h / n_h, a record x is nearest to the cluster of least s_h = ||c_h||^2 - 2 x.c_h,
which is its squared distance less ||x||^2. Bounds: sizes n_h >= 1, n_i + n_j <= M = m + k for two
clusters, lambda_h <= n_h ub, and x, c_h in 0..ub per attribute (l of them).

*Least gap.* n_i^2 n_j^2 (s_j - s_i) is a whole number: two scores are equal or at least
1 / (n_i n_j)^2 apart, and n_i n_j <= (M / 2)^2, so at least gap = 16 / M^4.

*Dropping bits.* Of a number u shared as u1 + u2 modulo 2^W each cloud drops its t low bits, r1 and
r2; C1 adds 1. The result is (u - r1 - r2) / 2^t + 1 modulo 2^(W - t): u / 2^t with an error in
(-1, 1], always (`mpc.truncate`). A ring t bits wider than what comes out is all it takes.

*Centres.* T[n] = 2 round(2^(G - 1) / n), an even number with |T[n] - 2^G / n| <= 1. An empty
cluster becomes one of a single record, n = 1, and T[0] = T[1] + 1: its lowest bit tells it apart,
and it is off by 1 as well. lambda_h T[n_h] is 2^G c_h up to M ub; with G - C >= log2(M ub) + 1 bits
dropped, a = 2^C c_h + e, |e| <= 3/2 per attribute.

*Scores.* z_h = b_h - 2 x.a_h with b_h = ||a_h||^2 / 2^C up to 1 (C bits dropped), and the product
-2 x.(a_h - a_0) of h > 0 up to 1 (`mpc.lattice.parameters`; none is made for h = 0). As
||a_h||^2 / 2^C - 2 x.a_h = 2^C s_h + 2 (c_h - x).e + ||e||^2 / 2^C and |c_h - x| <= ub,

    |z_h - 2^C s_h| <= 3 l ub + 9 l / (4 2^C) + 2 <= 2^t / 16,   by the choice of t

*Comparisons.* v_h = z_h - z_0 with t bits dropped (v_0 = 0 exactly), F = C - t. For any i < j

    | v_j - v_i - 2^F (s_j - s_i) |  <  2 + 2 / 16

(two errors of z, two of dropping, each pair of the latter below 2 in all). F is the least number
with 2^F gap >= 4 + 1/8. Then [v_j - v_i + 2 < 0] is [s_j < s_i], for v are whole numbers:
s_j >= s_i gives v_j - v_i > -2 - 1/8, so at least -2; s_j <= s_i - gap gives
v_j - v_i < 2 + 1/8 - 4 - 1/8 = -2. Ties, that is, stay with the lower index.
Every comparison of two clusters being exact, so is any tournament of them.

*Ranges.* |s_j - s_i| <= l ub^2, since both are squared distances less the same number; hence
|v_j - v_i + 2| <= 2^F l ub^2 + 2^F gap < 2^w, w = F + bits(l ub^2). v is right modulo 2^(w + 1) if
z is modulo 2^(w + 1 + t), and so is b if a is modulo 2^(w + 1 + t + C), and so is a if
lambda_h T[n_h] is modulo 2^(w + 1 + t + G).
"""

from dataclasses import dataclass

import numpy as np

from ppodc.errors import WidthError
from ppodc.mpc.compiled import compiled, i64, out_u8_2
from ppodc.mpc.shares.additive import LIMB_BITS, U64, U64Array

MARGIN = 2  # added to v_j - v_i, so that errors never turn a tie around
_MOST = (1 << 31) - 1  # records and clusters
_ERROR_PARTS = 16  # of a unit of v is the most that a score may be off


@dataclass(frozen=True, slots=True)
class FixedPoint:
    """Bits of the numbers on the way to a comparison; the names are those above."""

    most: int  # M, also the largest count
    score: int  # F, fraction bits of v
    dropped: int  # t
    reciprocal: int  # G, fraction bits of T
    compared: int  # w

    @classmethod
    def of(cls, m: int, l: int, k: int, ub: int) -> "FixedPoint":
        """The bits for m records of l attributes 0..ub and k clusters."""
        most = m + k
        if most > _MOST:
            raise WidthError(f"{m} records are more than a job on shares takes: {_MOST}.")
        # 2^F 16 / M^4 >= 33 / 8
        score = _at_least(-(-33 * most**4 // 128))
        # 2^t >= 16 (3 l ub + 9 l / (4 2^C) + 2)
        dropped = _at_least(_ERROR_PARTS * (3 * l * ub + 2 + 9 * l // 4))
        reciprocal = score + dropped + (most * ub).bit_length() + 1
        return cls(most, score, dropped, reciprocal, score + (l * ub * ub).bit_length())

    @property
    def centre(self) -> int:
        """C, fraction bits of a and z."""
        return self.score + self.dropped

    @property
    def product_bits(self) -> int:
        """Of z, with its sign."""
        return self.compared + 1 + self.dropped

    @property
    def wide_bits(self) -> int:
        """Of lambda_h T[n_h], so that all bits of z are right."""
        return self.product_bits + self.reciprocal

    @property
    def index_bits(self) -> int:
        """Of a count, 0..M."""
        return self.most.bit_length()


def _at_least(bound: int) -> int:
    """The least e with 2^e >= bound."""
    return (bound - 1).bit_length()


def reciprocals(point: FixedPoint, limbs: int, first: int, count: int) -> U64Array:
    """T[n] for n = first..first+count-1: (count, limbs); beyond M nobody looks."""
    out = np.empty((count, limbs), np.uint64)
    _divide(point.reciprocal, first, out)
    above = out[:, :-1] >> U64(LIMB_BITS - 1)
    out <<= U64(1)
    out[:, 1:] |= above
    if first == 0:
        out[0, 0] |= U64(1)
    return out


@compiled(i64, i64, out_u8_2)
def _divide(exponent: int, first: int, out: U64Array) -> None:
    """(2^exponent + n) // 2n, that is 2^(exponent - 1) / n rounded: long division, 32-bit digits.

    n < 2^31, so that a remainder and a digit fit in a word.
    """
    limbs = out.shape[1]
    for i in range(out.shape[0]):
        n = U64(max(first + i, 1))
        divisor, rest = U64(2) * n, U64(0)
        for digit in range(2 * limbs - 1, -1, -1):
            dividend = rest << U64(32)
            if digit == exponent >> 5:
                dividend += U64(1) << U64(exponent & 31)
            if digit == 0:
                dividend += n
            quotient = dividend // divisor
            rest = dividend - quotient * divisor
            if digit & 1:
                out[i, digit >> 1] = quotient << U64(32)
            else:
                out[i, digit >> 1] |= quotient
