"""Tokens that name a row to the owners it is linked with: owner, upload and row.

token = (owner's number + 1) 2^52 + (which of its uploads) 2^40 + (row number + 1)
"""

from dataclasses import dataclass

from ppodc.linkage.row_layout import ROW_HALF

ROW_BITS = 2 * ROW_HALF
UPLOAD_BITS = 12
OWNER_BITS = 9
LARGEST = (1 << (OWNER_BITS + UPLOAD_BITS + ROW_BITS)) - 1  # 61 bits: 8 such fit in 64


def base(owner: int, upload: int) -> int:
    """The token of an upload's rows, without the row number."""
    return (owner + 1) << (UPLOAD_BITS + ROW_BITS) | upload << ROW_BITS


@dataclass(frozen=True, slots=True)
class Partner:
    """A row that a token names; uploads and rows count from 0, as their owner gave them.

    The row is -1 if its owner gave it no number.
    """

    owner: int
    upload: int
    row: int


def partner(token: int) -> Partner | None:
    """The row that a token names; None if it is no token."""
    owner, rest = divmod(token, 1 << (UPLOAD_BITS + ROW_BITS))
    upload, row = divmod(rest, 1 << ROW_BITS)
    if not 1 <= owner < 1 << OWNER_BITS:
        return None
    return Partner(owner - 1, upload, row - 1)
