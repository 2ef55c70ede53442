"""The kind `totals`: number of records, sum, mean and variance of each column."""

from collections.abc import Mapping
from typing import Any

from ppodc.kinds import Kind
from ppodc.linkage.kind import LinkageForm
from ppodc.records.upload_form import TwoShares
from ppodc.spec import Spec
from ppodc.totals.job import SAMPLE, Job, job_of

SUMS, SQUARES = "sums", "squares"  # names of the outputs
COUNT, CROSS = "count", "cross"  # and of those of joined rows


class TotalsKind(Kind):
    """Sums over two shares of every record."""

    name = "totals"
    sample = SAMPLE
    suites = ("shares",)

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def describe(self, spec: Spec) -> list[str]:
        job = job_of(spec)
        joined = job.joined(spec.schema)
        return [*([] if joined is None else joined.describe()), *job.describe()]

    def form(self, spec: Spec) -> TwoShares:
        joined = job_of(spec).joined(spec.schema)
        if joined is None:
            return TwoShares(len(spec.schema.columns))
        return LinkageForm(joined.job, joined.spec.schema, joined.width, least_rows=1)

    def summary(self, facts: Mapping[str, Any]) -> str:
        if "records" not in facts:
            return "totals of the joined rows"
        return f"totals of {facts['records']} records"


KIND = TotalsKind()
