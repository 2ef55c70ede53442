"""The base of the estimators under local differential privacy.

Each array given to `fit` belongs to another owner. Every record is perturbed by itself, as its
owner's device would; from then on only the reports are used. `privacy_` says what is guaranteed for
one record, beside what is claimed.
"""

import warnings
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from client.accountant import charge_reports
from client.estimators.base import Clusterer, check_fitted
from client.estimators.given_tables import LEFT_OUT, MISSING, Missing, Tables
from client.estimators.owner_tables import SEEDS
from client.estimators.parameters import NOTHING, POSITIVE, TEXT, Kinds, whole
from ppodc.local_dp.mechanism import Mechanism
from ppodc.local_dp.report_streams import RecordStreams, ReportKey, row_ids
from ppodc.privacy.guarantee import PrivacyReport
from ppodc.records.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


class LocalEstimator(Clusterer):
    """The base of the estimators: streams of noise, warnings, and labels beside names of rows."""

    _kinds: ClassVar[Kinds] = {
        "epsilon": [POSITIVE],
        "random_state": SEEDS,
        "insecure_noise_seed": [whole(0), NOTHING],
        "missing": MISSING,
        "id_column": [TEXT, NOTHING],
    }
    insecure_noise_seed: int | None
    missing: Missing
    id_column: str | None
    seed_: int
    privacy_: PrivacyReport

    def _streams(self, records: NDArray[np.int64], owner: int, digest: bytes) -> RecordStreams:
        """A new key for each owner, unless noise that everybody can repeat was asked for."""
        seed = self.insecure_noise_seed
        key = ReportKey() if seed is None else ReportKey.from_seed(seed)
        return key.streams(digest, row_ids(0, len(records)), records, str(owner).encode())

    def _reports(self, owners: list[NDArray[np.int64]], mechanism: Mechanism) -> NDArray[Any]:
        """One report of every record, owner by owner."""
        digest = mechanism.digest()
        self._guarantee(mechanism.guarantee())
        parts = [
            mechanism.perturb(records, self._streams(records, owner, digest))
            for owner, records in enumerate(owners)
        ]
        return np.concatenate(parts)

    def _guarantee(self, report: PrivacyReport) -> None:
        """Charge the accountant, before there is a report; warn of what protects nobody."""
        charge_reports(report)
        self.privacy_ = report
        claim = "" if report.claim_holds else str(report)
        for told in filter(None, (claim, report.weak())):
            warnings.warn(told, stacklevel=4)

    def _judge(self, doubt: str) -> None:
        """Warn of centres that are little but noise."""
        self.usable_: bool = not doubt
        if doubt:
            warnings.warn(doubt, stacklevel=3)

    def _keep(self, tables: Tables, labels: NDArray[np.int64], left_out: int = LEFT_OUT) -> None:
        """Keep the label of each row that counts, owner after owner."""
        ends = np.cumsum([int(kept.sum()) for kept in tables.kept])[:-1]
        self._tables, self.left_out_ = tables, tables.left_out
        own: list[NDArray[np.int64]] = np.split(labels, ends)
        self.owner_labels_: list[NDArray[np.int64]] = tables.spread(own, left_out)
        self.labels_: NDArray[np.int64] = np.concatenate(self.owner_labels_)

    def to_frame(self) -> "pd.DataFrame":
        """A row for each record: its owner, its label in the table, and its cluster."""
        check_fitted(self)
        return self._tables.frame({"label": self.owner_labels_})


def bounds_of(schema: Schema) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(low, high) of all columns."""
    low = np.array([column.low for column in schema.columns])
    return low, np.array([column.high for column in schema.columns])
