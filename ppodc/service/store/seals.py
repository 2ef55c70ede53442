"""Seals in a cloud's store: which uploads a job works on, in which order, and their rows.

Both clouds fix the same list, known by its digest, before a job begins. From then on no upload
comes or goes, and row number i is the same record at both.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import InputError, StateError
from ppodc.service.job_state import JobState, check_transition
from ppodc.service.sealed_uploads import Sealed, Upload, seal_digest
from ppodc.service.store.database import Database, utc_now
from ppodc.service.store.datasets import Datasets
from ppodc.service.store.ledger import Ledger
from ppodc.service.store.uploads import Uploads, check_not_removed, known_upload, upload_of

_TOLD = 5  # upload ids in one entry of the ledger


class Seals:
    """The part of a store that fixes the records of a job."""

    def __init__(
        self, database: Database, ledger: Ledger, datasets: Datasets, uploads: Uploads
    ) -> None:
        self._database, self._ledger = database, ledger
        self._datasets, self._uploads = datasets, uploads

    def seal(self, dataset: str, upload_ids: Sequence[str]) -> str:
        """Fix the records and their order; the digest that both clouds must agree on.

        The same content again is harmless, other content is refused.
        """
        with self._database.transaction() as sql:
            row = self._datasets.row(sql, dataset)
            uploads = _in_order([known_upload(sql, upload_id) for upload_id in upload_ids])
            self._check_sealable(dataset, uploads)
            digest = seal_digest(row["digest"], uploads)
            if row["seal"] is not None:
                if row["seal"] != digest:
                    raise StateError(f"dataset {dataset!r} is sealed with other uploads.")
                return digest
            self._uploads.check_open(sql, dataset)
            sealed = Sealed(sum(upload.rows for upload in uploads), digest, uploads)
            for first, upload in sealed.places():
                sql.execute(
                    "UPDATE upload SET first_sealed_row = ? WHERE upload_id = ?",
                    (first, upload.upload_id),
                )
            sql.execute(
                "UPDATE dataset SET seal = ?, state = ?, updated = ? WHERE name = ?",
                (digest, JobState.SEALED, utc_now(), dataset),
            )
            detail = {"seal": digest, "uploads": len(uploads), "rows": sealed.m}
            learnt = "both clouds, operators and owners: the number of all records"
            self._ledger.append("dataset sealed", dataset, detail, learnt)
        return digest

    def reopen(self, dataset: str, missing: Sequence[str]) -> None:
        """Undo a seal that the other cloud does not share, since it lacks these uploads."""
        with self._database.transaction() as sql:
            check_transition(dataset, self._datasets.state(sql, dataset), JobState.CREATED)
            sql.execute("UPDATE upload SET first_sealed_row = NULL WHERE dataset = ?", (dataset,))
            sql.execute(
                "UPDATE dataset SET seal = NULL, state = ?, updated = ? WHERE name = ?",
                (JobState.CREATED, utc_now(), dataset),
            )
            self._ledger.append("seal undone", dataset, {"missing": list(missing)[:_TOLD]})

    def digest(self, dataset: str) -> str | None:
        """The digest of the sealed set; None while the dataset is open."""
        with self._database.reading() as sql:
            digest: str | None = self._datasets.row(sql, dataset)["seal"]
            return digest

    def sealed(self, dataset: str) -> Sealed:
        """The sealed set; InputError while the dataset is open."""
        sealed = self.find(dataset)
        if sealed is None:
            raise StateError(f"dataset {dataset!r} is not sealed yet.")
        return sealed

    def find(self, dataset: str) -> Sealed | None:
        """The sealed set; None while the dataset is open."""
        with self._database.reading() as sql:
            digest = self.digest(dataset)
            if digest is None:
                return None
            query = (
                "SELECT * FROM upload WHERE dataset = ? AND first_sealed_row IS NOT NULL"
                " ORDER BY first_sealed_row, row_count, upload_id"  # as `_in_order` has them
            )
            uploads = tuple(upload_of(row) for row in sql.execute(query, (dataset,)))
            outlines = self._uploads.outlines(uploads)
        return Sealed(sum(upload.rows for upload in uploads), digest, uploads, outlines)

    def rows(self, sealed: Sealed, first: int, count: int) -> NDArray[Any]:
        """This cloud's part of these sealed rows, in sealed order."""
        part = self._uploads.part(sealed.dataset)
        if first < 0 or count < 0 or first + count > sealed.m:
            raise InputError(
                f"rows {first} to {first + count - 1} exceed the {sealed.m} sealed rows of dataset "
                f"{sealed.dataset!r}."
            )
        out = np.empty((count, part.columns), part.dtype)
        for upload_first, upload in sealed.places():
            start = max(first, upload_first)
            stop = min(first + count, upload_first + upload.rows)
            if start < stop:
                self._uploads.read(
                    upload, part, start - upload_first, out[start - first : stop - first]
                )
        return out

    def _check_sealable(self, dataset: str, uploads: Sequence[Upload]) -> None:
        if not uploads:
            raise StateError(f"dataset {dataset!r} has no uploads that both clouds hold.")
        if len({upload.upload_id for upload in uploads}) != len(uploads):
            raise InputError("an upload is listed twice.")
        for upload in uploads:
            check_not_removed(upload)
            if upload.dataset != dataset or not upload.committed:
                raise StateError(f"upload {upload.upload_id} is not complete in this dataset.")
        members = self._datasets.spec(dataset).require_owners()
        owners = {upload.owner for upload in uploads}
        if len(owners) < members.least:
            raise StateError(
                f"the spec of dataset {dataset!r} wants uploads of at least {members.least} "
                f"owners, and {len(owners)} have one at both clouds; wait for the others."
            )


def _in_order(uploads: Sequence[Upload]) -> tuple[Upload, ...]:
    """Uploads as listed, except that those without rows at the same place go by their ids.

    Such uploads begin at the same row: nothing else would tell their order again.
    """
    first, places = 0, []
    for upload in uploads:
        places.append((first, upload.rows, upload.upload_id, upload))
        first += upload.rows
    return tuple(place[-1] for place in sorted(places, key=lambda place: place[:3]))
