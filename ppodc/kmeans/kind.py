"""The kind `kmeans`, as the registry of kinds finds it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ppodc.errors import InputError
from ppodc.kmeans import suites
from ppodc.kmeans.half import Half
from ppodc.kmeans.job import SAMPLE, Job, job_of
from ppodc.kmeans.perform import perform
from ppodc.kmeans.plan import KMeansPlan
from ppodc.kmeans.result import LABELS, Result, ResultsByK, ending, name_of, open_result
from ppodc.kmeans.steps import TABLE
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
        return TwoShares(spec.schema)

    def in_words(self, spec: Spec) -> list[str]:
        return job_of(spec).in_words()

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        job = job_of(spec)
        return tuple(name_of(job, LABELS, k) for k in job.clusters) if job.labels else ()

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
        return None if job_of(spec).dedup is None else 1  # records of all owners meet

    def plan(
        self,
        spec: Spec,
        sealed: Sealed,
        shards: Sequence[Shard],
        pairs: int,
        save: Callable[[Checkpoint], None],
    ) -> KMeansPlan:
        return KMeansPlan(job_of(spec), spec.schema, sealed, shards, pairs, save, TABLE)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> Half:
        params = job_of(spec).parameters(spec.schema, m)
        return suites.open_half(suites.named(suite), role, channel, params, material)

    def perform(self, half: Half, task: Task, progress: Progress) -> Any:
        return perform(half, task, progress)

    def describe(self, facts: Mapping[str, Any]) -> str:
        return f"{facts['n_iter']} iterations ({ending(facts['converged'])})"

    def open_result(self, spec: Spec, opened: OpenedResult) -> Result | ResultsByK:
        return open_result(spec, opened)


KIND = KMeansKind()
