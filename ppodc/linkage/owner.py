"""An owner's side of a linkage: its rows to compare in two shares, and links opened.

Encoded rows (`owner_table`) are split in shares as always. With blocks, an owner sorts its rows
into cells, adds the dummies that its noise asks for, and permutes the rows of each cell. Each row
then also says whether it is real, and its own number in the owner's table, by which links name it.
With several keys this is done for each of them, and rows have a few numbers more (`passes`). The
cells with their padded counts, the *outline* of the upload, go to both clouds.

Noise and order follow from a secret key in the owner's privacy folder, the data and the blocks: an
upload that goes on, or is given again, has the same cells, and redrawing cannot average the noise
away. The cost is on disk, in the owner's budget, before anything of it leaves; with a new key the
same data are charged again.
"""

import hashlib
import hmac
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ppodc.crypto.random_stream import SecureRandom
from ppodc.files import key_file, private_folder
from ppodc.linkage.blocks.cells import Partition
from ppodc.linkage.blocks.passes import columns_of_passes
from ppodc.linkage.job import job_of
from ppodc.linkage.owner_table import OwnerTable, encode_rows
from ppodc.linkage.result import LinkCount, LinkResult
from ppodc.linkage.row_layout import halves
from ppodc.privacy.budget import POPULATION, PrivacyBudget
from ppodc.privacy.cell_noise import ExactNoise
from ppodc.records.owner_side import Ints, MaySend, OwnerSide, anything
from ppodc.records.result_shares import OpenedResult
from ppodc.records.upload_form import Outline
from ppodc.spec import Spec


class LinkageOwner(OwnerSide):
    """An owner's side of a linkage."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._job = job_of(spec)
        self._layout, self._space = self._job.layout(spec.schema), self._job.space(spec.schema)

    def encode(self, data: Any, *, header: bool = True) -> Ints:
        return encode_rows(self.table(data, header=header), self._job, self.spec.schema)

    def table(self, data: Any, *, header: bool = True) -> OwnerTable:
        """Read an owner's table."""
        in_order = self._job.rule.on_grid
        return OwnerTable(data, self.spec.schema, in_order=in_order, header=header)

    def open_result(self, opened: OpenedResult) -> LinkResult | LinkCount:
        owners = self.spec.owners
        names = opened.facts.get("names", []) if owners is None else owners.names
        return self._job.output.open(opened, names, self._job.rearranged)

    def arrange(
        self,
        values: Ints,
        extents: Outline | None,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
    ) -> tuple[Ints, Outline | None]:
        """The rows to send and their outline; charged to the owner's budget before it has them.

        Whatever can be refused is refused before: what was drawn is the same whenever the same
        rows come again, and nobody has seen it.
        """
        if not self._layout.has_dummies:
            return values, None
        self._job.blocking.check_rows(len(values))
        boxes = None if extents is None else self._space.followed(extents)
        what = self._what(values, extents)
        key = key_file(private_folder(folder) / "cells.key")
        random = SecureRandom(hmac.digest(key, b"cells " + what, "sha256"))
        partition = self._space.partition(values, boxes, ExactNoise(random))
        sent = self._arranged(values, partition, random)
        outline = self._space.outline(partition.cell_counts)
        self.spec.form.check_outline(outline, len(sent))
        name = f"cells {hashlib.sha256(key + what).hexdigest()}"
        budget = PrivacyBudget(folder / "budget.json", limit)
        if name not in [drawing.name for drawing in budget.drawings(POPULATION)]:
            may_send(len(sent))
        budget.spend(POPULATION, name, *self._job.blocking.cost)
        return sent, outline

    def _arranged(self, values: Ints, partition: Partition, random: SecureRandom) -> Ints:
        """Rows in the order of their cells, each with its columns beside those compared."""
        layout, order = self._layout, _shuffled(partition, random)
        real = order >= 0
        at = np.where(real, order % max(1, len(values)), -1)
        sent = np.zeros((len(order), layout.width), np.int64)  # a dummy is a row of zeros
        sent[real, layout.link] = values[at[real], layout.link]
        sent[:, layout.real] = real[:, None]
        sent[:, layout.number] = halves(at + 1)
        if layout.has_passes:
            sizes = self._space.rows_of_passes(partition.cell_counts)
            keys = values[:, layout.link.stop :]
            sent[:, layout.earlier], sent[:, layout.switches] = columns_of_passes(
                order, sizes, keys
            )
        return sent

    def _what(self, values: Ints, extents: Outline | None) -> bytes:
        """A digest of the data and of all that the noise depends on."""
        known = [self._job.to_dict(), self.spec.schema.to_dict(), values.shape]
        hasher = hashlib.sha256(json.dumps(known, sort_keys=True).encode())
        for array in (values, extents):
            if array is not None:
                hasher.update(np.ascontiguousarray(array).astype("<i8").tobytes())
        return hasher.digest()


def owner_side(spec: Spec) -> LinkageOwner:
    """An owner's side of the job of this spec."""
    return LinkageOwner(spec)


def _shuffled(partition: Partition, random: SecureRandom) -> Ints:
    """Rows in the order of their cells, -1 for dummies, in random order inside each cell."""
    sizes = partition.cell_counts.counts
    cell = np.repeat(np.arange(len(sizes)), sizes)
    anyhow = random.permutation(len(cell))
    # sorted by cell with ties in the order of a random permutation
    order: Ints = partition.arranged()[anyhow[np.argsort(cell[anyhow], kind="stable")]]
    return order
