"""The owner's side of a job of totals: records in two shares, and the totals opened."""

from ppodc.linkage.joined.owner import JoinedOwner
from ppodc.records.owner_side import OwnerSide
from ppodc.records.result_shares import OpenedResult, mismatch
from ppodc.spec import Spec
from ppodc.totals.job import job_of
from ppodc.totals.kind import COUNT, CROSS, SQUARES, SUMS
from ppodc.totals.result import Totals, totals, untold

_MOST_ROWS = 1 << 40


class TotalsOwner(OwnerSide):
    """An owner's side of a job of totals."""

    def open_result(self, opened: OpenedResult) -> Totals:
        if job_of(self.spec).join is not None:
            return self._open_joined(opened)
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

    def _open_joined(self, opened: OpenedResult) -> Totals:
        """Of the joined rows, whose number is secret too."""
        job, ub = job_of(self.spec), self.spec.schema.ub
        columns = len(job.totalled(self.spec.schema).columns)
        (count,) = self._checked(opened, COUNT, _MOST_ROWS, 1)
        sums, squares, cross = self._checked(opened, SUMS, count * ub), None, None
        if job.cross:
            flat = self._checked(opened, CROSS, count * ub**2, columns**2)
            cross = [flat[s * columns : (s + 1) * columns] for s in range(columns)]
            squares = [cross[s][s] for s in range(columns)]
        elif job.variance:
            squares = self._checked(opened, SQUARES, count * ub**2)
        return totals(self.spec, count, sums, squares, cross)

    def _checked(
        self, opened: OpenedResult, name: str, largest: int, count: int | None = None
    ) -> list[int]:
        values = opened.values.get(name, [])
        wanted = count or len(job_of(self.spec).totalled(self.spec.schema).columns)
        # Shares of two different runs add up to random numbers, which this finds nearly always.
        if len(values) != wanted or max(values) > largest:
            raise mismatch()
        return list(values)


class JoinedTotalsOwner(JoinedOwner, TotalsOwner):
    """An owner's side of a job of totals over joined columns."""


def owner_side(spec: Spec) -> TotalsOwner:
    """An owner's side of the job of this spec."""
    joined = job_of(spec).joined(spec.schema)
    return TotalsOwner(spec) if joined is None else JoinedTotalsOwner(spec, joined)
