"""What names a row to the owners it is linked with: owner, upload and row, and powers of that.

    token = (owner's number + 1) 2^52 + (which of its uploads) 2^40 + (row number + 1)

Owner and upload are public to the clouds. The row number is too if rows stand as they were in the
owner's table; with dummies among them the owner uploads it, as two shared numbers of 20 bits. Then
token = b + x with x shared bit by bit, and

    x^r = sum_j bit_j 2^j x^(r-1),     token^r = sum_i C(r, i) b^(r-i) x^i.

Who learns what: nothing. Rounds: those of taking in 20 bits, and 1 for each power. Bytes per row
and direction: 320 K for each power beyond the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.upload import ROW_HALF
from ppodc.linkage.work import Rows
from ppodc.mpc import correlated_ot, unmask
from ppodc.mpc.additive import U64, AdditiveShare, public
from ppodc.mpc.correlated_ot import Batch, Sending
from ppodc.mpc.multiply import doublings
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.unmask import SharedTable

ROW_BITS = 2 * ROW_HALF
UPLOAD_BITS = 12
OWNER_BITS = 9
LARGEST = (1 << (OWNER_BITS + UPLOAD_BITS + ROW_BITS)) - 1  # 61 bits: 8 such fit in 64


def base(rows: Rows) -> int:
    """The token of an upload's rows, without the row number."""
    return (rows.owner + 1) << (UPLOAD_BITS + ROW_BITS) | rows.number << ROW_BITS


@dataclass(frozen=True, slots=True)
class Partner:
    """A row that a token names; uploads and rows count from 0, as their owner gave them.

    The row is -1 if its owner gave it no number.
    """

    owner: int
    upload: int
    row: int


def partner(token: int) -> Partner | None:
    """What a token names; None if it is none."""
    owner, rest = divmod(token, 1 << (UPLOAD_BITS + ROW_BITS))
    upload, row = divmod(rest, 1 << ROW_BITS)
    if not 1 <= owner < 1 << OWNER_BITS:
        return None
    return Partner(owner - 1, upload, row - 1)


def row_numbers(
    session: Session, share: NDArray[np.uint64] | None, rows: int, most: int, budget: Budget
) -> list[AdditiveShare]:
    """Shares of x, x^2, .., x^K of every row, x its number + 1 (0 of a dummy).

    `share` are the uploaded halves (rows, 2), or None if rows stand as in their table.
    """
    if share is None:
        return [
            public([x**r for x in range(1, rows + 1)], most, session.role)
            for r in range(1, most + 1)
        ]
    table = unmask.unmask(session, share, ROW_HALF, budget, limbs=most)
    halves = table.additive(0, rows)
    powers = [halves[:, 0] + halves[:, 1].times(1 << ROW_HALF)]
    for _ in range(1, most):
        powers.append(_times_row(session, table, powers[-1]))
    table.close()
    return powers


def _times_row(session: Session, table: SharedTable, values: AdditiveShare) -> AdditiveShare:
    """x * values of every row, by transfers that the bits of x choose."""
    choices = table.choices(0, table.rows)
    sums = np.zeros((table.rows, values.length), U64)
    batch = Batch(
        len(choices),
        table.per_row,
        values.length,
        session.ot.tweaks.reserve(len(choices)),
        sums,
    )
    doubled = doublings(values.limbs.reshape(-1, 1, values.length), table.per_row)
    sending = Sending(doubled, choices, np.zeros_like(choices))
    keys = table.transfers.starting_at(0)
    correlated_ot.run(session.ot, keys, batch, sending, choices)
    return AdditiveShare(sums)


def tokens(session: Session, numbers: Sequence[AdditiveShare], rows: Rows) -> AdditiveShare:
    """Shares of (token, .., token^K) of every row: (rows, K)."""
    most, b = len(numbers), base(rows)
    one = public([1] * rows.count, most, session.role)
    powers = [one, *numbers]
    columns = []
    for r in range(1, most + 1):
        terms = [powers[i].times(comb(r, i) * b ** (r - i)) for i in range(r + 1)]
        columns.append(sum(terms[1:], terms[0]).limbs)
    return AdditiveShare(np.stack(columns, axis=1))
