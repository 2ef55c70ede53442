"""Rows that are sorted by several keys: the columns that an upload has for them.

For each pass the owner sorts all its rows anew into the cells of that pass's key, adds its dummies
and permutes the rows of each cell; the passes stand one behind the other. Every row is sent once
for each pass, under masks of its own. Were rows sent once with an order for each pass, both clouds
would see which cell of one key every row of a cell of another has: a joint histogram without noise.
This way, given the padded counts, all that a cloud holds is uniformly random, so its view is a
function of the counts of all passes: (sum epsilon_p, sum delta_p), as in `keys`.

*Earlier keys*: every row carries the cells of its keys in all passes but the last, in shares, so
that a pair counts in the first pass in which it agrees (`compare.first_pass`).
*Switches*: those of a network (`permutation_network`) that carries the rows of pass p to where the
same rows stand in pass 1, in shares. Dummies go where there is room. Whatever an owner sends as
switches is some order of its own sums, so it can only mix up its own results.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import TableError
from ppodc.linkage.blocks.keys import KEY_BITS, NO_KEY

SWITCH_BITS = 20  # of an uploaded number
SWITCH_COLUMNS = 2  # for each later pass
_LARGEST = 1 << SWITCH_BITS  # rows of a pass whose switches fit: 39 layers, at most 39 bits a row
Ints = NDArray[np.int64]


def columns_of_passes(order: Ints, sizes: Sequence[int], keys: Ints) -> tuple[Ints, Ints]:
    """The columns that several passes add to an upload: earlier keys, and switches.

    `order[place]` is pass * rows + row of what stands at a place, -1 for a dummy; `sizes` are the
    places of each pass, `keys` (rows, passes) the cells of each row.
    """
    from ppodc.mpc.shares.permutation_network import settings

    rows, passes = keys.shape
    check_sizes(sizes)
    at = np.where(order >= 0, order % max(1, rows), 0)
    known = np.where(keys == NO_KEY, 0, keys | 1 << KEY_BITS)[:, : passes - 1]
    earlier = np.zeros((len(order), passes - 1), np.int64)
    earlier[order >= 0] = known[at[order >= 0]]
    parts = np.split(order, np.cumsum(sizes)[:-1])
    homes = np.full(rows, -1, np.int64)
    homes[parts[0][parts[0] >= 0]] = np.flatnonzero(parts[0] >= 0)
    switches = [
        _as_columns(settings(_places(part - number * rows, homes, sizes[0])), len(order))
        for number, part in enumerate(parts[1:], 1)
    ]
    return earlier, np.column_stack(switches)


def check_sizes(sizes: Sequence[int]) -> None:
    """Refuse passes whose switches do not fit the columns of an upload."""
    if len(sizes) > 1 and max(sizes) > _LARGEST:
        raise TableError(
            f"with several keys an upload may have {_LARGEST:,} rows in a pass, dummies included: "
            "give fewer rows at a time, or keys with fewer cells."
        )


def _places(part: Ints, homes: Ints, room: int) -> NDArray[np.intp]:
    """Where what stands at each place of a later pass goes: to its place in the first one."""
    from ppodc.mpc.shares.permutation_network import size_for

    size = size_for(max(len(part), room))
    places = np.full(size, -1, np.intp)
    real = np.flatnonzero(part >= 0)
    places[real] = homes[part[real]]
    free = np.setdiff1d(np.arange(size), places[real])
    places[places < 0] = free
    return places


def _as_columns(bits: NDArray[np.uint8], rows: int) -> Ints:
    """Bits in numbers of 20, two for each row."""
    table = np.zeros(rows * SWITCH_COLUMNS * SWITCH_BITS, np.int64)
    table[: len(bits)] = bits
    numbers: Ints = table.reshape(rows, SWITCH_COLUMNS, SWITCH_BITS) @ (1 << np.arange(SWITCH_BITS))
    return numbers
