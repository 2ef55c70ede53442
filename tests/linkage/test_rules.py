"""Rules and the oracle: worked examples, edges, what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.errors import InputError
from ppodc.linkage import rules, symbols
from ppodc.linkage.blocks import embedding
from ppodc.linkage.rules import Dice, EditDistance, Fields, SquaredDistance
from ppodc.toml_document import fraction

X, Y = (10, 20, 80, 30, 50), (10, 20, 80, 31, 52)


def test_squared_distance_meets_its_limit_exactly():
    ones = (1,) * 5
    assert SquaredDistance.scaled(ones, Fraction("0.0001953125"), 160).matches(X, Y)
    assert not SquaredDistance.scaled(ones, Fraction("0.000195312"), 160).matches(X, Y)
    assert SquaredDistance.scaled(ones, Fraction("0.0001953125"), 160).limit == 5
    assert SquaredDistance(ones, 0).matches(X, X)
    assert SquaredDistance((1, 1, 1, 0, 0), 0).matches(X, Y)


def test_all_pairs_at_once_equal_one_pair_at_a_time():
    random = np.random.default_rng(1)
    xs, ys = random.integers(0, 9, (13, 3)), random.integers(0, 9, (17, 3))
    rule = SquaredDistance((1, 3, 2), 20)
    expected = [[rule.matches(x, y) for y in ys] for x in xs]
    assert rule.match_matrix(xs, ys).tolist() == expected
    assert rule.match_matrix(xs[:0], ys).shape == (0, 17)
    assert EditDistance(1, 0).match_matrix([], [("a",)]).shape == (0, 1)


def test_edit_distance_of_the_worked_examples():
    assert symbols.levenshtein("kitten", "sitting") == 3
    assert symbols.levenshtein("ca", "ac") == 2
    assert EditDistance(1, 3).matches(["kitten"], ["sitting"])
    assert not EditDistance(1, 2).matches(["kitten"], ["sitting"])
    assert EditDistance(2, 1).matches(["ann", "li"], ["anne", "li"])
    assert not EditDistance(2, 1).matches(["ann", "li"], ["anne", "lee"])


def slow_levenshtein(x: str, y: str) -> int:
    if not x or not y:
        return len(x) + len(y)
    if x[0] == y[0]:
        return slow_levenshtein(x[1:], y[1:])
    pairs = ((x[1:], y), (x, y[1:]), (x[1:], y[1:]))
    return 1 + min(slow_levenshtein(a, b) for a, b in pairs)


WORDS = st.text("abc", max_size=5)


@settings(max_examples=150, deadline=None)
@given(WORDS, WORDS)
def test_edit_distance_is_the_least_number_of_edits(x, y):
    assert symbols.levenshtein(x, y) == slow_levenshtein(x, y)


def test_embedding_of_the_worked_example():
    texts = embedding.coded(["abc", "abd", "cd", "", "quit"])
    references = [symbols.codes(text) for text in ("ab", "cde", "q")]
    assert embedding.embed(texts, references).tolist() == [1, 1, 1, 1, 3]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abc", max_size=9), min_size=1, max_size=8), st.text("abc", max_size=64))
def test_distances_of_all_texts_at_once(texts, reference):
    codes = [symbols.codes(text) for text in (*texts, reference)]
    found = embedding.edit_distances(embedding.coded(texts), codes[-1])
    assert found.tolist() == [symbols.levenshtein(each, codes[-1]) for each in codes[:-1]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text("abcd", max_size=9), min_size=2, max_size=8))
def test_coordinates_never_differ_by_more_than_the_distance(texts):
    references = embedding.reference_set(bytes(32), 20, 9)
    points = embedding.embed(embedding.coded(texts), references)
    for x, p in zip(texts, points, strict=True):
        assert p == min(symbols.levenshtein(symbols.codes(x), r) for r in references)
        for y, q in zip(texts, points, strict=True):
            assert abs(p - q) <= symbols.levenshtein(x, y)


def test_references_are_public_and_have_every_length():
    references = embedding.reference_set(bytes(32), 80, 39)
    assert references == embedding.reference_set(bytes(32), 80, 39)
    assert {len(reference) for reference in references} == set(range(1, 40))


FIELDS = Fields(
    (
        rules.edit("surname", max=1),
        rules.edit("given", max=1),
        rules.exact("birth", weight=2),
        rules.numeric("height", max=2),
    ),
    3,
)


def test_fields_add_the_weights_of_those_that_agree():
    x = ("smith", "ann", "19800101", 170)
    assert FIELDS.matches(x, ("smyth", "anna", "19800102", 172))
    assert not FIELDS.matches(x, ("smyth", "anna", "19800102", 173))
    assert FIELDS.matches(x, ("jones", "bob", "19800101", 169))
    assert not FIELDS.matches(x, ("jones", "bob", "19800101", 100))


def test_a_missing_value_agrees_with_nothing():
    nothing = (None, None, None, None)
    assert not FIELDS.matches(nothing, nothing)
    assert FIELDS.matches(("a", None, "b", None), ("a", "x", "b", 1))


@pytest.mark.parametrize("threshold", [0.7, np.float64(0.7), "0.7", "7/10", Fraction(7, 10)])
def test_a_threshold_is_the_number_as_written(threshold):
    assert Dice(1024, threshold) == rules.dice(1024, threshold=threshold)
    assert Dice(1024, threshold).threshold == Fraction(7, 10)


def test_dice_meets_its_threshold_exactly():
    rule = Dice(8, Fraction(2, 3))
    assert rule.matches([0b0011], [0b0001])  # 2 * 1 / 3
    assert not rule.matches([0b0111], [0b0001])  # 2 * 1 / 4
    with pytest.raises(InputError, match="without any bit"):
        rule.matches([0], [0b0001])


@pytest.mark.parametrize(
    "make",
    [
        lambda: SquaredDistance((1, -1), 0),
        lambda: SquaredDistance((0, 0), 0),
        lambda: SquaredDistance((1,), -1),
        lambda: SquaredDistance.scaled((1,), Fraction(-1), 10),
        lambda: SquaredDistance((1,), 100).check_columns(1, 10),
        lambda: EditDistance(1, -1),
        lambda: EditDistance(0, 1),
        lambda: Fields((), 1),
        lambda: Fields((rules.exact("a", weight=2),), 3),
        lambda: Fields((rules.exact("a"),), 0),
        lambda: rules.from_dict(
            {"rule": "fields", "fields": [{"column": "a", "compare": "nearly"}], "threshold": 1}
        ),
        lambda: rules.exact("a", weight=0),
        lambda: rules.edit("a", max=-1),
        lambda: Dice(0, Fraction(1, 2)),
        lambda: Dice(8, Fraction(0)),
        lambda: Dice(8, Fraction(3, 2)),
        lambda: rules.from_dict({"rule": "soundex"}),
        lambda: rules.from_dict({"rule": "sse", "weights": [1], "limit": 0, "more": 1}),
        lambda: rules.from_dict({"rule": "fields", "fields": [{"column": 3}], "threshold": 1}),
        lambda: fraction(float("nan"), "x"),
        lambda: fraction("1/0", "x"),
    ],
)
def test_rules_that_cannot_be_are_refused(make):
    with pytest.raises(InputError):
        make()


def test_a_decimal_in_a_file_is_that_decimal():
    assert fraction(0.1, "x") == Fraction(1, 10)
    assert fraction("1/3", "x") == Fraction(1, 3)
    assert fraction(2, "x") == 2


def test_normalised_text_and_codes():
    assert symbols.normalise("  José-MARÍA  O'Brien ") == "jose-maria o'brien"
    assert symbols.codes("az -'") == [0, 25, 26, 27, 28]
    assert symbols.codes("a1é") == [0, 29, 30]
    assert symbols.codes("19-a", digits=True) == [1, 9, 30, 30]
