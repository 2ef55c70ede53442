"""A look at an owner's own table under any spec that links records, or joins them."""

from typing import Any

from ppodc.kinds import owner_side
from ppodc.kmeans.linked.columns import linkage_of
from ppodc.linkage.preview import Preview, preview
from ppodc.records.read_table import Only
from ppodc.spec import Spec


def preview_of(spec: Spec, data: Any, *, header: bool = True) -> Preview:
    """The preview of the linkage inside; InputError for what an upload would refuse."""
    if getattr(spec.job, "join", None) is None:
        return preview(linkage_of(spec), data, header=header)
    owner_side(spec).encode(data, header=header)
    alone = data if isinstance(data, Only) else Only(data)
    return preview(linkage_of(spec), alone, header=header)
