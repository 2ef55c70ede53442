"""Owners' rows as both clouds hold them, and match bits put together again."""

import numpy as np

from ppodc.linkage.blocks.candidates import Work
from ppodc.mpc.spill import Budget
from ppodc.records.sharing import mask, split

MEMORY = 1 << 30


def uploaded(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """t + r at C1 and r at C2."""
    rows, columns = values.shape
    own, seed = split(values)
    return own, mask(seed, 0, rows, columns)


def taken_in(pair, matcher, values, real=None, *, first=True):
    """An owner's encoded rows at both clouds; all are real unless `real` says which."""
    values = np.asarray(values, np.int64)
    flags = np.ones(len(values), np.int64) if real is None else np.asarray(real, np.int64)

    def step(session, part, flag):
        return matcher.take_in(session, part, flag, Budget(MEMORY), first=first)

    return pair.run(step, uploaded(values), uploaded(flags[:, None]))


def matched(pair, matcher, x, y, batch):
    """The opened match bits of a batch: of works, or of blocks of two uploads."""
    works = [each if isinstance(each, Work) else Work(0, 1, each) for each in batch]

    def step(session, left, right):
        return matcher.match(session, left, right, works)

    first, second = pair.run(step, x, y)
    return [(a ^ b).astype(bool) for a, b in zip(first, second, strict=True)]
