"""Looking up shared indices in a public table: from shares of n to shares of T[n], nobody knows n.

The index is n1 + n2 modulo N = 2^b, n1 at the sender and n2 at the receiver of one look-up. From b
random transfers with keys K[i][0], K[i][1] the sender grows a tree: below a node v at depth i stand
H(v ^ K[i][0]) and H(v ^ K[i][1]), and the N leaves are pads. The receiver, whose random choices
spell an index a, can walk to leaf a only; any other leaf is below a node whose key it lacks.

    receiver  sends  d = n2 - a               opens entry a: T[n1 + d + a] + p = T[n] + p
    sender    sends  pad_j + T[n1 + d + j] + p  for all j,  keeps -p (p random)

C1 sends the even look-ups of a batch and C2 the odd ones, so that both work alike.

Who learns what: nothing; d is masked by a, and all entries but one by pads the receiver cannot
know. A sender that deviates may write any table, so that the receiver's share becomes any function
of its n2; no message depends on it. Rounds: 2 (parts overlap). Bytes per look-up: 8 L N, one way.
Supplies: b transfers for two look-ups. Operations per look-up: about (4 + L / 2) N hash blocks.
Memory: parts of 2^14 entries.
"""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from itertools import product
from typing import TypeVar, cast

import numpy as np

from ppodc.mpc.ot.transfer import ObliviousTransfer
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.supplies import Needs

T = TypeVar("T")
Table = Callable[[int, int], U64Array]  # entries first..first+count-1: (count, limbs)
_INDEX, _ENTRIES = "shares.look-up", "shares.table"
_PART_BITS = 14
_AHEAD_BYTES = 1 << 24  # sent before the peer's messages are read


def needs(count: int, bits: int) -> Needs:
    """Supplies for `count` look-ups in tables of 2^bits entries."""
    return Needs(transfers=-(-count // 2) * bits)


def look_up(
    session: Session, indices: U64Array, bits: int, table: Table, limbs: int
) -> AdditiveShare:
    """T[n] for the n of which `indices` (modulo 2^bits) are this cloud's shares: (n) -> (n)."""
    return drained(look_up_rounds(session, indices, bits, table, limbs))


def drained(rounds: Generator[None, None, T]) -> T:
    """The outcome of rounds such as `look_up_rounds`, without a stop any more."""
    while True:
        try:
            next(rounds)
        except StopIteration as end:
            return cast("T", end.value)


def in_waits(
    rounds: Generator[None, None, AdditiveShare],
) -> Generator[None, None, AdditiveShare]:
    """`look_up_rounds` that stops only where the peer's messages are on their way."""
    next(rounds)
    yield
    next(rounds)
    next(rounds)
    yield
    return drained(rounds)


def look_up_rounds(
    session: Session, indices: U64Array, bits: int, table: Table, limbs: int
) -> Generator[None, None, AdditiveShare]:
    """`look_up`, which stops three times, so that other messages can share its rounds.

    It has sent indices and receives next; received, and sends next; sent, and receives next.
    Whoever sends at the first or second stop receives the peer's answer at the stop that follows.
    """
    count, size = len(indices), 1 << bits
    pairs, chosen, random = session.supplies.take_transfers(-(-count // 2) * bits)
    first = session.ot.tweaks.reserve(2 * size * count)
    sent, received = (range(role - 1, count, 2) for role in (session.role, session.ot.peer))
    choices = random.reshape(-1, bits)[: len(received)].astype(np.int64)
    wanted = choices @ (1 << np.arange(bits)[::-1])
    # d = n2 - a
    own = (indices[received.start :: 2] - wanted.astype(U64)) & U64(size - 1)
    session.link.send(_INDEX, own)
    yield
    shifts = session.link.receive(_INDEX, U64, len(sent)) + indices[sent.start :: 2]
    masks = AdditiveShare(session.random.uint64((len(sent), limbs)))
    parts = [(at, min(size, at + (1 << _PART_BITS))) for at in range(0, size, 1 << _PART_BITS)]
    out = np.empty((count, limbs), U64)
    out[sent.start :: 2] = (-masks).limbs
    outgoing, incoming = (list(product(range(len(r)), parts)) for r in (sent, received))
    trees = [
        _Tree(session.ot, pairs[i * bits :][:bits].reshape(bits, 2, 2), first + 2 * size * number)
        for i, number in enumerate(sent)
    ]
    # Walked before anything arrives: the time between messages says nothing about an index.
    opening = [
        _walk(
            session.ot,
            chosen[i * bits : (i + 1) * bits],
            choices[i],
            first + 2 * size * number,
            limbs,
        )
        for i, number in enumerate(received)
    ]
    yield
    # The peer's first message is awaited only when as many own ones as memory allows are on their
    # way, so that a slow link is waited for once.
    fitting = _AHEAD_BYTES // (8 * limbs * min(size, 1 << _PART_BITS))
    ahead = max(1, min(fitting, len(outgoing)))
    for step in range(max(len(outgoing), len(incoming)) + ahead):
        if step < len(outgoing):
            i, (start, end) = outgoing[step]
            entries = _rotated(table, (int(shifts[i]) + start) % size, end - start, size)
            pads = AdditiveShare(trees[i].leaves(start, end, limbs))
            session.link.send(_ENTRIES, (pads + AdditiveShare(entries) + masks[i]).limbs)
        if step == ahead:
            yield
        if ahead <= step < len(incoming) + ahead:
            i, (start, end) = incoming[step - ahead]
            message = session.link.receive(_ENTRIES, U64, end - start, limbs)
            if start <= wanted[i] < end:
                entry = AdditiveShare(message[wanted[i] - start]) - AdditiveShare(opening[i])
                out[received[i]] = entry.limbs
    return AdditiveShare(out)


@dataclass(frozen=True, slots=True, repr=False)
class _Tree:
    """The sender's tree of one look-up; the node j of depth i has the tweak first + 2^i + j."""

    ot: ObliviousTransfer
    keys: U64Array  # (bits, 2, 2)
    first: int

    def leaves(self, start: int, end: int, limbs: int) -> U64Array:
        """The pads start..end-1, the leaves of one subtree."""
        bits, depth = len(self.keys), (end - start).bit_length() - 1
        nodes = np.zeros((1, 2), U64)
        for i in range(bits):
            # down one path to the subtree, then all of it
            at = start >> (bits - 1 - i)
            children = (nodes[:, None] ^ self.keys[i]).reshape(-1, 2)
            if i < bits - depth:
                children = children[at & 1 : (at & 1) + 1]
            blocks = -(-limbs // 2) if i == bits - 1 else 1
            nodes = self.ot.hash.expand(children, self.first + (2 << i) + at, self.ot.role, blocks)
        return nodes[:, :limbs]


def _walk(
    ot: ObliviousTransfer, keys: U64Array, choices: U64Array, first: int, limbs: int
) -> U64Array:
    """The one pad that the receiver can reach: limbs words."""
    node, at = np.zeros((1, 2), U64), 0
    for i, (key, choice) in enumerate(zip(keys, choices.tolist(), strict=True)):
        at = 2 * at + choice
        blocks = -(-limbs // 2) if i == len(keys) - 1 else 1
        node = ot.hash.expand(node ^ key, first + (2 << i) + at, ot.peer, blocks)
    return node[0, :limbs]


def _rotated(table: Table, first: int, count: int, size: int) -> U64Array:
    """Entries first..first+count-1 of a table that begins anew after its end."""
    here = min(count, size - first)
    parts = [table(first, here)] + ([table(0, count - here)] if here < count else [])
    return np.concatenate(parts)
