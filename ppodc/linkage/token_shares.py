"""Tokens of rows on shares, and their powers (`tokens`).

Owner and upload are public to the clouds. The row number is too if rows stand as they were in the
owner's table; with dummies among them the owner uploads it, as two shared numbers of 20 bits. Then
token = b + x with x shared bit by bit, and

    x^r = sum_j bit_j 2^j x^(r-1),     token^r = sum_i C(r, i) b^(r-i) x^i.

Who learns what: nothing. Rounds: those of taking in 20 bits, and 1 for each power. Bytes per row
and direction: 320 K for each power beyond the first.
"""

from collections.abc import Sequence
from math import comb

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.row_layout import ROW_HALF
from ppodc.linkage.schedule import Rows
from ppodc.linkage.tokens import base
from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.shares import unmask
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public
from ppodc.mpc.shares.multiply import doublings
from ppodc.mpc.shares.remask import remask
from ppodc.mpc.shares.unmask import SharedTable
from ppodc.mpc.spill import Budget
from ppodc.records.result_shares import OutputShare


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


def own_row_share(
    session: Session,
    share: NDArray[np.uint64],
    upload: U64Array,
    first: NDArray[np.bool_],
    budget: Budget,
) -> OutputShare:
    """A fresh half of the numbers of rows in their owners' uploads, 0 but of the `first` pass.

    `upload` has what to add to each row's number; a dummy has nothing else.
    """
    (numbers,) = row_numbers(session, share, len(share), 1, budget)
    placed = (numbers.low(1) + public(upload.tolist(), 1, session.role)).limbs.reshape(-1)
    return OutputShare.of_words(remask(session, placed * first.astype(U64)))


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
    sending = Sending(doubled, choices)
    keys = table.transfers.starting_at(0)
    correlated_ot.run(session.ot, keys, batch, sending, choices)
    return AdditiveShare(sums)


def tokens(session: Session, numbers: Sequence[AdditiveShare], rows: Rows) -> AdditiveShare:
    """Shares of (token, .., token^K) of every row: (rows, K)."""
    most, b = len(numbers), base(rows.owner, rows.number)
    one = public([1] * rows.count, most, session.role)
    powers = [one, *numbers]
    columns = []
    for r in range(1, most + 1):
        terms = [powers[i].times(comb(r, i) * b ** (r - i)) for i in range(r + 1)]
        columns.append(sum(terms[1:], terms[0]).limbs)
    return AdditiveShare(np.stack(columns, axis=1))
