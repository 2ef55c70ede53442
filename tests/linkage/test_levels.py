"""Fields with several weights: exact on shares, and what a spec may say of them."""

import numpy as np
import pandas as pd
import pytest

from ppodc import RecordLinkage, ThreadPlatform, rules
from ppodc.errors import InputError
from ppodc.linkage.blocks.candidates import Block
from ppodc.linkage.compare.field_match import FieldMatcher
from ppodc.linkage.exact_codes import CODE_BITS
from ppodc.linkage.rules import Fields, from_dict
from ppodc.records.schema import Column, Schema, TextColumn
from tests.linkage.test_field_match import matched_rows

TEXTS = (
    TextColumn("given", "words", 5),
    TextColumn("surname", "words", 5),
    TextColumn("born", "digits", 8),
)
SCHEMA = Schema((), texts=TEXTS)
FIELDS = {
    "levels": rules.levels("given", [7, 4, 2], missing=1),
    "one level": rules.levels("given", [3]),
    "date": rules.date("born", year=3, month=2, day=1, exchanged=2, missing=1),
    "swapped": rules.swapped("given", "surname", weight=5),
    "frequency": rules.frequency("surname", [["ab"], ["a", "b"]], [1, 3, 6], missing=2),
    "equal": rules.frequency("surname", [], [4]),
    "grams": rules.grams("surname", [1, 0.8, "1/3"], [5, 3, 2], missing=1),
    "one gram": rules.grams("given", 0.5, 3, q=1),
    "grams of digits": rules.grams("born", [0.9, 0.7], [4, 1], q=2),
}


def people(count, seed):
    random = np.random.default_rng(seed)

    def word():
        return "".join(random.choice(list("ab"), random.integers(0, 4)))

    def born():
        return f"198{random.integers(0, 2)}0{random.integers(1, 4)}0{random.integers(1, 4)}"

    rows = [[word(), word(), born()] for _ in range(count)]
    gone = random.random((count, 3)) < 0.2
    return [
        [None if g else v for v, g in zip(*row, strict=True)]
        for row in zip(rows, gone, strict=True)
    ]


def encoded(rule, rows):
    """As an owner encodes them, dates among columns of digits."""
    at = {text.name: place for place, text in enumerate(TEXTS)}
    columns = []
    for field in rule.fields:
        values = [tuple(row[at[name]] for name in field.named) for row in rows]
        values = values if len(field.named) > 1 else [value for (value,) in values]
        digits = field.named == ["born"]
        columns.append(field.encode_values(values, field.size(SCHEMA), digits=digits))
    return np.column_stack(columns)


