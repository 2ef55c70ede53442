"""Codes of values that must be equal: no two of a small domain are the same, whoever makes them."""

from itertools import product

import pytest

from ppodc.linkage.exact_codes import CODE_BITS, is_exact, number_bits, text_bits, text_code
from ppodc.linkage.symbols import MAPPED, SIGNS, mapped
from ppodc.records.schema import Column, TextColumn


@pytest.mark.parametrize(("signs", "longest"), [("digits", 3), ("words", 2)])
@pytest.mark.parametrize("other", ["", "map"])
def test_every_text_of_a_small_domain_has_a_code_of_its_own(signs, longest, other):
    text = TextColumn("a", signs, longest, other)
    every = SIGNS[signs] + MAPPED * bool(other)
    texts = ["".join(some) for n in range(longest + 1) for some in product(every, repeat=n)]
    codes = sorted(text_code(text, one) for one in texts)
    assert codes == list(range(len(texts)))
    assert (len(texts) - 1).bit_length() == text_bits(text)


@pytest.mark.parametrize(
    ("signs", "longest", "bits"),
    [
        ("digits", 1, 4),
        ("digits", 5, 17),
        ("digits", 8, 27),
        ("digits", 11, 37),
        ("words", 1, 6),
        ("words", 7, 38),
    ],
)
def test_short_texts_take_the_bits_of_their_domain(signs, longest, bits):
    text = TextColumn("a", signs, longest)
    assert is_exact(text)
    assert text_bits(text) == bits
    largest = SIGNS[signs][-1] * longest
    assert text_code(text, largest).bit_length() == bits


@pytest.mark.parametrize(("signs", "longest"), [("digits", 12), ("words", 8), ("words", 64)])
def test_longer_texts_are_forty_bits_of_a_digest(signs, longest):
    text = TextColumn("a", signs, longest)
    assert not is_exact(text)
    assert text_bits(text) == CODE_BITS
    assert text_code(text, "1") == 0xFF73B2866B  # SHA-256 of "1" begins 6b86b273ff


def test_numbers_take_the_bits_of_their_range():
    assert [number_bits(Column("a", 5, 5 + n)) for n in (1, 2, 3, 4, (1 << 20) - 1)] == [
        1, 2, 2, 3, 20
    ]  # fmt: skip


def test_signs_without_a_code_are_one_and_the_same():
    assert mapped("a1-\u00a7", digits=False) == mapped("a1-!", digits=False) == "a1-" + MAPPED
    assert mapped("12-3", digits=True) == "12" + MAPPED + "3"
