"""The owner's side of k-means with noise: records in two shares, charged once, points opened."""

import hashlib
import secrets
from fractions import Fraction
from pathlib import Path

from ppodc.kmeans.private.job import job_of
from ppodc.kmeans.private.result import PrivateResult, open_result
from ppodc.local_dp.owner_reports import data_digest
from ppodc.privacy.budget import POPULATION, PrivacyBudget
from ppodc.records.owner_side import Ints, MaySend, OwnerSide, anything
from ppodc.records.result_shares import OpenedResult
from ppodc.records.sharing import SEED_BYTES
from ppodc.spec import Spec


class PrivateKMeansOwner(OwnerSide):
    """An owner's side of k-means with noise.

    Shares reveal nothing; the job's result does. A dataset is released once and its name never
    serves again, so the same data under the same spec are charged once, however often they are
    sent. Where the clouds know nothing of an earlier upload any more (they were set up anew), or an
    upload that this owner has no record of counts besides, the data are charged again: they are
    released twice, or every record is in it twice.
    """

    def doubt(self, rows: int) -> str:
        return job_of(self.spec).little_protection(rows)

    def charge(
        self,
        values: Ints,
        folder: Path,
        limit: Fraction,
        may_send: MaySend = anything,
        *,
        besides: bool = False,
    ) -> bytes:
        may_send(len(values))
        job = job_of(self.spec)
        job.check_rows(len(values))
        release = hashlib.sha256(self.spec.digest.encode() + data_digest(values)).hexdigest()
        budget = PrivacyBudget(folder / "budget.json", limit)
        cost = Fraction(job.epsilon), Fraction(job.delta)
        name = f"{self.spec.name}, noise in the two clouds {release}"
        if not budget.spend(POPULATION, name, *cost) and besides:
            copies = sum(each.name.startswith(name) for each in budget.drawings(POPULATION))
            budget.spend(POPULATION, f"{name}, copy {copies + 1}", *cost)
        return secrets.token_bytes(SEED_BYTES)

    def open_result(self, opened: OpenedResult) -> PrivateResult:
        return open_result(self.spec, opened)


def owner_side(spec: Spec) -> PrivateKMeansOwner:
    """An owner's side of the job of this spec."""
    return PrivateKMeansOwner(spec)
