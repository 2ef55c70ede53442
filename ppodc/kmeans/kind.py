"""The kind `kmeans`, as the registry of kinds finds it."""

from typing import Any

from ppodc.kmeans.job import SAMPLE, Job, job_of
from ppodc.kmeans.result import LABELS, Result, open_result
from ppodc.records.output_half import OpenedResult
from ppodc.records.upload_form import TwoShares, UploadForm
from ppodc.spec import Spec


class KMeansKind:
    """Exact k-means on two shares of every record."""

    name = "kmeans"
    sample = SAMPLE

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def upload(self, spec: Spec) -> UploadForm:
        return TwoShares(spec.schema)

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        return (LABELS,) if job_of(spec).labels else ()

    def open_result(self, spec: Spec, opened: OpenedResult) -> Result:
        return open_result(spec, opened)


KIND = KMeansKind()
