"""Histograms and quantiles by totals: exact, and columns of the spec."""

import numpy as np
import pandas as pd
import pytest

from ppodc import SecureTotals
from tests.client.points import points

BOUNDS = {"age": (0, 110), "chol": (0, 20)}


def tables():
    random = np.random.default_rng(3)
    rows = {"age": random.integers(0, 111, 60), "chol": random.uniform(3, 8, 60).round(1)}
    whole = pd.DataFrame(rows)
    whole.loc[0, "age"] = 18  # on an edge
    return whole, [whole[:25], whole[25:]]


def test_counts_are_those_of_pandas_and_other_totals_do_not_change(threads):
    whole, owners = tables()
    plain = SecureTotals(bounds=BOUNDS, platform=threads).fit(owners)
    cuts = [18, 40, 65]
    binned = SecureTotals(bounds=BOUNDS, bins={"age": cuts, "chol": 4}, platform=threads)
    binned.fit(owners)
    assert binned.result_.columns == ("age", "chol")
    assert binned.sum_.tolist() == plain.sum_.tolist()
    assert binned.var_.tolist() == plain.var_.tolist()
    expected = np.histogram(whole["age"], [0, *cuts, 111])[0]
    assert binned.histograms_["age"].tolist() == expected.tolist()
    assert (
        binned.histograms_["chol"].tolist() == np.histogram(whole["chol"], 4, (0, 20))[0].tolist()
    )
    for q in (0, 0.25, 0.5, 0.9, 1):
        age = np.quantile(whole["age"], q, method="inverted_cdf")
        interval = binned.quantile(q)["age"]
        assert interval.left <= age < interval.right or age == 110 == interval.right
    described = binned.describe()
    assert described.loc["count", "age"] == 60
    assert described.loc["50%", "age"] == binned.quantile(0.5)["age"]
    for name, value in (("min", whole["chol"].min()), ("max", whole["chol"].max())):
        assert value in described.loc[name, "chol"]


@pytest.mark.parametrize(
    ("bins", "said"),
    [
        ({"weight": 3}, "no column 'weight'"),
        ({"age": 1}, "a number from 2 to 64"),
        ({"age": [40, 18]}, "rising cuts"),
        ({"age": [18, 200]}, "cut from 0.0 to 110.0"),
    ],
)
def test_bins_that_cannot_be_are_refused(bins, said):
    with pytest.raises(ValueError, match=said):
        SecureTotals(bounds=BOUNDS, bins=bins).fit(tables()[1])


def test_an_owner_who_is_told_nothing_gets_no_counts(threads):
    rows = [points(30, 1), points(2, 2)]
    model = SecureTotals(bounds=(-500, 500), bins={"x0": 2}, least=5, platform=threads).fit(rows)
    assert model.histograms_["x0"].isna().all()
    assert pd.isna(model.quantile(0.5)["x0"])
