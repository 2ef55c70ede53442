"""The kind `totals`: number of records, sum, mean and variance of each column."""

from collections.abc import Mapping
from typing import Any

from ppodc.kinds import Kind
from ppodc.records.upload_form import TwoShares
from ppodc.spec import Spec
from ppodc.totals.job import SAMPLE, Job, job_of

SUMS, SQUARES = "sums", "squares"  # names of the outputs


class TotalsKind(Kind):
    """Sums over two shares of every record."""

    name = "totals"
    sample = SAMPLE
    suites = ("shares",)

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def describe(self, spec: Spec) -> list[str]:
        return job_of(spec).describe()

    def form(self, spec: Spec) -> TwoShares:
        return TwoShares(len(spec.schema.columns))

    def summary(self, facts: Mapping[str, Any]) -> str:
        return f"totals of {facts['records']} records"


KIND = TotalsKind()
