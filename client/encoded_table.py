"""A table that was checked and encoded ahead, so that its upload need not encode it again."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ppodc.errors import TableError
from ppodc.kinds import owner_side
from ppodc.records.owner_side import Ints
from ppodc.records.read_table import Only
from ppodc.spec import Spec


@dataclass(frozen=True, slots=True)
class EncodedTable:
    """An owner's records as whole numbers, under the columns and the job of a spec."""

    spec: Spec
    values: Ints = field(repr=False)

    @classmethod
    def of(cls, spec: Spec, table: Any, owner: str) -> "EncodedTable":
        """Encode an owner's table, if it is not yet; InputError names what cannot be used."""
        if isinstance(table, cls):
            return table
        return cls(spec, owner_side(spec).of(owner).encode(table))

    @classmethod
    def each(cls, spec: Spec, tables: Sequence[Any], names: Sequence[str]) -> list["EncodedTable"]:
        """Encode the tables of these owners; an error names the owner as whoever gave them did."""
        shown = getattr(tables, "owners", names)
        return [
            cls.of(spec, table if isinstance(table, cls) else _named(table, own), name)
            for table, own, name in zip(tables, shown, names, strict=True)
        ]

    def under(self, spec: Spec) -> Ints:
        """The records for a dataset with this spec; its name and its owners do not matter."""
        if (spec.schema, spec.job) != (self.spec.schema, self.spec.job):
            raise TableError("the table was encoded for another spec. Encode it again.")
        return self.values


def _named(table: Any, owner: str) -> Only:
    given = table if isinstance(table, Only) else Only(table, further=False)
    return replace(given, source=f"the table of {owner}")
