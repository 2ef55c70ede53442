"""Values that cross to or from the owners: ingest of shares, and outputs that only owners open.

Ingest (Stage 1): C2 sends E(-r) of its share, C1 adds its own share t + r.

Output: C1 masks each of the k (l + 1) sums and sizes with a number uniform modulo n and keeps its
negative; C2 decrypts the masked value and keeps that. Labels the same way, packed, with masks
uniform below 2^72. An owner adds the two halves; either half alone is (statistically) random.

Who learns what: C1 nothing. C2 sees uniform numbers.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from gmpy2 import mpz

from ppodc.crypto.paillier import Ciphertexts
from ppodc.errors import WireError
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, answers
from ppodc.kmeans.paillier.masking import mask, slot_width, unpack
from ppodc.kmeans.paillier.smin_k import INDEX_BITS
from ppodc.kmeans.paillier.smp import MOST_VALUES, Natural
from ppodc.transport.wire import Array, Body

LABEL_MODULUS = 1 << slot_width(INDEX_BITS)


class Rows(Body, frozen=True):
    """Rows first..first + count of C2's share of a shard."""

    shard: str
    first: Natural
    count: Natural


class Count(Body, frozen=True):
    """How many values are revealed to C2 under masks."""

    count: Annotated[int, msgspec.Meta(ge=0, le=MOST_VALUES)]


class Stop(Body, frozen=True):
    """The outcome of the stop test, which both clouds learn."""

    stop: bool


def ingest(c1: Cloud1, shard: str, first: int, share: Array) -> Step[list[Ciphertexts]]:
    """Per attribute E(t) of these rows; `share` is C1's, rows by attributes."""
    rows, l = share.shape
    (reply,) = yield Ask("share", Rows(shard, first, rows), ())
    theirs = c1.read(reply, rows * l)
    records = c1.cipher.add_plain(theirs, [int(x) for x in share.reshape(-1)])
    return [records[s::l] for s in range(l)]


@answers("share", Rows, arrays=0)
def answer_share(c2: Cloud2, ask: Rows, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: E(-r) of the rows asked for."""
    share = c2.shares.get(ask.shard)
    if share is None or ask.first + ask.count > len(share):
        raise WireError("C1 asks for records that C2 does not have; are both of one sealed set?")
    rows = share[ask.first : ask.first + ask.count]
    return [c2.cipher.encrypt([-int(x) for x in rows.reshape(-1)]).to_array()]


def output(c1: Cloud1, values: Ciphertexts) -> Step[list[int]]:
    """C1's half of the values; C2 keeps the other."""
    masks = c1.random.below(c1.key.n, len(values))
    sent = c1.cipher.add(values, c1.cipher.encrypt(masks)).to_array()
    yield Ask("output", Count(len(values)), (sent,), 0)
    return [int(-r % c1.key.n) for r in masks]


@answers("output", Count, arrays=1)
def answer_output(c2: Cloud2, ask: Count, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: keeps the masked values as its half."""
    c2.revealed += [int(x) for x in c2.decrypt(c2.read(arrays[0], ask.count))]
    return []


def labels(c1: Cloud1, index: Ciphertexts) -> Step[list[int]]:
    """C1's half of the labels, modulo LABEL_MODULUS; C2 keeps the other."""
    sent, masks = mask(c1, index, INDEX_BITS)
    yield Ask("labels", Count(len(index)), (sent,), 0)
    return [int(-r % LABEL_MODULUS) for r in masks]


@answers("labels", Count, arrays=1)
def answer_labels(c2: Cloud2, ask: Count, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: keeps the masked labels as its half."""
    masked: Sequence[mpz] = unpack(c2, arrays[0], ask.count, slot_width(INDEX_BITS))
    c2.revealed += [int(x) for x in masked]
    return []


def announce(stop: bool) -> Step[None]:
    """C1 tells C2 the stop bit."""
    yield Ask("stop", Stop(stop), (), 0)


@answers("stop", Stop, arrays=0)
def answer_stop(c2: Cloud2, ask: Stop, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: notes the stop bit."""
    c2.stops.append(ask.stop)
    return []
