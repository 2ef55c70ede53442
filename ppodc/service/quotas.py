"""Limits on one owner's rows in one dataset, and on how long a cloud keeps data."""

from typing import Annotated

import msgspec
from msgspec import Meta

_MOST = 1 << 40


class Quotas(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table [quotas] of a cloud's configuration; each cloud keeps to its own."""

    uploads: Annotated[
        int,
        Meta(
            ge=1, le=_MOST, description="Uploads of one owner to one dataset, withdrawn ones too."
        ),
    ] = 1000
    rows: Annotated[
        int, Meta(ge=1, le=_MOST, description="Records of one owner in one dataset.")
    ] = 100_000_000
    megabytes: Annotated[
        int,
        Meta(ge=1, le=_MOST, description="Megabytes of one owner's records in one dataset here."),
    ] = 20_000
    unfinished_days: Annotated[
        float,
        Meta(gt=0, le=36_500, description="Days after which an upload never committed is deleted."),
    ] = 7.0
    records_days: Annotated[
        float,
        Meta(
            gt=0,
            le=36_500,
            description="Days after a job's end until shares, seeds and checkpoints are deleted.",
        ),
    ] = 30.0
