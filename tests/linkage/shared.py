"""Owners' rows as both clouds hold them, and match bits put together again."""

import numpy as np

from ppodc.linkage import distances
from ppodc.linkage.distances import Numbers
from ppodc.mpc.additive import AdditiveShare
from ppodc.mpc.spill import Budget
from ppodc.mpc.unmask import unmask
from ppodc.records.sharing import mask, split
from ppodc.service.upload import Sealed, Upload

MEMORY = 1 << 30


def uploaded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t + r at C1 and r at C2."""
    rows, columns = values.shape
    own, seed = split(values)
    return own, mask(seed, 0, rows, columns)


def flags(pair, real) -> tuple[AdditiveShare, AdditiveShare]:
    """Additive shares of one bit a row, taken in as an upload is."""
    parts = uploaded(np.asarray(real, np.int64)[:, None])

    def step(session, part):
        table = unmask(session, part, 1, Budget(MEMORY))
        return table.additive(0, table.rows).reshape(-1)

    return pair.run(step, parts)


def number_rows(pair, numbers: Numbers, values, real=None):
    """An owner's rows of numbers at both clouds."""
    values = np.asarray(values, np.int64)
    real = np.ones(len(values), np.int64) if real is None else real

    def step(session, part, flag):
        return distances.take_in(session, numbers, part, flag, Budget(MEMORY))

    return pair.run(step, uploaded(values), flags(pair, real))


def together(first, second):
    """Bits from both shares."""
    return [(a ^ b).astype(bool) for a, b in zip(first, second, strict=True)]


def sealed(*uploads: tuple[str, int]) -> Sealed:
    """A seal over uploads of (owner, rows)."""
    listed = [Upload(f"{i:032x}", "d", o, rows, True, True) for i, (o, rows) in enumerate(uploads)]
    return Sealed(sum(rows for _, rows in uploads), "0" * 64, tuple(listed))
