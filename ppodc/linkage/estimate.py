"""The cost of a linkage before anything is sent: pairs, seconds, bytes and privacy.

Without blocks the number of pairs is known. With blocks it depends on the data, which nobody has
here: rows are taken to spread evenly over the public domain, and every cell to get its usual
padding. Real data are uneven, which leaves more pairs; `preview` shows an owner its own cells.

Seconds are of one core of each cloud for one worker pair, from rates that `ppodc bench
linkage-pairs` has measured: good for orders of magnitude.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from ppodc.errors import OptionError
from ppodc.linkage.blocks import NoBlocks
from ppodc.linkage.blocks.cells import CellCounts, pairs_compared
from ppodc.linkage.blocks.keys import KEY_BITS
from ppodc.linkage.compare.cost import PairCost, ands, selects
from ppodc.linkage.job import Job, job_of
from ppodc.records.schema import Schema
from ppodc.spec import Spec

_ROW_BYTES = 60.0  # to take in one uploaded number, roughly


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of a whole job; `reduction` is the share of pairs that blocks save."""

    rows: int
    dummies: int
    pairs: int
    reduction: float
    seconds: float
    gigabytes: float  # sent by each cloud
    epsilon: float
    delta: float
    joining_seconds: float = 0.0  # of these, for fetching partners' columns
    joining_gigabytes: float = 0.0
    joining_rows: int = 0  # that the job goes over once they are joined, dummies among them

    def figures(self) -> dict[str, Any]:
        of_joins = ("joining_seconds", "joining_gigabytes", "joining_rows")
        further = of_joins if not self.joining_gigabytes else ()
        return {name: value for name, value in asdict(self).items() if name not in further}

    def dearer(self) -> str:
        """A warning if blocks cost more than comparing all pairs; else empty."""
        if not self.epsilon or self.reduction >= 0:
            return ""
        return (
            f"these blocks compare {1 - self.reduction:,.1f} times as many pairs as there are, "
            f"dummies among them, and cost each owner epsilon {self.epsilon:g}: without blocks "
            '(blocks = "none") the job is cheaper and reveals only sizes.'
        )


def without_blocks(spec: Spec, rows: Sequence[int]) -> Estimate:
    """The cost of comparing all pairs instead, which reveals only sizes to the clouds."""
    return estimate(replace(spec, job=replace(job_of(spec), blocking=NoBlocks())), rows)


def estimate(spec: Spec, rows: Sequence[int], sides: Sequence[int] = ()) -> Estimate:
    """For owners with this many rows each; with `sides` only that of number 0 meets the others."""
    if len(rows) < 2 or min(rows) < 0:
        raise OptionError("give the rows of at least two owners, none below 0.")
    job, schema = job_of(spec), spec.schema
    cells = [_usual(job, schema, count, number) for number, count in enumerate(rows)]
    space = job.space(schema)
    every = list(combinations(range(len(rows)), 2))
    if sides:
        every = [(a, b) for a, b in every if (sides[a] == 0) != (sides[b] == 0)]
    pairs = sum(pairs_compared(cells[a], cells[b], space.pruning) for a, b in every)
    whole = sum(rows[a] * rows[b] for a, b in every)
    cost = _pair_cost(job, schema)
    sent = sum(each.rows for each in cells)
    numbers = sent * job.layout(schema).width
    epsilon, delta = map(float, job.blocking.cost)
    return Estimate(
        rows=sum(rows),
        dummies=sent - space.pass_count * sum(rows),
        pairs=pairs,
        reduction=1 - pairs / whole if whole else 0.0,
        seconds=pairs * cost.seconds,
        gigabytes=(pairs * cost.size + numbers * _ROW_BYTES) / 1e9,
        epsilon=epsilon,
        delta=delta,
    )


def _usual(job: Job, schema: Schema, rows: int, number: int) -> CellCounts:
    """Cells of rows that are spread evenly."""
    job.blocking.check_rows(rows)
    return job.space(schema).usual(rows, number)


def _pair_cost(job: Job, schema: Schema) -> PairCost:
    """Cost of one pair, with links of both rows."""
    earlier = (
        job.blocking.beside.earlier / 2 * (KEY_BITS + 2)
    )  # ANDs: whether an earlier key agrees
    learned = selects(*job.output.selects(known=not job.rearranged))
    return job.rule_in_cells.matcher(schema).cost() + ands(earlier) + learned
