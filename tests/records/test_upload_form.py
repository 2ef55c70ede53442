"""Uploads as each cloud gets them: the two-shares form, and refusals of a part."""

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.records.encode import encode
from ppodc.records.schema import Column, Schema
from ppodc.records.sharing import combine, split
from ppodc.records.upload_form import RowsPart, SeedPart, TwoShares

SCHEMA = Schema((Column("a", 0.0, 10.0), Column("b", 0.0, 10.0)), ub=10)
FORM = TwoShares(2)
SECRET = bytes(range(32))


def test_two_shares_add_up_whatever_the_chunks():
    values = encode(np.arange(10.0).reshape(5, 2), SCHEMA)
    first, second = FORM.part(1), FORM.part(2)
    assert isinstance(first, RowsPart)
    assert isinstance(second, SeedPart)
    parts = (split(values[:2], SECRET), split(values[2:], SECRET, first_row=2))
    rows = np.concatenate([rows for rows, _ in parts])
    first.check(rows, 0, 5)
    second.check(SECRET)
    assert np.array_equal(combine(rows, second.rows(SECRET, 0, 5)), values)
    assert np.array_equal(combine(rows[3:], second.rows(SECRET, 3, 2)), values[3:])
    assert rows.dtype == first.dtype == second.dtype == np.uint64
    assert first.columns == second.columns == 2


def test_records_that_do_not_fit_are_refused_at_the_owner():
    with pytest.raises(InputError, match="nothing was encoded"):
        encode(np.full((2, 2), 11.0), SCHEMA)


@pytest.mark.parametrize(
    ("chunk", "first_row", "reason"),
    [
        (np.zeros((2, 2), np.int64), 0, "of type uint64"),
        (np.zeros((2, 2), np.uint32), 0, "of type uint64"),
        (np.zeros((2, 3), np.uint64), 0, "rows of 2 numbers"),
        (np.zeros(4, np.uint64), 0, "rows of 2 numbers"),
        (np.zeros((0, 2), np.uint64), 0, "at least one row"),
        (np.zeros((2, 2), np.uint64), 4, "beyond the 5 rows"),
        (np.zeros((2, 2), np.uint64), -1, "beyond the 5 rows"),
    ],
)
def test_a_chunk_that_cannot_be(chunk, first_row, reason):
    with pytest.raises(InputError, match=reason):
        FORM.part(1).check(chunk, first_row, 5)


def test_any_word_is_a_share():
    FORM.part(1).check(np.array([[0, (1 << 64) - 1]], np.uint64), 0, 1)


def test_numbers_beyond_the_largest_of_a_part_are_refused():
    with pytest.raises(InputError, match="no upload can have"):
        RowsPart(np.uint8, 2, 6).check(np.array([[6, 7]], np.uint8), 0, 1)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_seed_that_cannot_be(size):
    with pytest.raises(InputError, match="must have 32 bytes"):
        FORM.part(2).check(bytes(size))
