"""Select: an XOR-shared bit times a row of additively shared numbers, summed in groups.

(u xor v) * (x1 + x2) is (u xor v) * x1 + (u xor v) * x2: one correlated transfer in each
direction, the sender being the cloud that holds the share. Random transfers from the stock are
turned into these by telling the sender choice xor random choice.

Who learns what: nothing (the choice bits travel masked by random ones). Rounds: 2. Bytes per bit
and direction: one bit and the row. Operations: one stocked transfer and 3 pads per bit.
"""

from dataclasses import dataclass

import numpy as np

from ppodc.mpc import correlated_ot
from ppodc.mpc.additive import U64, AdditiveShare, Words
from ppodc.mpc.correlated_ot import Batch, Bits, Sending
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs, Stock
from ppodc.mpc.xor_bits import pack, unpack

_CHOICES = "shares.choices"


def needs(count: int) -> Needs:
    """Supplies for selecting with `count` bits."""
    return Needs(transfers=count)


@dataclass(frozen=True, slots=True, repr=False)
class StockedKeys:
    """Keys of random transfers from the stock."""

    pairs: Words
    chosen: Words

    def as_sender(self, start: int, end: int) -> tuple[Words, Words]:
        part = self.pairs[start:end]
        return np.ascontiguousarray(part[:, :2]), np.ascontiguousarray(part[:, 2:])

    def as_receiver(self, start: int, end: int) -> Words:
        return self.chosen[start:end]


def claim(session: Session, stock: Stock, choices: Bits) -> tuple[StockedKeys, Bits]:
    """Keys for transfers with these choice bits, and the peer's wish to swap its sender keys."""
    pairs, chosen, random = stock.take_transfers(len(choices))
    flips = session.link.exchange(_CHOICES, pack(choices ^ random))
    return StockedKeys(pairs, chosen), unpack(flips, len(choices))


def select(
    session: Session, stock: Stock, bits: Bits, rows: AdditiveShare, group: int = 1
) -> AdditiveShare:
    """Sums over `group` bits in a row of bit o times rows[o % len(rows)].

    `bits` is this cloud's share, a byte per bit; rows (R, C); the result is (len(bits)/group, C).
    """
    columns, limbs = rows.limbs.shape[1:]
    table = np.ascontiguousarray(rows.limbs).reshape(-1, columns * limbs)
    keys, flips = claim(session, stock, bits)
    sums = np.zeros((len(bits) // group, columns * limbs), U64)
    first = session.tweaks.reserve(len(bits))
    batch = Batch(len(bits), group, limbs, first, sums)
    correlated_ot.run(session, keys, batch, Sending(table, bits, flips), bits)
    return AdditiveShare(sums.reshape(-1, columns, limbs))
