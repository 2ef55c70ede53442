"""What an owner's table becomes for each cloud in a linkage job.

The encoded rows (`encoding`) are split in shares as always. With blocks, an owner first sorts its
rows into cells, adds the dummies that its noise asks for, and permutes the rows of each cell. Then
each row has three numbers more: whether it is real, and its own number in the owner's table, by
which links name it (two halves of 20 bits; 0 for a dummy). With several keys this is done for each
of them, and rows have a few numbers more (`passes`). The cells with their padded counts, the
*outline* of the upload, go to both clouds.

Noise and order follow from a secret key in the owner's privacy folder, the data and the blocks: an
upload that goes on, or is given again, has the same cells, and redrawing cannot average the noise
away. The cost is on disk, in the owner's budget, before anything of it leaves; with a new key the
same data are charged again.
"""

import hashlib
import hmac
import json
import secrets
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError, KeyFileError
from ppodc.files import disk_errors, private_folder, write_private
from ppodc.linkage import adtree
from ppodc.linkage.blocking import check_cells
from ppodc.linkage.cells import Boxes, Partition, joined
from ppodc.linkage.encoding import encode_rows, link_columns
from ppodc.linkage.job import Job, job_of
from ppodc.linkage.noise import ExactNoise, Noise
from ppodc.linkage.passes import check_sizes, columns_of_passes, extra_columns
from ppodc.linkage.rules import SquaredDistance
from ppodc.linkage.strings import NONE
from ppodc.records.privacy_budget import POPULATION, PrivacyBudget
from ppodc.records.privacy_report import Guarantee, PrivacyReport
from ppodc.records.schema import Schema
from ppodc.records.sharing import split
from ppodc.records.upload_form import (
    LARGEST_SHARE,
    Cloud,
    MaySend,
    Part,
    RowsPart,
    SeedPart,
    anything,
)
from ppodc.spec import Spec

ROW_HALF = 20  # bits of one half of a row's own number
_KEY_BYTES = 32
Ints = NDArray[np.int64]
Outline = NDArray[np.uint32]


def upload_columns(job: Job, schema: Schema) -> int:
    """How many numbers the clouds get of a row."""
    blocking = job.blocking
    extra = extra_columns(blocking.passes) if blocking.padded else 0
    return link_columns(job, schema) + extra


class PlainRows:
    """All rows as they are, in shares: blocks = "none". There may be none."""

    may_be_empty = True

    def __init__(self, spec: Spec) -> None:
        self._spec, self._job = spec, job_of(spec)
        self._columns = link_columns(self._job, spec.schema)
        self._all = upload_columns(self._job, spec.schema)

    def encode(self, data: Any, *, header: bool = True) -> Ints:
        return encode_rows(data, self._spec, header=header)

    def part(self, cloud: Cloud) -> Part:
        if cloud == 1:
            return RowsPart(np.uint64, self._all, LARGEST_SHARE)
        return SeedPart(self._all)

    def chunk(
        self, values: Ints, secret: bytes, first_row: int, cloud: Cloud
    ) -> NDArray[np.uint64]:
        return split(values, secret, first_row=first_row)[0]


