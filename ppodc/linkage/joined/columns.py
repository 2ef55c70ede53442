"""The columns of a join: who holds which, and where they stand in an uploaded row.

An uploaded row is a row of the linkage that joins the sides (`ppodc.linkage.row_layout`), with all
joined columns behind it, in the order of the schema: the owner's own values, and zeros where it
holds none. Rows of all owners are as wide. Clouds read of a side its own columns alone, so whatever
stands in the others cannot matter. A column that all owners have, and that is not only for linking,
is joined too: the anchor's value counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ppodc.errors import SpecError
from ppodc.linkage.job import Job
from ppodc.linkage.joined.join import Join
from ppodc.linkage.row_layout import RowLayout
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from ppodc.toml_document import quoted


@dataclass(frozen=True, slots=True)
class Side:
    """Owners who hold the same columns, and the places of these among the joined ones."""

    owners: frozenset[str]
    places: tuple[int, ...]

    @property
    def name(self) -> str:
        """Its owners, for people."""
        return " and ".join(sorted(self.owners))


@dataclass(frozen=True, slots=True)
class JoinedColumns:
    """The columns of an uploaded row, and the sides, of which the first is the anchor.

    `spec` is the linkage alone, and `layout` its columns; `joined` are the columns behind them.
    """

    join: Join
    spec: Spec
    job: Job
    layout: RowLayout
    joined: Schema
    sides: tuple[Side, ...]

    @classmethod
    def of(cls, join: Join, schema: Schema) -> "JoinedColumns":
        """InputError if the columns cannot be joined like this."""
        held = _sides(schema)
        _check_uses(join, schema)
        linking = [replace(c, use="both") for c in schema.columns if c.use != "cluster"]
        if not linking and not schema.texts:
            raise SpecError("no column is left to join by: all have held_by")
        whole = Schema(tuple(linking), schema.ub, schema.texts)
        columns = [column for column in schema.columns if column.use != "link"]
        joined = schema.used_to("cluster")
        joined.require_numbers()
        spec = Spec("join", whole, join.linkage)
        sides = [
            Side(owners, tuple(_places(columns, owners, anchor=not number)))
            for number, owners in enumerate(_anchor_first(join, held))
        ]
        layout = join.linkage.layout(whole)
        return cls(join, spec, join.linkage, layout, joined, tuple(sides))

    @property
    def width(self) -> int:
        """Numbers in an uploaded row."""
        return self.layout.width + len(self.joined.columns)

    @property
    def anchor(self) -> Side:
        return self.sides[0]

    @property
    def partners(self) -> tuple[Side, ...]:
        return self.sides[1:]

    def side_of(self, owner: str) -> int:
        """The number of an owner's side; InputError if it is on none."""
        for number, side in enumerate(self.sides):
            if owner in side.owners:
                return number
        raise SpecError(f"{owner!r} holds no column of this dataset: no held_by names it.")

    def own(self, side: int) -> Schema:
        """The joined columns that the owners of a side have in their tables.

        A partner's own value of a column that all have is compared, and never joined.
        """
        columns = [self.joined.columns[place] for place in self.sides[side].places]
        return Schema(tuple(columns), self.joined.ub)

    def describe(self) -> list[str]:
        """Sentences on the sides."""
        names = [side.name for side in self.sides]
        shared = [side.name for side in self.sides if len(side.owners) > 1]
        return [
            f"The columns of {' and of '.join(names)} are joined: {names[0]} has the rows that "
            "count, each with the columns of its partner.",
            *(
                f"{name} hold the same columns: for each of them thresholds count the joined rows "
                "that hold a row of another of them, if others have rows."
                for name in shared
            ),
        ]


def _sides(schema: Schema) -> list[frozenset[str]]:
    """Groups of owners that hold the same columns, in the order of the schema."""
    found: dict[frozenset[str], str] = {}
    for column in schema.columns:
        holders = frozenset(column.held_by)
        for other, name in found.items():
            if holders & other and holders != other:
                one = sorted(holders ^ other)[0]
                held, not_held = (column.name, name) if one in holders else (name, column.name)
                raise SpecError(
                    f"{one} holds {held!r} and not {not_held!r}: one side, one set of columns. "
                    "Give columns of one side the same held_by"
                )
        if holders:
            found.setdefault(holders, column.name)
    if not found:
        raise SpecError(
            "nothing to join: no column has held_by. Say who holds which column, or use [linkage], "
            "which takes tables of the same columns"
        )
    if len(found) < 2:
        raise SpecError(
            f"nothing to join: only {quoted(sorted(next(iter(found))))} hold columns of their own. "
            "Another side needs a column with held_by too"
        )
    return list(found)


def _anchor_first(join: Join, sides: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    if not join.anchor:
        return list(sides)
    anchor = [side for side in sides if join.anchor in side]
    if not anchor:
        raise SpecError(f"join.anchor is {join.anchor!r}, who holds no column: see held_by")
    return [*anchor, *(side for side in sides if side not in anchor)]


def _check_uses(join: Join, schema: Schema) -> None:
    """Refuse a rule or blocks by columns that not all have, and columns of nobody."""
    job = join.linkage
    named = [*job.blocking.named_columns, *job.rule.named_columns]
    apart = [c.name for c in schema.columns if c.held_by and c.name in named]
    if apart:
        raise SpecError(
            f"columns {quoted(apart)} are compared, and held_by gives them to one side: all owners "
            "must have a column that joins them"
        )
    nobody = [c.name for c in schema.columns if c.use == "cluster" and not c.held_by]
    if nobody:
        raise SpecError(f"columns {quoted(nobody)} have use = 'cluster': say held_by instead")


def _places(columns: Sequence[Column], owners: frozenset[str], *, anchor: bool) -> list[int]:
    """The positions of a side's columns among the joined ones."""
    return [
        place
        for place, column in enumerate(columns)
        if frozenset(column.held_by) == owners or (anchor and not column.held_by)
    ]
