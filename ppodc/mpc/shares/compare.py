"""Carry and sign of additive shares: what the bits of x1 + x2 say without opening them.

The carry out of the low w bits of x1 + x2 is [x2 > 2^w - 1 - x1], a comparison of a number at C1
with one at C2. Both are cut in digits of 4 bits; for each digit a 1-of-16 transfer gives shares
of (greater, equal), and a tree of depth log2(w/4) joins them: greater = gh ^ (eh & gl),
equal = eh & el. The sign of x, |x| < 2^w, is bit w of x1 + x2: its own bits and that carry.

Half of a batch has C1 as sender of the digits, the other half C2, so that both work alike.

Over a slow link few numbers are compared in fewer rounds: digits are joined three at a time
(`join_three`), for about twice as many AND pairs. `slow` asks for that, of `needs` alike. Where
a round is worth 2 AND pairs a comparison, `last_three` joins the last three digits at once.

Who learns what: nothing; the receiver's digits travel masked by its random choices, the tables
by pads of which the receiver has one, the tree opens masked bits only. A sender that deviates may
write any table, so that the receiver's share becomes any function of its digit; a receiver that
deviates has chosen another digit. No message of the honest cloud depends on either.
Rounds: 2 + log2(w/4), one less with `last_three`, or about log3. Bytes per comparison and
direction: about 2.25 w/4 + 3/8 w/4. Supplies: w/8 leaves in each direction and w/4 - 1 AND pairs.
"""

from collections.abc import Sequence

import numpy as np

from ppodc.crypto.single_use import Array
from ppodc.mpc.compiled import (
    compiled,
    i64,
    in_u1,
    in_u4,
    in_u8_2,
    out_u1_2,
    out_u4,
    out_u8_2,
)
from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.digit_ot import DIGIT, permuted
from ppodc.mpc.session import Session
from ppodc.mpc.shares import and_bits, join_three
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.join_three import Nodes
from ppodc.mpc.shares.xor_bits import WORD, XorShare, pack, padded
from ppodc.mpc.supplies import Needs

QUICK = 1 << 15  # comparisons; beyond, more supplies cost more than a round over a slow link
UNIT = 2 * WORD  # comparisons come in batches of this size, one word for each direction
_DIGITS, _TABLES, _JOIN = "shares.digits", "shares.tables", "shares.join"


