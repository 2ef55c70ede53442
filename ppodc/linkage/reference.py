"""Linkage in the clear: what the protocols must reproduce, match bit for match bit.

Values of a record by rule: whole numbers (`sse`), texts (`edit`), whole numbers, texts or None for
a missing value (`fields`), a whole number whose binary digits are the filter (`dice`).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage.rules import Dice, EditDistance, Field, Fields, Rule, SquaredDistance
from ppodc.linkage.strings import levenshtein

Record = Sequence[Any]


def matches(rule: Rule, x: Record, y: Record) -> bool:
    """Whether two records match."""
    if isinstance(rule, SquaredDistance):
        terms = zip(rule.weights, x, y, strict=True)
        return sum(w * (int(a) - int(b)) ** 2 for w, a, b in terms) <= rule.limit
    if isinstance(rule, EditDistance):
        return sum(levenshtein(a, b) for a, b in zip(x, y, strict=True)) <= rule.limit
    if isinstance(rule, Fields):
        parts = zip(rule.fields, x, y, strict=True)
        return sum(field.weight for field, a, b in parts if agrees(field, a, b)) >= rule.threshold
    return _dice(rule, int(x[0]), int(y[0]))


def agrees(field: Field, a: Any, b: Any) -> bool:
    """Whether one field agrees; a missing value agrees with nothing."""
    if a is None or b is None:
        return False
    if field.how == "exact":
        return bool(a == b)
    if field.how == "numeric":
        return abs(int(a) - int(b)) <= field.most
    return levenshtein(a, b) <= field.most


def match_matrix(rule: Rule, xs: Sequence[Record], ys: Sequence[Record]) -> NDArray[np.bool_]:
    """All pairs: entry (i, j) says whether xs[i] matches ys[j]."""
    if isinstance(rule, SquaredDistance):
        return squared_distances(rule, np.asarray(xs), np.asarray(ys)) <= rule.limit
    pairs = [[matches(rule, x, y) for y in ys] for x in xs]
    return np.array(pairs, np.bool_).reshape(len(xs), len(ys))


def distinct(rule: Rule, rows: Sequence[Record], owners: Sequence[int]) -> NDArray[np.bool_]:
    """Which rows count, if those that match a row of an owner of lower number do not."""
    number = np.asarray(owners)
    earlier = number[:, None] < number[None, :]
    matching = match_matrix(rule, rows, rows) & earlier
    return np.array([not column.any() for column in matching.T], np.bool_)


def squared_distances(
    rule: SquaredDistance, xs: NDArray[np.int64], ys: NDArray[np.int64]
) -> NDArray[np.int64]:
    """sum_i w_i (x_i - y_i)^2 of all pairs; exact while it stays below 2^63."""
    distances = np.zeros((len(xs), len(ys)), np.int64)
    for i, weight in enumerate(rule.weights):
        if len(xs) and len(ys):
            distances += weight * (xs[:, i, None] - ys[None, :, i]) ** 2
    return distances


def _dice(rule: Dice, a: int, b: int) -> bool:
    if not a or not b:
        raise InputError("a filter without any bit cannot be compared.")
    common, ones = (a & b).bit_count(), a.bit_count() + b.bit_count()
    return 2 * rule.threshold.denominator * common >= rule.threshold.numerator * ones
