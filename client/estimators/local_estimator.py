"""The base of the estimators under local differential privacy.

Each array given to `fit` belongs to another owner. Every record is perturbed by itself, as its
owner's device would; from then on only the reports are used. `privacy_` says what is guaranteed for
one record, beside what is claimed.
"""

import warnings
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.utils._param_validation import Interval

from client.accountant import charge_reports
from client.estimators.known_parameters import KnownParameters
from client.estimators.owner_tables import SEEDS
from ppodc.local_dp.codebook import Expectation
from ppodc.local_dp.mechanism import Clusters, Mechanism
from ppodc.local_dp.report_streams import RecordStreams, ReportKey, row_ids
from ppodc.local_dp.stability import usable, warning
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.records.schema import Schema

WHOLE = Interval(Integral, 1, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")


class LocalEstimator(KnownParameters, ClusterMixin, BaseEstimator):
    """The base of the estimators: streams of noise and the warning about published settings."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": [POSITIVE],
        "random_state": SEEDS,
        "insecure_noise_seed": [Interval(Integral, 0, None, closed="left"), None],
    }
    insecure_noise_seed: int | None
    seed_: int
    privacy_: PrivacyReport

    def _streams(self, records: NDArray[np.int64], owner: int, digest: bytes) -> RecordStreams:
        """A new key for each owner, unless noise that everybody can repeat was asked for."""
        seed = self.insecure_noise_seed
        key = ReportKey() if seed is None else ReportKey.from_seed(seed)
        return key.streams(digest, row_ids(0, len(records)), records, str(owner).encode())

    def _reports(self, owners: list[NDArray[np.int64]], mechanism: Mechanism) -> NDArray[Any]:
        """One report of every record, owner by owner."""
        charge_reports(mechanism.guarantee())
        digest = mechanism.digest()
        parts = [
            mechanism.perturb(records, self._streams(records, owner, digest))
            for owner, records in enumerate(owners)
        ]
        self.privacy_ = mechanism.guarantee()
        claim = "" if self.privacy_.claim_holds else str(self.privacy_)
        for told in filter(None, (claim, self.privacy_.weak())):
            warnings.warn(told, stacklevel=4)
        return np.concatenate(parts)

    def _expect(self, expected: Expectation | None, found: Clusters) -> None:
        """Warn of centres that are little but noise."""
        loss = None if found.stability is None else found.stability.loss
        noise = None if expected is None else expected.noise
        self.usable_: bool = usable(loss, noise)
        if told := warning(loss, noise):
            warnings.warn(told, stacklevel=3)


def bounds_of(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(low, high) of all columns."""
    low = np.array([column.low for column in schema.columns])
    return low, np.array([column.high for column in schema.columns])
