"""A cloud's side of a k-means job: check it, plan it, open a half."""

from collections.abc import Sequence
from typing import Any

from ppodc.errors import InputError, OptionError, StateError
from ppodc.kmeans import suites
from ppodc.kmeans.half import Half
from ppodc.kmeans.job import job_of
from ppodc.kmeans.linked.rounds import Linking
from ppodc.kmeans.perform import perform
from ppodc.kmeans.plan import KMeansPlan
from ppodc.kmeans.steps import table
from ppodc.linkage.joined import joining
from ppodc.linkage.joined.joining import Joining
from ppodc.linkage.plan import shards as linkage_shards
from ppodc.linkage.schedule import is_side
from ppodc.pairs.cloud_side import CloudSide, Material
from ppodc.pairs.plan import JobFacts, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.upload_form import Cloud
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel


class KMeansCloud(CloudSide):
    """A cloud's side of a k-means job."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self._job = job_of(spec)
        self._linked = self._job.linked(spec.schema)
        self._joined = self._job.joined(spec.schema)

    def check(self, m: int, suite: str, key_bits: int) -> None:
        job = self._job
        try:
            params = job.parameters(self.spec.schema, m)
        except InputError as error:
            raise StateError(
                f"{error}. Wait for more uploads, or create a dataset with k of at most {m}."
            ) from error
        if job.beyond_published and suite != suites.DEFAULT:
            raise OptionError(
                f"job: {', '.join(job.beyond_published)} needs the suite {suites.DEFAULT!r}. Run "
                'the job with it, or create a dataset without (init = "random").'
            )
        if self.spec.audit and suite != suites.DEFAULT:
            raise OptionError(
                f"job.audit needs the suite {suites.DEFAULT!r}. Run the job with it, or create a "
                "dataset without audit."
            )
        suites.check(suites.named(suite), params, key_bits)
        if not job.sizes:
            from ppodc.kmeans.shares.whole_centres import width

            width(m, params.ub)
        suites.check_starts(params, several=job.n_init > 1, revealed=job.inertia)

    def shards(self, sealed: Sealed, pairs: int, usual: Sequence[Shard]) -> Sequence[Shard]:
        """Uploads stand on every pair beside the records to cluster, if they are linked first."""
        if self._joined is not None:
            return joining.shards(self._joined, sealed, pairs, usual)
        linked = self._linked
        sides = [] if linked is None else linkage_shards(linked.spec, sealed, pairs)
        return [*sides, *usual]

    def plan(self, facts: JobFacts) -> KMeansPlan:
        linked, own = self._linked, [s for s in facts.shards if not is_side(s.name)]
        linking: Linking | Joining | None = None
        if linked is not None:
            linking = Linking(linked, facts.sealed, facts.pairs)
        if self._joined is not None:
            least = self._job.k if self._job.from_records else 1
            linking = Joining(self._joined, facts.sealed, facts.pairs, least)
        return KMeansPlan(facts, self._job, self.spec.schema, own, table(self._job), linking)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, m: int, material: Material
    ) -> Half:
        params, chosen = self._job.parameters(self.spec.schema, m), suites.named(suite)
        if self._joined is not None:
            from ppodc.kmeans.joined_half import JoinedHalf

            how: Any = {"columns": self._joined, "sizes": self._job.sizes}
            return JoinedHalf(role, channel, params, **how, pools=material.pools)
        return suites.open_half(chosen, role, channel, params, material, linked=self._linked)

    def perform(self, half: Half, task: Task, progress: Progress) -> Any:
        return perform(half, task, progress)


def cloud_side(spec: Spec) -> KMeansCloud:
    """A cloud's side of the job of this spec."""
    return KMeansCloud(spec)
