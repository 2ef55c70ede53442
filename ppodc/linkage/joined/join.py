"""The table [join] of a spec: which rows of different sides belong together.

Owners who hold the same columns are one side. One side is the *anchor*: its rows are those that
count, each with the columns of its partner on every other side. With m_ij the match bit of row i of
the anchor and row j of a partner, over all pairs that the blocks compare,

    c_i = sum_j m_ij,   d_j = sum_i m_ij
    1:1    row i counts if c_i = 1, and d_j = 1 for its partner j
    m:1    row i counts if c_i = 1

with every other side. The names are those of `pandas.merge(validate=...)`. A row with several
partners counts as none.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

from ppodc.errors import SpecError
from ppodc.linkage.job import Job
from ppodc.linkage.outputs import Shared
from ppodc.names import is_name
from ppodc.toml_document import check_whole

Relation = Literal["1:1", "m:1"]
LEAST = 20  # joined people of whom a new spec tells
WHOLE = 64  # what all rows of one partner weigh together with m:1
_ANY_NUMBER = 1  # what a spec without the key means
_MAX_LEAST = 1 << 40
_OWN = ("relation", "anchor", "least")
_NOT_HERE = ("output", "max_links")


@dataclass(frozen=True, slots=True)
class Join:
    """Rule and blocks, the relation of the rows, and the fewest joined people that are told of."""

    linkage: Job
    relation: Relation = "1:1"
    anchor: str = ""  # an owner of the side whose rows count; empty: of the first held column
    least: int = LEAST

    def __post_init__(self) -> None:
        if self.relation not in get_args(Relation):
            raise SpecError(
                'join.relation must be "1:1" or "m:1" (many rows of the anchor may have the same '
                'partner). For "1:m" take the other side as anchor, and "m:1"'
            )
        if self.anchor and not is_name(self.anchor):
            raise SpecError("join.anchor must be the name of an owner")
        check_whole(self.least, "join.least", _ANY_NUMBER, _MAX_LEAST)
        if self.linkage.output != Shared():
            raise SpecError("join has no output of its own: nobody learns who is joined")

    @classmethod
    def from_dict(cls, table: Any) -> "Join":
        """Parse the keys of [linkage] with `relation`, `anchor` and `least`."""
        if not isinstance(table, dict):
            raise SpecError("join must be a table")
        for key in _NOT_HERE:
            if key in table:
                raise SpecError(f"join: {key} is for linkages; nobody learns who is joined")
        own = {key: table[key] for key in _OWN if key in table}
        rest = {key: value for key, value in table.items() if key not in own}
        if "rule" not in rest:
            raise SpecError("join: missing rule")
        if own.get("anchor", "none") == "":
            raise SpecError("join.anchor must be the name of an owner")
        linkage = Job.from_dict({"output": "shared", **rest})
        return cls(linkage, **{"least": _ANY_NUMBER, **own})

    def to_dict(self) -> dict[str, Any]:
        rest = {k: v for k, v in self.linkage.to_dict().items() if k not in _NOT_HERE}
        own: dict[str, Any] = {"relation": self.relation}
        if self.anchor:
            own["anchor"] = self.anchor
        if self.least != _ANY_NUMBER:
            own["least"] = self.least
        return {**own, **rest}

    @property
    def whole(self) -> int:
        """The weight of one person, where thresholds count people."""
        return WHOLE if self.relation == "m:1" else 1

    def sides_counted(self, partners: int) -> int:
        """On how many sides thresholds count people: with m:1 on each of the partners'."""
        return partners if self.relation == "m:1" else 1

    def describe_clusters(self, labels: bool, sizes: bool) -> list[str]:
        """Sentences on who is joined, and what their clusters tell."""
        if labels:
            rows = [
                "Each owner on the anchor's side learns which of its own rows are joined, hence "
                "that every other side has that person, and the cluster of each. It then knows of "
                "which of its rows a centre is the average.",
                "Owners of other sides learn of none of their rows.",
            ]
        else:
            rows = ["Every owner learns no record's cluster."]
        if sizes:
            how_many = "Owners learn how many rows are joined, through the sizes."
        else:
            how_many = (
                "Centres are told in whole steps and without sizes: nobody learns how many rows "
                "are joined."
            )
        return [*self.describe(labels), *rows, how_many]

    def describe(self, labels: bool = False) -> list[str]:
        """Sentences on who is joined, and what is revealed of it."""
        several = self.relation == "m:1"
        if several:
            related = "Rows of the anchor that have one partner, and not more, are joined"
        else:
            related = "Rows that have each other and nobody else are joined"
        told = [
            f"Rows of different sides match if {self.linkage.rule.describe()}.",
            *self.linkage.blocking.describe(),
            f"{related}; {'no cloud' if labels else 'nobody'} learns which.",
        ]
        if self.least > 1:
            told.append(
                f"With fewer than {self.least} joined rows, owners are told zeros"
                f"{', and that no row is joined' * labels}."
            )
        if several:
            told.append(
                "Several rows may have the same partner. Thresholds count partners: of n rows with "
                "one partner each counts as 1/n or somewhat less, and as nothing if there are more "
                f"than {WHOLE}. Sums have every row: an owner on the anchor's side that repeats a "
                "row often can nearly read its partner from a cluster's mean."
            )
        return [*told, "The clouds learn nothing of the matches, not even their number."]
