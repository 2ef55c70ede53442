"""Totals of plaintext records, in Python integers: what the protocol must reproduce exactly."""

from typing import Any

from numpy.typing import NDArray

from ppodc.spec import Spec
from ppodc.totals.job import job_of
from ppodc.totals.result import Totals, totals


def reference(spec: Spec, records: NDArray[Any]) -> Totals:
    """From encoded records (m, l), or the joined rows: of fewer than `least` of these, zeros."""
    job = job_of(spec)
    told = records if job.join is None or len(records) >= job.join.least else records[:0]
    columns = [column.tolist() for column in told.T]
    squares = [sum(t * t for t in column) for column in columns] if job.variance else None
    sums, cross = [sum(column) for column in columns], None
    if job.cross:
        cross = [[sum(t * u for t, u in zip(a, b, strict=True)) for b in columns] for a in columns]
    return totals(spec, len(told), sums, squares, cross)
