"""The chapter's scaled integers, worked out directly; for tests on small inputs."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.reference import pairs_of_clusters


def scaled_distances(
    records: NDArray[Any], sums: NDArray[Any], sizes: NDArray[Any]
) -> NDArray[np.object_]:
    """The order-preserving squared distances of Eq. 5.3 as Python integers, shape (m, k).

    sum_s (alpha t[s] - alpha_h lambda_h[s])^2 with alpha the product of all sizes and
    alpha_h = alpha / |c_h|. Meant for tests on small inputs.
    """
    alpha = math.prod(sizes.tolist())
    scaled = alpha * records.astype(object)
    distances = np.empty((len(records), len(sizes)), object)
    for h, size in enumerate(sizes.tolist()):
        difference = scaled - (alpha // size) * sums[h].astype(object)
        distances[:, h] = (difference * difference).sum(axis=1)
    return distances


def stop_sides(
    old_sums: NDArray[Any],
    old_sizes: NDArray[Any],
    new_sums: NDArray[Any],
    new_sizes: NDArray[Any],
    beta: Fraction | int | str,
) -> tuple[int, int]:
    """Both sides of Eq. 5.5, times the denominator of beta; stop when left <= right."""
    limit = Fraction(beta)
    pairs = pairs_of_clusters(old_sums, old_sizes, new_sums, new_sizes)
    f = math.prod(size * new_size for _, size, _, new_size in pairs)
    left = 0
    for old, size, new, new_size in pairs:
        f_h = f // (size * new_size)
        left += sum(
            (new_size * f_h * a - size * f_h * b) ** 2 for a, b in zip(old, new, strict=True)
        )
    return limit.denominator * left, f * f * limit.numerator
