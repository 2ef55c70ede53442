"""Texts as points: coordinates that bound edit distances from below (Section 4.3 of the thesis).

With public reference sets G_1..G_k, coordinate j of a text is its smallest edit distance to a
member of G_j. |coordinate_j(x) - coordinate_j(y)| <= lev(x, y), so cells of coordinates prune
without losing a match; nothing is known the other way round. The length is one more such coordinate
(itself: the chapter's reference set of growing strings gives 1 for the empty string, not 0).

Texts are sequences of codes (`linkage.symbols`). Reference texts are drawn from a public seed,
never from anyone's data.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import SpecError
from ppodc.linkage.symbols import LETTERS, MAX_LENGTH, NONE, codes

Ints = NDArray[np.int64]
Text = Sequence[int]


def reference_set(seed: bytes, size: int, longest: int, signs: int = len(LETTERS)) -> list[Text]:
    """Public random texts of codes below `signs`; lengths run through 1..longest repeatedly."""
    if size < 1 or not 1 <= longest <= MAX_LENGTH:
        raise SpecError(f"a reference set needs a text, and texts of 1 to {MAX_LENGTH} signs.")
    random = SecureRandom(seed)
    lengths = [1 + i % longest for i in range(size)]
    return [tuple(int(x) for x in random.below(signs, n)) for n in lengths]


def embed(texts: Ints, references: Sequence[Text]) -> Ints:
    """The coordinate of every text: min over the references of the edit distance.

    A row of `texts` holds the codes of one text, then NONE.
    """
    if not len(texts):
        return np.empty(0, np.int64)
    distinct, place = np.unique(texts, axis=0, return_inverse=True)
    near = np.full(len(distinct), np.iinfo(np.int64).max)
    for reference in references:
        np.minimum(near, edit_distances(distinct, reference), out=near)
    return near[place.reshape(-1)]


def coded(texts: Sequence[str], least: int = 0, *, digits: bool = False) -> Ints:
    """Codes of normalised texts, a row for each, filled up with NONE: of `least` codes or more."""
    rows = [codes(text, digits=digits) for text in texts]
    wide = max([least, *map(len, rows)])
    filled = [row + [NONE] * (wide - len(row)) for row in rows]
    return np.array(filled, np.int64).reshape(len(rows), wide)


def edit_distances(texts: Ints, reference: Text) -> Ints:
    """The edit distance of every text to one reference of at most 64 signs.

    A word holds the differences between neighbours in a column of the table, one bit for each sign
    of the reference (the bit-parallel method of Myers and Hyyro); all texts advance together.
    """
    if not len(reference):
        lengths: Ints = (texts != NONE).sum(axis=1, dtype=np.int64)
        return lengths
    one, bits = np.uint64(1), len(reference)
    where = np.zeros(NONE + 1, np.uint64)
    for place, code in enumerate(reference):
        where[code] |= one << np.uint64(place)
    last = np.uint64(bits - 1)
    rises = np.full(len(texts), (1 << bits) - 1, np.uint64)
    falls = np.zeros(len(texts), np.uint64)
    distance = np.full(len(texts), bits, np.int64)
    for signs in texts.T:
        ends = signs == NONE
        equal = where[signs]
        diagonal = (((equal & rises) + rises) ^ rises) | equal | falls
        up, down = falls | ~(diagonal | rises), rises & diagonal
        step = ((up >> last) & one).astype(np.int64) - ((down >> last) & one).astype(np.int64)
        up, down = (up << one) | one, down << one
        rises = np.where(ends, rises, down | ~(diagonal | up))
        falls = np.where(ends, falls, up & diagonal)
        distance += np.where(ends, 0, step)
    return distance
