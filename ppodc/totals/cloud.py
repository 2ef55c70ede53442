"""A cloud's side of a job of totals."""

from typing import Any

from ppodc.pairs.cloud_side import CloudSide, Material
from ppodc.pairs.plan import JobFacts, Progress, Task
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.totals.half import TotalsHalf
from ppodc.totals.job import job_of
from ppodc.totals.plan import TotalsPlan
from ppodc.transport.channel import Channel


class TotalsCloud(CloudSide):
    """A cloud's side of a job of totals."""

    def check(self, m: int, suite: str, key_bits: int) -> None:
        job_of(self.spec).check_size(self.spec.schema, m)

    def plan(self, facts: JobFacts) -> TotalsPlan:
        return TotalsPlan(facts, job_of(self.spec))

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, m: int, material: Material
    ) -> TotalsHalf:
        return TotalsHalf(role, channel, self.spec, m, material)

    def perform(self, half: TotalsHalf, task: Task, progress: Progress) -> Any:
        if task.name == "sum":
            return half.sum(task.shards, progress)
        return half.output(task.inputs)


def cloud_side(spec: Spec) -> TotalsCloud:
    """A cloud's side of the job of this spec."""
    return TotalsCloud(spec)
