"""Owners' tables side by side: columns belong together by name; what does not match is refused."""

import numpy as np
import pandas as pd
import pytest

from client.estimators.base import Estimator
from client.estimators.given_tables import tables_of
from client.estimators.owner_tables import schema_of, seed_of
from ppodc.errors import InputError
from tests.client.points import points

FIRST = pd.DataFrame({"age": [30.0, 40.0], "pressure": [120.0, 140.0]})


def test_columns_are_aligned_by_name():
    other = pd.DataFrame({"pressure": [110.0], "age": [50.0]})
    model = Estimator()
    tables = tables_of(model, [FIRST, other], reset=True)
    assert tables[0].tolist() == [[30.0, 120.0], [40.0, 140.0]]
    assert tables[1].tolist() == [[50.0, 110.0]]
    assert model.feature_names_in_.tolist() == ["age", "pressure"]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (FIRST.rename(columns={"age": "weight"}), "owner 2: missing columns 'age'; unknown"),
        (FIRST[["age"]], "missing columns 'pressure'"),
        (FIRST.rename(columns={"age": "Age"}), "owner 2: .*capitals count: 'Age' is not 'age'"),
        (FIRST.assign(extra=1.0), "unknown columns 'extra'"),
        (pd.concat([FIRST, FIRST[["age"]]], axis=1), "more than once"),
        (FIRST.to_numpy(), "some have none"),
    ],
)
def test_what_does_not_match_is_refused(other, said):
    with pytest.raises(InputError, match=said) as caught:
        tables_of(Estimator(), [FIRST, other], reset=True)
    assert isinstance(caught.value, ValueError)


def test_a_table_is_an_array_or_a_frame_or_nested_lists():
    whole = FIRST.to_numpy()
    for given in (FIRST, whole, whole.tolist(), [FIRST], [whole], [whole.tolist()]):
        (table,) = tables_of(Estimator(), given, reset=True)
        assert np.array_equal(table, whole)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ([], "holds no table"),
        ([FIRST.to_numpy(), np.ones((3, 3))], "3 features"),
        ([FIRST.to_numpy(), np.ones((0, 2))], "0 sample"),
        (
            np.array([[1.0, np.nan]]),
            r"row 0, column 'x1': missing \(NaN\)",
        ),
        (np.ones((2, 2, 2)), "dim 3"),
        ([["a", "b"]], "could not convert"),
    ],
)
def test_what_scikit_learn_refuses_is_refused_in_its_words(data, said):
    with pytest.raises(ValueError, match=said):
        tables_of(Estimator(), data, reset=True)


def test_bounds_for_all_columns_for_each_and_by_name():
    (table,) = tables_of(Estimator(), FIRST, reset=True)
    names = list(FIRST.columns)
    each = [(0.0, 120.0), (40.0, 260.0)]
    by_name = {"pressure": each[1], "age": each[0]}
    for given in (each, by_name):
        schema = schema_of([table], given, 100, names)
        assert [(c.name, c.low, c.high) for c in schema.columns] == [
            ("age", 0.0, 120.0),
            ("pressure", 40.0, 260.0),
        ]
    assert {(c.low, c.high) for c in schema_of([table], (0, 300), 100).columns} == {(0.0, 300.0)}
    with pytest.warns(UserWarning, match="smallest and largest"):
        schema = schema_of([table], "data", 100)
    assert [(c.low, c.high) for c in schema.columns] == [(30.0, 40.0), (120.0, 140.0)]


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (None, "bounds must be given"),
        ([(0, 1)] * 3, "2 pairs"),
        ({"age": (0, 1)}, "none are given for .pressure."),
        ((1, 0), "low must be less"),
    ],
)
def test_bounds_that_cannot_be_are_refused(bounds, said):
    with pytest.raises(ValueError, match=said):
        schema_of([points(5, 1)], bounds, 1000, ["age", "pressure"])


def test_seeds_are_given_or_drawn():
    assert seed_of(7) == 7
    assert seed_of(None) != seed_of(None)
    first, again = (np.random.RandomState(3) for _ in range(2))
    assert seed_of(first) == seed_of(again)
