"""The two codes of the OT extension: which trees' columns a choice flips.

An extension has n trees; a choice r of k bits flips the columns of tree i where code_i(r) = 1. Two
different choices must differ in at least 32 trees, each with 4 secret bits of the sender.

*Rows*, choices of one bit: the repetition code [32, 1, 32], code_i(r) = r. *Leaves*, choices of
four bits: a [60, 4, 32] code, the simplex code [15, 4, 8] four times (Kolesnikov and Kumaresan,
CRYPTO 2013, did this to IKNP; no shorter code of this distance exists: Griesmer's bound is 32 + 16
+ 8 + 4). Tree (p, rho) with p = 1..15 and rho = 0..3 has code(r) = <p, r>, the parity of p & r.

*Info trees.* Random choices are defined by the receiver's own streams: bit j of r is the sum of all
streams of the tree whose code is bit j alone, for which nothing need be sent. They come first.

*From 240 columns to 128.* A leaf has 60 elements v_(p, rho) of GF(16), and the hash takes 128 bits.
For each rho the 15 elements are cut to 8 by [I | P], the generator of a systematic Reed-Solomon
code [15, 8]: any 8 of its 15 columns are independent. As <p, r> = 1 for exactly 8 points p, the
offset A (D masked by the code word of r) is a bijective image of 128 secret bits for each of the 15
r other than 0; it is linear in r, so that differences of offsets are offsets. If an attacker knows
the secrets of t trees, an offset keeps at least 128 - 4 t bits.
"""

from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.compiled import compiled, in_u1, in_u8_2, out_u8_2
from ppodc.mpc.ot.leaf_streams import DEPTH
from ppodc.mpc.shares.additive import U64, U64Array

Bits = NDArray[np.uint8]
ROW_BITS = 128  # of a row that is hashed
_POINTS, _REPEATS = 15, 4
_KEPT = 8  # elements of 15
_FIELD = 0b10011  # X^4 + X + 1


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """One code; trees in the order in which their columns stand."""

    number: int  # in names of lots and trees
    choice_bits: int  # k
    points: Bits  # code_i(r) is the parity of points[i] & r; unit vectors first

    @property
    def trees(self) -> int:
        """n."""
        return len(self.points)

    @property
    def columns(self) -> int:
        """Bits of the sender's secret."""
        return DEPTH * self.trees

    def word(self, r: int) -> Bits:
        """code_i(r) of all trees."""
        return np.array([(int(point) & r).bit_count() & 1 for point in self.points], np.uint8)

    def words_of(self, choices: U64Array) -> U64Array:
        """code_i(r) of all trees, for bits of r in rows of words: (k, w) -> (n, w)."""
        out = np.zeros((self.trees, choices.shape[1]), U64)
        _words_of(choices, self.points, out)
        return out

    def cut(self, columns: U64Array) -> U64Array:
        """Columns (4 n, w) as the 128 columns of rows to hash; w is a multiple of 8."""
        if self.columns == ROW_BITS:
            return columns
        out = np.empty((ROW_BITS, columns.shape[1]), U64)
        _project(columns, _MASKS, out)
        return out


def _times(a: int, b: int) -> int:
    """A product in GF(16)."""
    product = reduce(int.__xor__, (a << j for j in range(4) if b >> j & 1), 0)
    for place in (6, 5, 4):
        if product >> place & 1:
            product ^= _FIELD << (place - 4)
    return product


def _generator() -> list[list[int]]:
    """[I | P]: powers of the 15 elements other than 0, brought to systematic form."""
    elements = [1]
    for _ in range(_POINTS - 1):
        elements.append(_times(elements[-1], 2))
    rows = [[1] * _POINTS]
    for _ in range(_KEPT - 1):
        rows.append([_times(x, y) for x, y in zip(rows[-1], elements, strict=True)])
    for c in range(_KEPT):
        pivot = next(r for r in range(c, _KEPT) if rows[r][c])
        rows[c], rows[pivot] = rows[pivot], rows[c]
        inverse = next(x for x in range(1, 16) if _times(x, rows[c][c]) == 1)
        rows[c] = [_times(inverse, x) for x in rows[c]]
        for r in range(_KEPT):
            if r != c and (factor := rows[r][c]):
                moved = zip(rows[r], rows[c], strict=True)
                rows[r] = [x ^ _times(factor, y) for x, y in moved]
    return rows


def _masks() -> Bits:
    """At 32 t + 4 i + b: which of the 4 columns of element 8 + t enter the kept column 4 i + b."""
    generator = _generator()
    masks = np.zeros((_POINTS - _KEPT, _KEPT, DEPTH), np.uint8)
    for t, i, j, b in np.ndindex(_POINTS - _KEPT, _KEPT, DEPTH, DEPTH):
        if _times(generator[i][_KEPT + t], 1 << j) >> b & 1:
            masks[t, i, b] |= 1 << j
    return masks.reshape(-1)


def byte_maps() -> U64Array:
    """Bits that `cut` adds to byte g of the kept columns of one rho, from byte q of its others.

    As matrices of 8 x 8 bits: bit i of byte 7 - b says whether bit i of byte q enters bit b. Bytes
    of the others begin at their columns 0, 8, 16 and 20; of the last, 4 columns are in the third.
    """
    maps = np.zeros((4, 4, 8), np.uint8)
    for g, q, b, i in np.ndindex(4, 4, 8, 8):
        column = min(8 * q, 20) + i
        new = q < 3 or i >= 4
        if new and _MASKS[32 * (column // DEPTH) + 8 * g + b] >> (column % DEPTH) & 1:
            maps[g, q, 7 - b] |= 1 << i
    return maps.reshape(-1).view("<u8").astype(U64)


_MASKS = _masks()
_UNITS = [1, 2, 4, 8]
ROWS = Code(1, 1, np.ones(32, np.uint8))
LEAVES = Code(2, 4, np.array([*_UNITS, *sorted({*range(1, 16)} - {*_UNITS})] * _REPEATS, np.uint8))


@compiled(in_u8_2, in_u1, out_u8_2)
def _words_of(choices: U64Array, points: Bits, out: U64Array) -> None:
    for i in range(out.shape[0]):
        for j in range(choices.shape[0]):
            if (points[i] >> np.uint8(j)) & np.uint8(1):
                for w in range(out.shape[1]):
                    out[i, w] ^= choices[j, w]


@compiled(in_u8_2, in_u1, out_u8_2)
def _project(columns: U64Array, masks: Bits, out: U64Array) -> None:
    """(240, w) -> (128, w), eight words at a time, with all 16 sums of an element's columns."""
    sums = np.zeros((7, 16, 8), np.uint64)
    for first in range(0, columns.shape[1], 8):
        for rho in range(4):
            base = rho * 60
            for t in range(7):
                for j in range(4):
                    low = 1 << j
                    for x in range(low):
                        for lane in range(8):
                            own = columns[base + 32 + 4 * t + j, first + lane]
                            sums[t, low + x, lane] = sums[t, x, lane] ^ own
            for o in range(32):
                m0, m1, m2, m3 = masks[o], masks[32 + o], masks[64 + o], masks[96 + o]
                m4, m5, m6 = masks[128 + o], masks[160 + o], masks[192 + o]
                for lane in range(8):
                    out[rho * 32 + o, first + lane] = (
                        columns[base + o, first + lane]
                        ^ sums[0, m0, lane]
                        ^ sums[1, m1, lane]
                        ^ sums[2, m2, lane]
                        ^ sums[3, m3, lane]
                        ^ sums[4, m4, lane]
                        ^ sums[5, m5, lane]
                        ^ sums[6, m6, lane]
                    )
