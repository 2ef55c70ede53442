"""Local estimators take tables as all others do, and never call usable what nobody can judge."""

import numpy as np
import pandas as pd
import pyarrow
import pytest

from ppodc import (
    LocalPrivateDBSCAN,
    LocalPrivateKMeans,
    LocalPrivateKModes,
    LocalPrivateKPrototypes,
    LocalPrivateSplitKMeans,
    PrivacyAccountant,
)
from ppodc.errors import BudgetError

PEOPLE = pd.DataFrame(
    {
        "patient": [f"P{n}" for n in range(40)],
        "sex": ["f", "m"] * 20,
        "age": [20.0, 71.0] * 20,
        "ward": ["north", "south"] * 20,
    }
)
WORDS = {"sex": ["f", "m"], "ward": ["north", "south"]}
COLUMNS = {"age": (0, 100), "sex": ["f", "m"]}
ALIKE = {"random_state": 1, "insecure_noise_seed": 1}
MODES = LocalPrivateKModes(2, epsilon=5, categories=WORDS, **ALIKE)
MIXED = LocalPrivateKPrototypes(2, epsilon=5, columns=COLUMNS, **ALIKE)
MEANS = LocalPrivateKMeans(2, epsilon=5, bounds={"age": (0, 100)}, **ALIKE)
ALL = [MODES, MIXED, MEANS]
pytestmark = pytest.mark.filterwarnings("ignore:too few records", "ignore:nothing tells")


def with_id(model):
    return type(model)(**{**model.get_params(), "id_column": "patient"})


@pytest.mark.parametrize("model", ALL)
def test_every_form_of_a_table_gives_the_same_clusters(model, tmp_path):
    csv, arrow = tmp_path / "people.csv", pyarrow.Table.from_pandas(PEOPLE)
    PEOPLE[::-1].iloc[::-1, ::-1].to_csv(csv, sep=";", decimal=",", index=False)
    expected = model.fit([PEOPLE, PEOPLE]).labels_.tolist()
    for second in (csv, str(csv), arrow, PEOPLE.iloc[:, ::-1]):
        assert model.fit({"here": PEOPLE, "there": second}).labels_.tolist() == expected
        assert model.predict([PEOPLE, second]).tolist() == expected


@pytest.mark.parametrize("model", ALL)
def test_rows_keep_their_names_and_gaps_are_left_out(model):
    gaps = PEOPLE.assign(sex=["f", None, *PEOPLE["sex"][2:]], age=[np.nan, *PEOPLE["age"][1:]])
    with pytest.raises(ValueError, match=r"table of there: .*missing"):
        model.fit({"here": PEOPLE, "there": gaps})
    kept = with_id(model).set_params(missing="leave out").fit({"here": PEOPLE, "there": gaps})
    gone = {MODES: ["P1"], MIXED: ["P0", "P1"], MEANS: ["P0"]}[model]
    found = kept.to_frame()
    assert found["row"].tolist() == [*PEOPLE["patient"], *PEOPLE["patient"]]
    assert found[found["label"] == -1]["row"].tolist() == gone
    assert kept.left_out_ == [0, len(gone)]
    assert kept.predict([PEOPLE, gaps]).tolist() == kept.labels_.tolist()


@pytest.mark.parametrize(
    ("model", "table", "said"),
    [
        (MODES, PEOPLE.assign(sex=["x", *PEOPLE["sex"][1:]]), "row 0, column 'sex': not one of"),
        (MODES, PEOPLE.drop(columns="ward"), "there: missing columns 'ward'"),
        (MODES, PEOPLE.rename(columns={"sex": "Sex"}), "capitals count: 'Sex' is not 'sex'"),
        (MIXED, PEOPLE.assign(age=["20", "?", *["30"] * 38]), "row 1, column 'age': not a number"),
        (MIXED, PEOPLE.assign(age=200), r"row 0, column 'age': above 100\.0"),
        (MODES, PEOPLE[:0], "the table of there has no rows"),
    ],
)
def test_an_error_names_owner_row_and_column(model, table, said):
    with pytest.raises(ValueError, match=f"there.*{said}|{said}"):
        model.fit({"here": PEOPLE, "there": table})


def test_dbscan_tells_rows_left_out_from_noise():
    rows = np.repeat([[1.0, 1.0], [9.0, 9.0]], 10, axis=0)
    rows[0, 0] = np.nan
    model = LocalPrivateDBSCAN(3.0, epsilon=19, bounds=(0, 10), missing="leave out")
    with pytest.warns(UserWarning, match="little but noise"):
        assert model.fit(rows).labels_.tolist()[0] == -2
    assert model.to_frame()["label"].tolist() == model.labels_.tolist()


@pytest.mark.parametrize("mechanism", ["privbv", "ldpseg"])
def test_a_mechanism_that_tells_nothing_is_never_usable(mechanism):
    model = LocalPrivateKMeans(2, epsilon=8, bounds=(0, 100), mechanism=mechanism, **ALIKE)
    with pytest.warns(UserWarning, match="nothing tells how much"):
        model.fit(PEOPLE[["age"]])
    assert not model.usable_


@pytest.mark.parametrize("mechanism", ["joint", "ldpk-modes"])
def test_modes_of_few_records_are_not_usable_and_those_of_many_are(mechanism):
    model = LocalPrivateKModes(2, epsilon=0.5, categories=WORDS, mechanism=mechanism, **ALIKE)
    with pytest.warns(UserWarning, match="too few records"):
        assert not model.fit(PEOPLE).usable_
    many = pd.concat([PEOPLE] * 300)
    assert model.set_params(epsilon=4.0).fit(many).usable_
    assert (model.standard_error_ <= 0.5).all()


def test_split_columns_are_charged_and_judged():
    ages = PEOPLE[["age"]]
    model = LocalPrivateSplitKMeans(2, epsilon=4, bounds={"age": (0, 100), "more": (0, 9)}, **ALIKE)
    with PrivacyAccountant(epsilon=6) as account:
        with pytest.warns(UserWarning, match="too few records"):
            model.fit({"here": ages, "there": ages.rename(columns={"age": "more"}) / 10})
        assert account.spent[0] == pytest.approx(4, abs=1e-3)
        assert not model.usable_
        with pytest.raises(BudgetError):
            model.fit([ages, ages / 10])
    spread = np.random.default_rng(1).uniform(-19, 19, (40_000, 1))
    many = np.repeat([[20.0], [71.0]], 20_000, axis=0) + spread
    sure = model.set_params(epsilon=8, bounds=(0, 100)).fit([many, many])
    assert sure.usable_
    order = np.argsort(sure.cluster_centers_[:, 0])
    apart = np.abs(sure.cluster_centers_[order] - [[20, 20], [71, 71]])
    assert (apart <= 2 * sure.standard_error_[order]).all()
    with pytest.raises(ValueError, match=r"table of there: 1 value.*missing"):
        model.fit({"here": many, "there": np.where(np.arange(40_000)[:, None] == 3, np.nan, many)})
