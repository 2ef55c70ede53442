"""Whether words look like uniform masks, each of them used once."""

import numpy as np


def chi_square(counts: np.ndarray) -> float:
    """Standard deviations by which a chi-square statistic exceeds its mean."""
    expected = counts.sum() / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


def assert_balanced(words: np.ndarray, what: str = "") -> None:
    """As many ones as zeros, and all sixteen digits alike; chances below 10^-14."""
    data = np.ascontiguousarray(words).reshape(-1).view(np.uint8)
    bits = np.unpackbits(data)
    assert len(bits) >= 1024, what
    assert abs(bits.mean() - 0.5) < 8 * 0.5 / np.sqrt(len(bits)), what
    digits = np.concatenate([data >> 4, data & 15])
    assert chi_square(np.bincount(digits, minlength=16)) < 16, what


def assert_never_again(words: np.ndarray, what: str = "") -> None:
    """Masks of 64 bits: none is zero, none occurs twice."""
    assert words.dtype == np.uint64
    assert np.all(words != 0), what
    assert len(np.unique(words)) == words.size, what
