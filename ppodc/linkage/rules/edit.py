"""Rule `edit` (texts): the Levenshtein distances of all texts of a row add up to at most limit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ppodc.errors import SpecError
from ppodc.linkage.blocks.cells import Boxes, Coordinates, gaps
from ppodc.linkage.blocks.embedding import coded
from ppodc.linkage.rules.rule import Ints, Record, Rule, Thresholds
from ppodc.linkage.symbols import MAX_LENGTH, NONE, levenshtein
from ppodc.records.schema import Schema
from ppodc.toml_document import check_whole

if TYPE_CHECKING:
    from ppodc.linkage.compare.matcher import Matcher
    from ppodc.linkage.owner_table import OwnerTable


@dataclass(frozen=True, slots=True)
class EditDistance(Rule):
    """Texts: insertions, deletions and substitutions over all attributes. Lengths stay secret.

    Texts are padded beyond their longest by the limit, so that any two can be compared.
    """

    name: ClassVar[str] = "edit"
    keys: ClassVar[tuple[str, ...]] = ("attributes", "limit")

    attributes: int
    limit: int

    def __post_init__(self) -> None:
        check_whole(self.attributes, "the number of string attributes", 1, 16)
        check_whole(self.limit, "the limit of an edit distance", 0, MAX_LENGTH)

    def check(self, schema: Schema) -> None:
        if len(schema.texts) != self.attributes or any(t.signs == "filter" for t in schema.texts):
            raise SpecError(
                f"rule edit of {self.attributes} attributes needs as many columns of words or "
                "digits."
            )
        largest = sum(text.longest for text in schema.texts)
        if self.limit >= largest:
            raise SpecError(
                f"with limit {self.limit} every pair of records would match: the edit distances "
                f"of texts as long as these columns allow add up to {largest}."
            )

    def describe(self) -> str:
        return f"the edit distances of their texts add up to at most {self.limit}"

    def embedded(
        self, schema: Schema, embed: Callable[[list[Ints]], Ints], attribute: tuple[int, ...]
    ) -> Coordinates:
        def points(values: Ints) -> Ints:
            return embed(self._parts(values, schema))

        return Coordinates(EditPruning(self, attribute), (), points)

    def with_public_lengths(self, shortest: int) -> "PublicLengths":
        return PublicLengths(self.attributes, self.limit, shortest)

    def widths(self, schema: Schema) -> list[int]:
        """Characters of each text as encoded."""
        return [text.longest + self.limit for text in schema.texts]

    def columns(self, schema: Schema) -> int:
        return sum(self.widths(schema))

    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        return self._encode(table, schema, 0)

    def _encode(self, table: "OwnerTable", schema: Schema, shortest: int) -> Ints:
        parts = []
        for text, wide in zip(schema.texts, self.widths(schema), strict=True):
            texts = table.texts(text, shortest=shortest, needed=True)
            digits = text.signs == "digits"
            parts.append(coded([value or "" for value in texts], wide, digits=digits))
        return np.concatenate(parts, axis=1)

    def decode(self, values: Ints, schema: Schema) -> list[Record]:
        columns = [[_text(row) for row in part.tolist()] for part in self._parts(values, schema)]
        return list(zip(*columns, strict=True))

    def _parts(self, values: Ints, schema: Schema) -> list[Ints]:
        """Split encoded rows by text."""
        ends = np.cumsum(self.widths(schema))
        return np.split(values[:, : ends[-1]], ends[:-1], axis=1)

    def matches(self, x: Record, y: Record) -> bool:
        return self.score(x, y) <= self.limit

    def score(self, x: Record, y: Record) -> int:
        return sum(levenshtein(a, b) for a, b in zip(x, y, strict=True))

    def thresholds(self) -> Thresholds:
        return Thresholds(self.limit, list(range(self.limit + 3)), at_least=False)

    def matcher(self, schema: Schema) -> "Matcher":
        from ppodc.linkage.compare.secret_lengths import SecretTextMatcher

        return SecretTextMatcher(self, tuple(text.longest for text in schema.texts))


@dataclass(frozen=True, slots=True)
class PublicLengths(EditDistance):
    """The rule `edit` for rows in cells that fix the lengths of all texts: no padding is needed."""

    shortest: int = 0

    def coordinates(self, schema: Schema) -> Coordinates:
        """Lengths of all texts."""
        longest = [text.longest for text in schema.texts]
        check_whole(self.shortest, "job.shortest", 0, min(longest, default=0))
        axes = [np.arange(self.shortest, most + 1) for most in longest]
        pruning = EditPruning(self, tuple(range(len(axes))))

        def lengths(values: Ints) -> Ints:
            parts = self._parts(values, schema)
            return np.stack([(part != NONE).sum(axis=1) for part in parts], axis=1)

        return Coordinates(pruning, axes, lengths)

    def widths(self, schema: Schema) -> list[int]:
        return [text.longest for text in schema.texts]

    def encode(self, table: "OwnerTable", schema: Schema) -> Ints:
        return self._encode(table, schema, self.shortest)

    def matcher(self, schema: Schema) -> "Matcher":
        from ppodc.linkage.compare.public_lengths import TextMatcher

        return TextMatcher(self, tuple(text.longest for text in schema.texts))


@dataclass(frozen=True, slots=True)
class EditPruning:
    """Each attribute has several coordinates; the widest gap bounds its edit distance from below.

    `attribute[i]` says to which attribute dimension i belongs; the bounds add up over attributes.
    """

    rule: EditDistance
    attribute: tuple[int, ...]

    def candidates(self, first: Boxes, second: Boxes) -> NDArray[np.bool_]:
        widest = np.zeros((self.rule.attributes, len(first), len(second)), np.int64)
        for i, attribute in enumerate(self.attribute):
            gap = gaps(first[:, i], second[:, i])
            np.maximum(widest[attribute], gap, out=widest[attribute])
        bound: Ints = widest.sum(axis=0)
        return bound <= self.rule.limit


def edit_distance(attributes: int, *, limit: int) -> EditDistance:
    """Rows match if the edit distances of their `attributes` texts add up to at most a limit."""
    return EditDistance(attributes, limit)


def _text(codes: Sequence[int]) -> tuple[int, ...]:
    """The codes of a text without padding."""
    return tuple(code for code in codes if code != NONE)
