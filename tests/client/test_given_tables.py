"""Tables as users of estimators have them: any form, any order, gaps, names of rows."""

import numpy as np
import pandas as pd
import pyarrow
import pytest

from client.estimators.base import Estimator
from client.estimators.given_tables import tables_of
from ppodc import RecordLinkage, SecureKMeans, SecureTotals, rules
from ppodc.errors import InputError

PEOPLE = pd.DataFrame(
    {
        "patient": ["A1", "A2", "A3", "A4"],
        "age": [30.0, 31.0, 70.0, 71.0],
        "chol": [4.5, 4.6, 8.0, 8.1],
    },
    index=[10, 20, 30, 40],
)
NUMBERS = PEOPLE[["age", "chol"]]
BOUNDS = {"age": (0, 100), "chol": (0, 10)}
GAP = NUMBERS.assign(chol=[4.5, np.nan, 8.0, 8.1])


class Lazy:
    """As polars' LazyFrame: nothing is read before it is collected."""

    def __init__(self, frame):
        self.frame = frame

    def lazy(self):
        return self

    def collect(self):
        return pyarrow.Table.from_pandas(self.frame, preserve_index=False)


def forms(tmp_path):
    path = tmp_path / "north.csv"
    NUMBERS.to_csv(path, index=False, sep=";", decimal=",")
    arrow = pyarrow.Table.from_pandas(NUMBERS, preserve_index=False)
    yield from (NUMBERS[["chol", "age"]], arrow, Lazy(NUMBERS), path, str(path))
    yield NUMBERS.astype(str)
    yield NUMBERS.astype(object)


def test_every_form_of_a_table_is_the_same_table(tmp_path):
    for form in forms(tmp_path):
        for given in ([NUMBERS, form], {"north": NUMBERS, "south": form}, iter([NUMBERS, form])):
            first, second = tables_of(Estimator(), given, reset=True)
            assert np.array_equal(first, NUMBERS)
            assert np.array_equal(second, NUMBERS)
        (alone,) = tables_of(Estimator(), form, reset=True)
        assert sorted(alone.ravel()) == sorted(NUMBERS.to_numpy().ravel())


def test_bounds_by_name_say_which_columns_are_used(threads):
    model = SecureKMeans(2, bounds=BOUNDS, random_state=1, min_size=1, platform=threads)
    model.fit([PEOPLE, PEOPLE[::-1]])
    assert model.feature_names_in_.tolist() == ["age", "chol"]
    assert model.predict(PEOPLE).tolist() == model.owner_labels_[0].tolist()
    with pytest.raises(ValueError, match=r"owner 1: no numbers are in 'patient' .*bounds by name"):
        model.set_params(bounds=(0, 100)).fit([PEOPLE, PEOPLE])


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (GAP, r"of south: 1 value .*: row 20, column 'chol': missing \(NaN\).*leave out"),
        (NUMBERS.assign(age=[1, 2, np.inf, 4]), "of south: 1 value .*: row 30, column 'age': inf"),
        (NUMBERS.assign(age=[1, 2, 3, 400]), r"of south: .*row 40, column 'age': above 100\.0"),
        (NUMBERS.assign(age=["1", "x", "3", "4"]), "of south: not a number: row 20, column 'age'"),
        (NUMBERS.assign(age=pd.Timestamp("2020-01-01")), "of south: no numbers are in 'age'"),
        (NUMBERS[:0], "the table of south has no rows"),
        (pd.concat([NUMBERS, NUMBERS[["age"]]], axis=1), "of south: .*more than once: 'age'"),
    ],
)
@pytest.mark.parametrize("make", [SecureKMeans, SecureTotals])
def test_an_error_names_owner_row_and_column(threads, make, table, said):
    with pytest.raises(ValueError, match=said) as caught:
        make(bounds=BOUNDS, platform=threads).fit({"north": NUMBERS, "south": table})
    assert isinstance(caught.value, InputError)


def test_rows_with_gaps_are_left_out_and_counted(threads):
    parameters = {"bounds": BOUNDS, "missing": "leave out", "platform": threads}
    totals = SecureTotals(**parameters, ub=1000, least=1).fit([NUMBERS, GAP])
    assert (totals.count_, totals.left_out_) == (7, [0, 1])
    kept = pd.concat([NUMBERS, GAP.dropna()])
    assert totals.mean_ == pytest.approx(kept.mean().to_numpy())
    model = SecureKMeans(2, **parameters, random_state=1, min_size=1).fit([NUMBERS, GAP])
    assert model.left_out_ == [0, 1]
    assert (model.labels_ == -1).tolist() == [False] * 5 + [True, False, False]
    assert model.predict(GAP).tolist() == model.owner_labels_[1].tolist()
    assert np.isnan(model.transform(GAP)[1]).all()
    linked = RecordLinkage(theta=0, **parameters).fit([NUMBERS, GAP])
    assert linked.links_.tolist() == [(10, 10), (30, 30), (40, 40)]
    assert linked.partners_ == [[1, 0, 1, 1], [1, -1, 1, 1]]


def test_what_is_found_has_the_rows_names(threads):
    model = SecureKMeans(2, bounds=BOUNDS, random_state=1, min_size=1, platform=threads)
    found = model.fit({"north": PEOPLE, "south": PEOPLE[:2]}).to_frame()
    assert found["row"].tolist() == [10, 20, 30, 40, 10, 20]
    assert found["owner"].tolist() == ["north"] * 4 + ["south"] * 2
    assert found["label"].tolist() == model.labels_.tolist()
    named = model.set_params(id_column="patient").fit([PEOPLE, PEOPLE[:2]]).to_frame()
    assert named["row"].tolist() == ["A1", "A2", "A3", "A4", "A1", "A2"]


def test_links_have_the_rows_names(threads, tmp_path):
    rule = rules.fields([rules.numeric("age", max=0)], threshold=1)
    path = tmp_path / "south.csv"
    PEOPLE[::-1].to_csv(path, index=False)
    for how in ({"rule": rule}, {"theta": 0}):
        linkage = RecordLinkage(
            **how, bounds=BOUNDS, id_column="patient", max_links=1, platform=threads
        )
        assert linkage.fit([PEOPLE, path]).links_.tolist() == [(f"A{i}", f"A{i}") for i in "1234"]


def test_totals_as_a_frame(threads):
    model = SecureTotals(bounds=BOUNDS, ub=1000, least=1, platform=threads).fit([NUMBERS, NUMBERS])
    described, usual = model.describe(), pd.concat([NUMBERS] * 2).agg(["count", "mean"])
    assert described.loc[["count", "mean"]].to_numpy() == pytest.approx(usual.to_numpy())
    assert described.loc["std"].to_numpy() == pytest.approx(NUMBERS.std(ddof=0).to_numpy())
    assert model.to_frame()["sum"].to_dict() == pytest.approx({"age": 404.0, "chol": 50.4})


def test_inertia_in_parts_of_the_range_does_not_depend_on_ub(threads):
    found = [
        SecureKMeans(
            1, bounds=BOUNDS, ub=ub, inertia=True, min_size=1, random_state=1, platform=threads
        )
        .fit(NUMBERS)
        .inertia_in_ranges_
        for ub in (1000, 10_000)
    ]
    ranges = NUMBERS / [100, 10]
    assert found == pytest.approx([((ranges - ranges.mean()) ** 2).sum().sum()] * 2)
