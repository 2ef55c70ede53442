"""The kind `private-kmeans`, as the registry of kinds finds it: k-means with a [privacy] table."""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.kmeans.noisy import plan
from ppodc.kmeans.noisy.half import NoisyHalf
from ppodc.kmeans.noisy.job import SAMPLE, NoisyJob, job_of, plan_of
from ppodc.kmeans.noisy.plan import NoisyPlan
from ppodc.kmeans.noisy.result import PrivateResult, open_result
from ppodc.kmeans.noisy.ring import Ring
from ppodc.ldp.owner_reports import data_digest
from ppodc.pairs.plan import Material, Progress, Task
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import OpenedResult
from ppodc.records.privacy_budget import POPULATION, PrivacyBudget
from ppodc.records.privacy_report import PrivacyReport
from ppodc.records.sharing import SEED_BYTES
from ppodc.records.upload_form import Cloud, TwoShares, UploadForm
from ppodc.service.store import Checkpoint
from ppodc.service.upload import Sealed
from ppodc.spec import Spec
from ppodc.transport.channel import Channel


class ChargedShares(TwoShares):
    """Two shares of every record, charged to the owner's budget for the one release of the job.

    Shares tell nothing; the job's result does. A dataset is released once and its name never serves
    again, so the same data under the same spec are charged once, however often they are sent. Where
    the clouds know nothing of an earlier upload any more (they were set up anew), or an upload that
    this owner has no record of counts besides, the data are charged again: they are released twice,
    or every record is in it twice.
    """

    def __init__(self, spec: Spec) -> None:
        TwoShares.__init__(self, spec.schema)
        self._spec = spec

    def privacy(self) -> PrivacyReport:
        return job_of(self._spec).guarantee()

    def charge(
        self, values: NDArray[np.int64], folder: Path, limit: Fraction, *, besides: bool = False
    ) -> bytes:
        job = job_of(self._spec)
        release = hashlib.sha256(self._spec.digest.encode() + data_digest(values)).hexdigest()
        budget = PrivacyBudget(folder / "budget.json", limit)
        cost = Fraction(job.epsilon), Fraction(job.delta)
        name = f"{self._spec.name}, noise in the two clouds {release}"
        if not budget.spend(POPULATION, name, *cost) and besides:
            copies = sum(each.name.startswith(name) for each in budget.drawings(POPULATION))
            budget.spend(POPULATION, f"{name}, copy {copies + 1}", *cost)
        return secrets.token_bytes(SEED_BYTES)


class PrivateKMeansKind:
    """k-means in which only noisy values are opened."""

    name = "private-kmeans"
    sample = SAMPLE
    suites = ("shares",)

    def parse_job(self, table: Any) -> NoisyJob:
        return NoisyJob.from_dict(table)

    def upload(self, spec: Spec) -> UploadForm:
        return ChargedShares(spec)

    def in_words(self, spec: Spec) -> list[str]:
        return job_of(spec).in_words(plan_of(spec).iterations)

    def row_outputs(self, spec: Spec) -> tuple[str, ...]:
        return ()

    def check(self, spec: Spec, m: int, suite: str, key_bits: int) -> None:
        if suite not in self.suites:
            raise InputError("noise in the two clouds needs the suite 'shares'.")
        Ring.of(plan_of(spec), m)

    def most_pairs(self, spec: Spec) -> int | None:
        return None

    def plan(
        self,
        spec: Spec,
        sealed: Sealed,
        shards: Sequence[Shard],
        pairs: int,
        save: Callable[[Checkpoint], None],
    ) -> NoisyPlan:
        return NoisyPlan(plan_of(spec), pairs, save)

    def open_half(
        self, suite: str, role: Cloud, channel: Channel, spec: Spec, m: int, material: Material
    ) -> NoisyHalf:
        return NoisyHalf(role, channel, spec, m, material)

    def perform(self, half: NoisyHalf, task: Task, progress: Progress) -> Any:
        return plan.perform(half, task, progress)

    def describe(self, facts: Mapping[str, Any]) -> str:
        return (
            f"{facts['n_iter']} iterations with noise; privacy of one record: epsilon "
            f"{facts['epsilon']:g}, delta {facts['delta']:g}"
        )

    def open_result(self, spec: Spec, opened: OpenedResult) -> PrivateResult:
        return open_result(spec, opened)


KIND = PrivateKMeansKind()