@pytest.mark.parametrize("name", [*FIELDS, "all"])
def test_every_match_bit_is_the_oracles(pair, name):
    fields = tuple(FIELDS.values()) if name == "all" else (FIELDS[name],)
    largest = Fields(fields, 1).total
    xs, ys = people(14, 1), people(45, 2)
    ys[:6] = [[row[1], row[0], row[2]] for row in xs[:6]]
    ys[6:9] = xs[6:9]
    some = 0
    for threshold in {1, 2, 3, largest // 2, largest}:
        rule = Fields(fields, max(1, threshold))
        rule.check(SCHEMA)
        assert from_dict(rule.to_dict()) == rule
        both = [encoded(rule, rows) for rows in (xs, ys)]
        records = [rule.decode(values, SCHEMA) for values in both]
        expected = rule.match_matrix(*records)
        batch = [Block((0, 9), ((0, 45),)), Block((9, 14), ((3, 20), (40, 45)))]
        matcher = FieldMatcher(rule, tuple(field.size(SCHEMA) for field in fields))
        found = matched_rows(pair, matcher, *both, batch)
        for block, bits in zip(batch, found, strict=True):
            assert (bits == expected[slice(*block.xs)][:, block.columns]).all()
        some += int(expected.any() and not expected.all())
    assert some


@pytest.mark.parametrize(
    ("field", "a", "b", "score"),
    [
        ("levels", "abab", "abab", 7),
        ("levels", "abab", "abb", 4),
        ("levels", "abab", "bb", 2),
        ("levels", "aaaa", "bbb", 0),
        ("levels", None, "a", 1),
        ("date", "19840203", "19840203", 6),
        ("date", "19840203", "19840302", 5),
        ("date", "19840303", "19840303", 6),
        ("date", "19840203", "19990203", 3),
        ("date", "19840203", None, 1),
        ("date", "19840203", "", 1),
        ("swapped", ("ann", "lee"), ("lee", "ann"), 5),
        ("swapped", ("ann", "lee"), ("ann", "lee"), 0),
        ("swapped", ("ann", None), (None, "ann"), 0),
        ("frequency", "ab", "ab", 1),
        ("frequency", "b", "b", 3),
        ("frequency", "rare", "rare", 6),
        ("frequency", "rare", "rarer", 0),
        ("frequency", None, None, 2),
        ("grams", "abab", "abab", 5),
        ("grams", "abab", "ababb", 3),  # .a ab ba b. of 4, .a ab ba bb b. of 5: 8/9
        ("grams", "abab", "ab", 3),  # .a ab b. of 3, all in 4: 6/7
        ("grams", "aaaa", "aa", 5),  # sets: .a aa a. of both
        ("grams", "ab", "ba", 0),  # no gram in common
        ("grams", "abc", "abd", 2),  # 2 of 4: exactly a half
        ("grams", "", "", 5),
        ("grams", None, "a", 1),
        ("one gram", "ab", "ba", 3),
        ("one gram", "", "", 3),
        ("one gram", "", "a", 0),
    ],
)
def test_points_of_two_values(field, a, b, score):
    field = FIELDS[field]
    size = field.size(SCHEMA) if field.how == "grams" else CODE_BITS
    x, y = (field.decode(row) for row in field.encode_values([a, b], size).tolist())
    assert field.score(x, y) == score
    assert field.score(y, x) == score


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: rules.levels("a", [1, 2]), "must not grow"),
        (lambda: rules.levels("a", []), "1 to 5 numbers"),
        (lambda: rules.levels("a", [0]), "more than 0"),
        (lambda: rules.frequency("a", [["x"]], [1]), "a weight for each list"),
        (lambda: rules.frequency("a", [["x"], ["X"]], [1, 2, 3]), "stands in one list"),
        (lambda: rules.frequency("a", [["x"]], [3, 1]), "grow with rarity"),
        (lambda: rules.grams("a", [0.5, 0.7], [1, 2]), "falling limits"),
        (lambda: rules.grams("a", [0.9, 0.7], [1]), "as many weights"),
        (lambda: rules.grams("a", [0.9, 0.7], [1, 2]), "must not grow"),
        (lambda: rules.grams("a", 0), "above 0"),
        (lambda: rules.grams("a", "1/1001"), "at most 3 digits"),
        (lambda: rules.fields([rules.grams("given", q=3)], threshold=1).check(SCHEMA), "smaller q"),
        (lambda: rules.fields([rules.swapped("given", "given")], threshold=1).check(SCHEMA), "two"),
        (lambda: rules.fields([rules.date("given")], threshold=1).check(SCHEMA), "8 digits"),
        (lambda: FIELDS["date"].encode_values(["1984"], 28), "row 1, column 'born': .*8 digits"),
        (
            lambda: from_dict({"rule": "fields", "threshold": 1, "fields": [{"column": "a"}]}),
            "one of",
        ),
    ],
)
def test_what_cannot_be_is_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()


def test_people_with_swapped_names_and_dates_are_linked():
    first = pd.DataFrame(
        {
            "given": ["anna", "bruno", "carl"],
            "surname": ["lee", "smith", "o'dea"],
            "born": ["19840203", "19700131", "19911224"],
        },
        index=["a1", "a2", "a3"],
    )
    second = pd.DataFrame(
        {
            "given": ["lee", "brunno", "carl"],
            "surname": ["anna", "smith", "jones"],
            "born": ["19840302", None, "19600101"],
        },
        index=["b1", "b2", "b3"],
    )
    rule = rules.fields(
        [
            rules.levels("given", [6, 4], missing=1),
            rules.levels("surname", [6, 4], missing=1),
            rules.swapped("given", "surname", weight=10),
            rules.date("born", year=3, month=2, day=2, exchanged=3, missing=2),
        ],
        threshold=12,
    )
    linkage = RecordLinkage(
        rule=rule,
        texts={"given": 8, "surname": 8, "born": ("digits", 8)},
        platform=ThreadPlatform(),
    ).fit([first, second])
    assert linkage.links_.tolist() == [("a1", "b1"), ("a2", "b2")]
    assert "day and month exchanged 3" in rule.describe()


def test_columns_of_numbers_are_no_levels():
    schema = Schema((Column("age", 0, 9),))
    numbers = (rules.levels("age", [2, 1]), rules.date("age"), rules.frequency("age", [], [1]))
    for field in (*numbers, rules.grams("age")):
        with pytest.raises(InputError, match="compares columns of"):
            rules.fields([field], threshold=1).check(schema)
