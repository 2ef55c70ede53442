"""The owner's side of a job of totals: records in two shares, and the totals opened."""

from ppodc.records.owner_side import OwnerSide
from ppodc.records.result_shares import OpenedResult, mismatch
from ppodc.spec import Spec
from ppodc.totals.job import job_of
from ppodc.totals.kind import SQUARES, SUMS
from ppodc.totals.result import Totals, totals, untold


class TotalsOwner(OwnerSide):
    """An owner's side of a job of totals."""

    def open_result(self, opened: OpenedResult) -> Totals:
        count, ub = opened.facts.get("records"), self.spec.schema.ub
        if not isinstance(count, int) or count < 1:
            raise mismatch()
        variance = job_of(self.spec).variance
        if opened.values.get(SUMS) == []:
            return untold(self.spec, count)
        sums, squares = self._checked(opened, SUMS, count * ub), None
        if variance:
            squares = self._checked(opened, SQUARES, count * ub**2)
        return totals(self.spec, count, sums, squares)

    def _checked(self, opened: OpenedResult, name: str, largest: int) -> list[int]:
        values = opened.values.get(name, [])
        # Shares of two different runs add up to random numbers, which this finds nearly always.
        if len(values) != len(self.spec.schema.columns) or max(values) > largest:
            raise mismatch()
        return list(values)


def owner_side(spec: Spec) -> TotalsOwner:
    """An owner's side of the job of this spec."""
    return TotalsOwner(spec)
