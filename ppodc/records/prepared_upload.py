"""An owner's upload before it leaves: its rows in order, their cells, the secret of its shares."""

from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ppodc.records.owner_side import Ints, MaySend, OwnerSide, anything
from ppodc.records.upload_form import Cloud, Outline, SeedPart


@dataclass(frozen=True, slots=True)
class PreparedUpload:
    """Rows to send, in order, with their cells if both clouds get them."""

    side: OwnerSide = field(repr=False)
    values: Ints = field(repr=False)
    outline: Outline | None
    secret: bytes = field(repr=False)

    def share(self, cloud: Cloud, first: int = 0, stop: int | None = None) -> NDArray[Any]:
        """A cloud's share of these rows: as they are sent to it, or as its seed gives them."""
        rows = self.values[first:stop]
        part = self.side.spec.form.part(cloud)
        if isinstance(part, SeedPart):
            return part.rows(self.secret, first, len(rows))
        return self.side.chunk(rows, self.secret, first, cloud)


def prepare(
    side: OwnerSide,
    values: Ints,
    folder: Path,
    limit: Fraction,
    *,
    extents: Outline | None = None,
    may_send: MaySend = anything,
) -> PreparedUpload:
    """Arrange encoded records and draw the secret of their shares.

    Whatever the upload reveals is charged to the owner's folder, on disk, when this returns;
    BudgetError if refused. `extents` are the cells of the owner that this one follows. `may_send`
    is asked with the number of rows before anything is charged.
    """
    rows, outline = side.arrange(values, extents, folder, limit, may_send)
    return PreparedUpload(side, rows, outline, side.charge(rows, folder, limit, may_send))
