"""Duplicates from shared match bits, against plaintext."""

import numpy as np
import pytest

from ppodc.kmeans.linked.duplicates import Duplicates, any_of_row, kept_rows
from tests.linkage.test_match_sums import shared_bits
from tests.mpc.pair import share


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_duplicates_are_dropped_and_dummies_too(pair, rows):
    random = np.random.default_rng(rows)
    matches = (random.random((rows, 90)) < 0.2).astype(np.uint8)
    real = (random.random(90) < 0.7).astype(np.uint8)
    values = random.integers(0, 1000, (90, 2))
    parts = [np.r_[0:40, 80:90], np.r_[30:80]]  # some rows are told of twice

    def step(session, bits, flag, table):
        found = Duplicates(90)
        for part in parts:
            found.add(session, np.tile(part, rows), bits[:, part].reshape(-1))
        keep = found.keep(session, flag)
        return keep, kept_rows(session, keep, table)

    table = share(values.reshape(-1).tolist(), 1, (90, 2))
    (keep, kept), (other_keep, other_kept) = pair.run(
        step, shared_bits(matches), shared_bits(real), table
    )
    expected = real & ~matches.any(axis=0)
    assert (keep ^ other_keep).tolist() == expected.tolist()
    rest = np.column_stack([values, np.ones(90, int)]) * expected[:, None]
    assert (kept + other_kept).tolist() == rest.tolist()


def test_the_or_of_rows_of_any_length(pair):
    random = np.random.default_rng(9)
    rows = random.permutation(np.repeat([3, 4, 9, 11], [1, 2, 70, 129]))
    bits = (random.random(len(rows)) < 0.02).astype(np.uint8)
    first, second = pair.run(lambda session, own: any_of_row(session, rows, own), shared_bits(bits))
    assert (first ^ second).tolist() == [int(bits[rows == row].any()) for row in (3, 4, 9, 11)]
    none = np.empty(0, np.intp), np.empty(0, np.uint8)
    assert pair.run(lambda session: any_of_row(session, *none))[0].size == 0
