"""SMIN and SMIN_k: the smallest of k encrypted numbers, as a one-hot vector.

SMIN compares u and v by compare.py and takes the smaller one's bits and index over: with the coin
on u > v, A = 1 means v, and the result is u + A (v - u); otherwise A = 1 means u (ties go to u,
the one on the left), and it is v + A (u - v). The differences travel masked; C2 multiplies by A.
SMIN_k is a tournament in which the lower index always stands on the left, then Section 5.3.2.2:
r_i (i - I_min), permuted; C2 returns E(1) for the 0 and E(0) for the rest.

Who learns what: C2 sees what compare.py shows, masked differences, and at the end random units
with one 0 at a random place. C1 sees fresh ciphertexts.

Per match and bit: a comparison, one masked difference each way and one exponentiation by a mask;
the last match moves only the index. ceil(log2 k) + 1 rounds.
"""

from dataclasses import dataclass

from ppodc.crypto.paillier import Ciphertexts
from ppodc.errors import WireError
from ppodc.kmeans.paillier.compare import compare, differences, toss
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, answers, pick
from ppodc.kmeans.paillier.masking import draw
from ppodc.kmeans.paillier.sbd import Bits
from ppodc.kmeans.paillier.smp import Natural
from ppodc.transport.wire import Array, Body

INDEX_BITS = 7  # indices of up to 64 clusters, and their differences


@dataclass(frozen=True, slots=True)
class Contender:
    """Encrypted numbers by their bits, with the encrypted index of each."""

    bits: Bits
    index: Ciphertexts


class Positions(Body, frozen=True):
    """`rows` permuted vectors of k blinded differences of an index to 0..k-1."""

    rows: Natural
    k: Natural


def smin(
    c1: Cloud1,
    u: Contender,
    v: Contender,
    *,
    keep_bits: bool = True,
    index_bits: int = INDEX_BITS,
) -> Step[Contender]:
    """Row by row the smaller of u and v, ties to u; without its bits if nobody needs them.

    Indices differ by less than 2^index_bits.
    """
    rows = len(u.index)
    coins = toss(c1, rows)
    d = differences(c1, u.bits, v.bits, coins)
    moved_u, moved_v = ([*x.bits, x.index] if keep_bits else [x.index] for x in (u, v))
    # what is added if A = 1: v - u, or u - v where the coin is true; the bits' part is -d
    bit_moves = [c1.cipher.negate(bit) for bit in d] if keep_bits else []
    index_move = differences(c1, [v.index], [u.index], coins)
    moves = Ciphertexts.concat([*bit_moves, *index_move])
    masks = draw(c1, 1, len(moves) - rows) + draw(c1, index_bits, rows)
    masked = c1.cipher.add(moves, c1.cipher.encrypt(masks))
    outcome, chosen = yield from compare(c1, d, coins, masked)
    minus_outcome = Ciphertexts.concat([c1.cipher.negate(outcome)] * len(moved_u))
    surplus = c1.cipher.power(minus_outcome, masks)
    base = Ciphertexts.concat([pick(coins, y, x) for x, y in zip(moved_u, moved_v, strict=True)])
    smaller = c1.cipher.add(base, c1.cipher.add(chosen, surplus))
    columns = [smaller[i * rows : (i + 1) * rows] for i in range(len(moved_u))]
    return Contender(columns[:-1], columns[-1])


def smin_k(c1: Cloud1, numbers: list[Bits]) -> Step[tuple[list[Ciphertexts], Ciphertexts]]:
    """Per number its column of the one-hot of the minimum (first of equals), and the index."""
    rows = len(numbers[0][0])
    field = [Contender(bits, c1.constant(h, rows)) for h, bits in enumerate(numbers)]
    while len(field) > 1:
        last = len(field) == 2
        left, right = field[0:-1:2], field[1::2]
        winner = yield from smin(c1, _stack(left), _stack(right), keep_bits=not last)
        alone = field[-1:] if len(field) % 2 else []
        field = _unstack(winner, len(right)) + alone
    index = field[0].index
    return (yield from one_hot(c1, index, len(numbers))), index


def _stack(contenders: list[Contender]) -> Contender:
    columns = zip(*(c.bits for c in contenders), strict=True)
    bits = [Ciphertexts.concat(list(column)) for column in columns]
    return Contender(bits, Ciphertexts.concat([c.index for c in contenders]))


def _unstack(stacked: Contender, parts: int) -> list[Contender]:
    rows = len(stacked.index) // parts
    cuts = [slice(i * rows, (i + 1) * rows) for i in range(parts)]
    return [Contender([b[cut] for b in stacked.bits], stacked.index[cut]) for cut in cuts]


def one_hot(c1: Cloud1, index: Ciphertexts, k: int) -> Step[list[Ciphertexts]]:
    """The encrypted index of each row as k columns, E(1) in the one of the index."""
    rows = len(index)
    negative = c1.cipher.negate(index)
    columns = [c1.cipher.add_plain(negative, h) for h in range(k)]
    orders = [c1.random.permutation(k) for _ in range(rows)]
    permuted = [columns[h].values[row] for row, order in enumerate(orders) for h in order]
    units = c1.random.units(c1.key.n, len(permuted))
    blinded = c1.cipher.power(Ciphertexts(c1.key, permuted), units)
    sent = c1.to_open(c1.cipher.rerandomise(blinded))
    (reply,) = yield Ask("positions", Positions(rows, k), (sent,))
    found = c1.read(reply, rows * k)
    places = [{int(h): place for place, h in enumerate(order)} for order in orders]
    return [found.take([row * k + places[row][h] for row in range(rows)]) for h in range(k)]


@answers("positions", Positions, arrays=1)
def answer_positions(c2: Cloud2, ask: Positions, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: E(1) where the blinded value is 0, E(0) elsewhere; exactly one 0 in every row."""
    values = c2.open(arrays[0], ask.rows * ask.k)
    found = [x == 0 for x in values]
    if any(sum(found[r * ask.k : (r + 1) * ask.k]) != 1 for r in range(ask.rows)):
        raise WireError("an index must be exactly one of the positions.")
    return [c2.encrypt_bits(found).to_array()]
