"""A rule on shares, whichever it is: how an owner's rows are taken in, and match bits of blocks.

Each matcher puts one of the protocols (`distances`, `string_match`, `secret_match`, `field_match`,
`filter_match`) behind the same three calls. `first` says whether rows stand on the left of pairs:
those have static transfers. `real` is this cloud's share of a column that is 0 for dummies, None if
there are none.

Who learns what: nothing; rounds and bytes are those of the protocols.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.linkage import distances, field_match, filter_match, secret_match, string_match
from ppodc.linkage.characters import take_in
from ppodc.linkage.distances import Numbers
from ppodc.linkage.encoding import field_size
from ppodc.linkage.job import Job
from ppodc.linkage.rules import Dice, EditDistance, Fields, SquaredDistance
from ppodc.linkage.secret_match import SecretRows, SecretText, length_bits
from ppodc.linkage.string_match import BitRows, LengthBlock, TextRows
from ppodc.linkage.strings import NONE
from ppodc.linkage.work import Work, pairs_of
from ppodc.mpc import unmask
from ppodc.mpc.additive import AdditiveShare, public
from ppodc.mpc.correlated_ot import Bits
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.records.schema import Schema

Share = NDArray[np.uint64]


class Matcher(ABC):
    """See the module."""

    __slots__ = ()

    @abstractmethod
    def needs(self, batch: Sequence[Work]) -> Needs:
        """Supplies that `match` takes for a batch."""

    @abstractmethod
    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> Any:
        """Rows of this cloud's share of the encoded columns."""

    @abstractmethod
    def match(self, session: Session, x: Any, y: Any, batch: Sequence[Work]) -> list[Bits]:
        """Shares of the match bits of each block, a byte per pair: (height, width)."""


def matcher_of(job: Job, schema: Schema) -> Matcher:
    """The matcher of a job's rule."""
    if isinstance(job.rule, SquaredDistance):
        return NumberMatcher(job.numbers(schema))
    if isinstance(job.rule, Dice):
        return FilterMatcher(job.rule)
    if isinstance(job.rule, Fields):
        return FieldMatcher(job.rule, tuple(field_size(part, schema) for part in job.rule.fields))
    lengths = tuple(text.longest for text in schema.texts)
    if job.blocking.kind == "length":
        return TextMatcher(job.rule, lengths)
    return SecretTextMatcher(job.rule, lengths)


@dataclass(frozen=True, slots=True)
class NumberMatcher(Matcher):
    """Numbers: `distances`."""

    numbers: Numbers

    def needs(self, batch: Sequence[Work]) -> Needs:
        return self.numbers.needs(pairs_of(batch))

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> distances.NumberRows:
        flags = _additive(session, real, len(share), budget)
        return distances.take_in(session, self.numbers, share, flags, budget)

    def match(self, session: Session, x: Any, y: Any, batch: Sequence[Work]) -> list[Bits]:
        return distances.match_bits(session, self.numbers, x, y, [work.block for work in batch])


@dataclass(frozen=True, slots=True)
class FilterMatcher(Matcher):
    """Bit filters: `filter_match`."""

    rule: Dice

    def needs(self, batch: Sequence[Work]) -> Needs:
        return filter_match.needs(self.rule, pairs_of(batch))

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> filter_match.FilterRows:
        flags = _additive(session, real, len(share), budget)
        return filter_match.take_in_filters(session, self.rule, share, flags, budget)

    def match(self, session: Session, x: Any, y: Any, batch: Sequence[Work]) -> list[Bits]:
        return filter_match.match_bits(session, self.rule, x, y, [work.block for work in batch])


@dataclass(frozen=True, slots=True)
class FieldMatcher(Matcher):
    """Mixed fields: `field_match`."""

    rule: Fields
    sizes: tuple[int, ...]

    def needs(self, batch: Sequence[Work]) -> Needs:
        return field_match.needs(self.rule, self.sizes, pairs_of(batch))

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> field_match.FieldRows:
        column = _constant(session, len(share)) if real is None else real
        both = np.concatenate([share, column], axis=1)
        return field_match.take_in_fields(session, self.rule, self.sizes, both, budget, first=first)

    def match(self, session: Session, x: Any, y: Any, batch: Sequence[Work]) -> list[Bits]:
        return field_match.match_bits(session, self.rule, x, y, [work.block for work in batch])


@dataclass(frozen=True, slots=True)
class TextMatcher(Matcher):
    """Texts in cells of known lengths: `string_match`."""

    rule: EditDistance
    longest: tuple[int, ...]

    def needs(self, batch: Sequence[Work]) -> Needs:
        return string_match.needs(self.rule, _length_blocks(batch))

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> TextRows:
        parts = np.split(share, np.cumsum(self.longest)[:-1], axis=1)
        strings = [
            take_in(session, np.ascontiguousarray(part), budget, first=first) for part in parts
        ]
        flags = _real_bits(session, real, len(share))
        return TextRows(tuple(strings), BitRows.of(session, flags, budget, first=first))

    def match(self, session: Session, x: Any, y: Any, batch: Sequence[Work]) -> list[Bits]:
        return string_match.match_bits(session, self.rule, x, y, _length_blocks(batch))


@dataclass(frozen=True, slots=True)
class SecretTextMatcher(Matcher):
    """Texts whose lengths stay secret: `secret_match`."""

    rule: EditDistance
    longest: tuple[int, ...]

    def needs(self, batch: Sequence[Work]) -> Needs:
        blocks = [work.block for work in batch]
        return secret_match.needs(self.rule, self.longest, blocks)

    def take_in(
        self, session: Session, share: Share, real: Share | None, budget: Budget, *, first: bool
    ) -> SecretRows:
        texts, at = [], 0
        for most in self.longest:
            wide = most + self.rule.limit  # as uploaded; on the left the padding is not needed
            used = most if first else wide
            codes = np.ascontiguousarray(share[:, at : at + used])
            at += wide
            strings = take_in(session, codes, budget, first=first)
            padding = strings.padding(np.arange(strings.rows), NONE)[:, :most]
            lengths = length_bits(session, np.zeros((len(share), 1), np.uint8), padding)
            bits = BitRows.of(session, lengths, budget, first=first)
            texts.append(SecretText(strings, bits, most))
        flags = _real_bits(session, real, len(share))
        return SecretRows(tuple(texts), BitRows.of(session, flags, budget, first=first))

    def match(self, session: Session, x: Any, y: Any, batch: Sequence[Work]) -> list[Bits]:
        return secret_match.match_bits(session, self.rule, x, y, [work.block for work in batch])


def _length_blocks(batch: Sequence[Work]) -> list[LengthBlock]:
    return [LengthBlock(work.block, work.x_lengths, work.y_lengths) for work in batch]


def _constant(session: Session, rows: int) -> Share:
    """A share of a column of ones, as if it had been uploaded with no mask."""
    return np.full((rows, 1), 1 if session.role == 1 else 0, np.uint64)


def _additive(session: Session, real: Share | None, rows: int, budget: Budget) -> AdditiveShare:
    """Additive shares of `real`: (rows)."""
    if real is None:
        return public([1] * rows, 1, session.role)
    table = unmask.unmask(session, real, 1, budget)
    return table.additive(0, rows).reshape(-1)


def _real_bits(session: Session, real: Share | None, rows: int) -> Bits:
    """Bit shares of `real`: (rows, 1)."""
    if real is None:
        return np.full((rows, 1), session.role == 1, np.uint8)
    return unmask.low_bits(session, np.ascontiguousarray(real).reshape(-1), 1)
