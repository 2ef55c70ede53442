"""Tools of scikit-learn work with estimators that do not inherit from its base."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.validation import check_is_fitted

from ppodc import (
    LocalPrivateDBSCAN,
    LocalPrivateKMeans,
    LocalPrivateKModes,
    LocalPrivateKPrototypes,
    LocalPrivateSplitKMeans,
    RecordLinkage,
    SecureKMeans,
    SecureTotals,
)
from tests.client.points import points

FRAME = pd.DataFrame(points(40, 1), columns=["age", "dose"])
EVERY = [
    LocalPrivateDBSCAN,
    LocalPrivateKMeans,
    LocalPrivateKModes,
    LocalPrivateKPrototypes,
    LocalPrivateSplitKMeans,
    RecordLinkage,
    SecureKMeans,
    SecureTotals,
]


@pytest.fixture(scope="module")
def model(threads):
    return SecureKMeans(2, bounds=(-5, 10), random_state=1, platform=threads).fit(FRAME)


@pytest.mark.parametrize("make", EVERY)
def test_every_estimator_is_cloned_shown_and_has_tags(make):
    estimator = make(platform=None) if "platform" in make().get_params() else make()
    assert repr(clone(estimator)) == repr(make()) == f"{make.__name__}()"
    assert make.__name__ in estimator._repr_html_()
    assert is_clusterer(estimator) == hasattr(estimator, "fit_predict")
    assert (get_tags(estimator).transformer_tags is None) != hasattr(estimator, "transform")
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator)


@pytest.mark.parametrize("make", EVERY)
def test_a_result_before_fit_is_not_fitted(make):
    asked = [name for name in ("predict", "transform", "score") if hasattr(make, name)]
    for name in asked:
        with pytest.raises(NotFittedError, match=f"This {make.__name__} instance is not fitted"):
            getattr(make(), name)(FRAME)
    frame = getattr(make(), "to_frame", None)
    if frame is not None:
        with pytest.raises(NotFittedError):
            frame()


def test_a_repr_names_what_somebody_chose():
    linkage = RecordLinkage(theta="1/9")
    assert repr(SecureKMeans(8, dedup=linkage)) == "SecureKMeans(dedup=RecordLinkage(theta='1/9'))"
    many = SecureKMeans(3, init=np.zeros((900, 2)), bounds=(0, 110), id_column="patient", tol="1/3")
    lines = repr(many).splitlines()
    assert lines[:2] == ["SecureKMeans(", "    bounds=(0, 110),"]
    assert lines[-2:] == ["    tol='1/3',", ")"]
    assert len(repr(many)) < 700


def test_a_notebook_draws_an_estimator_alone_and_in_a_pipeline(model):
    html = model._repr_html_()
    assert "n_clusters" in html
    assert "cluster_centers_" in html
    assert "SecureKMeans" in estimator_html_repr(make_pipeline(FunctionTransformer(), model))
    with config_context(display="text"):
        assert model._repr_html_() is None


def test_tools_see_whether_it_is_fitted(model):
    check_is_fitted(model)
    with pytest.raises(NotFittedError):
        check_is_fitted(clone(model))


def test_the_container_of_transform_can_be_chosen_everywhere(model):
    plain = model.transform(FRAME)
    assert isinstance(plain, np.ndarray)
    with config_context(transform_output="pandas"):
        framed = model.transform(FRAME[5:])
        assert framed.index.tolist() == FRAME.index[5:].tolist()
        assert np.array_equal(framed, plain[5:])
    asked = clone(clone(model).set_output(transform="pandas")).set_params(iterations=1)
    both = make_pipeline(FunctionTransformer(), asked).set_output(transform="pandas")
    assert both.fit_transform(FRAME).columns.tolist() == ["securekmeans0", "securekmeans1"]
    assert asked.fit_transform(FRAME).columns.tolist() == ["securekmeans0", "securekmeans1"]
    assert isinstance(asked.set_output(transform="default").transform(FRAME), np.ndarray)


def test_metadata_can_be_routed_past_it(model):
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FunctionTransformer(), clone(model).set_params(iterations=1))
        assert pipeline.fit(FRAME).predict(FRAME).shape == (40,)
        scores = cross_val_score(clone(model).set_params(iterations=1), FRAME, cv=2)
    assert (scores < 0).all()


def test_names_of_columns_are_compared_with_those_of_fit(model, threads):
    with pytest.warns(UserWarning, match="X does not have valid feature names, but SecureKMeans"):
        assert np.array_equal(model.predict(FRAME.to_numpy()), model.labels_)
    with pytest.raises(ValueError, match=r"unseen at fit time, 'mass'.* now missing, 'dose'"):
        model.predict(FRAME.rename(columns={"dose": "mass"}))
    with pytest.raises(ValueError, match="in the same order as they were in fit"):
        model.predict(FRAME[["dose", "age"]])
    nameless = SecureKMeans(2, bounds=(-5, 10), iterations=1, platform=threads)
    nameless.fit(FRAME)
    nameless.fit(FRAME.to_numpy())
    assert not hasattr(nameless, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but SecureKMeans was fitted with"):
        nameless.predict(FRAME)
    with pytest.raises(ValueError, match="X has 1 features, but SecureKMeans is expecting 2"):
        nameless.predict(FRAME.to_numpy()[:, :1])
    with warnings.catch_warnings(action="error"):
        nameless.predict(FRAME.to_numpy().tolist())
        model.predict(FRAME)


def test_names_of_what_comes_out(model):
    names = ["securekmeans0", "securekmeans1"]
    assert model.get_feature_names_out(["age", "dose"]).tolist() == names
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        model.get_feature_names_out(["dose", "age"])
    with pytest.raises(NotFittedError):
        clone(model).get_feature_names_out()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_clusters": 0.5}, r"'n_clusters' .* an int in the range \[1, 64\]\. Got 0\.5 instead"),
        ({"tol": -1.0}, r"'tol' .* a float in the range \[0, inf\) or an instance of 'str'"),
        ({"tol": float("nan")}, "'tol' .* Got nan"),
        ({"epsilon": 0}, r"'epsilon' .* a float in the range \(0, inf\) or None"),
        ({"delta": 1.0}, r"'delta' .* a float in the range \(0, 1\)\. Got 1\.0"),
        ({"init": "kmeans"}, r"'init' .* a str among {'k-means\+\+', 'random'} or an array-like"),
        ({"inertia": 1}, "'inertia' .* a bool"),
        ({"verbose": -1}, "'verbose' .* a bool or an int from 0"),
        ({"platform": "here"}, "'platform' .* 'ThreadPlatform', .* or None"),
        ({"random_state": -1}, "'random_state' .* an object with `randint` or None"),
    ],
)
def test_a_value_that_a_parameter_does_not_take_is_refused(given, said):
    estimator = SecureKMeans(bounds=(0, 1)).set_params(**given)
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match=f"The {said}"):
            estimator.fit(FRAME)


@pytest.mark.parametrize(
    ("table", "kind", "said"),
    [
        (np.ones(3), ValueError, "Expected 2D array, got 1D array .*Reshape your data"),
        (pd.Series([1.0, 2.0]), ValueError, "Expected 2D array, got 1D array"),
        (np.ones((3, 0)), ValueError, r"0 feature\(s\)"),
        ([[1, 2j]], ValueError, "Complex data not supported"),
        ([[1.0, "secret"]], ValueError, "could not convert string to float"),
        ([[1.0, {}]], TypeError, "argument must be a string or a real number"),
        ([[1.0], [1.0, 2.0]], ValueError, "inhomogeneous"),
    ],
)
def test_what_is_no_table_is_refused_without_its_values(table, kind, said):
    with pytest.raises(kind, match=f"the table of owner 1 cannot be used: .*{said}") as caught:
        SecureKMeans(2, bounds=(0, 1)).fit(table)
    assert "secret" not in str(caught.value)


def test_numbers_for_names_and_gaps_of_pandas_are_read(threads):
    given = pd.DataFrame({0: pd.array([1, 2, None], "Int64"), 1: [1.0, 2.0, 3.0]})
    totals = SecureTotals(bounds=(0, 10), least=1, missing="leave out", platform=threads)
    assert totals.fit(given).sum_.tolist() == [3.0, 3.0]
    assert totals.left_out_ == [1]
