"""The owner's side of a k-means job: records in two shares, and clusters opened."""

from dataclasses import replace

from ppodc.kmeans.job import job_of
from ppodc.kmeans.linked.owner import LinkedOwner
from ppodc.kmeans.result import Result, ResultsByK, open_result
from ppodc.linkage.joined.owner import JoinedOwner
from ppodc.records.owner_side import OwnerSide
from ppodc.records.result_shares import OpenedResult
from ppodc.spec import Spec


class KMeansOwner(OwnerSide):
    """An owner's side of a k-means job."""

    def open_result(self, opened: OpenedResult) -> Result | ResultsByK:
        return open_result(self.spec, opened)


class JoinedKMeansOwner(JoinedOwner, KMeansOwner):
    """An owner's side of a k-means job over joined columns."""

    def open_result(self, opened: OpenedResult) -> Result | ResultsByK:
        """The clusters; labels for owners of the anchor alone."""
        if self.of_partner:
            opened = replace(opened, rows={})
        return open_result(self.spec, opened)


def owner_side(spec: Spec) -> OwnerSide:
    """An owner's side of the job of this spec."""
    job = job_of(spec)
    joined, linked = job.joined(spec.schema), job.linked(spec.schema)
    if joined is not None:
        return JoinedKMeansOwner(spec, joined)
    return KMeansOwner(spec) if linked is None else LinkedOwner(spec, linked)