class PaddedRows(PlainRows):
    """Rows sorted into cells, with dummies: an `upload_form.Arranges`."""

    @property
    def follows(self) -> str:
        """The owner whose cells the others use; empty if each has its own or all are public."""
        return self._job.blocking.tree_of

    def privacy(self) -> PrivacyReport:
        """What the cells of an upload tell both clouds of one record."""
        blocking = self._job.blocking
        cost = Guarantee(float(blocking.epsilon), float(blocking.delta))
        return PrivacyReport(cost, (), unit="record that is replaced, towards the clouds")

    def check_outline(self, outline: NDArray[Any], rows: int) -> None:
        """At a gateway: refuse what cannot be the cells of so many rows."""
        cutting = self._job.cutting(self._spec.schema)
        synopsis = cutting.synopsis(outline)
        if synopsis.rows != rows:
            raise InputError("the cells of an upload do not add up to its rows.")
        check_sizes(cutting.rows_of_passes(synopsis))
        cutting.check_cover(synopsis)

    def extents(self, outline: NDArray[Any]) -> Outline:
        """What other owners may learn of an outline: where the cells are, not what they hold."""
        return np.ascontiguousarray(outline[:, 1:])

    def arrange(
        self,
        values: Ints,
        extents: Outline | None,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
    ) -> tuple[Ints, Outline]:
        """The rows to send and their outline; charged to the owner's budget before it has them.

        Whatever can be refused is refused before: what was drawn is the same whenever the same
        rows come again, and nobody has seen it.
        """
        blocking = self._job.blocking
        blocking.budget().check_rows(len(values))
        self._check_extents(extents)
        what = self._what(values, extents)
        key = _cell_key(folder)
        random = SecureRandom(hmac.digest(key, b"cells " + what, "sha256"))
        partition = self.partition(values, extents, ExactNoise(random))
        sent, outline = self._arranged(values, partition, random)
        self.check_outline(outline, len(sent))
        name = f"cells {hashlib.sha256(key + what).hexdigest()}"
        budget = PrivacyBudget(folder / "budget.json", limit)
        if name not in [drawing.name for drawing in budget.drawings(POPULATION)]:
            may_send(len(sent))
        budget.spend(POPULATION, name, blocking.epsilon, blocking.delta)
        return sent, outline

    def partition(self, values: Ints, extents: Outline | None, noise: Noise) -> Partition:
        """The cells of these rows under some noise; with several keys each row is in one of each.

        Row i of pass p is then row p * rows + i of the partition.
        """
        blocking, cutting = self._job.blocking, self._job.cutting(self._spec.schema)
        points, budget = self._points(values), blocking.budget()
        if cutting.passes:
            each = zip(points, cutting.passes, blocking.budgets(), strict=True)
            return joined([adtree.count_cells(*cells, noise) for cells in each])
        if extents is None:
            found = adtree.build(points[0], cutting.domain, budget, noise)
            check_cells(len(found.boxes), len(cutting.domain))
            return found
        return adtree.count_cells(points[0], _boxes(extents), budget, noise)

    def _points(self, values: Ints) -> list[Ints]:
        """Where the rows lie in the public domain, in each pass."""
        rule = self._job.rule
        if self._job.blocking.kind == "key":
            keys = values[:, self._columns :].T
            return [np.column_stack([np.full_like(key, p), key]) for p, key in enumerate(keys)]
        if isinstance(rule, SquaredDistance):
            return [values[:, np.flatnonzero(rule.weights)]]
        ends = np.cumsum([text.longest for text in self._spec.schema.texts])[:-1]
        parts = np.split(values, ends, axis=1)
        return [np.stack([(part != NONE).sum(axis=1) for part in parts], axis=1)]

    def _arranged(
        self, values: Ints, partition: Partition, random: SecureRandom
    ) -> tuple[Ints, Outline]:
        order, rows = _shuffled(partition, random), max(1, len(values))
        real = order >= 0
        at = np.where(real, order % rows, -1)
        own = np.zeros((len(order), self._columns), np.int64)
        own[real] = values[at[real], : self._columns]  # a dummy is a row of zeros, and not real
        number = at + 1
        low, high = number & ((1 << ROW_HALF) - 1), number >> ROW_HALF
        sent = np.column_stack([own, real.astype(np.int64), low, high])
        cutting, synopsis = self._job.cutting(self._spec.schema), partition.synopsis
        if self._job.blocking.passes > 1:
            sizes = cutting.rows_of_passes(synopsis)
            more = columns_of_passes(order, sizes, values[:, self._columns :])
            sent = np.column_stack([sent, more])
        return sent, cutting.outline(synopsis)

    def _check_extents(self, extents: Outline | None) -> None:
        """What came from another owner by way of the clouds must be cells of the domain."""
        if extents is not None:
            counts = np.zeros((len(extents), 1), np.uint32)
            cutting = self._job.cutting(self._spec.schema)
            cutting.check_cover(cutting.synopsis(np.concatenate([counts, extents], axis=1)))

    def _what(self, values: Ints, extents: Outline | None) -> bytes:
        """A digest of the data and of all that the noise depends on."""
        known = [self._job.to_dict(), self._spec.schema.to_dict(), values.shape]
        hasher = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
        for array in (values, extents):
            if array is not None:
                hasher.update(np.ascontiguousarray(array).astype("<i8").tobytes())
        return hasher.digest()


def upload_form(spec: Spec) -> PlainRows:
    """The form of a job's uploads."""
    return (PaddedRows if job_of(spec).blocking.padded else PlainRows)(spec)


def _boxes(extents: Outline) -> Boxes:
    return extents.astype(np.int64).reshape(len(extents), -1, 2)


def _shuffled(partition: Partition, random: SecureRandom) -> Ints:
    """Rows in the order of their cells, -1 for dummies, in random order inside each cell."""
    sizes = partition.synopsis.counts
    cell = np.repeat(np.arange(len(sizes)), sizes)
    anyhow = random.permutation(len(cell))
    # sorted by cell with ties in the order of a random permutation
    order: Ints = partition.arranged()[anyhow[np.argsort(cell[anyhow], kind="stable")]]
    return order


def _cell_key(folder: Path) -> bytes:
    """The secret behind an owner's cells; made at the first use."""
    path = private_folder(folder) / "cells.key"
    if not path.exists():
        write_private(path, secrets.token_bytes(_KEY_BYTES))
    with disk_errors(path):
        key = path.read_bytes()
    if len(key) != _KEY_BYTES:
        raise KeyFileError(f"{path} is damaged: put it back from your copy, or remove it; what is "
                           "uploaded again is then charged again.")  # fmt: skip
    return key
