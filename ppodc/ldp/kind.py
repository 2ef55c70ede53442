"""The kind `local`, as the registry of kinds finds it: one collector, perturbed reports.

Who learns what: cloud 1, alone, gets one report of every record, from which epsilon bounds what it
learns; owners get the clusters. Cloud 2 has no part in it.
"""

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.ldp.categories import numbered
from ppodc.ldp.job import SAMPLE, Job, job_of, mechanism_of, privacy_of
from ppodc.ldp.mechanism import Mechanism
from ppodc.ldp.owner_reports import REPORT, OwnerReports
from ppodc.ldp.report_streams import ReportKey, row_ids
from ppodc.ldp.result import LocalResult, open_result
from ppodc.records.encode import fitting, scaled
from ppodc.records.output_half import OpenedResult
from ppodc.records.person_accounts import Ids
from ppodc.records.privacy_report import PrivacyReport
from ppodc.records.read_table import Table
from ppodc.records.upload_form import Cloud, Part, RowsPart, UploadForm
from ppodc.spec import Spec


@dataclass(frozen=True, slots=True)
class ReportRows(RowsPart):
    """Rows of reports, which the mechanism must be able to draw."""

    mechanism: Mechanism

    def check(self, chunk: NDArray[Any], first_row: int, rows: int) -> None:
        RowsPart.check(self, chunk, first_row, rows)
        self.mechanism.check(chunk)


class PerturbedRows:
    """One report of every record to cloud 1, nothing to cloud 2."""

    def __init__(self, spec: Spec) -> None:
        self._spec, self._mechanism = spec, mechanism_of(spec)

    def encode(self, data: Any, *, header: bool = True) -> NDArray[np.int64]:
        """Numbers 0..ub, or categories 0..size - 1; refused as a whole if a value does not fit."""
        return self._numbers(fitting(data, self._spec.schema, header=header))

    def encode_people(
        self, data: Any, column: str, folder: Path, *, header: bool = True
    ) -> NDArray[np.int64]:
        """The same with two columns more: an id of the person whom `column` names."""
        table = fitting(data, self._spec.schema, header=header, aside=column)
        values = self._numbers(table)
        ids = OwnerReports(folder).key().named_ids(table.aside)
        return np.concatenate([values, ids.view(np.int64)], axis=1)

    def _numbers(self, table: Table) -> NDArray[np.int64]:
        schema = self._spec.schema
        return scaled(table, schema) if job_of(self._spec).numeric else numbered(table, schema)

    def _apart(self, values: NDArray[np.int64]) -> tuple[NDArray[np.int64], Ids | None]:
        """Records and the ids of their people, if they are named."""
        columns = len(self._spec.schema.columns)
        if values.shape[1] == columns:
            return values, None
        return values[:, :columns], np.ascontiguousarray(values[:, columns:]).view(np.uint64)

    def part(self, cloud: Cloud) -> Part | None:
        if cloud == 2:
            return None
        form = self._mechanism.part
        return ReportRows(form.dtype, form.columns, form.largest, self._mechanism)

    def privacy(self) -> PrivacyReport:
        """What an upload tells of one record."""
        return privacy_of(self._spec)

    def charge(
        self, values: NDArray[np.int64], folder: Path, limit: Fraction, *, besides: bool = False
    ) -> bytes:
        """Charge the owner's budget; the secret of these reports, the same for the same data.

        However often they are given: the same reports tell nobody more.
        """
        owner, mechanism = OwnerReports(folder, limit), self._mechanism.digest()
        records, people = self._apart(values)
        cost = privacy_of(self._spec).guaranteed
        if people is not None:
            owner.charge_people(mechanism, people, records, cost)
            return owner.people_secret(mechanism)
        owner.charge(mechanism, records, cost)
        return owner.secret(mechanism, records)

    def chunk(
        self, values: NDArray[np.int64], secret: bytes, first_row: int, cloud: Cloud
    ) -> NDArray[Any]:
        records, people = self._apart(values)
        ids = row_ids(first_row, len(records)) if people is None else people
        return self._mechanism.perturb(records, ReportKey(secret).streams(REPORT, ids, records))


class LocalKind:
    """Clustering of perturbed reports by one collector."""

    name = "local"
    sample = SAMPLE

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def upload(self, spec: Spec) -> UploadForm:
        return PerturbedRows(spec)

    def in_words(self, spec: Spec) -> list[str]:
        return [*job_of(spec).in_words(), *privacy_of(spec).in_words()]

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        return ()

    def open_result(self, spec: Spec, opened: OpenedResult) -> LocalResult:
        return open_result(spec, opened)


KIND = LocalKind()
