"""Values that must be equal, as whole numbers of as few bits as their public domain needs.

A number between whole bounds counts from the lower one. A text of at most n of q signs is one of
1 + q + .. + q^n: if these fit in 40 bits (11 digits; 7 letters, digits, blanks, hyphens and
apostrophes), its code is sum_i (c_i + 1) q^i, c_i the place of sign i among the q, which no other
text has. Both are exact. Of a longer text it is 40 bits of SHA-256: two that differ are taken as
equal with probability 2^-40.
"""

import hashlib
from functools import lru_cache

from ppodc.linkage.symbols import MAPPED, SIGNS
from ppodc.records.schema import Column, TextColumn

CODE_BITS = 40


def number_bits(column: Column) -> int:
    """Bits of x - low for whole x between the bounds."""
    return int(column.high - column.low).bit_length()


def text_bits(text: TextColumn) -> int:
    """Bits of the code of a text in this column."""
    return min(CODE_BITS, _largest(text).bit_length())


def is_exact(text: TextColumn) -> bool:
    """Whether no two texts of this column have the same code."""
    return _largest(text) >> CODE_BITS == 0


def digest_code(value: str) -> int:
    """40 bits of the digest of a text."""
    return int.from_bytes(hashlib.sha256(value.encode()).digest()[: CODE_BITS // 8], "little")


def text_code(text: TextColumn, value: str) -> int:
    """The code of a normalised text that fits the column."""
    if not is_exact(text):
        return digest_code(value)
    signs, code = _signs(text), 0
    for sign in reversed(value):
        code = code * len(signs) + signs.index(sign) + 1
    return code


@lru_cache(maxsize=64)
def _largest(text: TextColumn) -> int:
    """The largest code, if texts of this column are their own: q + .. + q^n."""
    return int(sum(len(_signs(text)) ** n for n in range(1, text.longest + 1)))


def _signs(text: TextColumn) -> str:
    """All signs of a column's texts; those that are mapped are one."""
    return SIGNS[text.signs] + (MAPPED if text.other else "")
