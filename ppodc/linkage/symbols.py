"""Texts as an owner encodes them: 32 symbols, and the edit distance of two texts in plaintext.

Unicode NFKD, lower case, marks dropped; then 32 codes of 5 bits. In a column of words these are
a-z, space, hyphen, apostrophe, one for all digits, one for anything else and one for "no
character"; in a column of digits (dates, postcodes) each digit has its own and everything else
shares one. Edit distances are between codes: two texts with the same codes are the same to them.
"""

import unicodedata
from collections.abc import Sequence

MAX_LENGTH = 64
LETTERS = "abcdefghijklmnopqrstuvwxyz"
OTHER, NONE = 30, 31  # codes of "anything else" and of "no character"
MAPPED = "\ufffd"  # stands for any sign without a code of its own
_DIGITS = "0123456789"
SIGNS = {"words": LETTERS + " -'" + _DIGITS, "digits": _DIGITS}  # that a column's texts may have
_DIGIT_CODES = {sign: code for code, sign in enumerate(_DIGITS)}
_WORD_CODES = {sign: code for code, sign in enumerate(LETTERS + " -'")} | dict.fromkeys(_DIGITS, 29)


def normalise(text: str) -> str:
    """The text in lower case without marks, blanks at the ends and runs of blanks."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    kept = "".join(sign for sign in plain if not unicodedata.combining(sign))
    return " ".join(kept.split())


def codes(text: str, *, digits: bool = False) -> list[int]:
    """Codes 0..30 of a normalised text; `digits`: in a column of numbers."""
    table = _DIGIT_CODES if digits else _WORD_CODES
    return [table.get(sign, OTHER) for sign in text]


def mapped(text: str, *, digits: bool = False) -> str:
    """A normalised text with one sign for all those without a code of their own."""
    table = _DIGIT_CODES if digits else _WORD_CODES
    return "".join(sign if sign in table else MAPPED for sign in text)


def levenshtein(x: Sequence[object], y: Sequence[object]) -> int:
    """The least number of insertions, deletions and substitutions from x to y."""
    if len(x) > len(y):
        x, y = y, x
    row = list(range(len(x) + 1))
    for j, symbol in enumerate(y, 1):
        diagonal, row[0] = row[0], j
        for i, other in enumerate(x, 1):
            best = min(row[i] + 1, row[i - 1] + 1, diagonal + (other != symbol))
            diagonal, row[i] = row[i], best
    return row[-1]
