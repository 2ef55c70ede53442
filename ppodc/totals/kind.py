"""The kind `totals`, as the registry of kinds finds it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ppodc.pairs.plan import Material, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import OpenedResult
from ppodc.records.upload_form import Cloud, TwoShares, UploadForm
from ppodc.service.store import Checkpoint
from ppodc.service.upload import Sealed
from ppodc.spec import Spec
from ppodc.totals import plan
from ppodc.totals.half import TotalsHalf
from ppodc.totals.job import SAMPLE, Job, job_of
from ppodc.totals.plan import TotalsPlan
from ppodc.totals.result import Totals, open_result
from ppodc.transport.channel import Channel


class TotalsKind:
    """Sums over two shares of every record."""

    name = "totals"
    sample = SAMPLE
    suites = ("shares",)

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def upload(self, spec: Spec) -> UploadForm:
        return TwoShares(spec.schema)

    def in_words(self, spec: Spec) -> list[str]:
        return job_of(spec).in_words()

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        return ()

    def check(self, spec: Spec, m: int, suite: str, key_bits: int) -> None:
        job_of(spec).check_size(spec.schema, m)

    def most_pairs(self, spec: Spec) -> int | None:
        return None

    def plan(
        self,
        spec: Spec,
        sealed: Sealed,
        shards: Sequence[Shard],
        pairs: int,
        save: Callable[[Checkpoint], None],
    ) -> TotalsPlan:
        return TotalsPlan(job_of(spec), shards, pairs)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> TotalsHalf:
        return TotalsHalf(role, channel, spec, m, material)

    def perform(self, half: TotalsHalf, task: Task, progress: Progress) -> Any:
        return plan.perform(half, task, progress)

    def describe(self, facts: Mapping[str, Any]) -> str:
        return f"totals of {facts['records']} records"

    def open_result(self, spec: Spec, opened: OpenedResult) -> Totals:
        return open_result(spec, opened)


KIND = TotalsKind()
