"""Linked rows and joins in the clear: what the protocols must reproduce, row by row.

A join is like `pandas.merge(validate="1:1")` or "m:1" with a rule instead of equal keys, and with
rows that break the relation left out instead of an error. Nothing here knows of shares, lanes,
passes or sums: partners are looked up pair by pair, and `Rule.matches` says whether two rows match.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage.joined.join import WHOLE, Relation
from ppodc.linkage.rules import Record, Rule

Matches = Callable[[int, int], bool]  # (row of the anchor, row of the other side)


def distinct(rule: Rule, rows: Sequence[Record], owners: Sequence[int]) -> NDArray[np.bool_]:
    """Which rows count, if those that match a row of an owner of lower number do not."""
    number = np.asarray(owners)
    earlier = number[:, None] < number[None, :]
    matching = rule.match_matrix(rows, rows) & earlier
    return np.array([not column.any() for column in matching.T], np.bool_)


def partners(anchor: int, other: int, matches: Matches, relation: Relation) -> list[int | None]:
    """The one partner of each of the anchor's rows that counts; None of all others."""
    of_anchor = [[j for j in range(other) if matches(i, j)] for i in range(anchor)]
    of_other = [[i for i in range(anchor) if j in of_anchor[i]] for j in range(other)]
    found: list[int | None] = []
    for mine in of_anchor:
        single = len(mine) == 1 and (relation == "m:1" or len(of_other[mine[0]]) == 1)
        found.append(mine[0] if single else None)
    return found


def part_of_one(shared: int, relation: Relation) -> float:
    """A row's weight in thresholds, if `shared` rows have its partner."""
    if relation == "1:1":
        return 1.0
    whole = 1 << (shared - 1).bit_length()
    return 1 / whole if whole <= WHOLE else 0.0


def joined(
    own: NDArray[Any],
    others: Sequence[tuple[NDArray[Any], Sequence[int | None]]],
) -> tuple[list[NDArray[Any]], NDArray[np.bool_]]:
    """The columns of every side for each row of the anchor, and which rows count.

    `others` has (rows of a side, partner of each of the anchor's rows). A row that does not count
    has, instead of its partner's values, those of row i mod n of each side.
    """
    keep = np.array(
        [all(found[i] is not None for _, found in others) for i in range(len(own))], np.bool_
    )
    sides = [own]
    for values, found in others:
        chosen = [found[i] if keep[i] else i % len(values) for i in range(len(own))]
        sides.append(values[np.array(chosen, np.intp)])
    return sides, keep
