"""Owners' tables side by side: columns belong together by name; what does not match is refused."""

import numpy as np
import pandas as pd
import pytest

from client.one_machine import tables_of
from ppodc.errors import InputError

FIRST = pd.DataFrame({"age": [30.0, 40.0], "pressure": [120.0, 140.0]})


def test_columns_are_aligned_by_name():
    other = pd.DataFrame({"pressure": [110.0], "age": [50.0]})
    tables = tables_of([FIRST, other])
    assert tables[0].tolist() == [[30.0, 120.0], [40.0, 140.0]]
    assert tables[1].tolist() == [[50.0, 110.0]]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (FIRST.rename(columns={"age": "weight"}), "owner 2: missing columns 'age'; unknown"),
        (FIRST[["age"]], "missing columns 'pressure'"),
        (FIRST.assign(extra=1.0), "unknown columns 'extra'"),
        (pd.concat([FIRST, FIRST[["age"]]], axis=1), "more than once"),
        (FIRST.to_numpy(), "some have none"),
    ],
)
def test_what_does_not_match_is_refused(other, said):
    with pytest.raises(InputError, match=said):
        tables_of([FIRST, other])


def test_a_table_is_an_array_or_a_frame_or_nested_lists():
    whole = FIRST.to_numpy()
    for given in (FIRST, whole, whole.tolist(), [FIRST], [whole]):
        assert np.array_equal(tables_of(given)[0], whole)
