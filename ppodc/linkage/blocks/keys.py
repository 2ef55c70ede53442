"""Blocks by key: rows that agree in some column are compared, pass after pass.

A *key* is a column with a public set of cells. A column of whole numbers has a cell for each number
between its bounds. A text, or a number with too many values, is hashed (SHA-256 of the normalised
text, or of its first characters) into a public number of cells, `buckets`: equal texts share a cell
whatever they are; different ones do by accident, which costs pairs and never a match. A row without
a value lies in a cell of its own that meets no other: it is a candidate of nothing in that pass.

With several keys a pair is compared if it agrees in any of them. Each pass has cells of its own
under noise of its own, which is what both clouds learn: a record that is replaced changes one count
down and one up in every pass, so pass p costs (epsilon_p, delta_p) and all of them the sums.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import SpecError
from ppodc.linkage.blocks.cells import Boxes, Ints, gaps
from ppodc.linkage.symbols import MAX_LENGTH
from ppodc.records.schema import Column, Schema, TextColumn
from ppodc.toml_document import check_keys, check_whole, fraction

NO_KEY = -1
MAX_PASSES = 4
KEY_BITS = 14  # of the number of a cell
BUCKETS = 128  # of texts, unless said otherwise


@dataclass(frozen=True, slots=True)
class Key:
    """One pass: its column, what its cells cost, and into how many cells values are hashed."""

    column: str
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    buckets: int = 0  # 0: a cell for each number, BUCKETS cells for a text
    first: int = 0  # only this many characters of a text count; 0: all

    def __post_init__(self) -> None:
        check_whole(self.buckets, f"buckets of key {self.column!r}", 0, (1 << KEY_BITS) - 2)
        check_whole(self.first, f"first of key {self.column!r}", 0, MAX_LENGTH)

    @classmethod
    def from_dict(cls, table: Any) -> "Key":
        given = ("column", "epsilon", "delta")
        check_keys(table, "an entry of keys", required=given, optional=("buckets", "first"))
        if not isinstance(table["column"], str):
            raise SpecError("an entry of keys: column must be the name of a column")
        cost = {name: fraction(table[name], name) for name in ("epsilon", "delta")}
        return cls(**{**table, **cost})

    def to_dict(self) -> dict[str, Any]:
        """A table that `from_dict` reads; fractions as text, exact."""
        table: dict[str, Any] = {
            "column": self.column,
            "epsilon": str(self.epsilon),
            "delta": str(self.delta),
        }
        return table | {n: getattr(self, n) for n in ("buckets", "first") if getattr(self, n)}

    def of(self, schema: Schema) -> Column | TextColumn:
        """The column of this key; InputError if it cannot be one."""
        found = schema.named(self.column)
        if found is None:
            raise SpecError(f"blocks by {self.column!r}, which is no column of the schema.")
        if isinstance(found, TextColumn):
            if found.signs == "filter":
                raise SpecError(f"blocks by {self.column!r}: a filter is no key.")
        elif self.first:
            raise SpecError(f"blocks by {self.column!r}: first is for texts only.")
        else:
            self._check_bounds(found)
        return found

    def _check_bounds(self, column: Column) -> None:
        wide = column.high - column.low >= (1 << KEY_BITS) - 1 and not self.buckets
        if column.low % 1 or column.high % 1 or wide:
            raise SpecError(
                f"blocks by {column.name!r} need whole bounds with fewer than "
                f"{(1 << KEY_BITS) - 1} values between them, or a number of buckets."
            )

    def cells(self, schema: Schema) -> int:
        """The number of cells of the key, without the cell of rows that have no key."""
        column = self.of(schema)
        if self.buckets or isinstance(column, TextColumn):
            return self.buckets or BUCKETS
        return int(column.high - column.low) + 1

    def number(self, value: int | str | None) -> int:
        """The cell of a value: a number counted from its lower bound, or a normalised text."""
        text = value[: self.first or None] if isinstance(value, str) else value
        if text is None or text == "":
            return NO_KEY
        if isinstance(text, int) and not self.buckets:
            return text
        hashed = hashlib.sha256(f"blocks by key {text}".encode()).digest()
        return int.from_bytes(hashed[:8], "little") % (self.buckets or BUCKETS)

    def numbers(self, values: Sequence[int | str | None]) -> Ints:
        """The cells of some values."""
        return np.array([self.number(value) for value in values], np.int64)

    @property
    def describe(self) -> str:
        characters = f"the first {self.first} characters of " if self.first else ""
        hashed = f" hashed to {self.buckets} cells" if self.buckets else ""
        return f"{characters}{self.column}{hashed}"


def pass_boxes(keys: Sequence[Key], schema: Schema) -> list[Boxes]:
    """The cells of each pass: [pass, pass + 1) x [number, number + 1), those without key first."""
    found = []
    for number, key in enumerate(keys):
        values = np.arange(NO_KEY, key.cells(schema))
        lows = np.column_stack([np.full_like(values, number), values])
        found.append(np.stack([lows, lows + 1], axis=2))
    return found


class SameKey:
    """Cells meet iff they are of the same pass and have the same key."""

    def candidates(self, first: Boxes, second: Boxes) -> NDArray[np.bool_]:
        meets: NDArray[np.bool_] = first[:, None, 1, 0] != NO_KEY
        for dimension in range(2):
            meets = meets & (gaps(first[:, dimension], second[:, dimension]) == 0)
        return meets
