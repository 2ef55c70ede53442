"""The kind `linkage`, as the registry of kinds finds it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ppodc.linkage import plan
from ppodc.linkage.half import LinkageHalf
from ppodc.linkage.job import SAMPLE, Job, job_of
from ppodc.linkage.plan import LinkagePlan
from ppodc.linkage.result import LINKS, PARTNERS, LinkResult, open_result
from ppodc.pairs.plan import Material, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import OpenedResult
from ppodc.records.upload_form import Cloud, TwoShares, UploadForm
from ppodc.service.store import Checkpoint
from ppodc.service.store.uploads import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel


class LinkageKind:
    """Matching of numbers over two shares of every record."""

    name = "linkage"
    sample = SAMPLE
    suites = ("shares",)

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def upload(self, spec: Spec) -> UploadForm:
        return TwoShares(spec.schema)

    def in_words(self, spec: Spec) -> list[str]:
        return job_of(spec).in_words()

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        return (PARTNERS, LINKS) if job_of(spec).output == "links" else (PARTNERS,)

    def check(self, spec: Spec, m: int, suite: str, key_bits: int) -> None:
        job_of(spec).check(spec.schema)

    def most_pairs(self, spec: Spec) -> int | None:
        return 1  # every row meets every other: they lie in one place

    def plan(
        self,
        spec: Spec,
        sealed: Sealed,
        shards: Sequence[Shard],
        pairs: int,
        save: Callable[[Checkpoint], None],
    ) -> LinkagePlan:
        return LinkagePlan(job_of(spec), sealed, shards, pairs)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> LinkageHalf:
        return LinkageHalf(role, channel, spec, m, material)

    def perform(self, half: LinkageHalf, task: Task, progress: Progress) -> Any:
        return plan.perform(half, task, progress)

    def describe(self, facts: Mapping[str, Any]) -> str:
        return f"links between the records of {len(facts['owners'])} owners"

    def open_result(self, spec: Spec, opened: OpenedResult) -> LinkResult:
        return open_result(spec, opened)


KIND = LinkageKind()
