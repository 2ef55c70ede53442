"""Owners' rows as both clouds hold them, and match bits put together again."""

import numpy as np

from ppodc.linkage.compare.distances import NumberMatcher
from ppodc.mpc.spill import Budget
from ppodc.records.sharing import mask, split

MEMORY = 1 << 30


def uploaded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t + r at C1 and r at C2."""
    rows, columns = values.shape
    own, seed = split(values)
    return own, mask(seed, 0, rows, columns)


def number_rows(pair, numbers: NumberMatcher, values, real=None):
    """An owner's rows of numbers at both clouds."""
    values = np.asarray(values, np.int64)
    real = np.ones(len(values), np.int64) if real is None else real

    def step(session, part, flag):
        return numbers.take_in(session, part, flag, Budget(MEMORY), first=True)

    return pair.run(step, uploaded(values), uploaded(np.asarray(real, np.int64)[:, None]))


def opened_bits(first, second):
    """Bits from both shares."""
    return [(a ^ b).astype(bool) for a, b in zip(first, second, strict=True)]
