"""Mixed fields on shares: every match bit equals the oracle's, whatever is missing."""

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.linkage import rules
from ppodc.linkage.blocks.candidates import Block, Work
from ppodc.linkage.compare.field_match import FieldMatcher
from ppodc.linkage.exact_codes import text_bits, text_code
from ppodc.linkage.rules import Fields
from ppodc.linkage.rules.field import cut
from ppodc.records.schema import TextColumn
from tests.linkage.shared import matched, taken_in

LONGEST = 5
TEXT = TextColumn("a", "words", LONGEST)


def coded(field, value):
    return text_code(TEXT, value) if field.how == "exact" and isinstance(value, str) else value


def sizes(rule, bits=20):
    """Characters of texts within an edit distance, bits of anything else."""
    of_how = {"edit": LONGEST, "exact": text_bits(TEXT), "numeric": bits}
    return [of_how[field.how] for field in rule.fields]


def field_rows(pair, rule, records, real, *, first):
    columns = [
        field.encode_values([coded(field, record[i]) for record in records], size)
        for i, (field, size) in enumerate(zip(rule.fields, sizes(rule), strict=True))
    ]
    return taken_in(pair, matcher(rule), np.column_stack(columns), real, first=first)


def matcher(rule):
    return FieldMatcher(rule, tuple(sizes(rule)))


def found_in(pair, rule, xs, ys, real_x, real_y, batch):
    x = field_rows(pair, rule, xs, real_x, first=True)
    y = field_rows(pair, rule, ys, real_y, first=False)
    return matched(pair, matcher(rule), x, y, batch)


def matched_rows(pair, rule, xs, ys, batch):
    """Match bits of encoded rows that are all real."""
    left, right = taken_in(pair, rule, xs), taken_in(pair, rule, ys, first=False)
    return matched(pair, rule, left, right, batch)


def people(count, seed):
    random = np.random.default_rng(seed)

    def word():
        return "".join(random.choice(list("ab"), random.integers(0, LONGEST + 1)))

    def one():
        values = [word(), word(), f"19{random.integers(80, 83)}", int(random.integers(0, 9))]
        return tuple(None if random.random() < 0.15 else value for value in values)

    return [one() for _ in range(count)]


RULE = Fields(
    (
        rules.edit("surname", max=1, weight=3),
        rules.edit("given", max=0, weight=2),
        rules.exact("born", weight=2),
        rules.numeric("height", max=2, weight=1),
    ),
    5,
)


@pytest.mark.parametrize("threshold", [1, 5, 8])
def test_every_match_bit_equals_the_oracle(pair, threshold):
    rule = Fields(RULE.fields, threshold)
    xs, ys = people(13, 1), people(70, 2)
    ys[:5], ys[5] = xs[:5], (None,) * 4
    xs[12] = (None,) * 4
    real_x, real_y = [1] * 11 + [0, 1], [1] * 65 + [0] * 5
    batch = [Block((0, 6), ((0, 70),)), Block((6, 13), ((0, 3), (60, 70)))]
    expected = rule.match_matrix(xs, ys)
    expected &= (np.array(real_x) > 0)[:, None] & (np.array(real_y) > 0)
    assert expected.any()
    assert not expected[12].any()
    found = found_in(pair, rule, xs, ys, real_x, real_y, batch)
    for block, bits in zip(batch, found, strict=True):
        assert (bits == expected[slice(*block.xs)][:, block.columns]).all()


@pytest.mark.parametrize(
    ("field", "equal", "other"),
    [
        (rules.exact("a"), ["", ""], ["", "a"]),
        (rules.exact("a"), ["a1-b'", "a1-b'"], ["a1", "a2"]),
        (rules.exact("a"), ["aaaaa", "aaaaa"], ["a", "aa"]),
        (rules.exact("a"), ["x", "x"], ["x", "y"]),
        (rules.numeric("a", max=0), [(1 << 20) - 1, (1 << 20) - 1], [0, 1]),
        (rules.numeric("a", max=3), [0, 3], [0, 4]),
        (rules.numeric("a", max=(1 << 20) - 2), [0, (1 << 20) - 2], [0, (1 << 20) - 1]),
        (rules.edit("a", max=0), ["", ""], ["", "a"]),
        (rules.edit("a", max=2), ["abcde", "bcdea"], ["abcde", "edcba"]),
    ],
)
def test_a_field_alone_at_its_edge(pair, field, equal, other):
    rule = Fields((field,), 1)
    xs, ys = [(equal[0],), (other[0],)], [(equal[1],), (other[1],), (None,)]
    (bits,) = found_in(pair, rule, xs, ys, [1, 1], [1, 1, 1], [Block((0, 2), ((0, 3),))])
    assert bits.tolist() == rule.match_matrix(xs, ys).tolist()
    assert bits[0, 0]
    assert not bits[1, 1]
    assert not bits[:, 2].any()


def test_values_that_cannot_be_are_refused_with_row_and_column():
    cases = [
        (rules.edit("name", max=1), ["ok", "far too long"], "row 2, column 'name'"),
        (rules.edit("name", max=1), [3], "text is needed"),
        (rules.numeric("age", max=1), [5, -1], "row 2, column 'age'"),
        (rules.numeric("age", max=1), [1 << 20], "from 0 to 1048575"),
        (rules.numeric("age", max=1), ["5"], "whole"),
    ]
    for field, values, words in cases:
        with pytest.raises(InputError, match=words):
            field.encode_values(values, 20 if field.how == "numeric" else LONGEST)


@pytest.mark.parametrize("bits", [1, 19, 20, 39, 40])
def test_an_exact_field_is_its_bits_behind_one_that_says_whether_it_is_missing(bits):
    field, values = rules.exact("a"), [0, (1 << bits) - 1, 1 << (bits - 1), None]
    columns = field.encode_values(values, bits)
    assert columns.shape == (4, field.width(bits)) == (4, (bits + 20) // 20)
    assert columns.max() < 1 << field.column_bits(bits) <= 1 << 20
    words = [
        sum(int(c) << i * field.column_bits(bits) for i, c in enumerate(row)) for row in columns
    ]
    assert words == [0, (1 << bits + 1) - 2, 1 << bits, 1]
    with pytest.raises(InputError, match="row 1, column 'a'"):
        field.encode_values([1 << bits], bits)


@pytest.mark.parametrize("bits", [1, 2, 20, 40])
def test_a_missing_exact_value_agrees_with_nothing_whatever_its_code(pair, bits):
    """An owner may send any code beside the bit that says there is none."""
    rule, top = Fields((rules.exact("a"),), 1), (1 << bits) - 1
    each, fields = rule.fields[0].column_bits(bits), FieldMatcher(rule, (bits,))
    batch = [Work(0, 1, Block((0, 4), ((0, 4),)))]

    def side(words, first):
        columns = [cut(word, rule.fields[0].width(bits), each) for word in words]
        return taken_in(pair, fields, columns, first=first)

    words = [0, top << 1, 1, top << 1 | 1]  # two values, and two that are missing

    def step(session, left, right):
        session.supplies.reserve(fields.needs(batch))
        before = session.supplies.available()
        found = fields.match(session, left, right, batch)
        assert before - session.supplies.available() == fields.needs(batch)
        return found

    first, second = pair.run(step, side(words, True), side(words, False))
    assert (first[0] ^ second[0]).tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0] * 4, [0] * 4]
