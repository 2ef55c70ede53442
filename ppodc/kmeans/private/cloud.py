"""A cloud's side of k-means with noise."""

from typing import Any

from ppodc.errors import OptionError
from ppodc.kmeans.private.half import NoisyHalf
from ppodc.kmeans.private.job import job_of, plan_of
from ppodc.kmeans.private.kind import KIND
from ppodc.kmeans.private.plan import NoisyPlan
from ppodc.kmeans.private.ring import Ring
from ppodc.pairs.cloud_side import CloudSide, Material
from ppodc.pairs.plan import JobFacts, Progress, Task
from ppodc.records.upload_form import Cloud
from ppodc.spec import Spec
from ppodc.transport.channel import Channel


class PrivateKMeansCloud(CloudSide):
    """A cloud's side of k-means with noise."""

    def check(self, m: int, suite: str, key_bits: int) -> None:
        if suite not in KIND.suites:
            raise OptionError("noise in the two clouds needs the suite 'shares'.")
        job_of(self.spec).check_rows(m)
        Ring.of(plan_of(self.spec), m)

    def plan(self, facts: JobFacts) -> NoisyPlan:
        return NoisyPlan(facts, plan_of(self.spec))

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, m: int, material: Material
    ) -> NoisyHalf:
        return NoisyHalf(role, channel, self.spec, m, material)

    def perform(self, half: NoisyHalf, task: Task, progress: Progress) -> Any:
        if task.name == "assign":
            return half.assign(task.shards, task.inputs[0], progress)
        if task.name == "open":
            return half.open(*task.inputs)
        return half.output(task.inputs[0])


def cloud_side(spec: Spec) -> PrivateKMeansCloud:
    """A cloud's side of the job of this spec."""
    return PrivateKMeansCloud(spec)
