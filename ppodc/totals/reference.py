"""Totals of plaintext records, in Python integers: what the protocol must reproduce exactly."""

from typing import Any

from numpy.typing import NDArray

from ppodc.spec import Spec
from ppodc.totals.job import job_of
from ppodc.totals.result import Totals, totals


def reference(spec: Spec, records: NDArray[Any]) -> Totals:
    """From encoded records (m, l)."""
    columns = [column.tolist() for column in records.T]
    squares = [sum(t * t for t in column) for column in columns]
    sums = [sum(column) for column in columns]
    return totals(spec, len(records), sums, squares if job_of(spec).variance else None)
