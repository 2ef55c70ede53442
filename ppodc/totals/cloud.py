"""A cloud's side of a job of totals."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ppodc.linkage.joined import joining
from ppodc.linkage.joined.joining import Joining
from ppodc.linkage.plan import checked_portion
from ppodc.pairs.cloud_side import CloudSide, Material
from ppodc.pairs.plan import JobFacts, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.upload_form import Cloud
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec
from ppodc.totals.job import job_of
from ppodc.totals.plan import JoinedTotalsPlan, TotalsPlan
from ppodc.transport.channel import Channel

if TYPE_CHECKING:
    from ppodc.totals.half import TotalsHalf


class TotalsCloud(CloudSide):
    """A cloud's side of a job of totals."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._joined = job_of(spec).joined(spec.schema)

    def check(self, m: int, suite: str, key_bits: int) -> None:
        job_of(self.spec).check_size(self.spec.schema, m)

    def shards(self, sealed: Sealed, pairs: int, usual: Sequence[Shard]) -> Sequence[Shard]:
        """With a join, uploads stand on every pair beside the rows to add up."""
        if self._joined is None:
            return usual
        return joining.shards(self._joined, sealed, pairs, usual)

    def plan(self, facts: JobFacts) -> TotalsPlan:
        if self._joined is None:
            return TotalsPlan(facts, job_of(self.spec))
        join = Joining(self._joined, facts.sealed, facts.pairs)
        return JoinedTotalsPlan(facts, job_of(self.spec), linking=join)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, m: int, material: Material
    ) -> "TotalsHalf":
        if self._joined is not None:
            from ppodc.totals.joined_half import JoinedTotalsHalf

            return JoinedTotalsHalf(role, channel, self.spec, m, material)
        from ppodc.totals.half import TotalsHalf

        return TotalsHalf(role, channel, self.spec, m, material)

    def perform(self, half: Any, task: Task, progress: Progress) -> Any:
        if self._joined is not None:
            if task.name == "link":
                _, *inputs = task.inputs
                return half.link(checked_portion(task), *inputs, task.agreed[3], progress)
            if task.name == "home":
                return half.home(*task.inputs)
            if task.name == "fill":
                for shard, inputs in zip(task.shards, task.inputs, strict=True):
                    half.fill(shard, *inputs)
                return None
            if task.name == "sum" and task.agreed:
                owners, *partners = task.agreed
                return half.sum(task.shards, progress, owners, partners, task.inputs)
            if task.name == "output":
                return half.output(task.inputs, *task.agreed)
        if task.name == "sum":
            return half.sum(task.shards, progress)
        return half.output(task.inputs)


def cloud_side(spec: Spec) -> TotalsCloud:
    """A cloud's side of the job of this spec."""
    return TotalsCloud(spec)
