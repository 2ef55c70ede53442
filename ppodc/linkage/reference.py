"""Linkage in the clear: what the protocols must reproduce, match bit for match bit.

A rule has the meaning of a pair of records (`Rule.matches`). Values of a record by rule: whole
numbers (`sse`), texts (`edit`), whole numbers, texts or None for a missing value (`fields`), a
whole number whose binary digits are the filter (`dice`).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.rules.rule import Record, Rule


def distinct(rule: Rule, rows: Sequence[Record], owners: Sequence[int]) -> NDArray[np.bool_]:
    """Which rows count, if those that match a row of an owner of lower number do not."""
    number = np.asarray(owners)
    earlier = number[:, None] < number[None, :]
    matching = rule.match_matrix(rows, rows) & earlier
    return np.array([not column.any() for column in matching.T], np.bool_)
