"""The cost of a join before anything is sent: comparing its pairs, and fetching over them.

Bytes and CPU time of fetching are those that `joined_rows` states, measured by `ppodc bench join`.
"""

from collections.abc import Sequence
from dataclasses import replace

from ppodc.errors import OptionError
from ppodc.linkage.estimate import Estimate, estimate
from ppodc.linkage.joined.columns import JoinedColumns
from ppodc.linkage.joined.findings import lane_bytes
from ppodc.spec import Spec

_PAIR_BYTES, _MUTUAL_BYTES, _WEIGHT_BYTES = 4.13, 2.2, 5.13
_PAIR_SECONDS, _LANE_SECONDS, _MUTUAL_SECONDS = 0.09e-6, 0.004e-6, 0.02e-6


def estimate_join(spec: Spec, columns: JoinedColumns, rows: Sequence[int]) -> Estimate:
    """For owners with this many rows each, as the spec names them; or for sides, anchor first."""
    if spec.owners is not None and len(rows) == len(spec.owners.names):
        sides = [columns.side_of(name) for name in spec.owners.names]
    else:
        sides = list(range(len(rows)))
    if set(sides) != set(range(len(columns.sides))):
        wanted = ", ".join(side.name for side in columns.sides)
        raise OptionError(f"give the rows of every side, in this order: {wanted}.")
    found = estimate(columns.spec, rows, sides)
    anchors = [number for number, side in enumerate(sides) if side == 0]
    anchor = sum(rows[number] for number in anchors)
    most = found.pairs // max(1, min(anchor, sum(rows) - anchor))
    top = lane_bytes(columns.joined.ub, most)
    own = [len(side.places) + 1 for side in columns.partners]
    lanes = top * sum(own) / len(own)  # of a pair, on average over the sides
    mutual = columns.join.relation == "1:1"  # else weights take a select of one byte a pair
    more = _MUTUAL_BYTES if mutual else _WEIGHT_BYTES
    size = found.pairs * (_PAIR_BYTES + lanes + more) / 1e9
    again = _MUTUAL_SECONDS if mutual else _PAIR_SECONDS
    seconds = found.pairs * (_PAIR_SECONDS + _LANE_SECONDS * lanes + again)
    space = columns.job.space(columns.spec.schema)
    cells = [space.usual(rows[number], number) for number in anchors]
    return replace(
        found,
        seconds=found.seconds + seconds,
        gigabytes=found.gigabytes + size,
        joining_seconds=seconds,
        joining_gigabytes=size,
        joining_rows=sum((*space.rows_of_passes(each), each.rows)[0] for each in cells),
    )
