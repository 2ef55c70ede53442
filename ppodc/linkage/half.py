"""One cloud's half of a linkage job, on the two-party engine.

Rows are taken in shard by shard; then every row of an owner is compared with every row of the
owners after it, and match bits become links of both rows as they are made (`outcome`). What a row
links to is told as owner number and row number among that owner's rows, both of which the clouds
know and nobody shares: they are public constants that a secret bit selects.

Who learns what: nothing; `link` gives each cloud a freshly masked half, of which owners get their
own rows. Rounds, bytes: see `distances` and `outcome`.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage import distances
from ppodc.linkage.blocks import Block, batches, rectangle
from ppodc.linkage.distances import NumberRows
from ppodc.linkage.job import job_of
from ppodc.linkage.outcome import Links
from ppodc.linkage.pieces import Piece, pieces
from ppodc.mpc.additive import AdditiveShare, public
from ppodc.mpc.remask import remask
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.pairs.plan import Material, Progress
from ppodc.records.output_half import OutputHalf
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.transport.channel import Channel

_MEMORY_BYTES = 400 << 20  # what shares and keys of records may keep in memory


class LinkageHalf:
    """The half of the cloud `role`."""

    def __init__(
        self, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> None:
        job = job_of(spec)
        self._numbers = job.numbers(spec.schema)
        self._flags = job.output == "flags"
        self._columns, self._m = len(spec.schema.columns), m
        self._budget = Budget(_MEMORY_BYTES)
        self._rows: dict[str, NumberRows] = {}
        text = f"linkage m={m} ub={spec.schema.ub} {job.to_dict()}"
        self._session = Session.start(role, channel, text, material.key, pools=material.pools)

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in a shard's records: (rows, l), t + r at C1 and r at C2."""
        with self._session.step("ingest"):
            total = len(share) + sum(rows.rows for rows in self._rows.values())
            if share.ndim != 2 or share.shape[1] != self._columns or total > self._m:
                raise InputError(f"shard {shard!r} does not fit the job.")
            real = public([1] * len(share), 1, self._session.role)
            self._rows[shard] = distances.take_in(
                self._session, self._numbers, share, real, self._budget
            )

    def link(
        self, shards: Sequence[str], uploads: Sequence[tuple[int, int]], progress: Progress
    ) -> list[OutputHalf]:
        """Fresh halves for every sealed row: partners, and with links the partner's token."""
        with self._session.step("link"):
            sizes = [(name, self._rows[name].rows) for name in shards]
            if sum(rows for _, rows in sizes) != sum(rows for _, rows in uploads):
                raise InputError("the shards do not hold the rows of these uploads.")
            links = Links(self._m, self._m)
            listed = list(pieces(sizes, uploads))
            for number, x in enumerate(listed):
                for y in listed[number + 1 :]:
                    if x.owner != y.owner:
                        self._compare(x, y, links)
                progress(x.rows[1] - x.rows[0])
            half = links.flags(self._session) if self._flags else links.half(self._session)
            fresh = remask(self._session, half)
            return [OutputHalf.of_words(column) for column in fresh.T]

    def _compare(self, x: Piece, y: Piece, links: Links) -> None:
        """All rows of one piece with all rows of another, and links of both."""
        left, right = self._rows[x.shard], self._rows[y.shard]
        for batch in batches(rectangle(x.rows, [y.rows])):
            pairs = sum(block.pairs for block in batch)
            self._session.supplies.reserve(self._numbers.needs(pairs) + Needs(transfers=2 * pairs))
            bits = distances.match_bits(self._session, self._numbers, left, right, batch)
            for block, match in zip(batch, bits, strict=True):
                self._add(x, y, block, match, links)

    def _add(
        self, x: Piece, y: Piece, block: Block, match: NDArray[np.uint8], links: Links
    ) -> None:
        rows = np.arange(*block.xs) - x.rows[0]
        columns = block.columns - y.rows[0]
        links.add(self._session, x.sealed[rows], match, self._tokens(y, columns))
        links.add(self._session, y.sealed[columns], match.T, self._tokens(x, rows))

    def _tokens(self, piece: Piece, rows: NDArray[np.intp]) -> AdditiveShare:
        return public([piece.token + int(row) for row in rows], 1, self._session.role)

    def close(self) -> None:
        """End the pair's session."""
        for rows in self._rows.values():
            rows.close()
        self._rows.clear()
        self._session.close()
