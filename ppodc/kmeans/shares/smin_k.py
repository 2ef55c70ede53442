"""SMIN_k: the one-hot vector of the least of k numbers, for every record; ties to the lowest.

A tournament of neighbours, any k. A match of values a (left) and b (right) with one-hots A and B:
c = [b - a + margin < 0], so that the right one wins only if it is less by more than the margin (0
where numbers are exact; `fixed_point.MARGIN` makes up for their errors); the winner's value is
a + c (b - a) by select, its one-hot A ^ (c & A) followed by c & B. A player without a match moves
up. The last member of a one-hot follows from the others, as A xors to 1.

Who learns what: nothing. Rounds: per level those of a comparison, and one for a select and an AND.
Bytes: theirs. Supplies: k - 1 comparisons, k - 2 selects and about k log2(k) / 4 AND pairs per
record. Where one match is left of few records, joining its last three digits at once (`compare`)
saves a round for 2 AND pairs per record.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ppodc.mpc.ot.correlated_ot import begin_all, top_bytes
from ppodc.mpc.session import Session
from ppodc.mpc.shares import and_bits, compare, select
from ppodc.mpc.shares.additive import U64, AdditiveShare, public, zeros
from ppodc.mpc.shares.xor_bits import WORD, XorShare, padded
from ppodc.mpc.supplies import Needs

_FEW = 1 << 14  # comparisons; of more, AND pairs cost more than a round


@dataclass(frozen=True, slots=True, repr=False)
class Player:
    """The least of some neighbouring clusters, and the one-hot of which of them it is."""

    value: AdditiveShare
    hot: list[XorShare]


def needs(rows: int, k: int, width: int, *, slow: bool = False) -> Needs:
    """Supplies for `rows` records; over a `slow` link `smin_k` takes more, for fewer rounds."""
    rows = padded(rows, compare.UNIT)
    total, sizes = Needs(), [1] * k
    while len(sizes) > 1:
        matches = list(zip(sizes[0::2], sizes[1::2], strict=False))
        few = _are_few(len(matches), rows)
        total += compare.needs(len(matches) * rows, width, slow=slow, last_three=few)
        members = sum(-(-(left + right - 2) // 2) for left, right in matches)
        total += Needs(pairs=members * rows // WORD)
        last = len(sizes) == 2
        total += Needs() if last else select.needs(len(matches) * rows)
        sizes = [left + right for left, right in matches] + sizes[len(sizes) & ~1 :]
    return total


def waits(rows: int, k: int, width: int, *, slow: bool = False) -> int:
    """The number of times `smin_k` waits for the peer."""
    total, rows = 0, padded(rows, compare.UNIT)
    while k > 1:
        few = _are_few(k // 2, rows)
        total += compare.rounds(k // 2 * rows, width, slow=slow, last_three=few) + 1
        k -= k // 2
    return total


def _are_few(matches: int, rows: int) -> bool:
    return matches == 1 and rows <= _FEW


def always(role: int, rows: int) -> XorShare:
    """The bit 1 for every record."""
    return XorShare(np.zeros(padded(rows, compare.UNIT) // WORD, U64)).negated(role)


def smin_k(
    session: Session, differences: AdditiveShare, width: int, margin: int = 0, *, slow: bool = False
) -> list[XorShare]:
    """The one-hot of the least of (0, differences[:, 0], ...): k rows of bits, padded to a UNIT.

    All sums b - a + margin lie within +-2^width; differences are right modulo 2^(width + 1).
    """
    rows, others = differences.shape
    count = padded(rows, compare.UNIT)
    columns = np.zeros((others + 1, count, differences.length), U64)
    columns[1:, :rows] = np.moveaxis(differences.limbs, 1, 0)
    sure = [always(session.role, rows)]
    players = [Player(AdditiveShare(column), sure) for column in columns]
    while len(players) > 1:
        players = _level(session, players, width, margin, slow)
    return players[0].hot


def _level(
    session: Session, players: list[Player], width: int, margin: int, slow: bool
) -> list[Player]:
    """One round of matches."""
    left, right = players[0:-1:2], players[1::2]
    gaps = AdditiveShare.concat([b.value - a.value for a, b in zip(left, right, strict=True)])
    # c = [b - a + margin < 0]
    lead = gaps + public([margin], gaps.length, session.role)
    few = _are_few(len(left), len(left[0].value.limbs))
    wins = compare.sign(session, lead, width, slow=slow, last_three=few)
    right_wins = XorShare(wins.words.reshape(len(left), -1))
    if len(players) > 2:
        # a + c (b - a), in the round of the one-hots
        rows, top = gaps.reshape(len(gaps.limbs), 1), top_bytes(width + 1)
        chosen, run = select.select_run(session, wins.unpack(len(rows.limbs)), rows, top=top)
        hots = _one_hots(session, left, right, right_wins, begin_all(session.ot, [run]))
        values = AdditiveShare.concat([a.value for a in left]) + chosen.reshape(-1)
    else:
        hots = _one_hots(session, left, right, right_wins)
        values = zeros((len(gaps.limbs),), gaps.length)  # nobody plays the final's winner
    per_match = len(left[0].value.limbs)
    winners = [
        Player(values[i * per_match : (i + 1) * per_match], hot) for i, hot in enumerate(hots)
    ]
    return winners + players[2 * len(left) :]


def _one_hots(
    session: Session,
    left: Sequence[Player],
    right: Sequence[Player],
    right_wins: XorShare,
    beside: Callable[[], None] | None = None,
) -> list[list[XorShare]]:
    """For each match the one-hot over both sides' clusters; `beside` receives in the same round."""
    factors: list[XorShare] = []
    members: list[XorShare] = []
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        free = a.hot[:-1] + b.hot[:-1]
        if len(free) % 2:
            free.append(XorShare(np.zeros_like(free[0].words)))
        members += free
        factors += [right_wins[i]] * (len(free) // 2)
    products = iter(_and_all(session, factors, members, beside))
    result = []
    for i, (a, b) in enumerate(zip(left, right, strict=True)):
        wins = right_wins[i]
        lost = wins.negated(session.role)
        # A ^ (c & A) sums to 1 ^ c, and c & B to c: the last members make up for it
        kept = [member ^ next(products) for member in a.hot[:-1]]
        taken = [next(products) for _ in b.hot[:-1]]
        if (len(kept) + len(taken)) % 2:
            next(products)
        result.append([*kept, _rest(lost, kept), *taken, _rest(wins, taken)])
    return result


def _and_all(
    session: Session,
    factors: list[XorShare],
    members: list[XorShare],
    beside: Callable[[], None] | None,
) -> list[XorShare]:
    """factors[i] & members[2 i] and factors[i] & members[2 i + 1], in one round with `beside`."""
    if not factors:
        if beside is not None:
            session.link.turn()
            beside()
        return []
    every = _stack(factors), (_stack(members[0::2]), _stack(members[1::2]))
    ((first, second),) = and_bits.and_all(session, [every], beside or (lambda: None))
    return [part[i] for i in range(len(factors)) for part in (first, second)]


def _stack(rows: Sequence[XorShare]) -> XorShare:
    return XorShare(np.stack([row.words for row in rows]))


def _rest(total: XorShare, others: Sequence[XorShare]) -> XorShare:
    """The last member of a one-hot whose members xor to `total`."""
    for other in others:
        total = total ^ other
    return total
