"""One cloud's half of a job of totals, on the two-party engine.

Records are taken in as additive shares, and XOR-shared bits where variances are wanted
(`mpc.unmask`); whatever an owner uploads counts as min(t mod 2^b, ub), b = bits(ub). Then, for each
column modulo 2^64,

    S = sum_i t_i                                        local
    Q = sum_i t_i^2 = sum_i sum_j tbit_ij * (2^j t_i)    one correlated transfer a bit

with the static transfers whose choices are the bits of t (`mpc.squares`). Who learns what: nothing;
`output` gives each cloud a freshly masked half. Rounds: those of taking in, 1 for the squares, 1
for the output. Bytes per value, in each direction: 8 b for the squares, besides taking it in.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.mpc.session import Session
from ppodc.mpc.shares import unmask
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.remask import remask
from ppodc.mpc.shares.squares import squares
from ppodc.mpc.shares.unmask import SharedTable
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.plan import Progress
from ppodc.pairs.supplied_half import SuppliedHalf
from ppodc.records.result_shares import OutputShare
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.totals.job import job_of
from ppodc.transport.channel import Channel

_MEMORY_BYTES = 400 << 20  # what shares and keys of records may keep in memory
_CHUNK_BITS = 1 << 20  # bits squared at a time


class TotalsHalf(SuppliedHalf):
    """The half of the cloud `role`."""

    def __init__(
        self, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> None:
        totalled = job_of(spec).totalled(spec.schema)
        self._columns, self._ub = len(totalled.columns), totalled.ub
        self._bits = self._ub.bit_length()
        self._variance = job_of(spec).variance
        self._m = m
        self._budget = Budget(_MEMORY_BYTES)
        self._tables: dict[str, SharedTable] = {}
        job = f"totals m={m} l={self._columns} ub={spec.schema.ub} variance={self._variance}"
        self._session = Session.start(
            role, channel, job, pools=material.pools, secrets=material.secrets
        )

    def ingest(self, shard: str, share: NDArray[np.uint64]) -> None:
        """Take in a shard's records: (rows, l), t + r at C1 and r at C2."""
        with self._session.step("ingest"):
            total = len(share) + sum(table.rows for table in self._tables.values())
            if share.ndim != 2 or share.shape[1] != self._columns or total > self._m:
                raise InputError(f"shard {shard!r} does not fit the job.")
            self._tables[shard] = unmask.unmask(
                self._session, share, self._bits, self._budget, largest=self._ub
            )

    def sum(self, shards: Sequence[str], progress: Progress) -> U64Array:
        """This cloud's share of S and, with variances, Q of these shards: (1 or 2, l)."""
        with self._session.step("sum"):
            total = np.zeros((2 if self._variance else 1, self._columns), U64)
            for name in shards:
                table = self._tables[name]
                for start, end in self._chunks(table.rows):
                    total[0] += table.additive(start, end).limbs[..., 0].sum(axis=0, dtype=U64)
                    if self._variance:
                        found = squares(self._session, table, start, end)
                        total[1] += found.sum(axis=0, dtype=U64)
                    progress(end - start)
            return total

    def _chunks(self, rows: int) -> Iterator[tuple[int, int]]:
        step = max(1, _CHUNK_BITS // (self._columns * self._bits))
        for start in range(0, rows, step):
            yield start, min(start + step, rows)

    def output(self, parts: Sequence[U64Array]) -> list[OutputShare]:
        """Fresh halves of S and, with variances, Q over all pairs."""
        with self._session.step("output"):
            total: U64Array = np.stack(parts).sum(axis=0, dtype=U64)
            return [OutputShare.of_words(row) for row in remask(self._session, total)]

    def _missing(self, iterations: int, rows: Sequence[int] | None) -> Needs:
        """Supplies for taking in shards of these sizes; totals have no iterations."""
        needs = Needs()
        for size in rows or [self._m]:
            needs += unmask.needs(size, self._columns, self._bits, self._ub)
            if self._variance:
                needs += unmask.bit_needs(size, self._columns, self._bits)
        return needs - self._session.supplies.available()

    def close(self) -> None:
        """End the pair's session."""
        for table in self._tables.values():
            table.close()
        self._tables.clear()
        self._session.close()
