"""`SecureKMeans` as a scikit-learn user meets it; `fit` runs the whole platform."""

import numpy as np
import pytest
from sklearn.base import clone

from client import SecureKMeans, SecureTotals
from client.one_machine import schema_of
from ppodc.errors import InputError
from ppodc.kmeans.reference import kmeans
from ppodc.records.encode import decode_centres, encode
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from ppodc.totals.job import Job as TotalsJob
from ppodc.totals.reference import reference

BOUNDS = [(0.0, 10.0), (-5.0, 5.0)]


def points(rows: int, seed: int) -> np.ndarray:
    g = np.random.default_rng(seed)
    middles = np.array([[2.0, -3.0], [8.0, 0.0], [5.0, 4.0]])
    return np.clip(middles[g.integers(0, 3, rows)] + g.normal(0, 0.5, (rows, 2)), (0, -5), (10, 5))


def test_fit_equals_plaintext_for_the_rows_of_all_owners_in_order():
    owners = [points(30, 1), points(20, 2), points(25, 3)]
    model = SecureKMeans(3, bounds=BOUNDS, random_state=5, max_iter=20, pairs=1)
    assert model.fit(owners) is model
    schema = Schema(tuple(Column(f"x{i}", *b) for i, b in enumerate(BOUNDS)), 1000)
    plain = kmeans(encode(np.vstack(owners), schema), 3, beta=0, max_iter=20, seed=5)
    assert np.array_equal(model.labels_, plain.labels)
    assert np.array_equal(model.sizes_, plain.sizes)
    assert model.n_iter_ == plain.n_iter
    expected = decode_centres(plain.sums, plain.sizes, schema)
    assert np.array_equal(model.cluster_centers_, expected)


def test_one_table_and_given_centres_and_a_cluster_too_small_to_be_told_of():
    data = np.vstack([points(24, 4), np.full((3, 2), 9.5)])
    start = [[1.0, -4.0], [9.0, 1.0], [9.0, 9.0]]
    model = SecureKMeans(3, init=start, bounds=(-5, 10), max_iter=3, min_size=4, suite="shares")
    assert model.fit_predict(data).tolist()[24:] == [2] * 3
    assert model.n_features_in_ == 2
    assert model.sizes_[2] == 0
    assert model.sizes_.sum() == 24
    assert np.isnan(model.cluster_centers_).any(axis=1).tolist() == [False, False, True]


def test_conventions_of_scikit_learn():
    model = SecureKMeans(4, bounds=(0, 1), random_state=9, beta="1/3")
    again = clone(model)
    assert again is not model
    assert again.get_params() == model.get_params()
    assert again.set_params(n_clusters=2, ub=50) is again
    assert (again.n_clusters, again.ub, model.n_clusters) == (2, 50, 4)
    with pytest.raises(ValueError, match="no parameter"):
        again.set_params(clusters=3)
    assert "n_clusters=4" in repr(model)


@pytest.mark.parametrize(
    ("model", "data", "said"),
    [
        (SecureKMeans(2), points(5, 1), "bounds must be given"),
        (SecureKMeans(2, bounds="both"), points(5, 1), "'data'"),
        (SecureKMeans(2, bounds=[(0, 1)] * 3), points(5, 1), "2 pairs"),
        (SecureKMeans(2, bounds=(0, 1), init="k-means++"), points(5, 1), "init"),
        (SecureKMeans(2, bounds=(0, 1)), [], "one table"),
        (SecureKMeans(2, bounds=(0, 1)), [points(5, 1), np.ones((3, 3))], "same columns"),
        (SecureKMeans(2, bounds=(0, 1), random_state=None), points(5, 1), "whole number"),
        (SecureKMeans(0, bounds=(0, 1)), points(5, 1), "k"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(model, data, said):
    with pytest.raises(InputError, match=said):
        model.fit(data)


def test_bounds_from_the_data_are_warned_about():
    with pytest.warns(UserWarning, match="smallest and largest"):
        schema = schema_of([points(5, 1)], "data", 1000)
    assert len(schema.columns) == 2


def test_totals_equal_plaintext():
    owners = [points(30, 1), points(20, 2)]
    totals = SecureTotals(bounds=BOUNDS, ub=1000).fit(owners)
    schema = Schema(tuple(Column(f"x{i}", *b) for i, b in enumerate(BOUNDS)), 1000)
    spec = Spec("records", schema, TotalsJob())
    plain = reference(spec, encode(np.vstack(owners), schema))
    assert totals.count_ == 50
    for found, wanted in ((totals.sum_, plain.sum_), (totals.mean_, plain.mean_)):
        assert np.array_equal(found, wanted)
    assert np.array_equal(totals.var_, plain.var_)
