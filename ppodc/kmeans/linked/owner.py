"""The owner's side of a k-means job with a linkage inside.

The rows of the linkage (`ppodc.linkage.owner`), with the values to cluster. A dummy has the values
of one of its owner's records, taken in turn: it is in no sum, but clusters may start from any row,
and must not start from garbage. Which rows are dummies, and which record one repeats, nobody sees.
"""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ppodc.errors import TableError
from ppodc.kmeans.linked.columns import LinkedColumns
from ppodc.kmeans.result import Result, ResultsByK, open_result
from ppodc.linkage import owner as linkage
from ppodc.linkage.owner_table import encode_rows
from ppodc.linkage.row_layout import row_numbers
from ppodc.records.owner_side import Ints, MaySend, OwnerSide, anything
from ppodc.records.result_shares import OpenedResult
from ppodc.records.schema import Schema
from ppodc.records.upload_form import Outline
from ppodc.spec import Spec


class LinkedOwner(OwnerSide):
    """An owner's side of a k-means job in which each entity counts once."""

    def __init__(self, spec: Spec, columns: LinkedColumns) -> None:
        super().__init__(spec)
        self._linked, self._linkage = columns, linkage.owner_side(columns.spec)

    def encode(self, data: Any, *, header: bool = True) -> Ints:
        table = self._linkage.table(data, header=header)
        if not table.rows:
            raise TableError("the table holds no records, and clusters cannot start from nothing.")
        values = encode_rows(table, self._linked.job, self._linked.spec.schema)
        if not self._linked.behind:
            return values
        return np.column_stack([values, table.grid(self._linked.clustered)])

    def counted(self, values: Ints) -> tuple[Schema, Ints]:
        linked = self._linked
        places = list(linked.places)
        own = values[:, -len(places) :] if linked.behind else values[:, places]
        return linked.clustered, own

    def arrange(
        self,
        values: Ints,
        extents: Outline | None,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
    ) -> tuple[Ints, Outline | None]:
        """The rows of the linkage, arranged by it, with the values to cluster in their places."""
        places = list(self._linked.places)
        count = len(places) if self._linked.behind else 0
        link = values[:, : values.shape[1] - count]
        sent, outline = self._linkage.arrange(link, extents, folder, limit, may_send)
        if outline is None:
            return values, None
        number = row_numbers(sent[:, self._linked.layout.number])  # from 1; 0: a dummy
        dummy = number == 0
        row = number - 1
        row[dummy] = np.arange(dummy.sum()) % len(values)
        arranged = np.empty((len(sent), self._linked.width), np.int64)
        arranged[:, : sent.shape[1]] = sent
        arranged[:, places] = (values[:, -count:] if count else values[:, places])[row]
        return arranged, outline

    def open_result(self, opened: OpenedResult) -> Result | ResultsByK:
        return open_result(self.spec, opened)
