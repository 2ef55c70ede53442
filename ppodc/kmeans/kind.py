"""The kind `kmeans`: exact k-means."""

from collections.abc import Mapping
from typing import Any

from ppodc.kinds import Kind
from ppodc.kmeans import suites
from ppodc.kmeans.job import SAMPLE, Job, job_of
from ppodc.linkage.kind import LinkageForm
from ppodc.linkage.outputs import ROWS
from ppodc.records.upload_form import TwoShares
from ppodc.spec import Spec

CLUSTERS, LABELS = "clusters", "labels"  # names of outputs


def output_name(job: Job, what: str, k: int) -> str:
    """The name of an output of one k: of the only one just `what`."""
    return f"{what}-{k}" if job.ks else what


def ending(converged: bool | None) -> str:
    """Why the iterations ended; None: the spec fixes their number."""
    if converged is None:
        return "as the spec says"
    return "converged" if converged else "stopped by max_iter"


class KMeansKind(Kind):
    """Exact k-means on two shares of every record."""

    name = "kmeans"
    sample = SAMPLE
    suites = suites.NAMES
    rows_are_extra = True

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def describe(self, spec: Spec) -> list[str]:
        job = job_of(spec)
        joined = job.joined(spec.schema)
        return [*job.describe(), *([] if joined is None else joined.describe())]

    def form(self, spec: Spec) -> TwoShares:
        job = job_of(spec)
        joined, linked = job.joined(spec.schema), job.linked(spec.schema)
        if joined is not None:
            return LinkageForm(joined.job, joined.spec.schema, joined.width, least_rows=1)
        if linked is None:
            return TwoShares(len(spec.schema.columns))
        return LinkageForm(linked.job, linked.spec.schema, linked.width, least_rows=1)

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        job = job_of(spec)
        if not job.labels:
            return ()
        own = (ROWS,) if job.rearranged else ()
        return (*own, *(output_name(job, LABELS, k) for k in job.clusters))

    def summary(self, facts: Mapping[str, Any]) -> str:
        return f"{facts['n_iter']} iterations ({ending(facts['converged'])})"


KIND = KMeansKind()