def rounds(count: int, width: int, *, slow: bool = False, last_three: bool = False) -> int:
    """Rounds of `count` comparisons."""
    return 2 + len(_levels(count, -(-width // DIGIT), slow, last_three))


def needs(count: int, width: int, *, slow: bool = False, last_three: bool = False) -> Needs:
    """Supplies for `count` comparisons of `width` bits."""
    digits, rows = -(-width // DIGIT), padded(count, UNIT)
    levels = _levels(count, digits, slow, last_three)
    joins = sum(join_three.PAIRS * three + two for three, two in levels)
    return Needs(leaves=digits * rows // 2, pairs=joins * rows // WORD)


def _levels(count: int, digits: int, slow: bool, last_three: bool) -> list[tuple[int, int]]:
    """Nodes that join three digits, or two, level by level."""
    levels = []
    while digits > 1:
        at_once = (slow and count <= QUICK) or (last_three and digits == 3)
        three = digits // 3 if at_once else 0
        two = 0 if three else digits // 2
        levels.append((three, two))
        digits -= 2 * three + two
    return levels


def sign(
    session: Session,
    values: AdditiveShare,
    width: int,
    *,
    slow: bool = False,
    last_three: bool = False,
) -> XorShare:
    """1 where a value of -2^width < x < 2^width is negative: (n) values -> words of bits."""
    limb, bit = divmod(width, WORD)
    own = ((values.limbs[:, limb] >> U64(bit)) & U64(1)).astype(np.uint8)
    # bit w of x1 + x2 = (bit w of x1) ^ (bit w of x2) ^ (carry out of the bits below)
    out = carry(session, values, width, slow=slow, last_three=last_three)
    words = np.zeros_like(out.words)
    packed = pack(own)
    words[: len(packed)] = packed
    return out ^ XorShare(words)


def carry(
    session: Session,
    values: AdditiveShare,
    width: int,
    *,
    slow: bool = False,
    last_three: bool = False,
) -> XorShare:
    """The carry out of the low `width` bits of x1 + x2: (n) -> words, padded to a full UNIT."""
    count = padded(len(values.limbs), UNIT)
    limbs = np.zeros((count, values.length), U64)
    limbs[: len(values.limbs)] = values.limbs
    half = count // 2
    # C1 is the sender for the first half of the batch, C2 for the second.
    mine, theirs = (
        (limbs[:half], limbs[half:]) if session.role == 1 else (limbs[half:], limbs[:half])
    )
    levels = _levels(len(values.limbs), -(-width // DIGIT), slow, last_three)
    nodes = None
    if threes := sum(three for three, _ in levels):
        nodes = join_three.Nodes(session, threes, count // WORD)
    as_sender, as_receiver = _digits(session, mine, theirs, width, nodes)
    order = (as_sender, as_receiver) if session.role == 1 else (as_receiver, as_sender)
    joined = np.concatenate(order, axis=2)
    return _join(session, XorShare(joined[0]), XorShare(joined[1]), levels, nodes)


def _digits(
    session: Session, mine: U64Array, theirs: U64Array, width: int, nodes: Nodes | None = None
) -> tuple[U64Array, U64Array]:
    """Shares of (greater, equal) of every digit: (2, digits, words) as sender and as receiver.

    With s the sender's digit of 2^w - 1 - x and y the receiver's of its x: ([y > s], [y = s]).
    The openings of `nodes` travel beside.
    """
    digits, half = -(-width // DIGIT), len(mine)
    tables, random = session.supplies.take_leaves(digits * half)
    own = np.empty((2, digits, half), np.uint8)
    _nibbles(mine, width, 1, own[0])
    _nibbles(theirs, width, 0, own[1])
    # Receiver: its digit masked by the random choice r of the leaf, y ^ r; two to a byte.
    wish = own[1].reshape(-1) ^ (random & np.uint8(15))
    first = [] if nodes is None else [nodes.first()]
    wishes, *opened = session.link.exchange_all(_DIGITS, wish[0::2] | (wish[1::2] << DIGIT), *first)
    # Sender: entry v of the table is ([v > s] ^ g, [v = s] ^ e) under the pad v ^ (y ^ r), which
    # for v = y is pad r, the one that the receiver has; g and e are the sender's shares.
    masks = session.random.uint64((2, digits, half // WORD))
    message = np.empty(digits * half, np.uint32)
    _masked_tables(tables, wishes, own[0].reshape(-1), masks.reshape(2, -1), message)
    second = [] if nodes is None else [nodes.second(*opened)]
    answer, *opened = session.link.exchange_all(_TABLES, message, *second)
    if nodes is not None:
        nodes.finish(*opened)
    received = np.empty_like(masks)
    _look_up(answer, own[1].reshape(-1), random, received.reshape(2, -1))
    return masks, received


def _join(
    session: Session,
    greater: XorShare,
    equal: XorShare,
    levels: Sequence[tuple[int, int]],
    nodes: Nodes | None,
) -> XorShare:
    """The comparison from its digits, least significant first; one round per level."""
    done = 0
    for three, two in levels:
        if nodes is not None and three:
            ends, at = 3 * three, slice(done, done + three)
            found, both = nodes.join(session, at, _JOIN, (greater[:ends], equal[:ends]))
            done += three
        else:
            ends = 2 * two
            low, high = slice(0, ends, 2), slice(1, ends, 2)
            # greater = gh ^ (eh & gl), equal = eh & el
            carried, both = and_bits.and_two(session, equal[high], greater[low], equal[low])
            found = greater[high] ^ carried
        greater = XorShare.concat([found, greater[ends:]])
        equal = XorShare.concat([both, equal[ends:]])
    return greater[0]


@compiled(in_u8_2, i64, i64, out_u1_2)
def _nibbles(limbs: U64Array, width: int, complement: int, out: Array) -> None:
    """Digits of the low `width` bits, of 2^width - 1 - x with `complement`."""
    flip = U64(0) - U64(complement)
    for d in range(out.shape[0]):
        mask = U64(15)
        if 4 * d + 4 > width:
            mask = (U64(1) << U64(width - 4 * d)) - U64(1)
        for i in range(out.shape[1]):
            word = (limbs[i, d // 16] ^ flip) >> U64(4 * (d % 16))
            out[d, i] = np.uint8(word & mask)


@compiled(in_u4, in_u1, in_u1, in_u8_2, out_u4)
def _masked_tables(pads: Array, wishes: Bits, digits: Bits, masks: U64Array, out: Array) -> None:
    """Entry y of table i: ([y > digit] ^ mask, [y = digit] ^ mask) under pad y ^ wish."""
    one, two = np.uint32(1), np.uint32(2)
    evens, odds = np.uint32(0x55555555), np.uint32(0xAAAAAAAA)
    wish = np.empty(64, np.uint8)
    for w in range(out.shape[0] // 64):  # in steps that vector instructions can take
        first = 64 * w
        for i in range(32):
            wish[2 * i] = wishes[first // 2 + i] & np.uint8(15)
            wish[2 * i + 1] = wishes[first // 2 + i] >> np.uint8(4)
        above, same = masks[0, w], masks[1, w]
        for b in range(64):
            # Bit 2y for y > digit, and bit 2 digit + 1 for equality.
            digit = np.uint32(digits[first + b])
            place = one << (digit + digit)
            truth = ((np.uint32(0) - (place << two)) & evens) | (place << one)
            greater = np.uint32(0) - (np.uint32(above >> U64(b)) & one)
            equal = np.uint32(0) - (np.uint32(same >> U64(b)) & one)
            pad = permuted(pads[first + b], wish[b])
            out[first + b] = pad ^ truth ^ (greater & evens) ^ (equal & odds)


@compiled(in_u4, in_u1, in_u1, out_u8_2)
def _look_up(tables: Array, digits: Bits, random: Bits, out: U64Array) -> None:
    """The chosen entry of each table, unmasked with the pad in the top bits of `random`."""
    for w in range(out.shape[1]):
        greater, equal = U64(0), U64(0)
        for b in range(64):
            i = 64 * w + b
            entry = (U64(tables[i]) >> (U64(2) * U64(digits[i]))) ^ (U64(random[i]) >> U64(4))
            greater |= (entry & U64(1)) << U64(b)
            equal |= ((entry >> U64(1)) & U64(1)) << U64(b)
        out[0, w] = greater
        out[1, w] = equal
