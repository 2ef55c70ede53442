"""An owner's report key and what its records have spent, in one folder of the owner's own.

All data of an owner count as one population: the sum over its uploads bounds what anyone in it has
spent, also when the same person stands in several of them. A charge is on disk before the first
byte of a report leaves. The same data for the same mechanism give the same reports
(`report_streams`), so sending them again, to whatever dataset, costs nothing more.

If the key is lost after reports were sent, the same records would get new noise: uploads are
refused until `forget` makes a new key; what is uploaded again is then charged again, on top.
"""

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import KeyFileError
from ppodc.files import disk_errors, private_folder, write_private
from ppodc.ldp.report_streams import KEY_BYTES, ReportKey
from ppodc.records.privacy_budget import DEFAULT_LIMIT, POPULATION, Drawing, PrivacyBudget
from ppodc.records.privacy_report import Guarantee

_REPORTS = "reports"  # what a charge for reports is called; others are of other keys


def data_digest(records: NDArray[Any]) -> bytes:
    """SHA-256 of the encoded records and their shape."""
    hasher = hashlib.sha256(f"records {records.shape} ".encode())
    hasher.update(np.ascontiguousarray(records, "<i8").reshape(-1).view(np.uint8).data)
    return hasher.digest()


class OwnerReports:
    """The folder; `limit` is the largest epsilon that the population may spend."""

    def __init__(self, folder: Path, limit: Fraction = DEFAULT_LIMIT) -> None:
        self._key_file = private_folder(folder) / "report.key"
        self._budget = PrivacyBudget(folder / "budget.json", limit)

    def key(self) -> ReportKey:
        """The report key; made at the first use, refused if it was lost."""
        if self._key_file.exists():
            with disk_errors(self._key_file):
                secret = self._key_file.read_bytes()
            if len(secret) != KEY_BYTES:
                raise KeyFileError(f"{self._key_file} is damaged: put it back from your copy.")
            return ReportKey(secret)
        if any(drawing.name.startswith(_REPORTS) for drawing in self.drawings()):
            raise KeyFileError(
                f"{self._key_file} is missing, although reports were sent with it: put it back "
                "from your copy. `ppodc budget forget --charge` makes a new one; whatever is "
                "uploaded again is then charged again."
            )
        return self.forget()

    def forget(self) -> ReportKey:
        """A new report key; what was spent stays spent."""
        key = ReportKey()
        write_private(self._key_file, key.secret_bytes())
        return key

    def charge(self, mechanism: bytes, records: NDArray[Any], cost: Guarantee) -> bool:
        """Charge for the reports of these records; False if they were charged before.

        BudgetError, with nothing charged, if the limit would be passed.
        """
        parts = self.key().fingerprint.encode(), mechanism, data_digest(records)
        name = f"{_REPORTS} {hashlib.sha256(b' '.join(parts)).hexdigest()}"
        return self._budget.spend(POPULATION, name, Fraction(cost.epsilon), Fraction(cost.delta))

    def secret(self, mechanism: bytes, records: NDArray[Any]) -> bytes:
        """The key of these records' noise: the same data and mechanism have the same."""
        return self.key().derived(mechanism, data_digest(records))

    def spent(self) -> Guarantee:
        """What the population has spent so far."""
        epsilon, delta = self._budget.spent(POPULATION)
        return Guarantee(float(epsilon), float(delta))

    def drawings(self) -> list[Drawing]:
        """Every charge, the oldest first."""
        return self._budget.drawings(POPULATION)
