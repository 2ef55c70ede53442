"""The kind `linkage`: which records of different owners are the same."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.kinds import Kind
from ppodc.linkage.blocks.passes import check_sizes
from ppodc.linkage.job import SAMPLE, Job, job_of
from ppodc.privacy.guarantee import Guarantee, PrivacyReport
from ppodc.records.schema import Schema
from ppodc.records.upload_form import Outline, TwoShares
from ppodc.spec import Spec


class LinkageForm(TwoShares):
    """Two shares of every row. An owner may have no rows.

    With blocks, rows are sorted into cells, with dummies, and both clouds get the cells and the
    number of rows in each. `columns` are all that a row has, also where other values stand behind
    those of the linkage.
    """

    def __init__(self, job: Job, schema: Schema, columns: int, least_rows: int = 0) -> None:
        super().__init__(columns)
        self.least_rows, self.has_cells = least_rows, job.rearranged
        self.follows = job.blocking.follows
        self._cost, self._space = job.blocking.cost, job.space(schema)

    def privacy(self) -> PrivacyReport | None:
        """The guarantee for one record whose cells both clouds see."""
        if not self.has_cells:
            return None
        cost = Guarantee(*map(float, self._cost))
        return PrivacyReport(cost, (), unit="record that is replaced, towards the clouds")

    def check_outline(self, outline: NDArray[Any], rows: int) -> None:
        if not self.has_cells:
            super().check_outline(outline, rows)
        counts = self._space.counts(rows, outline)
        check_sizes(self._space.rows_of_passes(counts))
        self._space.check_cover(counts.boxes)

    def extents(self, outline: NDArray[Any]) -> Outline:
        """The positions of the cells, without their numbers of rows."""
        return np.ascontiguousarray(outline[:, 1:])


class LinkageKind(Kind):
    """Matching over two shares of every record."""

    name = "linkage"
    sample = SAMPLE
    suites = ("shares",)

    def parse_job(self, table: Any) -> Job:
        job = Job.from_dict(table)
        job.output.require()
        return job

    def describe(self, spec: Spec) -> list[str]:
        return job_of(spec).describe()

    def form(self, spec: Spec) -> TwoShares:
        job = job_of(spec)
        return LinkageForm(job, spec.schema, job.layout(spec.schema).width)

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        job = job_of(spec)
        return job.output_names if job.output.by_row else ()

    def summary(self, facts: Mapping[str, Any]) -> str:
        return f"links between the records of {facts['owners']} owners"


KIND = LinkageKind()
