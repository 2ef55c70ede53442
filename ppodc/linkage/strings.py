"""Strings as linkage sees them: 32 symbols, and coordinates that prune.

*Symbols*: Unicode NFKD, lower case, marks dropped; then 32 codes of 5 bits. In a column of words
these are a-z, space, hyphen, apostrophe, one for all digits, one for anything else and one for "no
character"; in a column of numbers (dates, postcodes) each digit has its own and everything else
shares one. Edit distances are between codes: there two texts with the same codes are the same.

*Embedding*: with public reference sets G_1..G_k, coordinate j of a string is its smallest edit
distance to a member of G_j. |coordinate_j(x) - coordinate_j(y)| <= lev(x, y), so cells of
coordinates prune without losing a match; nothing is known the other way round. The length is one
more such coordinate (itself: the chapter's reference set of growing strings gives 1 for the empty
string, not 0). Reference strings are drawn from a public seed, never from anyone's data.
"""

import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError

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


def reference_set(seed: bytes, size: int, longest: int) -> list[str]:
    """Public random strings whose lengths run through 1..longest again and again."""
    if size < 1 or longest < 1:
        raise InputError("a reference set needs at least one string of at least one character.")
    random = SecureRandom(seed)
    lengths = [1 + i % longest for i in range(size)]
    return ["".join(LETTERS[int(x)] for x in random.below(26, n)) for n in lengths]


def embed(texts: Sequence[str], references: Sequence[str]) -> NDArray[np.int64]:
    """The coordinate of every text: min over the references of the edit distance."""
    distinct = sorted(set(texts))
    near = {text: int(edit_distances(text, references).min()) for text in distinct}
    return np.array([near[text] for text in texts], np.int64)


def edit_distances(text: str, references: Sequence[str]) -> NDArray[np.int64]:
    """Edit distances to all references at once, a row of the table for all of them at a time."""
    longest = max(len(reference) for reference in references)
    signs = np.array([[ord(s) for s in r.ljust(longest, "\0")] for r in references], np.int64)
    row = np.tile(np.arange(longest + 1), (len(references), 1))
    for j, sign in enumerate(text, 1):
        previous, row = row, np.empty_like(row)
        row[:, 0] = j
        # without the step along the row, then that step as a running minimum of row[i] - i
        row[:, 1:] = np.minimum(previous[:, 1:] + 1, previous[:, :-1] + (signs != ord(sign)))
        steps = np.arange(longest + 1)
        row = np.minimum.accumulate(row - steps, axis=1) + steps
    lengths = np.array([len(reference) for reference in references])
    ends: NDArray[np.int64] = row[np.arange(len(references)), lengths]
    return ends
