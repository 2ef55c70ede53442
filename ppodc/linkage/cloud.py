"""A cloud's side of a linkage."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppodc.linkage import plan
from ppodc.linkage.job import job_of
from ppodc.linkage.plan import LinkagePlan, checked_portion
from ppodc.pairs.cloud_side import CloudSide, Material
from ppodc.pairs.plan import JobFacts, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.upload_form import Cloud
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel

if TYPE_CHECKING:
    from ppodc.linkage.half import LinkageHalf


class LinkageCloud(CloudSide):
    """A cloud's side of a linkage."""

    def check(self, m: int, suite: str, key_bits: int) -> None:
        job_of(self.spec).output.require()
        job_of(self.spec).check(self.spec.schema)

    def shards(self, sealed: Sealed, pairs: int, usual: Sequence[Shard]) -> list[Shard]:
        return plan.shards(self.spec, sealed, pairs)

    def plan(self, facts: JobFacts) -> LinkagePlan:
        return LinkagePlan(facts, self.spec)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, m: int, material: Material
    ) -> "LinkageHalf":
        from ppodc.linkage.half import LinkageHalf

        return LinkageHalf(role, channel, self.spec, m, material)

    def perform(self, half: "LinkageHalf", task: Task, progress: Progress) -> Any:
        if task.name == "link":
            return half.link(checked_portion(task), task.inputs[1], task.agreed[3], progress)
        return half.output(*task.inputs)


def cloud_side(spec: Spec) -> LinkageCloud:
    """A cloud's side of the job of this spec."""
    return LinkageCloud(spec)
