"""Comparing between two processes: every kind of case is exact, and a wrong bit would be seen."""

from dataclasses import replace

import numpy as np
import pytest

from ppodc.bench.linkage.pairs import adult_case, compare, edit_case, numbers_case
from tests.bench.test_linkage import people  # noqa: F401 - a fixture


def test_strings_of_secret_lengths_are_exact():
    costs = compare(edit_case(9, 5, 1, secret=True), lambda _: None)
    assert costs["exact"]
    assert costs["pairs"] == 81
    assert costs["matches"] > 0
    assert costs["bytes"] > 0


def test_a_wrong_bit_is_seen():
    case = numbers_case(8)
    wrong = [np.array(bits) for bits in case.expected]
    wrong[0][0, 1] ^= True
    assert not compare(replace(case, expected=wrong), lambda _: None)["exact"]


@pytest.mark.parametrize("method", ["none", "adtree", "adtree-shared"])
def test_adult_in_cells(people, method):  # noqa: F811
    case = adult_case(people, 40, method)
    assert len(case.rows[0]) >= 40
    assert sum(bits.sum() for bits in case.expected) >= 20
    if method == "adtree-shared":
        assert compare(case, lambda _: None)["exact"]
