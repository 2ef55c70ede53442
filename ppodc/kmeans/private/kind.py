"""The kind `private-kmeans`: k-means with a [privacy] table; only noisy values are opened."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from ppodc.kinds import Kind
from ppodc.kmeans.private.job import SAMPLE, NoisyJob, job_of, plan_of
from ppodc.kmeans.private.noisy_kmeans import Integers
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.records.upload_form import TwoShares
from ppodc.spec import Spec

POINTS = "points"  # name of the output, and of the array in checkpoints


def points_digest(points: Integers) -> str:
    """Both clouds know the points: those that owners open must be those that both report."""
    return hashlib.sha256(np.ascontiguousarray(points, "<i8").tobytes()).hexdigest()


class ReleasedShares(TwoShares):
    """Two shares of every record. The job's result, not the upload, reveals something of each."""

    def __init__(self, columns: int, report: PrivacyReport) -> None:
        super().__init__(columns)
        self._report = report

    def privacy(self) -> PrivacyReport:
        return self._report


class PrivateKMeansKind(Kind):
    """k-means in which only noisy values are opened."""

    name = "private-kmeans"
    sample = SAMPLE
    suites = ("shares",)

    def parse_job(self, table: Any) -> NoisyJob:
        return NoisyJob.from_dict(table)

    def describe(self, spec: Spec) -> list[str]:
        return job_of(spec).describe(plan_of(spec).iterations)

    def form(self, spec: Spec) -> ReleasedShares:
        return ReleasedShares(len(spec.schema.columns), job_of(spec).guarantee())

    def summary(self, facts: Mapping[str, Any]) -> str:
        return (
            f"{facts['n_iter']} iterations with noise; privacy of one record: epsilon "
            f"{facts['epsilon']:g}, delta {facts['delta']:g}"
        )


KIND = PrivateKMeansKind()
