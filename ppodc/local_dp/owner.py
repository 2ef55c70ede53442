"""The owner's side of a local job: perturb and charge its records, open the clusters."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import TableError
from ppodc.local_dp.job import Job, job_of
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.owner_reports import REPORT, OwnerReports
from ppodc.local_dp.report_streams import ReportKey, row_ids
from ppodc.local_dp.result import LocalResult, open_result
from ppodc.privacy.accounts import Ids
from ppodc.records.encode import fitting, scaled
from ppodc.records.owner_side import Ints, MaySend, OwnerSide, anything
from ppodc.records.read_table import Table, some
from ppodc.records.result_shares import OpenedResult
from ppodc.records.schema import Schema
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec


class ReportOwner(OwnerSide):
    """An owner's side of a local job."""

    names_people = True

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._mechanism = form_of(spec).mechanism

    def encode(self, data: Any, *, header: bool = True) -> Ints:
        """Numbers 0..ub, categories 0..size - 1; refused as a whole if a value does not fit."""
        return self._numbers(fitting(data, self.spec.schema, header=header))

    def encode_people(self, data: Any, column: str, folder: Path, *, header: bool = True) -> Ints:
        """Encode with two more columns: an id of the person whom `column` names."""
        table = fitting(data, self.spec.schema, header=header, aside=column)
        values = self._numbers(table)
        ids = OwnerReports(folder).key().named_ids(table.texts[column])
        return np.concatenate([values, ids.view(np.int64)], axis=1)

    def _numbers(self, table: Table) -> Ints:
        return encoded(table, job_of(self.spec), self.spec.schema)

    def _apart(self, values: Ints) -> tuple[Ints, Ids | None]:
        """Records and the ids of their people, if they are named."""
        columns = len(self.spec.schema.columns)
        if values.shape[1] == columns:
            return values, None
        return values[:, :columns], np.ascontiguousarray(values[:, columns:]).view(np.uint64)

    def charge(
        self,
        values: Ints,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
        *,
        besides: bool = False,
    ) -> bytes:
        """Charge the owner's budget; the secret of these reports, the same for the same data.

        The same reports reveal nothing more, however often they are given.
        """
        may_send(len(values))
        owner, mechanism = OwnerReports(folder, limit), self._mechanism.digest()
        records, people = self._apart(values)
        cost = form_of(self.spec).guarantee.guaranteed
        if people is not None:
            owner.charge_people(mechanism, people, records, cost)
            return owner.people_secret(mechanism)
        owner.charge(mechanism, records, cost)
        return owner.secret(mechanism, records)

    def chunk(self, values: Ints, secret: bytes, first_row: int, cloud: Cloud) -> NDArray[Any]:
        records, people = self._apart(values)
        ids = row_ids(first_row, len(records)) if people is None else people
        return self._mechanism.perturb(records, ReportKey(secret).streams(REPORT, ids, records))

    def open_result(self, opened: OpenedResult) -> LocalResult:
        return open_result(self.spec, opened)


def encoded(table: Table, job: Job, schema: Schema) -> NDArray[np.int64]:
    """A table that fits the columns as the job's mechanism takes it."""
    if job.numeric:
        return scaled(table, schema)
    if job.mechanism != "mixed":
        return numbered(table, schema)
    values = scaled(table, schema)
    words = list(schema.categories)
    values[:, words] = table.values[:, words]
    return values


def numbered(table: Table, schema: Schema) -> NDArray[np.int64]:
    """Categories 0..size - 1 of a table that fits the columns: whole numbers, less the lowest."""
    places = np.argwhere(table.values != np.floor(table.values))
    if len(places):
        shown = [f"{table.row_name(row)}, column {schema.names[s]!r}"
                 for row, s in places[:5].tolist()]  # fmt: skip
        raise TableError(
            f"{table.source}: a category must be a whole number, so nothing was encoded: "
            + some(shown, len(places))
        )
    low = np.array([column.low for column in schema.columns])
    return np.asarray(table.values - low, np.int64)


def owner_side(spec: Spec) -> ReportOwner:
    """An owner's side of the job of this spec."""
    return ReportOwner(spec)
