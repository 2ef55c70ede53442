"""A preview of a linkage for an owner, on its own machine and its own rows alone.

Its cells and dummies under noise that is drawn for this look only (nothing leaves, so nothing is
charged), how many of its rows are the same as an earlier one, and, of a sample, how many pairs of
its own rows would match at the spec's threshold and around it: of a table that holds everybody
once, hardly any should.
"""

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from ppodc.crypto.random_stream import SecureRandom
from ppodc.linkage.job import job_of
from ppodc.linkage.owner import owner_side
from ppodc.privacy.cell_noise import ExactNoise
from ppodc.spec import Spec

_SAMPLE = 300  # rows whose pairs are looked at


@dataclass(frozen=True, slots=True)
class Preview:
    """`matches` has (threshold, pairs of sampled own rows that meet it), the spec's own among them.

    `duplicates` counts, over all rows, those that equal an earlier one in what is compared. Of an
    owner that follows the tree of another (`tree_of`), cells are those that a tree of its own would
    have: the real ones come from that owner.
    """

    rows: int
    cells: int = 1
    dummies: int = 0
    largest_cell: int = 0
    epsilon: float = 0.0  # what an upload would be charged, over all passes
    delta: float = 0.0
    sampled: int = 0
    threshold: float = 0.0
    matches: list[tuple[float, int]] = field(default_factory=list)
    duplicates: int = 0
    tree_of: str = ""


def preview(spec: Spec, data: Any, *, header: bool = True) -> Preview:
    """Of one owner's table; InputError, with row and column, if it cannot be used."""
    job = job_of(spec)
    side = owner_side(spec)
    values = side.encode(data, header=header)
    rows = len(values)
    job.blocking.check_rows(rows)
    partition = job.space(spec.schema).partition(values, None, ExactNoise())
    counts, dummies = partition.cell_counts.counts, int(partition.padding.sum())
    chosen = np.sort(SecureRandom().permutation(rows)[:_SAMPLE])
    rule = job.rule_in_cells
    records, thresholds = rule.decode(values[chosen], spec.schema), rule.thresholds()
    scores = np.array([rule.score(a, b) for a, b in combinations(records, 2)])
    matches = [(threshold, thresholds.met(scores, threshold)) for threshold in thresholds.around]
    epsilon, delta = map(float, job.blocking.cost)
    compared = values[:, : rule.columns(spec.schema)]
    return Preview(
        rows,
        len(counts),
        dummies,
        int(counts.max()),
        epsilon,
        delta,
        len(chosen),
        thresholds.own,
        matches,
        duplicates=rows - len(np.unique(compared, axis=0)),
        tree_of=job.blocking.follows,
    )
