"""Sealing: the uploads that both clouds have, in order of arrival at C1, fixed at both.

Everything that would make the job fail later is checked before, since a seal cannot be undone.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from master.cloud2_client import Cloud2Client
from ppodc.errors import NotFoundError, ProtocolError, RefusedError, StateError, WithdrawnError
from ppodc.kinds import cloud_side
from ppodc.pairs.plan import JobFacts
from ppodc.service.job_state import JobState
from ppodc.service.sealed_uploads import Sealed, Upload
from ppodc.service.store import Store

_ATTEMPTS = 3
# Codes of C2's refusals after an owner has withdrawn an upload since C2 listed it.
_CHANGED = (NotFoundError.code, StateError.code, WithdrawnError.code)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SealReport:
    """The sealed set: digest, records, uploads; and the uploads that only one cloud has."""

    digest: str
    m: int
    uploads: int
    left_out: tuple[str, ...]


def seal(store: Store, cloud2: Cloud2Client, dataset: str, suite: str, key_bits: int) -> SealReport:
    """Seal the dataset at both clouds; the same again is harmless."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return _seal(store, cloud2, dataset, suite, key_bits)
        except RefusedError as error:
            if error.code not in _CHANGED:
                raise
    return _seal(store, cloud2, dataset, suite, key_bits)


def _seal(
    store: Store, cloud2: Cloud2Client, dataset: str, suite: str, key_bits: int
) -> SealReport:
    spec = store.datasets.spec(dataset)
    theirs = cloud2.uploads(dataset, spec.digest)
    ours = store.uploads.of(dataset, committed=True)
    _undo_if_withdrawn(store, dataset, theirs)
    if spec.audit:
        theirs = _fitting(store, theirs, cloud2.fits(dataset, spec.digest))
    one_sided = {upload.identity for upload in theirs} ^ {upload.identity for upload in ours}
    left_out = sorted({upload_id for upload_id, *_ in one_sided})
    sealed = store.seals.find(dataset)
    if sealed is not None:
        chosen = list(sealed.uploads)
    else:
        chosen = _choose(ours, theirs)
        check(store, dataset, chosen, suite, key_bits)
    for upload_id in left_out:
        log.info("upload %s is complete at one cloud only and is left out", upload_id)
    ids = [upload.upload_id for upload in chosen]
    digest = store.seals.seal(dataset, ids)
    theirs_sealed = cloud2.seal(dataset, spec.digest, ids, store.ledger.head())
    store.ledger.note(dataset, theirs_sealed.head)
    if theirs_sealed.digest != digest:
        raise ProtocolError(
            f"the two clouds sealed {dataset!r} with different row counts; the uploads at one of "
            "them are damaged. Create the dataset again under another name."
        )
    m = sum(upload.rows for upload in chosen)
    return SealReport(digest, m, len(chosen), tuple(left_out))


def _fitting(store: Store, theirs: list[Upload], told: Mapping[str, bytes]) -> list[Upload]:
    """The uploads whose parts are those of which their owner told the clouds, for an audit.

    With any other the clouds would refuse to begin, and an owner could stop the job for all.
    """
    there = [upload for upload in theirs if store.uploads.find(upload.upload_id) is not None]
    fitting = [u for u in there if u.committed and told.get(u.upload_id) == store.audits.fit(u)]
    for upload in set(there) - set(fitting):
        log.warning("upload %s: its owner gave digests of other parts", upload.upload_id)
    return fitting


def _choose(ours: list[Upload], theirs: list[Upload]) -> list[Upload]:
    """The uploads that both clouds have, in C1's order."""
    complete = {upload.identity for upload in theirs}
    return [upload for upload in ours if upload.identity in complete]


def _undo_if_withdrawn(store: Store, dataset: str, theirs: list[Upload]) -> None:
    """Open C1's seal again if C2, not sealed yet, lacks an upload of it.

    Its owner withdrew it at C2 between our look at C2's list and C2's seal. C2 could never seal
    the same set; once C2 is sealed, nothing can be withdrawn there and this cannot happen.
    """
    if store.jobs.get(dataset).state != JobState.SEALED or any(u.sealed for u in theirs):
        return
    complete = {upload.identity for upload in theirs}
    sealed = store.seals.sealed(dataset).uploads
    gone = [upload.upload_id for upload in sealed if upload.identity not in complete]
    if gone:
        log.warning("%d sealed uploads were withdrawn at cloud 2; sealing anew", len(gone))
        store.seals.reopen(dataset, gone)


def check(store: Store, dataset: str, chosen: list[Upload], suite: str, key_bits: int) -> None:
    """Refuse a job that has too few records, or whose numbers or plan the clouds cannot hold."""
    if not chosen:
        raise StateError(
            f"dataset {dataset!r} has no upload that both clouds have in full; wait for the owners."
        )
    m = sum(upload.rows for upload in chosen)
    side = cloud_side(store.datasets.spec(dataset))
    side.check(m, suite, key_bits)
    sealed = Sealed(m, "", tuple(chosen), store.uploads.outlines(chosen))
    side.plan(JobFacts(sealed))  # tried out: it refuses what it cannot do
