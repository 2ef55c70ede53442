"""Circuits of ANDs that run in lockstep: as many rounds as the deepest one, however many there are.

A circuit is a generator: it yields gates that can be done at once and is handed its shares of their
products. `run` collects the gates of all circuits that are still going and opens their masked
inputs together (`and_bits`). Besides: adding up single bits, and comparing such a sum with a public
number.

Who learns what: nothing. Rounds: the gates of the longest circuit. Bytes and supplies: those of the
ANDs.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ppodc.mpc.session import Session
from ppodc.mpc.shares import and_bits
from ppodc.mpc.shares.xor_bits import XorShare

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Gate:
    """x & y0 and, if there is one, x & y1; all of one shape."""

    x: XorShare
    y0: XorShare
    y1: XorShare | None = None


Products = list[XorShare]  # one for each y of all gates, in their order
Circuit = Generator[list[Gate], Products, T]


def run(session: Session, circuits: Sequence[Circuit[T]]) -> list[T]:
    """Run the circuits in lockstep; the result of each."""
    everything = beside(circuits)
    try:
        gates = next(everything)
        while True:
            gates = everything.send(_products(session, gates))
    except StopIteration as end:
        results: list[T] = end.value
        return results


def beside(circuits: Sequence[Circuit[T]]) -> Circuit[list[T]]:
    """Several circuits as one, in lockstep."""
    results: dict[int, T] = {}
    waiting: dict[int, list[Gate]] = {}

    def go_on(number: int, products: Products | None) -> None:
        try:
            if products is None:
                waiting[number] = next(circuits[number])
            else:
                waiting[number] = circuits[number].send(products)
        except StopIteration as end:
            waiting.pop(number, None)
            results[number] = end.value

    for number in range(len(circuits)):
        go_on(number, None)
    while waiting:
        products = yield [gate for gates in waiting.values() for gate in gates]
        at = 0
        for number, gates in list(waiting.items()):
            size = sum(1 if gate.y1 is None else 2 for gate in gates)
            go_on(number, products[at : at + size])
            at += size
    return [results[number] for number in range(len(circuits))]


def _products(session: Session, gates: Sequence[Gate]) -> Products:
    single = [gate for gate in gates if gate.y1 is None]
    double = [(gate, gate.y1) for gate in gates if gate.y1 is not None]
    factors = []
    if single:
        x, y0 = _joined([gate.x for gate in single]), _joined([gate.y0 for gate in single])
        factors.append((x, [y0]))
    if double:
        pairs = [gate for gate, _ in double]
        x, y0 = _joined([gate.x for gate in pairs]), _joined([gate.y0 for gate in pairs])
        factors.append((x, [y0, _joined([y1 for _, y1 in double])]))
    products = iter(and_bits.and_all(session, factors))
    ones = _split(next(products)[0], single) if single else []
    twos = [_split(part, pairs) for part in next(products)] if double else [[], []]
    of_one, of_two = iter(ones), zip(*twos, strict=True)
    in_order: Products = []
    for gate in gates:
        in_order += [next(of_one)] if gate.y1 is None else next(of_two)
    return in_order


def _joined(parts: Sequence[XorShare]) -> XorShare:
    return XorShare(np.concatenate([part.words.reshape(-1) for part in parts]))


def _split(product: XorShare, gates: Sequence[Gate]) -> list[XorShare]:
    sizes = [gate.x.words.size for gate in gates]
    parts = np.split(product.words, np.cumsum(sizes)[:-1])
    shapes = zip(parts, gates, strict=True)
    return [XorShare(part.reshape(gate.x.words.shape)) for part, gate in shapes]


BLANK = XorShare(np.zeros(1, np.uint64))  # to build a circuit of which only the gates are wanted


def and_pairs(circuit: Circuit[Any]) -> int:
    """AND pairs that a circuit on shares of one word takes; its products are taken as 0."""
    taken = 0
    try:
        gates = next(circuit)
        while True:
            taken += len(gates)
            outputs = sum(1 if gate.y1 is None else 2 for gate in gates)
            gates = circuit.send([BLANK] * outputs)
    except StopIteration:
        return taken


def zero(like: XorShare) -> XorShare:
    """Shares of zeros."""
    return XorShare(np.zeros_like(like.words))


def all_ones(shares: Sequence[XorShare]) -> Circuit[XorShare]:
    """AND of all, in a tree."""
    current = list(shares)
    while len(current) > 1:
        half = len(current) // 2
        pairs = zip(current[:half], current[half : 2 * half], strict=True)
        products = yield [Gate(x, y) for x, y in pairs]
        current = [*products, *current[2 * half :]]
    return current[0]


def total(columns: Sequence[Sequence[XorShare]]) -> Circuit[list[XorShare]]:
    """The binary digits of sum_c 2^c (ones in column c), lowest first.

    Full adders, all columns at once: a + b + c = (a ^ b ^ c) + 2 (((a ^ c) & (b ^ c)) ^ c), and
    half adders where two bits are all that a column has.
    """
    current = [list(column) for column in columns]
    while any(len(column) > 1 for column in current):
        adders = [
            (place, three) for place, column in enumerate(current) for three in _adders(column)
        ]
        carries = yield [Gate(a ^ c, b ^ c) for _, (a, b, c) in adders]
        following = [column[_used(column) :] for column in current] + [[]]
        for (place, (a, b, c)), carry in zip(adders, carries, strict=True):
            following[place].append(a ^ b ^ c)
            following[place + 1].append(carry ^ c)
        current = following if following[-1] else following[:-1]
    return [column[0] if column else zero(_any(current)) for column in current]


def _any(columns: Sequence[Sequence[XorShare]]) -> XorShare:
    return next(column[0] for column in columns if column)


def _used(column: Sequence[XorShare]) -> int:
    """Bits of a column that go into adders now: all triples, or a pair that is all there is."""
    return 2 if len(column) == 2 else len(column) - len(column) % 3


def _adders(column: Sequence[XorShare]) -> list[tuple[XorShare, XorShare, XorShare]]:
    if len(column) == 2:
        return [(column[0], column[1], zero(column[0]))]
    return [(column[i], column[i + 1], column[i + 2]) for i in range(0, _used(column), 3)]


def above(digits: Sequence[XorShare], bound: int) -> Circuit[XorShare]:
    """1 where the number of these binary digits is more than a public bound of at least 0.

    From the lowest digit on, g = [the digits so far are above those of the bound]: with digit v,
    g = v | g where the bound has 0 and g = v & g where it has 1.
    """
    nothing = zero(digits[0])
    if bound >> len(digits):
        return nothing
    g: XorShare | None = None  # nothing so far can be above
    for place, v in enumerate(digits):
        one = bound >> place & 1
        if g is None:
            g = None if one else v
            continue
        (both,) = yield [Gate(v, g)]
        g = both if one else v ^ g ^ both
    return nothing if g is None else g


def at_most(
    role: int, columns: Sequence[Sequence[XorShare]], bound: int, like: XorShare
) -> Circuit[XorShare]:
    """1 where sum_c 2^c (ones in column c) <= bound; `like` has the shape of the result."""
    if bound < 0 or not any(columns):
        return zero(like) if bound < 0 else zero(like).negated(role)
    digits = yield from total(columns)
    return (yield from above(digits, bound)).negated(role)
