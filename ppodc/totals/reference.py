"""Totals of plaintext records, in Python integers: what the protocol must reproduce exactly."""

from typing import Any

from numpy.typing import NDArray

from ppodc.spec import Spec
from ppodc.totals.job import job_of
from ppodc.totals.result import Totals, totals, untold


def reference(spec: Spec, records: NDArray[Any], own: float = 0) -> Totals:
    """From encoded records (m, l), as an owner gets it who has `own` of them.

    Or from the joined rows; `own` are those that hold its row of a side that it shares with other
    owners, and with m:1 what rows lack to a person. If fewer than `least` are left, zeros; 1 is no
    bound.
    """
    job, told = job_of(spec), records
    if job.join is not None and len(records) - own < job.join.least > 1:
        told = records[:0]
    elif job.join is None and own < len(records) and len(records) - own < job.least:
        return untold(spec, len(records))
    columns = [column.tolist() for column in told.T]
    squares = [sum(t * t for t in column) for column in columns] if job.variance else None
    sums, cross = [sum(column) for column in columns], None
    if job.cross:
        cross = [[sum(t * u for t, u in zip(a, b, strict=True)) for b in columns] for a in columns]
    return totals(spec, len(told), sums, squares, cross)
