"""The kind `local`: one collector clusters perturbed reports.

Who learns what: cloud 1, alone, gets one report of every record, from which epsilon bounds what it
learns; owners get the clusters. Cloud 2 has no part in it.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from ppodc.errors import OptionError
from ppodc.kinds import Kind
from ppodc.local_dp.job import SAMPLE, Job, build, job_of
from ppodc.local_dp.mechanism import Mechanism
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.records.upload_form import Cloud, Part, RowsPart, UploadForm
from ppodc.spec import Spec

CLUSTERS, LABELS = "clusters", "labels"  # names of the outputs; labels count from 1, 0 is noise
FRACTION = 1 << 16  # its numbers are multiples of 1 / FRACTION


@dataclass(frozen=True, slots=True)
class ReportRows(RowsPart):
    """Rows of reports, which the mechanism must be able to draw."""

    mechanism: Mechanism

    def check(self, chunk: NDArray[Any], first_row: int, rows: int) -> None:
        RowsPart.check(self, chunk, first_row, rows)
        self.mechanism.check(chunk)


class ReportForm(UploadForm):
    """One report of every record to cloud 1, nothing to cloud 2."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism

    def part(self, cloud: Cloud) -> Part | None:
        if cloud == 2:
            return None
        form = self.mechanism.part
        return ReportRows(form.dtype, form.columns, form.largest, self.mechanism)

    def privacy(self) -> PrivacyReport:
        return self.guarantee

    @cached_property
    def guarantee(self) -> PrivacyReport:
        """Return the privacy that one record spends. Long strings take seconds."""
        return self.mechanism.guarantee()


def form_of(spec: Spec) -> ReportForm:
    """The form of a spec of this kind: its mechanism and what a record spends."""
    if not isinstance(spec.form, ReportForm):
        raise OptionError(f"dataset {spec.name!r} is of the kind {spec.job.kind!r}, not local.")
    return spec.form


class LocalKind(Kind):
    """Clustering of perturbed reports by one collector."""

    name = "local"
    sample = SAMPLE

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def describe(self, spec: Spec) -> list[str]:
        return [*job_of(spec).describe(), *form_of(spec).guarantee.describe()]

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        return () if job_of(spec).grouping is None else (LABELS,)

    def form(self, spec: Spec) -> ReportForm:
        return ReportForm(build(job_of(spec), spec.schema))


KIND = LocalKind()
