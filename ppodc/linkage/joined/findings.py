"""Findings of a join, on shares, as planners keep them and workers make them; no protocol here."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import WidthError
from ppodc.linkage.schedule import Rows

LANES: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32}  # lanes, by bytes
Words = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.uint32]


def lane_bytes(ub: int, candidates: int) -> int:
    """The fewest bytes that hold values 0..ub, and counts up to `candidates` with a sign."""
    bits = max(ub.bit_length(), candidates.bit_length() + 1)
    for size in LANES:
        if 8 * size >= bits:
            return size
    raise WidthError(
        f"a row has {candidates} candidates, which is too many to join: agree on blocks that leave "
        "fewer."
    )


@dataclass(frozen=True, slots=True)
class Found:
    """One cloud's shares of what some portions have found, or all.

    `fetched` is (rows of the anchor's uploads, columns of the other sides by owner, each owner's
    with its count behind), `used` the counts of the other sides' rows, in lanes; `bits` are the
    match bits of the blocks, each block from a new byte on, for 1:1.
    """

    fetched: Words
    used: Words
    bits: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Joined:
    """One cloud's shares of the joined rows: the others' columns, as if uploaded, and who counts.

    `values` is t + r at C1 and r at C2, modulo 2^(8 tau) of the lanes; `keep` has a byte per bit.
    `whose` (rows, owners) says of a row that counts which owners' rows its partners are, of those
    owners that share a side (`Uploads.apart`). `weight` (rows, sides) is additive: 1 of a row that
    counts, and with m:1 what it weighs on each of the other sides (`joined_rows.weights`).
    """

    values: Words
    keep: NDArray[np.uint8]
    whose: NDArray[np.uint8]
    weight: NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Uploads:
    """Uploads by side, whose number is `Rows.owner`, and the bytes of a lane; public.

    `Rows.number` is that of the upload's owner among those of its side.
    """

    rows: tuple[Rows, ...]
    top: int

    @property
    def groups(self) -> list[tuple[int, int]]:
        """(side, number) of the owners of the other sides, side by side."""
        return sorted({(rows.owner, rows.number) for rows in self.rows if rows.owner})

    @property
    def apart(self) -> list[tuple[int, int]]:
        """Those of them that share their side with another."""
        sides = [side for side, _ in self.groups]
        return [group for group in self.groups if sides.count(group[0]) > 1]

    def of_anchor(self) -> Iterator[tuple[int, Rows, int]]:
        """(upload, its rows, place of the first among the anchor's)."""
        return self._placed(anchor=True)

    def of_others(self) -> Iterator[tuple[int, Rows, int]]:
        """(upload, its rows, place of the first among the others')."""
        return self._placed(anchor=False)

    @property
    def places(self) -> dict[int, int]:
        """The place of the first row of each upload, among the anchor's or the others'."""
        return {number: at for number, _, at in (*self.of_anchor(), *self.of_others())}

    def _placed(self, *, anchor: bool) -> Iterator[tuple[int, Rows, int]]:
        at = 0
        for number, rows in enumerate(self.rows):
            if (rows.owner == 0) == anchor:
                yield number, rows, at
                at += rows.count

    def counts(self) -> tuple[int, int]:
        """Rows of the anchor and of the others, all passes."""
        anchor = sum(rows.count for rows in self.rows if rows.owner == 0)
        return anchor, sum(rows.count for rows in self.rows) - anchor
