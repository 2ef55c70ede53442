"""Totals of plaintext records, in Python integers: what the protocol must reproduce exactly."""

from typing import Any

from numpy.typing import NDArray

from ppodc.spec import Spec
from ppodc.totals.job import job_of
from ppodc.totals.result import Totals, totals, untold


def reference(spec: Spec, records: NDArray[Any], own: int = 0) -> Totals:
    """From encoded records (m, l), as an owner gets it who has `own` of them."""
    if own < len(records) and len(records) - own < job_of(spec).least:
        return untold(spec, len(records))
    columns = [column.tolist() for column in records.T]
    squares = [sum(t * t for t in column) for column in columns]
    sums = [sum(column) for column in columns]
    return totals(spec, len(records), sums, squares if job_of(spec).variance else None)
