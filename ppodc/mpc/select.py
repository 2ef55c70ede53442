"""Select: an XOR-shared bit times a row of additively shared numbers, summed in groups.

(u xor v) * (x1 + x2) = (u xor v) * x1 + (u xor v) * x2: one correlated transfer in each direction,
the sender being the cloud that holds the share (`correlated_ot`). Random transfers from the
supplies are turned into these by telling the sender v xor (random choice).

Who learns what: nothing (the choice bits travel masked by random ones). Rounds: 2. Bytes per bit
and direction: one bit and the row. Supplies: one transfer per bit. Operations: 3 pads per bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ppodc.mpc import correlated_ot
from ppodc.mpc.additive import U64, AdditiveShare, Words
from ppodc.mpc.correlated_ot import Batch, Bits, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import XorShare, pack, unpack

_CHOICES = "shares.choices"


def needs(count: int) -> Needs:
    """Supplies for selecting with `count` bits."""
    return Needs(transfers=count)


@dataclass(frozen=True, slots=True, repr=False)
class SuppliedKeys:
    """Keys of random transfers from the supplies."""

    pairs: Words
    chosen: Words

    def as_sender(self, start: int, end: int) -> tuple[Words, Words]:
        """Both keys of transfers start..end-1."""
        part = self.pairs[start:end]
        return np.ascontiguousarray(part[:, :2]), np.ascontiguousarray(part[:, 2:])

    def as_receiver(self, start: int, end: int) -> Words:
        """The chosen keys."""
        return self.chosen[start:end]


def claim(session: Session, choices: Bits) -> tuple[SuppliedKeys, Bits]:
    """Keys for transfers with these choice bits, and the peer's wish to swap its sender keys.

    With random choice c and wanted choice v the receiver tells v ^ c; the sender, who swaps its
    keys where that is 1, has the key of v where the receiver has it.
    """
    pairs, chosen, random = session.supplies.take_transfers(len(choices))
    flips = session.link.exchange(_CHOICES, pack(choices ^ random))
    return SuppliedKeys(pairs, chosen), unpack(flips, len(choices))


def select(
    session: Session, bits: Bits, rows: AdditiveShare, group: int = 1, top: int = 8
) -> AdditiveShare:
    """Sums over `group` bits in a row of bit o times rows[o % len(rows)].

    `bits` is this cloud's share, a byte per bit; rows (R, C); the result is (len(bits)/group, C).
    Of its last limbs only `top` bytes (1, 2, 4, 8) are right.
    """
    columns, limbs = rows.limbs.shape[1:]
    table = np.ascontiguousarray(rows.limbs).reshape(-1, columns * limbs)
    keys, flips = claim(session, bits)
    sums = np.zeros((len(bits) // group, columns * limbs), U64)
    first = session.ot.tweaks.reserve(len(bits))
    batch = Batch(len(bits), group, limbs, first, sums, top)
    correlated_ot.run(session.ot, keys, batch, Sending(table, bits, flips), bits)
    return AdditiveShare(sums.reshape(-1, columns, limbs))


def sum_selected(
    session: Session, members: Sequence[XorShare], rows: AdditiveShare, top: int = 8
) -> AdditiveShare:
    """sum_i members[h][i] * rows[i] for each h: n bits per member, rows (n, C) -> (members, C).

    Of the last limbs only `top` bytes (1, 2, 4, 8) are right.
    """
    count = len(rows.limbs)
    bits = np.concatenate([member.unpack(count) for member in members])
    return select(session, bits, rows, count, top)
