"""A number at the receiver against one or two numbers at the sender, in a chain of digits.

For the receiver's y and the sender's s_j, shared bits c_j = [y > s_j]. From the lowest digit on

    c_j = [y_d > s_jd] ^ ([y_d = s_jd] & c_j)

by one 1-of-16 transfer a digit (`digit_ot`): the receiver's choice is its digit and its shares of
the c_j so far; the sender, who has the other shares, writes the next c_j for every choice, masked
anew. The lowest digit has 4 bits, each later one leaves a bit of its choice to every c_j.

Against comparing digit by digit and joining them (`compare`) this takes no AND, and two
comparisons with the same y cost little more than one, but the rounds grow with the bits.

Who learns what: nothing; choices travel masked by random ones, tables by pads of which the
receiver has one. A sender that deviates may write any table, so that the receiver's share becomes
any function of its choice; no message depends on it. Rounds: 2 per digit. Bytes per digit: 1/2 to
the sender and 4 back. Supplies: a leaf per digit for two numbers, one in each direction.
"""

from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.single_use import Array
from ppodc.mpc.compiled import compiled, i64, in_u1, in_u4, in_u4_2, in_u4_3, out_u4
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.digit_ot import DIGIT, permuted
from ppodc.mpc.session import Session

Numbers = NDArray[np.uint32]
UNIT = 4  # numbers of a batch: an even count in each direction
_CHOICES, _TABLES = "shares.digits", "shares.tables"


def leaves(count: int, bits: int, comparisons: int) -> int:
    """Leaves for `count` numbers, a multiple of UNIT, half of them sent by each cloud."""
    return count // 2 * len(list(_digits(bits, comparisons)))


def above(session: Session, mine: Numbers, theirs: Numbers, bits: int) -> tuple[Bits, Bits]:
    """Shares of c_j in bit j - 1, a byte per number: as the sender's of `mine`, and as receiver.

    `mine` (comparisons, n) are the s_j of this cloud and `theirs` (n) its y of the other half of
    the batch, all of `bits` bits; n is even.
    """
    comparisons, count = mine.shape
    every = np.uint8((1 << comparisons) - 1)
    sent, got = np.zeros((2, count), np.uint8)
    for place, size, carried in _digits(bits, comparisons):
        pads, random = session.supplies.take_leaves(count)
        choice = (theirs >> np.uint32(place)).astype(np.uint8) & np.uint8((1 << size) - 1)
        choice |= got << size
        wish = choice ^ (random & np.uint8(15))
        wishes = session.link.exchange(_CHOICES, wish[0::2] | (wish[1::2] << DIGIT))
        # Sender: entry v of the table holds the next c_j for choice v, masked, under pad v ^ wish.
        masks = np.frombuffer(session.random.bytes(count), np.uint8) & np.uint8(
            (1 << comparisons) - 1
        )
        message = np.empty(count, np.uint32)
        truths = _truths(size, comparisons, carried)
        _tables(pads, wishes, mine, place, sent, masks, truths, message)
        answer = session.link.exchange(_TABLES, message)
        entry = (answer >> (2 * choice).astype(np.uint32)).astype(np.uint8)
        sent, got = masks, (entry ^ (random >> np.uint8(DIGIT))) & every
    return sent, got


def _digits(bits: int, comparisons: int) -> Iterator[tuple[int, int, bool]]:
    """Lowest bit and size of each digit, and whether it goes on from one below."""
    place = 0
    while place < bits:
        size = min(DIGIT - comparisons if place else DIGIT, bits - place)
        yield place, size, place > 0
        place += size


@cache
def _truths(size: int, comparisons: int, carried: bool) -> Numbers:
    """The next c_j of all choices, for its share at the sender and the sender's digit.

    (comparisons, 2, 2^size): bit 2 v + j - 1 of a word is c_j for choice v.
    """
    table = np.zeros((comparisons, 2, 1 << size), np.uint32)
    for j, own, digit, v in np.ndindex(comparisons, 2, 1 << size, 1 << DIGIT):
        y, below = v % (1 << size), (v >> (size + j) & 1) ^ own if carried else 0
        if y > digit or (y == digit and below):
            table[j, own, digit] |= np.uint32(1 << (2 * v + j))
    return table


@compiled(in_u4, in_u1, in_u4_2, i64, in_u1, in_u1, in_u4_3, out_u4)
def _tables(
    pads: Array,
    wishes: Bits,
    numbers: Numbers,
    place: int,
    shares: Bits,
    masks: Bits,
    truths: Numbers,
    out: Numbers,
) -> None:
    """The tables to send; the pads of each are exchanged as the receiver wishes."""
    below = np.uint32(truths.shape[2] - 1)
    for i in range(out.shape[0]):
        word = permuted(pads[i], (wishes[i // 2] >> np.uint8(4 * (i % 2))) & np.uint8(15))
        for j in range(numbers.shape[0]):
            digit = (numbers[j, i] >> np.uint32(place)) & below
            word ^= truths[j, (shares[i] >> np.uint8(j)) & np.uint8(1), digit]
            mask = np.uint32((masks[i] >> np.uint8(j)) & np.uint8(1))
            word ^= (mask * np.uint32(0x55555555)) << np.uint32(j)
        out[i] = word
