"""What an owner's table becomes for each cloud in a k-means job with a linkage inside.

The rows of the linkage (`ppodc.linkage.upload`), with the values to cluster. A dummy has the values
of one of its owner's records, taken in turn: it is in no sum, but clusters may start from any row,
and must not start from garbage. Which rows are dummies, and which record one repeats, nobody sees.
"""

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.linked_columns import LinkedColumns
from ppodc.linkage.upload import ROW_HALF, PaddedRows, PlainRows
from ppodc.records.encode import encode_some
from ppodc.records.upload_form import MaySend, anything

Ints = NDArray[np.int64]
Outline = NDArray[np.uint32]


class LinkedRows(PlainRows):
    """All rows as they are: blocks = "none". Clusters need some."""

    may_be_empty = False

    def __init__(self, columns: LinkedColumns) -> None:
        super().__init__(columns.spec)
        self._linked = columns
        self._all = columns.width

    def encode(self, data: Any, *, header: bool = True) -> Ints:
        values = super().encode(data, header=header)
        if not len(values):
            raise InputError("the table holds no records, and clusters cannot start from nothing.")
        if not self._linked.behind:
            return values
        schema = self._linked.spec.schema
        every = [*schema.names, *(text.name for text in schema.texts)]
        behind = encode_some(data, self._linked.clustered, every, header=header)
        return np.column_stack([values, behind])


class PaddedLinkedRows(LinkedRows, PaddedRows):
    """Rows sorted into cells, with dummies: an `upload_form.Arranges`."""

    def arrange(
        self,
        values: Ints,
        extents: Outline | None,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
    ) -> tuple[Ints, Outline]:
        places = list(self._linked.places)
        count = len(places) if self._linked.behind else 0
        link = values[:, : values.shape[1] - count]
        sent, outline = super().arrange(link, extents, folder, limit, may_send)
        low, high = self._columns + 1, self._columns + 2
        number = sent[:, low] | sent[:, high] << ROW_HALF  # of the owner's row, from 1; 0: a dummy
        dummy = number == 0
        row = number - 1
        row[dummy] = np.arange(dummy.sum()) % len(values)
        arranged = np.empty((len(sent), self._linked.width), np.int64)
        arranged[:, : sent.shape[1]] = sent
        arranged[:, places] = (values[:, -count:] if count else values[:, places])[row]
        return arranged, outline


def linked_form(columns: LinkedColumns) -> LinkedRows:
    """The form of a job's uploads."""
    return (PaddedLinkedRows if columns.job.blocking.padded else LinkedRows)(columns)
