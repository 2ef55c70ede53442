"""An owner's report key and what its records have spent, in one folder of the owner's own.

All data of an owner count as one population: the sum over its uploads bounds what anyone in it has
spent, also when the same person stands in several of them. Where the owner names the people in a
table, each is charged by itself (`person_accounts`), on top of what the population has spent. A
charge is on disk before the first byte of a report leaves. The same data for the same mechanism
give the same reports (`report_streams`), so sending them again, to whatever dataset, costs nothing
more.

If the key is lost after reports were sent, the same records would get new noise: uploads are
refused until `forget` makes a new key; what is uploaded again is then charged again, on top.
"""

import hashlib
import secrets
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import KeyFileError
from ppodc.files import key_file, private_folder, write_private
from ppodc.local_dp.report_streams import ReportKey
from ppodc.privacy.accounts import Ids, PersonAccounts
from ppodc.privacy.budget import DEFAULT_LIMIT, POPULATION, Drawing, PrivacyBudget
from ppodc.privacy.guarantee import Guarantee

REPORT = b"report"  # what the streams of uploads are for
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
        self._folder, self._limit = folder, limit
        self._budget = PrivacyBudget(folder / "budget.json", limit)
        self.people = PersonAccounts.beside(folder / "budget.json")

    def key(self) -> ReportKey:
        """Return the report key. It is created at its first use; a lost key is an error."""
        if not self._key_file.exists() and self._reported():
            raise KeyFileError(
                f"{self._key_file} is missing, but reports were sent with it. Put it back from "
                "your copy. `ppodc budget forget --charge` makes a new one; whatever is uploaded "
                "again is then charged again."
            )
        return ReportKey(key_file(self._key_file))

    def _reported(self) -> bool:
        charged = any(drawing.name.startswith(_REPORTS) for drawing in self.drawings())
        return charged or self.people.people() > 0

    def forget(self) -> ReportKey:
        """A new report key; what was spent stays spent.

        Under a new key nobody finds their account again: from now on everybody counts as having
        spent what the one with the most had.
        """
        most = self.people.most()
        if most.epsilon > 0:
            name, unlimited = f"people under a lost key {secrets.token_hex(8)}", Fraction(1 << 40)
            budget = PrivacyBudget(self._folder / "budget.json", unlimited)
            budget.spend(POPULATION, name, Fraction(most.epsilon), Fraction(most.delta))
            self.people.forget()
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

    def charge_people(
        self, mechanism: bytes, people: Ids, records: NDArray[Any], cost: Guarantee
    ) -> int:
        """Charge the account of each named person; the number of new people."""
        rest = self._limit - Fraction(self.spent().epsilon)
        drawings = ReportKey(self.people_secret(mechanism)).streams(REPORT, people, records).tags
        return self.people.charge(people, drawings, cost, max(rest, Fraction(0)))

    def people_secret(self, mechanism: bytes) -> bytes:
        """The key of the noise of records whose people are named: the same in every table."""
        return self.key().derived(mechanism, b"people")

    def secret(self, mechanism: bytes, records: NDArray[Any]) -> bytes:
        """The key of these records' noise: the same data and mechanism have the same."""
        return self.key().derived(mechanism, data_digest(records))

    def spent(self) -> Guarantee:
        """The guarantee that the population has spent so far."""
        epsilon, delta = self._budget.spent(POPULATION)
        return Guarantee(float(epsilon), float(delta))

    def drawings(self) -> list[Drawing]:
        """Every charge, the oldest first."""
        return self._budget.drawings(POPULATION)
