"""Transfers whose choice bits are a party's shares of stored bits: made once, used many times.

One row of OT extension per bit and direction, q_i = t_i ^ r_i D with r_i the receiver's share of
bit i. The rows themselves are the keys: each use hashes them under instance numbers of its own
(`aes.Tweaks`), so that all pads are new. They belong to the session, whose secret D they hold,
and are never stored beyond it.

Who learns what: nothing. Rounds and check: those of the extension, so that a cloud that deviates
learns bits of D only where the session goes on in spite of its guess (`ot.column_check`). Bytes: 4
per bit and direction. Memory: 32 bytes per bit (in a file without a name beyond a budget, `spill`).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.ot.correlated_ot import Bits
from ppodc.mpc.ot.transfer import LOT_ROWS, ObliviousTransfer
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.xor_bits import pack
from ppodc.mpc.spill import Budget, Spool


class StaticTransfers:
    """One cloud's keys of `count` such transfers in each direction."""

    def __init__(self, ot: ObliviousTransfer, count: int, budget: Budget) -> None:
        self._ot = ot
        self._sender = Spool(count, 2, U64, budget)
        self._receiver = Spool(count, 2, U64, budget)

    def append(self, choices: Bits) -> None:
        """The next transfers, for these choice bits."""
        parts = [choices[start : start + LOT_ROWS] for start in range(0, len(choices), LOT_ROWS)]
        for part, made in zip(parts, self._ot.chosen(map(pack, parts)), strict=True):
            self._sender.append(made.q[: len(part)])
            self._receiver.append(made.t[: len(part)])

    def starting_at(self, first: int) -> "StaticKeys":
        """The keys of transfers from number `first` on."""
        return StaticKeys(self._sender, self._receiver, self._ot.delta, first)

    def close(self) -> None:
        """Forget the keys."""
        self._sender.close()
        self._receiver.close()


@dataclass(frozen=True, slots=True, repr=False)
class StaticKeys:
    """Static transfers from one number on, as `correlated_ot.Keys`."""

    sender: Spool
    receiver: Spool
    delta: U64Array
    first: int
    random: Bits | None = None  # choices are those of each use

    def as_sender(self, start: int, end: int) -> tuple[U64Array, U64Array]:
        """Both keys of transfers start..end-1: q and q ^ D."""
        q = self.sender.read(self.first + start, self.first + end)
        return q, q ^ self.delta

    def as_receiver(self, start: int, end: int) -> U64Array:
        """The chosen keys t."""
        t: U64Array = self.receiver.read(self.first + start, self.first + end)
        return t


@dataclass(frozen=True, slots=True, repr=False)
class StridedKeys:
    """`count` transfers of every row of `per_row`, from place `low` and one row on."""

    keys: StaticKeys  # from the first row on that there is
    per_row: int
    first_row: int
    count: int
    low: int = 0
    random: Bits | None = None  # choices are those of each use

    def as_sender(self, start: int, end: int) -> tuple[U64Array, U64Array]:
        low, index = self._places(start, end)
        zero, one = self.keys.as_sender(low, low + int(index[-1]) + 1)
        return zero[index], one[index]

    def as_receiver(self, start: int, end: int) -> U64Array:
        low, index = self._places(start, end)
        return self.keys.as_receiver(low, low + int(index[-1]) + 1)[index]

    def _places(self, start: int, end: int) -> tuple[int, NDArray[np.intp]]:
        """The first place that is read, and where the wanted ones are after it."""
        row, place = np.divmod(np.arange(start, end), self.count)
        places = (self.first_row + row) * self.per_row + self.low + place
        return int(places[0]), places - places[0]
