"""The kind `kmeans`, as the registry of kinds finds it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ppodc.errors import InputError
from ppodc.kmeans import suites
from ppodc.kmeans.half import Half
from ppodc.kmeans.job import SAMPLE, Job, job_of
from ppodc.kmeans.linked_upload import linked_form
from ppodc.kmeans.linking import Linking
from ppodc.kmeans.perform import perform
from ppodc.kmeans.plan import KMeansPlan
from ppodc.kmeans.result import LABELS, Result, ResultsByK, ending, name_of, open_result
from ppodc.kmeans.steps import TABLE
from ppodc.linkage.comparisons import is_side
from ppodc.linkage.plan import shards as linkage_shards
from ppodc.linkage.result import ROWS
from ppodc.pairs.plan import Material, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import OpenedResult
from ppodc.records.upload_form import Cloud, TwoShares, UploadForm
from ppodc.service.store import Checkpoint
from ppodc.service.upload import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel


class KMeansKind:
    """Exact k-means on two shares of every record."""

    name = "kmeans"
    sample = SAMPLE
    suites: tuple[str, ...] = suites.NAMES

    def parse_job(self, table: Any) -> Job:
        return Job.from_dict(table)

    def upload(self, spec: Spec) -> UploadForm:
        linked = job_of(spec).linked(spec.schema)
        return TwoShares(spec.schema) if linked is None else linked_form(linked)

    def in_words(self, spec: Spec) -> list[str]:
        return job_of(spec).in_words()

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        job = job_of(spec)
        if not job.labels:
            return ()
        own = (ROWS,) if job.dedup is not None and job.dedup.blocking.padded else ()
        return (*own, *(name_of(job, LABELS, k) for k in job.clusters))

    def check(self, spec: Spec, m: int, suite: str, key_bits: int) -> None:
        try:
            params = job_of(spec).parameters(spec.schema, m)
        except InputError as error:
            raise InputError(
                f"{error}. Wait for more uploads, or create a dataset with k of at most {m}."
            ) from error
        beyond = job_of(spec).beyond_published
        if beyond and suite != suites.DEFAULT:
            raise InputError(
                f"job: {', '.join(beyond)} needs the suite {suites.DEFAULT!r}. Run the job with "
                f'it, or create a dataset without (init = "random").'
            )
        suites.check(suites.named(suite), params, key_bits)
        suites.check_starts(params, several=job_of(spec).n_init > 1, told=job_of(spec).inertia)

    def most_pairs(self, spec: Spec) -> int | None:
        return None

    def shards(
        self, spec: Spec, sealed: Sealed, pairs: int, usual: Sequence[Shard]
    ) -> Sequence[Shard]:
        """Uploads stand on every pair beside the records to cluster, if they are linked first."""
        linked = job_of(spec).linked(spec.schema)
        sides = [] if linked is None else linkage_shards(linked.spec, sealed, pairs)
        return [*sides, *usual]

    def plan(
        self,
        spec: Spec,
        sealed: Sealed,
        shards: Sequence[Shard],
        pairs: int,
        save: Callable[[Checkpoint], None],
    ) -> KMeansPlan:
        job = job_of(spec)
        linked, own = job.linked(spec.schema), [s for s in shards if not is_side(s.name)]
        linking = None if linked is None else Linking(linked, sealed, pairs)
        return KMeansPlan(job, spec.schema, sealed, own, pairs, save, TABLE, linking)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> Half:
        job = job_of(spec)
        params, linked = job.parameters(spec.schema, m), job.linked(spec.schema)
        chosen = suites.named(suite)
        return suites.open_half(chosen, role, channel, params, material, linked=linked)

    def perform(self, half: Half, task: Task, progress: Progress) -> Any:
        return perform(half, task, progress)

    def describe(self, facts: Mapping[str, Any]) -> str:
        return f"{facts['n_iter']} iterations ({ending(facts['converged'])})"

    def open_result(self, spec: Spec, opened: OpenedResult) -> Result | ResultsByK:
        return open_result(spec, opened)


KIND = KMeansKind()
