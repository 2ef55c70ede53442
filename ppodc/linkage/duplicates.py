"""Which rows count, when several owners hold the same: shared bits that nobody opens.

A row is a duplicate if it matches a row of an owner before its own (in order of first upload); the
first owner's copy stays. All rows are real here: `blocks = "none"`, every pair is compared.

Who learns what: nothing. Rounds, bytes: those of `distances` and `outcome`, once in a job.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from ppodc.linkage import distances
from ppodc.linkage.blocks import batches, rectangle
from ppodc.linkage.distances import NumberRows, Numbers
from ppodc.linkage.outcome import Duplicates
from ppodc.linkage.pieces import Piece, pieces
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.unmask import SharedTable


def kept(
    session: Session,
    numbers: Numbers,
    tables: Mapping[str, SharedTable],
    uploads: Sequence[tuple[int, int]],
) -> dict[str, Bits]:
    """This cloud's shares of [row counts], for the rows of each shard.

    `tables` are the shards in the order of the sealed rows, `uploads` (owner, rows) likewise.
    """
    rows = {name: distances.with_norms(session, numbers, table) for name, table in tables.items()}
    found = {name: Duplicates(table.rows) for name, table in tables.items()}
    sizes = [(name, table.rows) for name, table in tables.items()]
    listed = sorted(pieces(sizes, uploads), key=lambda piece: piece.owner)
    for number, x in enumerate(listed):
        for y in listed[number + 1 :]:
            if x.owner < y.owner:
                _compare(session, numbers, (x, rows[x.shard]), (y, rows[y.shard]), found[y.shard])
    ones = {
        name: np.full(table.rows, session.role == 1, np.uint8) for name, table in tables.items()
    }
    return {name: found[name].keep(session, ones[name]) for name in tables}


def _compare(
    session: Session,
    numbers: Numbers,
    first: tuple[Piece, NumberRows],
    second: tuple[Piece, NumberRows],
    found: Duplicates,
) -> None:
    """Rows of the second piece that match any of the first are duplicates."""
    (x, left), (y, right) = first, second
    for batch in batches(rectangle(x.rows, [y.rows])):
        pairs = sum(block.pairs for block in batch)
        session.supplies.reserve(numbers.needs(pairs))
        bits = distances.match_bits(session, numbers, left, right, batch)
        for block, match in zip(batch, bits, strict=True):
            found.add(session, block, match)
