"""Sealing: the uploads that both clouds have, in order of arrival at C1, fixed at both.

Everything that would make the job fail later is checked before, since a seal cannot be undone.
"""

import logging
from dataclasses import dataclass

from master.cloud2_client import Cloud2Client
from ppodc.errors import InputError
from ppodc.pairs.plan import pair_kind
from ppodc.service.store import Store

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
    spec = store.datasets.spec(dataset)
    theirs = {upload.identity for upload in cloud2.uploads(dataset, spec.digest)}
    ours = [upload for upload in store.uploads.of(dataset) if upload.committed]
    chosen = [upload for upload in ours if upload.identity in theirs]
    one_sided = theirs.symmetric_difference(upload.identity for upload in ours)
    left_out = sorted(upload_id for upload_id, _, _ in one_sided)
    try:
        chosen = list(store.uploads.sealed(dataset).uploads)
    except InputError:
        m = sum(upload.rows for upload in chosen)
        check_size(store, dataset, m, suite, key_bits)
    for upload_id in left_out:
        log.warning("upload %s is complete at one cloud only and is left out", upload_id)
    ids = [upload.upload_id for upload in chosen]
    digest = store.uploads.seal(dataset, ids)
    if cloud2.seal(dataset, spec.digest, ids) != digest:
        raise InputError(
            f"the two clouds sealed {dataset!r} with different row counts; the uploads at one of "
            "them are damaged. Create the dataset again under another name."
        )
    m = sum(upload.rows for upload in chosen)
    return SealReport(digest, m, len(chosen), tuple(left_out))


def check_size(store: Store, dataset: str, m: int, suite: str, key_bits: int) -> None:
    """Refuse a job that has too few records, or numbers that the suite cannot hold."""
    if m == 0:
        raise InputError(
            f"dataset {dataset!r} has no upload that both clouds have in full; wait for the owners."
        )
    spec = store.datasets.spec(dataset)
    pair_kind(spec).check(spec, m, suite, key_bits)
