"""`SecureKMeans(join=...)`: tables of different columns about the same people."""

import numpy as np
import pandas as pd
import pytest

from client.platforms.threads import ThreadPlatform
from ppodc import RecordLinkage, SecureKMeans, rules
from ppodc.errors import InputError
from ppodc.kmeans.reference import kmeans
from ppodc.rules import by_key
from tests.linkage import reference

BOUNDS = {"stay": (0, 10), "cost": (0, 100)}


def linkage(**change) -> RecordLinkage:
    usual = {
        "rule": rules.fields([rules.exact("name"), rules.exact("year")], threshold=2),
        "bounds": {"year": (1990, 1999)},
        "texts": {"name": 6},
    }
    return RecordLinkage(**{**usual, **change})


def estimator(**change) -> SecureKMeans:
    usual = {
        "bounds": BOUNDS,
        "ub": 100,
        "join": linkage(),
        "least": 1,
        "min_size": 1,
        "random_state": 3,
        "platform": ThreadPlatform(),
    }
    return SecureKMeans(2, **{**usual, **change})


def tables() -> list[pd.DataFrame]:
    random = np.random.default_rng(8)
    names = list("abcdefghij")
    clinic = pd.DataFrame({"name": names[:8], "year": 1990, "stay": random.integers(0, 11, 8)})
    insurer = pd.DataFrame({"cost": random.integers(0, 101, 7), "year": 1990, "name": names[3:]})
    return [clinic, insurer]


def test_the_columns_of_both_are_clustered():
    clinic, insurer = tables()
    model = estimator().fit([clinic, insurer])
    found = reference.partners(8, 7, lambda i, j: clinic.name[i] == insurer.name[j], "1:1")
    own, cost = clinic[["stay"]].to_numpy() * 10, insurer[["cost"]].to_numpy()
    parts, keep = reference.joined(own, [(cost, found)])
    trace = kmeans(np.hstack(parts), 2, beta=0, max_iter=100, seed=3, keep=keep, init="k-means++")
    assert model.result_.sums_.tolist() == trace.sums.tolist()
    assert model.sizes_.tolist() == trace.sizes.tolist()
    assert model.n_iter_ == trace.n_iter
    assert model.feature_names_in_.tolist() == ["stay", "cost"]
    assert model.labels_ is None
    assert model.owner_labels_ is None
    assert model.predict(pd.DataFrame({"stay": [1], "cost": [2]})).shape == (1,)
    with pytest.raises(InputError, match="only if you ask for them"):
        model.to_frame()
    again = SecureKMeans.from_spec(model.spec_, platform=ThreadPlatform())
    assert again.fit([clinic, insurer]).spec_ == model.spec_


def test_files_missing_values_and_labels(tmp_path):
    """As DataFrames give: rows that lack a value are left out, and labels tell who is joined."""
    clinic, insurer = tables()
    clinic["stay"] = clinic["stay"].astype(float)
    clinic.loc[4, "stay"] = np.nan
    files = [tmp_path / "clinic.csv", tmp_path / "insurer.csv"]
    for table, file in zip((clinic, insurer), files, strict=True):
        table.assign(id=[f"p{i}" for i in range(len(table))], remark="secret").to_csv(
            file, index=False
        )
    given = {"clinic": files[0], "insurer": files[1]}
    how = {"missing": "leave out", "id_column": "id", "labels": True}
    model = estimator(**how).fit(given)
    assert model.left_out_ == [1, 0]
    own, theirs = model.owner_labels_
    assert theirs is None
    assert [i for i in range(8) if own[i] >= 0] == [3, 5, 6, 7]
    assert model.labels_.tolist() == own.tolist()
    assert np.bincount(own[own >= 0], minlength=2).tolist() == model.sizes_.tolist()
    assert model.to_frame().row.tolist() == [f"p{i}" for i in range(8)]
    assert set(model.to_frame().owner) == {"clinic"}
    again = SecureKMeans.from_spec(
        model.spec_, platform=ThreadPlatform(), missing="leave out", id_column="id"
    )
    assert again.fit(given).labels_.tolist() == own.tolist()
    refused("row 4, column 'stay': missing", [clinic, insurer])
    refused("labels would tell how many", sizes=False, labels=True)
    clinic["stay"] = clinic["stay"].astype(object)
    clinic.loc[4, "stay"] = "long"
    clinic.to_csv(files[0], index=False)
    refused("not a number", files, missing="leave out")


def test_numbers_join_too():
    clinic, insurer = (t.drop(columns="name").assign(year=range(len(t))) for t in tables())
    join = RecordLinkage(theta=0, bounds={"year": (0, 100)})
    model = estimator(join=join, relation="m:1").fit([clinic, insurer])
    assert model.sizes_.sum() == 7
    again = SecureKMeans.from_spec(model.spec_, platform=ThreadPlatform())
    assert again.fit([clinic, insurer]).spec_ == model.spec_


def refused(words, data=None, **change):
    with pytest.raises(InputError, match=words):
        estimator(**change).fit(tables() if data is None else data)


def test_what_is_refused_before_anything_runs():
    clinic, insurer = tables()
    refused("which hold different columns: leave it out of one", [clinic, insurer.assign(stay=1)])
    refused("'age', which is a column of no table", bounds={**BOUNDS, "age": (0, 9)})
    refused("owner 2 has no column 'year'", [clinic, insurer.drop(columns="year")])
    refused("owner 2 has none of the columns", [clinic, insurer.drop(columns="cost")])
    refused("nothing to join", [clinic, clinic], bounds={"stay": (0, 10)})
    refused("list of tables, one for each owner", clinic)
    refused("must be a DataFrame, or the path of a file", [clinic.to_numpy(), insurer])
    refused("has no rows", [clinic, insurer[:0]])
    refused("bounds must name", bounds=(0, 10))
    refused("other bounds to link than to cluster", bounds={**BOUNDS, "year": (0, 3000)})
    refused("hold texts", bounds={**BOUNDS, "name": (0, 1)})
    refused("bounds by name", join=RecordLinkage(theta=0, bounds=(0, 1)))
    refused("nothing is said of 'name'", join=linkage(texts=None))
    refused("neither dedup nor epsilon", dedup=linkage())
    refused("neither dedup nor epsilon", epsilon=1)
    refused("above 100", [clinic, insurer.assign(cost=101)])
    refused("needs the suite", suite="paillier")
    with pytest.raises(InputError, match="without join, owners learn sizes"):
        SecureKMeans(2, bounds=(0, 9), sizes=False).fit([[1], [2]])


def test_blocks_cost_every_owner_and_leave_the_result():
    blocks = by_key("year", epsilon=8, delta="1/10")
    model = estimator(join=linkage(blocks=blocks), relation="m:1").fit(tables())
    assert model.sizes_.sum() == 5
