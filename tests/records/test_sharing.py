"""Upload shares: a vector made with the openssl command, random access, ranges, refusals."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ppodc.errors import InputError
from ppodc.records.sharing import MAX_VALUE, combine, mask, split

VECTOR = json.loads((Path(__file__).parents[1] / "vectors" / "sharing.json").read_text())
SEED = bytes(range(32))


def words(rows):
    return np.array([[int(word) for word in row] for row in rows], np.uint64)


def test_known_answer():
    seed, first = bytes.fromhex(VECTOR["seed"]), VECTOR["first_row"]
    records = np.array(VECTOR["records"])
    r = mask(seed, first, len(records), VECTOR["columns"])
    share, same_seed = split(records, seed, first_row=first)
    assert same_seed == seed
    assert np.array_equal(r, words(VECTOR["mask"]))
    assert np.array_equal(share, words(VECTOR["share"]))
    assert np.array_equal(combine(share, r), records)


@given(st.integers(1, 7), st.integers(0, 9), st.integers(0, 9))
@settings(deadline=None)
def test_any_rows_of_the_mask_can_be_made_alone(columns, first, rows):
    whole = mask(SEED, 0, first + rows, columns)
    assert np.array_equal(mask(SEED, first, rows, columns), whole[first:])


def test_mask_far_into_the_stream():
    far = (1 << 66) // 3
    assert np.array_equal(mask(SEED, far, 3, 3)[1:], mask(SEED, far + 1, 2, 3))


@given(
    st.lists(st.lists(st.integers(0, MAX_VALUE), min_size=3, max_size=3), min_size=1, max_size=9)
)
@settings(deadline=None)
def test_shares_add_up_modulo_2_64(rows):
    records = np.array(rows)
    share, seed = split(records)
    r = mask(seed, 0, len(rows), 3)
    assert np.array_equal(combine(share, r), records)
    assert np.array_equal(share - r, records.astype(np.uint64))


def test_chunks_make_the_same_shares_as_one_piece():
    records = np.random.default_rng(0).integers(0, 1001, (50, 3))
    whole, seed = split(records)
    first, _ = split(records[:17], seed)
    second, _ = split(records[17:], seed, first_row=17)
    assert np.array_equal(np.concatenate([first, second]), whole)


def test_each_upload_gets_its_own_seed():
    records = np.zeros((2, 2), np.int64)
    (share, seed), (other_share, other_seed) = split(records), split(records)
    assert len(seed) == 32
    assert seed != other_seed
    assert not np.array_equal(share, other_share)


def test_every_bit_of_the_mask_is_balanced():
    """64 random bits; 20,000 words put 5 deviations at 1.8 %."""
    bits = np.unpackbits(mask(SEED, 0, 20_000, 1).view(np.uint8), axis=1, bitorder="little")
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.018


def test_what_cloud_1_gets_is_as_balanced_whatever_the_records_are():
    for value in (0, MAX_VALUE):
        share, _ = split(np.full((20_000, 1), value))
        bits = np.unpackbits(share.view(np.uint8), axis=1, bitorder="little")
        assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.03  # more than 8 deviations


def test_narrow_integer_types_do_not_wrap():
    share, seed = split(np.array([[255, 0]], np.uint8))
    assert combine(share, mask(seed, 0, 1, 2)).tolist() == [[255, 0]]


@pytest.mark.parametrize(
    "values",
    [
        np.array([[-1]]),
        np.array([[MAX_VALUE + 1]]),
        np.array([[1 << 63]], np.uint64),
        np.array([[0.5]]),
        np.array([[True]]),
        np.array([1, 2]),
    ],
)
def test_refused_records(values):
    with pytest.raises(InputError, match="records to share"):
        split(values)


def test_refused_seeds_and_shapes():
    with pytest.raises(InputError, match="32 bytes"):
        split(np.array([[1]]), b"short")
    with pytest.raises(InputError, match="row number"):
        mask(SEED, -1, 1, 1)
    with pytest.raises(InputError, match="column"):
        mask(SEED, 0, 1, 0)
    with pytest.raises(InputError, match="shape"):
        combine(mask(SEED, 0, 2, 1), mask(SEED, 0, 1, 1))


def test_shares_of_different_uploads_are_refused():
    share, _ = split(np.zeros((3, 3), np.int64))
    with pytest.raises(InputError, match="same upload"):
        combine(share, mask(SEED, 0, 3, 3))
