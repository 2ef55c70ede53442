"""The kind `linkage`, as the registry of kinds finds it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ppodc.linkage import plan
from ppodc.linkage.half import LinkageHalf
from ppodc.linkage.job import SAMPLE, Job, job_of
from ppodc.linkage.plan import LinkagePlan
from ppodc.linkage.result import LinkCount, LinkResult, open_result, output_names
from ppodc.linkage.upload import upload_form
from ppodc.pairs.plan import Material, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import OpenedResult
from ppodc.records.upload_form import Cloud, UploadForm
from ppodc.service.store import Checkpoint
from ppodc.service.upload import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel


class LinkageKind:
    """Matching over two shares of every record."""

    name = "linkage"
    sample = SAMPLE
    suites = ("shares",)

    def parse_job(self, table: Any) -> Job:
        job = Job.from_dict(table)
        job.require_output()
        return job

    def upload(self, spec: Spec) -> UploadForm:
        return upload_form(spec)

    def in_words(self, spec: Spec) -> list[str]:
        return job_of(spec).in_words()

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        job = job_of(spec)
        return () if job.output == "count" else output_names(job)

    def check(self, spec: Spec, m: int, suite: str, key_bits: int) -> None:
        job_of(spec).require_output()
        job_of(spec).check(spec.schema)

    def most_pairs(self, spec: Spec) -> int | None:
        return None

    def shards(self, spec: Spec, sealed: Sealed, pairs: int, usual: Sequence[Shard]) -> list[Shard]:
        return plan.shards(spec, sealed, pairs)

    def plan(
        self,
        spec: Spec,
        sealed: Sealed,
        shards: Sequence[Shard],
        pairs: int,
        save: Callable[[Checkpoint], None],
    ) -> LinkagePlan:
        return LinkagePlan(spec, sealed, pairs, save)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> LinkageHalf:
        return LinkageHalf(role, channel, spec, m, material)

    def perform(self, half: LinkageHalf, task: Task, progress: Progress) -> Any:
        return plan.perform(half, task, progress)

    def describe(self, facts: Mapping[str, Any]) -> str:
        return f"links between the records of {facts['owners']} owners"

    def open_result(self, spec: Spec, opened: OpenedResult) -> LinkResult | LinkCount:
        return open_result(spec, opened)


KIND = LinkageKind()
