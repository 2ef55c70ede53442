"""Strings as points: coordinates that bound edit distances from below.

With public reference sets G_1..G_k, coordinate j of a string is its smallest edit distance to a
member of G_j. |coordinate_j(x) - coordinate_j(y)| <= lev(x, y), so cells of coordinates prune
without losing a match; nothing is known the other way round. The length is one more such coordinate
(itself: the chapter's reference set of growing strings gives 1 for the empty string, not 0).
Reference strings are drawn from a public seed, never from anyone's data.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage.symbols import LETTERS


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
