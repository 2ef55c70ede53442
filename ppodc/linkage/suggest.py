"""Weights and a threshold for a rule of fields, from what an owner has or everybody may know.

Every outcome of a field (equal, one edit, missing, ...) occurs with some frequency among pairs of
records of the same person (m) and among other pairs (u). log2(m / u) is what it counts, in bits
(Fellegi and Sunter). Fields are taken as independent: what a rule finds and what of it is right
then follow from m, u and the share of all pairs that are matches.

m comes from a labelled sample (a column that names people) or, without labels, from duplicates in
the owner's own table, by expectation maximisation: pairs that are equal in one field teach the
others. u comes from random pairs. A public table of frequencies adds points for rare values.

All of this happens at one owner, on its own rows. The suggestion is an average over its people:
whoever agrees on it should not have few of them.
"""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import OptionError, SpecError, TableError
from ppodc.linkage.job import job_of
from ppodc.linkage.owner_table import OwnerTable
from ppodc.linkage.rules import Field, Fields, FrequencyClasses
from ppodc.linkage.rules.outcomes import Bits, Counts, Outcomes
from ppodc.linkage.symbols import normalise
from ppodc.records.read_table import Only, read, word
from ppodc.records.schema import Schema
from ppodc.spec import Spec

Pairs = list[tuple[int, int]]
_MOST_PAIRS = 20_000  # of each sort that are looked at
_LEAST = 20  # pairs of the same person that a labelled sample needs
_ROUNDS = 30  # of expectation maximisation
_SHARES = (0.01, 0.001)  # of all people, that make a text common or less so


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A rule, and what it is expected to find between two tables like the owner's own."""

    spec: Spec
    rule: Fields
    precision: float
    recall: float
    taught_by: int  # pairs of the same person, as far as known
    labelled: bool

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Headings and rows, one for each field."""
        fields = [[" and ".join(f.named), f.how, f.describe()] for f in self.rule.fields]
        return ["columns", "compare", "points"], fields


def suggest(
    spec: Spec,
    data: Any,
    *,
    same: str = "",
    frequencies: Mapping[str, Mapping[str, int]] | None = None,
    overlap: float = 0.5,
    header: bool = True,
) -> Suggestion:
    """Weights for the fields of the spec's rule, which gain levels where they compare texts.

    `same` names a column of which equal entries mean the same person. `frequencies` are public
    counts of texts by column. `overlap` is the share of the owner's people whom another owner is
    expected to have too.
    """
    rule = job_of(spec).rule
    if not isinstance(rule, Fields):
        raise SpecError("weights are suggested for a rule of fields: rule = 'fields'.")
    if not 0 < overlap <= 1:
        raise OptionError("overlap must be above 0 and at most 1.")
    rule = levelled(rule, spec.schema, frequencies or {})
    table = OwnerTable(Only(data), spec.schema, in_order=False, header=header)
    values = rule.encode(table, spec.schema)
    table.check()
    records = rule.decode(values, spec.schema)
    if len(records) < 2:
        raise TableError("a suggestion needs several rows.")
    compare = _Comparer(rule.fields, records)
    others = compare.counts(_random_pairs(len(records)))
    if same:
        pairs = _labelled(data, same, header)
        matches, taught = compare.counts(pairs), len(pairs)
    else:
        matches, taught = _learnt(compare, records, others)
    counted = zip(rule.fields, matches, others, strict=True)
    fields = tuple(field.weighed(Outcomes(m, u)) for field, m, u in counted)
    expected = _Expected.of(fields, matches, others, overlap / len(records))
    threshold, precision, recall = expected.best()
    found = Fields(fields, threshold)
    new = replace(spec, job=replace(job_of(spec), rule=found))
    return Suggestion(new, found, precision, recall, taught, bool(same))


def levelled(
    rule: Fields, schema: Schema, frequencies: Mapping[str, Mapping[str, int]] | None = None
) -> Fields:
    """The rule with a level for each edit and points for missing texts, to be weighed anew."""
    fields = [field.levelled(schema) for field in rule.fields]
    for column, counts in (frequencies or {}).items():
        fields.append(_rarity(column, counts))
    return Fields(tuple(fields), 1)


def _rarity(column: str, counts: Mapping[str, int]) -> FrequencyClasses:
    """Points for texts that are rarer than those that people usually have in common."""
    known = Counter[str]()
    for text, count in counts.items():
        known[normalise(text)] += count
    total = sum(known.values())
    if not total or min(known.values()) < 0:
        raise TableError(f"frequencies of {column!r}: counts must not be negative, nor all 0.")
    usual = sum((count / total) ** 2 for count in known.values())
    classes: list[list[str]] = [[] for _ in _SHARES]
    mass: list[list[float]] = [[] for _ in range(len(_SHARES) + 1)]
    for text, count in sorted(known.items()):
        place = next((i for i, share in enumerate(_SHARES) if count >= share * total), len(_SHARES))
        mass[place].append(count / total)
        if place < len(_SHARES):
            classes[place].append(text)
    typical = [float(np.average(of, weights=of)) if any(of) else usual for of in mass]
    weights = [max(0, round(math.log2(usual / share))) for share in typical]
    weights = np.maximum.accumulate(weights).tolist()
    if not weights[-1]:
        raise TableError(f"frequencies of {column!r}: no text is rarer than the others.")
    common = tuple(map(tuple, classes))
    return FrequencyClasses(column, common=common, weights=tuple(weights))


# ---------------------------------------------------------------------------------- pairs


class _Comparer:
    """Outcomes of pairs of records, each pair of values compared once."""

    def __init__(self, fields: Sequence[Field], records: Sequence[Sequence[Any]]) -> None:
        self.fields, self.records = fields, records
        self._known: list[dict[Hashable, Bits]] = [{} for _ in fields]

    def outcomes(self, i: int, j: int) -> tuple[Bits, ...]:
        """The outcome of each field."""
        found = []
        pairs = zip(self.fields, self.records[i], self.records[j], self._known, strict=True)
        for field, a, b, known in pairs:
            bits = known.get((a, b))
            if bits is None:
                bits = known[a, b] = field.bits(a, b)
            found.append(bits)
        return tuple(found)

    def counts(self, pairs: Pairs) -> list[Counter[Bits]]:
        """The frequency of each outcome of each field."""
        found: list[Counter[Bits]] = [Counter() for _ in self.fields]
        for pair in pairs:
            for counter, bits in zip(found, self.outcomes(*pair), strict=True):
                counter[bits] += 1
        return found


def _random_pairs(rows: int) -> Pairs:
    """Pairs of different rows; among many rows hardly any is of the same person."""
    if rows * (rows - 1) // 2 <= _MOST_PAIRS:
        return list(combinations(range(rows), 2))
    random = SecureRandom()
    drawn = zip(random.below(rows, _MOST_PAIRS), random.below(rows, _MOST_PAIRS), strict=True)
    return [(int(i), int(j)) for i, j in drawn if i != j]


def _labelled(data: Any, same: str, header: bool) -> Pairs:
    """Pairs of rows that the column says are of the same person."""
    names = read(Only(data), header=header, texts=(same,), text_numbers=True).texts
    if same not in names:
        raise TableError(f"the table has no column {same!r}, which is to say who is who.")
    groups: dict[str, list[int]] = {}
    for row, cell in enumerate(names[same]):
        if text := word(cell):
            groups.setdefault(text, []).append(row)
    pairs = [pair for rows in groups.values() for pair in combinations(rows, 2)][:_MOST_PAIRS]
    if len(pairs) < _LEAST:
        raise TableError(
            f"column {same!r} names only {len(pairs)} pairs of rows of the same person; weights "
            f"need {_LEAST}. Leave the column out to learn from duplicates that nobody has marked."
        )
    return pairs


# ----------------------------------------------------------------- without labels


def _learnt(
    compare: _Comparer, records: Sequence[Sequence[Any]], others: Sequence[Counts]
) -> tuple[list[Counter[Bits]], int]:
    """Outcomes among matches, from pairs that are equal in one field: it teaches the others."""
    found: list[Counter[Bits]] = [Counter() for _ in compare.fields]
    taught = 0.0
    for teacher in range(len(compare.fields)):
        pairs = _equal_in(records, teacher)
        if len(pairs) < _LEAST:
            continue
        patterns = Counter(compare.outcomes(*pair) for pair in pairs)
        pupils = [place for place in range(len(compare.fields)) if place != teacher]
        counts, matches = _maximised(patterns, pupils, others)
        taught = max(taught, matches)
        for place, own in zip(pupils, counts, strict=True):
            found[place].update(own)
    if taught < _LEAST:
        raise TableError(
            "the table has too few duplicates to learn weights from: give a labelled sample, a "
            "table in which one column (--same) has the same entry for rows of the same person."
        )
    return found, round(taught)


def _equal_in(records: Sequence[Sequence[Any]], place: int) -> Pairs:
    """Pairs of rows with the same value in one field, of groups that are not too large."""
    groups: dict[Hashable, list[int]] = {}
    for row, record in enumerate(records):
        value = record[place]
        if value is not None and not (isinstance(value, tuple) and None in value):
            groups.setdefault(value, []).append(row)
    small = sorted(groups.values(), key=len)
    pairs: Pairs = []
    for rows in small:
        pairs += combinations(rows, 2)
        if len(pairs) > _MOST_PAIRS:
            break
    return pairs[:_MOST_PAIRS]


def _maximised(
    patterns: Mapping[tuple[Bits, ...], int], pupils: Sequence[int], others: Sequence[Counts]
) -> tuple[list[Counter[Bits]], float]:
    """Expected counts of outcomes among matches, of these fields; and how many matches there are.

    u is known from random pairs. m starts from "matches agree", and follows from the pairs that
    are matches by the m before.
    """
    listed, numbers = list(patterns), np.array(list(patterns.values()), np.float64)
    u = np.array([[_chance(others[p], pattern[p]) for p in pupils] for pattern in listed])
    m = np.array([[0.9 if pattern[p][0] else 0.1 for p in pupils] for pattern in listed])
    share, counts = 0.5, [Counter[Bits]() for _ in pupils]
    for _ in range(_ROUNDS):
        odds = np.log(share) - np.log1p(-share) + np.log(m / u).sum(axis=1)
        belief: NDArray[np.float64] = numbers / (1 + np.exp(-np.clip(odds, -50, 50)))
        share = float(np.clip(belief.sum() / numbers.sum(), 1e-6, 1 - 1e-6))
        counts = [Counter[Bits]() for _ in pupils]
        for pattern, weight in zip(listed, belief.tolist(), strict=True):
            for counter, place in zip(counts, pupils, strict=True):
                counter[pattern[place]] += weight
        own = list(zip(counts, pupils, strict=True))
        m = np.array([[_chance(counter, pattern[p]) for counter, p in own] for pattern in listed])
    return counts, share * float(numbers.sum())


def _chance(counts: Counts, outcome: Bits) -> float:
    return (counts.get(outcome, 0) + 0.5) / (sum(counts.values()) + 1)


# ----------------------------------------------------------------- what to expect


@dataclass(frozen=True, slots=True)
class _Expected:
    """Chances of each score among matches and among others, and the share of matches."""

    matches: NDArray[np.float64]
    others: NDArray[np.float64]
    share: float

    @classmethod
    def of(
        cls,
        fields: Sequence[Field],
        matches: Sequence[Counts],
        others: Sequence[Counts],
        share: float,
    ) -> "_Expected":
        return cls(_scores(fields, matches), _scores(fields, others), min(share, 0.5))

    def best(self) -> tuple[int, float, float]:
        """The threshold of highest F1; precision and recall that it is expected to have."""
        above = [np.cumsum(chances[::-1])[::-1] for chances in (self.matches, self.others)]
        true, false = self.share * above[0], (1 - self.share) * above[1]
        f1 = 2 * true / (self.share + true + false)
        threshold = max(1, int(np.argmax(f1[1:])) + 1)
        precision = true[threshold] / (true[threshold] + false[threshold])
        return threshold, float(precision), float(above[0][threshold])


def _scores(fields: Sequence[Field], counts: Sequence[Counts]) -> NDArray[np.float64]:
    """The chance of each score, fields being independent."""
    whole = np.ones(1)
    for field, of_field in zip(fields, counts, strict=True):
        own = np.zeros(sum(field.points) + 1)
        total = sum(of_field.values()) or 1
        for bits, count in of_field.items():
            own[sum(p for p, bit in zip(field.points, bits, strict=True) if bit)] += count / total
        if not of_field:
            own[0] = 1.0
        whole = np.convolve(whole, own)
    return whole
