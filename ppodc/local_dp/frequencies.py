"""Unbiased estimates of counts made possible counts: nobody in a cell is the least there can be."""

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import OptionError

Estimates = NDArray[np.float64]


def clip(estimates: Estimates, n: float) -> Estimates:
    """Negatives to 0, then scaled to n (as published)."""
    positive = np.maximum(estimates, 0.0)
    total = float(positive.sum())
    return positive * (n / total) if total > 0 else np.full(estimates.shape, n / estimates.size)


def norm_sub(estimates: Estimates, n: float) -> Estimates:
    """The nearest counts that are not negative and add up to n: max(c + s, 0) for the right s."""
    falling = np.sort(estimates.ravel())[::-1]
    shifts = (n - np.cumsum(falling)) / np.arange(1, falling.size + 1)
    last = np.flatnonzero(falling + shifts > 0)[-1]
    return np.asarray(np.maximum(estimates + shifts[last], 0.0))


_POST = {"clip": clip, "norm-sub": norm_sub}


def possible(estimates: Estimates, n: float, post: str = "norm-sub") -> Estimates:
    """By the named rule."""
    if post not in _POST:
        raise OptionError(f"post must be {' or '.join(_POST)}, not {post!r}")
    return _POST[post](estimates, n)


def whole(counts: Estimates, n: int) -> NDArray[np.int64]:
    """Whole numbers that add up to n, by largest remainders (ties to the lower cell)."""
    flat = counts.ravel() * (n / float(counts.sum()))
    rounded = np.floor(flat).astype(np.int64)
    missing = n - int(rounded.sum())
    order = np.argsort(rounded - flat, kind="stable")
    rounded[order[:missing]] += 1
    return rounded.reshape(counts.shape)
