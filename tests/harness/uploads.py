"""Owners' tables as both clouds hold them, without a store."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from ppodc.kinds import owner_side
from ppodc.records.prepared_upload import prepare
from ppodc.records.sharing import combine
from ppodc.service.sealed_uploads import Sealed, Upload
from ppodc.spec import Spec
from tests.service.data import members

LIMIT = Fraction(100)


@dataclass
class Uploaded:
    """Both clouds' rows of all uploads, and the seal."""

    spec: Spec
    sealed: Sealed
    shares: tuple[np.ndarray, np.ndarray]


def give(spec: Spec, tables, folder: Path) -> Uploaded:
    """Uploads of [(owner, table), ...] at both clouds, in this order."""
    spec = replace(spec, owners=members(*sorted({owner for owner, _ in tables})))
    form, side = spec.form, owner_side(spec)
    uploads, extents = [], None
    for number, (owner, table) in enumerate(tables):
        others = None if owner == form.follows else extents
        upload = prepare(side, side.of(owner).encode(table), folder / owner, LIMIT, extents=others)
        upload = replace(upload, secret=bytes([number]) * 32)
        assert form.has_cells == (upload.outline is not None)
        if upload.outline is not None:
            form.check_outline(upload.outline, len(upload.values))
            if owner == form.follows:
                extents = form.extents(upload.outline)
        if len(upload.values):
            form.part(1).check(upload.share(1), 0, len(upload.values))
        uploads.append(upload)
    shares = tuple(np.concatenate([upload.share(cloud) for upload in uploads]) for cloud in (1, 2))
    combine(*shares)
    owners = [owner for owner, _ in tables]
    given = [(o, len(u.values), u.outline) for o, u in zip(owners, uploads, strict=True)]
    return Uploaded(spec, Sealed.of(spec, given), shares)


def sealed(*uploads: tuple[str, int]) -> Sealed:
    """A seal over uploads of (owner, rows)."""
    listed = [Upload(f"{i:032x}", "d", o, rows, True, True) for i, (o, rows) in enumerate(uploads)]
    return Sealed(sum(rows for _, rows in uploads), "0" * 64, tuple(listed))
