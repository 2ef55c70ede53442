"""Centres in whole steps of the grid, and nothing of the sizes.

Of a cluster with sums S and n >= least records the centre is round(S / n) = floor((2 S + n) / 2 n),
halves upwards: a whole number 0..ub, by long division on shares, a comparison and a select for each
bit of ub. A fraction would give n away. Where n < least, n counts as 1 and S as 0 on the way, and
zeros come out: b = [n >= least] decides, and goes out beside the centre.

Who learns what: nothing. Rounds: those of a comparison and a select, 1 + bits(ub) times. Bytes:
those of k l comparisons and selects for each bit.
"""

import numpy as np

from ppodc.errors import SpecError
from ppodc.mpc.session import Session
from ppodc.mpc.shares import compare, select
from ppodc.mpc.shares.additive import U64, AdditiveShare, U64Array, public

_MOST_BITS = 62  # of a number that is compared


def width(m: int, ub: int) -> int:
    """Bits of the numbers that are compared; InputError if there are too many."""
    bits = (2 * (m + 1) << ub.bit_length()).bit_length() + 1
    if bits > _MOST_BITS:
        raise SpecError(
            f"job.sizes = false: centres of {m} records with ub = {ub} need more than "
            f"{_MOST_BITS} bits. Create a dataset with a smaller ub, or with sizes."
        )
    return bits


def whole_centres(session: Session, sums: U64Array, least: int, m: int, ub: int) -> U64Array:
    """(k, l + 1): centres and b of clusters (k, l + 1), sums and counts modulo 2^64."""
    bits, (k, columns) = width(m, ub), sums.shape
    counts = AdditiveShare(sums[:, -1:].copy()) - public([least] * k, 1, session.role)
    told = compare.sign(session, counts, bits).negated(session.role).unpack(k)
    one = np.full((k, 1), session.role == 1, U64)
    rows = np.hstack([sums[:, :-1], sums[:, -1:] - one, one])
    kept = select.select(session, told, AdditiveShare(rows[..., None])).limbs[..., 0]
    n = np.repeat(kept[:, -2:-1] + one, columns - 1, axis=1).reshape(-1)
    rest = U64(2) * np.ascontiguousarray(kept[:, :-2]).reshape(-1) + n
    found = np.zeros_like(rest)
    for t in reversed(range(ub.bit_length())):
        step = n << U64(t + 1)  # 2 n 2^t
        less = compare.sign(session, AdditiveShare((rest - step)[:, None]), bits)
        take = less.negated(session.role).unpack(len(rest))
        power = np.full(len(rest), (1 << t) if session.role == 1 else 0, U64)
        both = AdditiveShare(np.stack([step, power], axis=1)[..., None])
        chosen = select.select(session, take, both).limbs[..., 0]
        rest, found = rest - chosen[:, 0], found + chosen[:, 1]
    return np.hstack([found.reshape(k, columns - 1), kept[:, -1:]])
