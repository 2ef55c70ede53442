"""Outputs that only owners open, and the stop bit, which both clouds learn.

C1 masks each of the k (l + 1) sums and sizes with a number uniform modulo n and keeps its
negative; C2 decrypts the masked value and keeps that. Labels the same way, packed, with masks
uniform below 2^72. An owner adds the two halves; either half alone is (statistically) random.

Who learns what: C1 nothing. C2 sees uniform numbers, and the stop bit.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from gmpy2 import mpz

from ppodc.crypto.paillier import Ciphertexts
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, answers
from ppodc.kmeans.paillier.masking import mask, slot_width, unpack
from ppodc.kmeans.paillier.smin_k import INDEX_BITS
from ppodc.kmeans.paillier.smp import MOST_VALUES
from ppodc.transport.wire import Array, Body

LABEL_MODULUS = 1 << slot_width(INDEX_BITS)


class Count(Body, frozen=True):
    """The number of values revealed to C2 under masks."""

    count: Annotated[int, msgspec.Meta(ge=0, le=MOST_VALUES)]


class Stop(Body, frozen=True):
    """The outcome of the stop test, which both clouds learn."""

    stop: bool


def output(c1: Cloud1, values: Ciphertexts) -> Step[list[int]]:
    """C1's half of the values; C2 keeps the other."""
    masks = c1.random.below(c1.key.n, len(values))
    sent = c1.to_open(c1.cipher.add(values, c1.cipher.encrypt(masks)))
    yield Ask("output", Count(len(values)), (sent,), 0)
    return [int(-r % c1.key.n) for r in masks]


@answers("output", Count, arrays=1, amount=lambda ask: ask.count)
def answer_output(c2: Cloud2, ask: Count, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: keeps the masked values as its half."""
    c2.revealed += [int(x) for x in c2.open(arrays[0], ask.count)]
    return []


def labels(c1: Cloud1, index: Ciphertexts) -> Step[list[int]]:
    """C1's half of the labels, modulo LABEL_MODULUS; C2 keeps the other."""
    sent, masks = mask(c1, index, INDEX_BITS)
    yield Ask("labels", Count(len(index)), (sent,), 0)
    return [int(-r % LABEL_MODULUS) for r in masks]


@answers("labels", Count, arrays=1, amount=lambda ask: ask.count)
def answer_labels(c2: Cloud2, ask: Count, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: keeps the masked labels as its half."""
    masked: Sequence[mpz] = unpack(c2, arrays[0], ask.count, slot_width(INDEX_BITS))
    c2.revealed += [int(x) for x in masked]
    return []


def announce(stop: bool) -> Step[None]:
    """C1 tells C2 the stop bit."""
    yield Ask("stop", Stop(stop), (), 0)


@answers("stop", Stop, arrays=0, amount=lambda ask: 1)
def answer_stop(c2: Cloud2, ask: Stop, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: notes the stop bit."""
    c2.stops.append(ask.stop)
    return []
