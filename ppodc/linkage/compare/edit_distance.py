"""Edit distance as a circuit of ANDs over equality bits, within a band of diagonals.

D(i, j) is the distance of the first i and j characters. With the differences
u = D(i, j-1) - D(i-1, j-1) and w = D(i-1, j) - D(i-1, j-1), each in {-1, 0, 1} and held as the bits
n = [-1] and p = [+1], and e = [x_i = y_j]:

    z = not (e or n_u or n_w)          D(i, j) = D(i-1, j-1) + z
    z - u:  n' = p_u ^ (z p_u)         p' = n_u ^ z ^ (z p_u)       w of the cell below
    z - w:  n' = p_w ^ (z p_w)         p' = n_w ^ z ^ (z p_w)       u of the cell to the right

n and p of a difference are never both 1 (whatever e is: of n' and p' one is 0 if of n and p one
is), so p = p & not n. With a = not e & not n_u and b = not e & not n_w, one gate of common factor,

    z = b & not n_u                    z p_u = b & p_u              z p_w = a & p_w

A neighbour outside the band, or in row or column 0, is the constant +1. With u or w alone of the
two, z = not e & not n and z p = not e & p are one gate; with none, z = not e. A path of cost at
most d from (0, 0) to (a, b), s = b - a, stays on diagonals j - i from min(0, s) - h to
max(0, s) + h, h = (d - |s|) // 2. The distance is |s| plus the sum of z on diagonal s; beyond d it
may come out too large, never too small.

*Secret lengths*: both strings are padded with the same symbol, x to n and y to n + d characters. A
common end does not change the distance, so it stands on diagonal s in row n, whatever a is. The
result is taken from every diagonal -d..d and selected with the shared bits [b - a = s].

Who learns what: nothing. Rounds: 2 for each anti-diagonal, then those of adding up. AND pairs: for
each row 1 on an outermost diagonal (none if it is the only one) and 3 on every other, about one for
each row and result.
"""

from collections.abc import Callable, Mapping

import numpy as np

from ppodc.mpc.shares.circuits import BLANK, Circuit, Gate, above, at_most, beside, total, zero
from ppodc.mpc.shares.xor_bits import XorShare

Equal = Callable[[int, int], XorShare]  # (i, j), from 1 on, to the shared bits [x_i = y_j]
Difference = tuple[XorShare, XorShare]  # (n, p)
Cell = tuple[int, int]
Known = dict[Cell, Difference]


def blank(_i: int, _j: int) -> XorShare:
    """An equality without shares, to count the gates behind it."""
    return BLANK


def band(shift: int, most: int) -> range:
    """Diagonals that a path of cost `most` between lengths that differ by `shift` can use."""
    room = (most - abs(shift)) // 2
    return range(min(0, shift) - room, max(0, shift) + room + 1)


def increments(
    role: int, equal: Equal, rows: int, columns: int, diagonals: range
) -> Circuit[dict[int, list[XorShare]]]:
    """The bits z of every diagonal, from the top: D grows by their sum along it."""
    vertical: Known = {}  # what a cell hands to the right
    horizontal: Known = {}  # what a cell hands down
    steps: dict[int, list[XorShare]] = {k: [] for k in diagonals}
    for places in range(2, rows + columns + 1):
        cells = _anti_diagonal(places, rows, columns, diagonals)
        left = {(i, j): vertical.pop((i, j - 1)) for i, j in cells if (i, j - 1) in vertical}
        upper = {(i, j): horizontal.pop((i - 1, j)) for i, j in cells if (i - 1, j) in horizontal}
        found = yield from beside(
            [
                _cell(role, equal(*cell).negated(role), left.get(cell), upper.get(cell))
                for cell in cells
            ]
        )
        for cell, (z, z_left, z_upper) in zip(cells, found, strict=True):
            steps[cell[1] - cell[0]].append(z)
            horizontal[cell] = _less(role, z, left.get(cell), z_left)
            vertical[cell] = _less(role, z, upper.get(cell), z_upper)
    return steps


def within_secret(
    role: int, equal: Equal, longest: int, most: int, shifts: Mapping[int, XorShare]
) -> Circuit[XorShare]:
    """1 where the distance of strings of shared lengths is at most `most`.

    shifts[s] are the bits [b - a = s]; the second string is padded to longest + most characters.
    """
    whole = range(-most, most + 1)
    steps = yield from increments(role, equal, longest, longest + most, whole)
    fits = yield from beside([at_most(role, [steps[s]], most - abs(s), shifts[s]) for s in whole])
    chosen = yield [Gate(fit, shifts[s]) for fit, s in zip(fits, whole, strict=True)]
    return XorShare(np.bitwise_xor.reduce([share.words for share in chosen], axis=0))


def levels_secret(
    role: int, equal: Equal, longest: int, most: int, shifts: Mapping[int, XorShare]
) -> Circuit[list[XorShare]]:
    """For each d from 0 to `most`: 1 where the distance is at most d, as `within_secret` has it.

    The sum along a diagonal is added up once and compared for every d: the levels cost little.
    """
    whole = range(-most, most + 1)
    steps = yield from increments(role, equal, longest, longest + most, whole)
    sums = yield from beside([total([steps[s]]) for s in whole])
    wanted = [(d, s) for d in range(most + 1) for s in range(-d, d + 1)]
    digits = dict(zip(whole, sums, strict=True))
    over = yield from beside([above(digits[s], d - abs(s)) for d, s in wanted])
    chosen = yield [
        Gate(each.negated(role), shifts[s]) for each, (_, s) in zip(over, wanted, strict=True)
    ]
    found: list[list[XorShare]] = [[] for _ in range(most + 1)]
    for (d, _), share in zip(wanted, chosen, strict=True):
        found[d].append(share)
    return [XorShare(np.bitwise_xor.reduce([share.words for share in of])) for of in found]


def _anti_diagonal(places: int, rows: int, columns: int, diagonals: range) -> list[Cell]:
    """Cells (i, j) with i + j = places inside table and band."""
    return [
        (i, places - i)
        for i in range(max(1, places - columns), min(rows, places - 1) + 1)
        if places - 2 * i in diagonals
    ]


def _cell(
    role: int, different: XorShare, left: Difference | None, upper: Difference | None
) -> Circuit[tuple[XorShare, XorShare | None, XorShare | None]]:
    """z, and z p of the neighbours that there are; `different` is not e."""
    if left is None or upper is None:
        alone = left if upper is None else upper
        if alone is None:
            return different, None, None
        z, product = yield [Gate(different, alone[0].negated(role), alone[1])]
        return (z, None, product) if left is None else (z, product, None)
    not_negative = left[0].negated(role)
    a, b = yield [Gate(different, not_negative, upper[0].negated(role))]
    z, z_left, z_upper = yield [Gate(b, not_negative, left[1]), Gate(a, upper[1])]
    return z, z_left, z_upper


def _less(
    role: int, z: XorShare, before: Difference | None, product: XorShare | None
) -> Difference:
    """z - u as (n', p'); without a neighbour u = +1, and z - 1 is never not_negative."""
    if before is None or product is None:
        return z.negated(role), zero(z)
    n, p = before
    return p ^ product, n ^ z ^ product
