"""What owners get: fresh halves of sums and counts, and halves of the records' labels.

Sums and counts go out freshly masked (`mpc.remask`).

*Labels*: bit j of a record's label is the xor of the one-hot's members h with bit j set, local;
the label sum_j 2^j bit_j is one select per bit. Rounds: 2. Bytes per bit of a label and
direction: 8 and a bit. Supplies: ceil(log2 k) transfers per record.

Who learns what: nothing; only an owner adds up two halves.
"""

import numpy as np

from ppodc.mpc import select
from ppodc.mpc.additive import U64, Words, public
from ppodc.mpc.session import Session
from ppodc.mpc.supplies import Needs
from ppodc.mpc.xor_bits import XorShare


def label_needs(rows: int, k: int) -> Needs:
    """Supplies of `labels`."""
    return select.needs(rows * (k - 1).bit_length())


def labels(session: Session, hot: list[XorShare], rows: int) -> Words:
    """Additive shares modulo 2^64 of the index of each record's cluster."""
    width = (len(hot) - 1).bit_length()
    if width == 0:
        return np.zeros(rows, U64)
    planes = np.empty((rows, width), np.uint8)
    for j in range(width):
        # bit j of the label: xor of the members h that have it
        words = np.zeros_like(hot[0].words)
        for h, member in enumerate(hot):
            if h >> j & 1:
                words ^= member.words
        planes[:, j] = XorShare(words).unpack(rows)
    # sum_j 2^j bit_j
    powers = public([1 << j for j in range(width)], 1, session.role).reshape(width, 1)
    chosen = select.select(session, planes.reshape(-1), powers, width)
    return chosen.limbs[:, 0, 0]
