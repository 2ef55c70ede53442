"""Comparing encrypted bit vectors: the core of SMIN, of SC and of the tests of cluster sizes.

Let P_i be the difference of the numbers made of the first i bits of u and v, P_i = 2 P_(i-1) + d_i
with d_i = u_i - v_i. The first differing bit stands at i and has u_i = 1 exactly if P_(i-1) = 0 and
d_i = 1, that is, if X_i = P_i + P_(i-1) - 1 = 3 P_(i-1) + d_i - 1 is 0 (3 P = 1 - d has no other
solution with d in {-1, 0, 1}). A last, public bit, 0 for u and 1 for v, makes them differ always.
C1 tosses a coin per row, tests u > v or v > u by it, multiplies every X_i by a random unit modulo
n, re-randomises and permutes. C2 decrypts: some value is 0 if the tested relation holds.

Deviation from Samanthula, Elmehdwi and Jiang (TKDE 2015): there, u_i xor v_i is made with one SMP
per bit, and the first difference is marked by a chain H_i = H_(i-1)^r G_i. Prefix differences are
linear in the bits: no SMP, and one random exponent per bit instead of two. Ties cost one public
position instead of ceil(log2 k) encrypted ones.

Who learns what: C2 sees random units modulo n in random order and, depending on C1's coin, one 0
among them: a fair coin toss. C1 sees fresh ciphertexts (or the blinded bit, in SC).

Per row and bit: one full exponentiation, one inversion, one decryption. One round.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from ppodc.crypto.paillier import Ciphertexts
from ppodc.errors import WireError
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, answers, pick
from ppodc.kmeans.paillier.sbd import Bits, public_bits
from ppodc.kmeans.paillier.smp import MOST_VALUES, Natural
from ppodc.transport.wire import Array, Body

Coins = Sequence[bool]


class Compare(Body, frozen=True):
    """`rows` permuted vectors of `width` blinded values; `selected` columns of differences."""

    rows: Annotated[int, msgspec.Meta(ge=0, le=MOST_VALUES)]
    width: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]
    selected: Natural


class Reveal(Body, frozen=True):
    """One permuted vector of `width` blinded values, whose outcome C1 is told."""

    width: Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]


def toss(c1: Cloud1, rows: int) -> list[bool]:
    """A fair coin per row."""
    return [bool(bit) for bit in c1.random.bits(1, rows)]


def differences(c1: Cloud1, u: Bits, v: Bits, coins: Coins) -> Bits:
    """d_i = u_i - v_i, or v_i - u_i where the coin says so, most significant first."""
    return [
        c1.cipher.subtract(pick(coins, y, x), pick(coins, x, y)) for x, y in zip(u, v, strict=True)
    ]


def blind(c1: Cloud1, d: Bits, coins: Coins) -> Array:
    """The permuted, blinded values that C2 looks for a 0 in, row after row."""
    columns: list[Ciphertexts] = []
    prefix = None
    for bit in d:
        longer = bit if prefix is None else c1.cipher.add(c1.cipher.add(prefix, prefix), bit)
        tested = longer if prefix is None else c1.cipher.add(longer, prefix)
        columns.append(c1.cipher.add_plain(tested, -1))
        prefix = longer
    assert prefix is not None  # noqa: S101 - a number has at least one bit
    # the public last bit: d = 1 where v > u is tested, -1 where u > v is
    thrice = c1.cipher.add(c1.cipher.add(prefix, prefix), prefix)
    columns.append(c1.cipher.add_plain(thrice, [0 if coin else -2 for coin in coins]))
    permuted = [
        columns[column].values[row]
        for row in range(len(coins))
        for column in c1.random.permutation(len(columns))
    ]
    units = c1.random.units(c1.key.n, len(permuted))
    blinded = c1.cipher.power(Ciphertexts(c1.key, permuted), units)
    return c1.to_open(c1.cipher.rerandomise(blinded))


def _holds(c2: Cloud2, array: Array, rows: int, width: int) -> list[bool]:
    """C2: per row whether one of the blinded values is 0."""
    values = c2.open(array, rows * width)
    zeros = [sum(x == 0 for x in values[r * width : (r + 1) * width]) for r in range(rows)]
    if any(count > 1 for count in zeros):
        raise WireError("a comparison has more than one first difference.")
    return [count == 1 for count in zeros]


def compare(
    c1: Cloud1, d: Bits, coins: Coins, selected: Ciphertexts
) -> Step[tuple[Ciphertexts, Ciphertexts]]:
    """E(A) per row, and A times the `selected`, columns of rows that the caller has masked.

    A = 1 if the relation of the coin holds: u > v, or v >= u where the coin is true.
    """
    rows = len(coins)
    body = Compare(rows, len(d) + 1, len(selected) // rows)
    outcome, chosen = yield Ask("compare", body, (blind(c1, d, coins), selected.to_array()), 2)
    return c1.read(outcome, rows), c1.read(chosen, len(selected))


@answers("compare", Compare, arrays=2)
def answer_compare(c2: Cloud2, ask: Compare, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: E(A) and the selected ciphertexts times A, all with fresh randomness."""
    holds = _holds(c2, arrays[0], ask.rows, ask.width)
    selected = c2.read(arrays[1], ask.rows * ask.selected)
    # a full-size E(0), so that the time does not tell which was chosen
    nothing = Ciphertexts(selected.key, c2.zero.values * len(selected))
    chosen = pick(holds * ask.selected, selected, nothing)
    outcome = c2.encrypt_bits(holds)
    return [outcome.to_array(), c2.cipher.rerandomise(chosen).to_array()]


def sc(c1: Cloud1, a: Bits, b: Bits) -> Step[bool]:
    """SC: whether a <= b, for one pair of numbers; C1 learns it and tells C2 (see half.py)."""
    coins = toss(c1, 1)
    blinded = blind(c1, differences(c1, a, b, coins), coins)
    (reply,) = yield Ask("reveal", Reveal(len(a) + 1), (blinded,))
    if reply.shape != (1,) or reply.dtype != np.uint8 or reply[0] > 1:
        raise WireError("the outcome of a comparison is one bit.")
    # the coin's relation: a > b, or b >= a
    return bool(reply[0]) == coins[0]


@answers("reveal", Reveal, arrays=1, amount=lambda ask: ask.width)
def answer_reveal(c2: Cloud2, ask: Reveal, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: the coin-blinded outcome in the clear; the one answer that tells C1 anything."""
    return [np.array(_holds(c2, arrays[0], 1, ask.width), dtype=np.uint8)]


def at_most(c1: Cloud1, bits: Bits, bound: int) -> Step[Ciphertexts]:
    """E(1) where the number is at most a public bound, else E(0); neither cloud learns which."""
    rows = len(bits[0])
    coins = toss(c1, rows)
    public = public_bits(c1, bound, len(bits), rows)
    nothing = Ciphertexts(c1.key, [])
    outcome, _ = yield from compare(c1, differences(c1, bits, public, coins), coins, nothing)
    # coin: A = [bound >= x] is the answer; otherwise A = [x > bound] is its opposite
    opposite = c1.cipher.add_plain(c1.cipher.negate(outcome), 1)
    return pick(coins, outcome, opposite)
