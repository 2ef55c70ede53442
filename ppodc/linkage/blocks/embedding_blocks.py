"""Blocks `embedding` (edit distance): cells of a tree over coordinates of texts, as in Chapter 4.

An owner embeds each text (`embedding`): its length, and its least edit distance to public random
texts. It grows a tree over these coordinates under differential privacy (`embedding_tree`,
Algorithm 4.2), after a public cut by lengths if the spec gives `lengths` (Algorithm 4.1). Cells are
padded, never suppressed: no match is lost, as with the chapter's DPRL form.

Where `length` can be used it usually compares fewer pairs, and its comparison is cheaper. Its cells
are a product over all texts, each with its padding; a tree has as many as the rows are worth.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import SpecError
from ppodc.linkage.blocks import embedding_tree
from ppodc.linkage.blocks.blocking import cost
from ppodc.linkage.blocks.cell_space import TreeCells, UsualNoise, check_number
from ppodc.linkage.blocks.cells import Boxes, CellCounts, Ints, Partition
from ppodc.linkage.blocks.covering import check_cuts
from ppodc.linkage.blocks.embedding import Text, embed, reference_set
from ppodc.linkage.blocks.embedding_tree import StringTree, cut_lengths
from ppodc.linkage.blocks.tree_blocks import OwnTree
from ppodc.linkage.symbols import LETTERS, MAX_LENGTH, NONE
from ppodc.privacy.cell_noise import Noise
from ppodc.records.schema import Schema, TextColumn
from ppodc.toml_document import check_whole, fraction

if TYPE_CHECKING:
    from ppodc.linkage.rules.rule import Rule

MOST_LEAVES = 1 << 12  # of one upload: a gateway checks that they fit together
_MOST_REFERENCES = 1 << 10
_LENGTH_SHARE = Fraction(1, 20)  # of epsilon, for counting each combination of lengths


@dataclass(frozen=True, slots=True)
class EmbeddingBlocks(OwnTree):
    """Cells of each owner's own tree over `references` public texts for each column.

    `lengths` are the lengths at which a public bucket begins, beside 0; without them there is none.
    """

    kind: ClassVar[str] = "embedding"
    optional: ClassVar[tuple[str, ...]] = ("eta", "references", "lengths")
    prunes: ClassVar[str] = "by embedding prune texts under the rule edit"

    references: int = 80
    lengths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        OwnTree.__post_init__(self)
        check_whole(self.references, "job.references", 1, _MOST_REFERENCES)
        for edge in self.lengths:
            check_whole(edge, "an entry of job.lengths", 1, MAX_LENGTH)
        if list(self.lengths) != sorted(set(self.lengths)):
            raise SpecError("job.lengths must rise.")

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> Self:
        lengths = table.get("lengths", [])
        if not isinstance(lengths, list):
            raise SpecError("job.lengths must be a list of whole numbers")
        given = {**table, "lengths": tuple(lengths)}
        return super(EmbeddingBlocks, cls).from_dict(given)

    def to_dict(self) -> dict[str, Any]:
        table = super(EmbeddingBlocks, self).to_dict()
        return table if self.lengths else {k: v for k, v in table.items() if k != "lengths"}

    def _sorted_into(self) -> str:
        first = "parts of public text lengths, and there into " if self.lengths else ""
        return f"{first}cells of each owner's own tree over distances of texts to public ones"

    def space(self, rule: "Rule", schema: Schema) -> "TextCells":
        texts = schema.texts
        tree = self._tree(texts)
        cells = prod(map(len, tree.buckets))
        if cells > MOST_LEAVES:
            raise SpecError(f"job.lengths makes {cells} parts: at most {MOST_LEAVES} can be.")
        for text in texts:
            if self.references < text.longest:
                raise SpecError(
                    f"job.references is {self.references}: column {text.name!r} needs a public "
                    f"text of each length, so at least {text.longest}."
                )
        coordinates = _Coordinates(texts, self.references)
        found = self._fitting(rule.embedded(schema, coordinates, tree.dimensions))
        domain = [np.arange(low, high) for low, high in tree.domain]
        return TextCells(found.pruning, domain, found.of, self.budget, tree, coordinates)

    def _tree(self, texts: tuple[TextColumn, ...]) -> StringTree:
        longest = tuple(text.longest for text in texts)
        buckets = tuple(cut_lengths(self.lengths, most) for most in longest) if self.lengths else ()
        return StringTree(
            self.epsilon,
            self.delta,
            longest,
            tuple(range(len(texts))),
            tree_share=Fraction(3, 5) if buckets else Fraction(13, 20),
            length_share=_LENGTH_SHARE if buckets else Fraction(0),
            buckets=buckets,
            eta=self.eta,
        )


class _Coordinates:
    """Lengths of all texts of a row, then the distance of each to its references."""

    def __init__(self, texts: tuple[TextColumn, ...], references: int) -> None:
        self._texts, self._size = texts, references

    @cached_property
    def _references(self) -> list[list[Text]]:
        """Public texts for each column, the same everywhere and for ever."""
        seeds = [hashlib.sha256(b"ppodc reference texts %d" % n).digest() for n in range(16)]
        return [
            reference_set(seed, self._size, text.longest, _signs(text))
            for seed, text in zip(seeds, self._texts, strict=False)
        ]

    def __call__(self, parts: list[Ints]) -> Ints:
        """Coordinates of rows whose codes come text by text."""
        lengths = [(part != NONE).sum(axis=1) for part in parts]
        near = [embed(part, each) for part, each in zip(parts, self._references, strict=True)]
        return np.column_stack([*lengths, *near])

    def spread(self, rows: int, random: SecureRandom) -> Ints:
        """Coordinates of random texts of all lengths."""
        parts = []
        for text in self._texts:
            codes = random.uint64((rows, text.longest)) % np.uint64(_signs(text))
            lengths = random.uint64((rows, 1)) % np.uint64(text.longest + 1)
            ended = np.arange(text.longest) >= lengths.astype(np.int64)
            parts.append(np.where(ended, NONE, codes.astype(np.int64)))
        return self(parts)


def _signs(text: TextColumn) -> int:
    return 10 if text.signs == "digits" else len(LETTERS)


@dataclass(frozen=True, slots=True)
class TextCells(TreeCells):
    """Leaves of a tree over coordinates of texts, cut where the noise says."""

    tree: StringTree
    coordinates: _Coordinates

    def check_cover(self, boxes: Boxes) -> None:
        self._check_number(len(boxes))
        check_cuts(boxes, np.array(self.tree.domain))

    def partition(self, values: Ints, boxes: Boxes | None, noise: Noise) -> Partition:
        found = embedding_tree.build(self.points(values), self.tree, noise)
        self._check_number(len(found.boxes))
        return found

    def _check_number(self, count: int) -> None:
        check_number(count, MOST_LEAVES, "on fewer lengths, ")

    def usual(self, rows: int, number: int) -> CellCounts:
        points = self.coordinates.spread(rows, SecureRandom(bytes([number]) * 32))
        return embedding_tree.build(points, self.tree, UsualNoise()).cell_counts


def by_embedding(
    *,
    epsilon: float | str,
    delta: float | str,
    eta: float | str = "1/10",
    references: int = 80,
    lengths: tuple[int, ...] = (),
) -> EmbeddingBlocks:
    """Compare only rows whose texts lie near enough to each other by public texts. Loses nothing.

    `by_length` is usually cheaper for one or two texts; this one takes any number.
    """
    priced = cost(epsilon, delta)
    return EmbeddingBlocks(*priced, fraction(eta, "eta"), references, tuple(lengths))
