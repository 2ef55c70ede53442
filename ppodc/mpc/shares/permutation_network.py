"""Shared rows in another order, by switches whose settings nobody but their dealer knows.

A Benes network: n = 2^k items pass 2k - 1 layers of n/2 switches; a switch of distance h swaps the
items at i and i + h or leaves them, distances n/2, .., 2, 1, 2, .., n/2. Every permutation has
settings (`settings` finds some), and all settings are a permutation: whatever bits a dealer gives,
no item is lost or doubled. A switch with shared bit s on shared rows a and b:

    d = s (a - b),    a' = a - d,    b' = b + d.

Who learns what: nothing, neither rows nor order. Rounds: 2 for each layer. Bytes per switch and
direction: the row. Supplies: one transfer for each switch. The layers in reverse order carry every
item back to where it came from (`reversed_layers`).

Settings are found without following any loop by itself: at the outermost layers, items whose places
differ by h must take different halves, on their way in and out. next(i) = the item that leaves
beside the one that entered beside i shares i's half, so all items on a cycle of `next` do; smaller
of two least members decides, found by doubling steps. O(n log^2 n) in whole arrays.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.shares import select
from ppodc.mpc.shares.additive import AdditiveShare, zeros

Places = NDArray[np.intp]


def size_for(items: int) -> int:
    """The smallest network that holds this many items."""
    return 1 << max(0, items - 1).bit_length()


def distances(size: int) -> list[int]:
    """h of every layer."""
    down = [size >> level for level in range(1, size.bit_length())]
    return [*down, *down[-2::-1]]


def switch_count(size: int) -> int:
    """Bits that set a network."""
    return size // 2 * len(distances(size))


def settings(places: Places) -> Bits:
    """Switches, layer by layer, that carry item i to places[i], a permutation of 2^k items."""
    items = np.arange(len(places))
    inward: list[NDArray[np.bool_]] = []
    outward: list[NDArray[np.bool_]] = []
    for h in distances(len(places))[: max(0, len(places).bit_length() - 2)]:
        upper = items & h == 0  # one of each two that a switch joins
        half = _halves(places, h)
        crossed = np.empty(len(places), np.bool_)
        crossed[places] = half != (places & h != 0)
        inward.append(half[upper])
        outward.append(crossed[upper])
        moved = np.empty_like(places)
        moved[items & ~h | half * h] = places & ~h | half * h
        places = moved
    middle = (places != items)[::2] if len(places) > 1 else np.empty(0, np.bool_)
    return np.concatenate([*inward, middle, *outward[::-1]]).astype(np.uint8)


def _halves(places: Places, h: int) -> NDArray[np.bool_]:
    """Which items take the second half of their block of 2 h."""
    items = np.arange(len(places))
    item_at = np.empty_like(places)
    item_at[places] = items
    step = item_at[places[items ^ h] ^ h]
    least = items
    for _ in range(h.bit_length()):
        least = np.minimum(least, least[step])
        step = step[step]
    second: NDArray[np.bool_] = least > least[items ^ h]
    return second


def reversed_layers(bits: Bits, size: int) -> Bits:
    """The switches of the network that undoes the one with these switches."""
    layers = bits.reshape(len(distances(size)), size // 2)
    return np.ascontiguousarray(layers[::-1]).reshape(-1)


def permuted(session: Session, bits: Bits, rows: AdditiveShare, top: int = 8) -> AdditiveShare:
    """Shares of the rows (size, columns) in the order that this cloud's share of the bits sets.

    Of the last limbs only `top` bytes (1, 2, 4, 8) are right.
    """
    size, columns = rows.shape
    session.supplies.reserve(select.needs(switch_count(size)))
    layers = np.split(bits, len(distances(size))) if size > 1 else []
    for h, layer in zip(distances(size), layers, strict=True):
        both = rows.reshape(size // (2 * h), 2, h, columns)
        a, b = (both[:, side].reshape(size // 2, columns) for side in (0, 1))
        d = select.select(session, np.ascontiguousarray(layer), a - b, top=top)
        joined = np.empty((size // (2 * h), 2, h, columns, rows.length), np.uint64)
        joined[:, 0] = (a - d).limbs.reshape(-1, h, columns, rows.length)
        joined[:, 1] = (b + d).limbs.reshape(-1, h, columns, rows.length)
        rows = AdditiveShare(joined.reshape(size, columns, rows.length))
    return rows


def filled(rows: AdditiveShare, size: int) -> AdditiveShare:
    """Rows of nothing behind the last one, up to the size of a network."""
    count, columns = rows.shape
    return AdditiveShare.concat([rows, zeros((size - count, columns), rows.length)])
