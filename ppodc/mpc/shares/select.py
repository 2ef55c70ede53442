"""Select: an XOR-shared bit times a row of additively shared numbers, summed in groups.

(u xor v) * (x1 + x2) = (u xor v) * x1 + (u xor v) * x2: one correlated transfer in each direction,
the sender being the cloud that holds the share (`correlated_ot`), on random transfers from the
supplies.

Who learns what: nothing, whatever the peer does (`correlated_ot`). Rounds: 1. Bytes per bit and
direction: one bit and the row. Supplies: one transfer per bit. Operations: 3 pads per bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppodc.mpc.ot import correlated_ot
from ppodc.mpc.ot.correlated_ot import Batch, Bits, Run, Sending
from ppodc.mpc.ot.lanes import Lanes
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array
from ppodc.mpc.shares.xor_bits import XorShare
from ppodc.mpc.supplies import Needs


def needs(count: int) -> Needs:
    """Supplies for selecting with `count` bits."""
    return Needs(transfers=count)


@dataclass(frozen=True, slots=True, repr=False)
class SuppliedKeys:
    """Keys of random transfers from the supplies, each for one use in either direction."""

    pairs: U64Array
    chosen: U64Array
    random: Bits

    @classmethod
    def take(cls, session: Session, count: int) -> "SuppliedKeys":
        """The keys of the next `count` transfers."""
        return cls(*session.supplies.take_transfers(count))

    def as_sender(self, start: int, end: int) -> tuple[U64Array, U64Array]:
        """Both keys of transfers start..end-1."""
        part = self.pairs[start:end]
        return np.ascontiguousarray(part[:, :2]), np.ascontiguousarray(part[:, 2:])

    def as_receiver(self, start: int, end: int) -> U64Array:
        """The chosen keys."""
        return self.chosen[start:end]


def select(
    session: Session, bits: Bits, rows: AdditiveShare, group: int = 1, top: int = 8
) -> AdditiveShare:
    """Sums over `group` bits in a row of bit o times rows[o % len(rows)].

    `bits` is this cloud's share, a byte per bit; rows (R, C); the result is (len(bits)/group, C).
    Of its last limbs only `top` bytes (1, 2, 4, 8) are right.
    """
    sums, run = select_run(session, bits, rows, group, top)
    correlated_ot.run_all(session.ot, [run])
    return sums


def select_run(
    session: Session, bits: Bits, rows: AdditiveShare, group: int = 1, top: int = 8
) -> tuple[AdditiveShare, Run]:
    """`select`, which is right when its run is done; others may be done in the same round."""
    columns, limbs = rows.limbs.shape[1:]
    table = np.ascontiguousarray(rows.limbs).reshape(-1, columns * limbs)
    keys = SuppliedKeys.take(session, len(bits))
    sums = np.zeros((len(bits) // group, columns * limbs), U64)
    first = session.ot.tweaks.reserve(len(bits))
    batch = Batch(len(bits), group, limbs, first, sums, top)
    run = Run(keys, batch, Sending(table, bits), bits)
    return AdditiveShare(sums.reshape(-1, columns, limbs)), run


def select_lanes(session: Session, bits: Bits, rows: Lanes) -> Lanes:
    """Bit o times rows[o % len(rows)], in lanes of 1, 2 or 4 bytes: (R, C) -> (len(bits), C)."""
    keys, count = SuppliedKeys.take(session, len(bits)), len(bits)
    sums, top = np.zeros((count, rows.shape[1]), rows.dtype), rows.itemsize
    batch = Batch(count, 1, 1, session.ot.tweaks.reserve(count), sums, top)
    correlated_ot.run(session.ot, keys, batch, Sending(rows, bits), bits)
    return sums


def sum_selected(
    session: Session, members: Sequence[XorShare], rows: AdditiveShare, top: int = 8
) -> AdditiveShare:
    """sum_i members[h][i] * rows[i] for each h: n bits per member, rows (n, C) -> (members, C).

    Of the last limbs only `top` bytes (1, 2, 4, 8) are right.
    """
    count = len(rows.limbs)
    bits = np.concatenate([member.unpack(count) for member in members])
    return select(session, bits, rows, count, top)
