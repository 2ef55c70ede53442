"""The compiled loop that flips and packs the bits of reports, loaded when the first are drawn."""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from ppodc.local_dp.published.packed_bits import Packed
from ppodc.mpc.compiled import compiled, out_u8_2


def _read(kind: Any, dimensions: int) -> Any:
    return types.Array(kind, dimensions, "C", readonly=True)


@compiled(
    _read(types.int64, 2),
    _read(types.uint8, 2),
    _read(types.uint32, 2),
    _read(types.uint64, 1),
    _read(types.uint64, 1),
    out_u8_2,
)
def flip_and_pack(
    rows: NDArray[np.int64],
    table: NDArray[np.uint8],
    words: NDArray[np.uint32],
    stay: NDArray[np.uint64],
    rise: NDArray[np.uint64],
    out: Packed,
) -> None:
    """Bit j of attribute a becomes 1 iff its word is below stay (of a 1) or rise (of a 0)."""
    bits = table.shape[1]
    per = (bits + 63) // 64
    for i in range(rows.shape[0]):
        for a in range(rows.shape[1]):
            row = rows[i, a]
            for w in range(per):
                packed = np.uint64(0)
                first = w * 64
                for j in range(min(64, bits - first)):
                    at = first + j
                    limit = stay[at] if table[row, at] else rise[at]
                    if np.uint64(words[i, a * bits + at]) < limit:
                        packed |= np.uint64(1) << np.uint64(j)
                out[i, a * per + w] = packed
