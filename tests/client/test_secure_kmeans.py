"""`SecureKMeans` as a scikit-learn user meets it, with both clouds as threads."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from client.estimators.kmeans_job import job_for, spec_of
from ppodc import RecordLinkage, SecureKMeans, SecureTotals, Spec
from ppodc.errors import InputError
from tests.client.points import BOUNDS, SCHEMA, equals_plaintext, points

OWNERS = [points(30, 1), points(20, 2)]


@pytest.fixture(scope="module")
def model(threads) -> SecureKMeans:
    """Fitted to two owners' frames; tests only look at it."""
    frames = [pd.DataFrame(table, columns=["x0", "x1"]) for table in OWNERS]
    fitted = SecureKMeans(3, bounds=BOUNDS, random_state=5, platform=threads)
    return fitted.fit([frames[0], frames[1][["x1", "x0"]]])


def test_frames_in_any_order_of_columns_give_plaintext(model):
    equals_plaintext(model, OWNERS)
    assert model.converged_
    assert model.feature_names_in_.tolist() == ["x0", "x1"]
    assert model.spec_.schema == SCHEMA


def test_predict_gives_the_labels_of_the_job(model):
    whole = pd.DataFrame(np.vstack(OWNERS), columns=["x0", "x1"])
    assert np.array_equal(model.predict(whole), model.labels_)
    assert np.array_equal(model.transform(whole).argmin(axis=1), model.labels_)
    outside = pd.DataFrame([[300.0, -90.0]], columns=["x0", "x1"])
    centres = (model.cluster_centers_ - [0, -5]) * 100
    far = np.linalg.norm([30_000.0, -8_500.0] - centres, axis=1)
    assert model.transform(outside)[0] == pytest.approx(far)
    assert model.predict(outside)[0] == far.argmin()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(whole[["x1", "x0"]])


def test_score_is_minus_the_inertia(model):
    whole = pd.DataFrame(np.vstack(OWNERS), columns=["x0", "x1"])
    squares = model.transform(whole).min(axis=1) ** 2
    assert model.score(whole) == pytest.approx(-squares.sum())


def test_frames_come_out_when_asked_for(model):
    whole = pd.DataFrame(np.vstack(OWNERS), columns=["x0", "x1"])
    names = ["securekmeans0", "securekmeans1", "securekmeans2"]
    assert model.get_feature_names_out().tolist() == names
    pandas = pickle.loads(pickle.dumps(model)).set_output(transform="pandas")  # noqa: S301
    assert pandas.transform(whole).columns.tolist() == names


def test_a_result_predicts_and_shows_itself(model):
    result, whole = model.result_, pd.DataFrame(np.vstack(OWNERS), columns=["x0", "x1"])
    assert np.array_equal(result.predict(whole), model.labels_)
    frame = result.to_frame()
    assert frame.columns.tolist() == ["records", "x0", "x1"]
    assert frame["records"].tolist() == model.sizes_.tolist()
    axes = result.plot(whole)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x0", "x1")
    assert len(axes.collections) == 4  # three groups of records, and the centres
    with pytest.raises(InputError, match="choose x and y"):
        result.plot(whole, y=2)


def test_a_cluster_too_small_to_be_told_of_has_no_distance(threads):
    data = np.vstack([points(24, 4), np.full((3, 2), 9.5)])
    start = [[1.0, -4.0], [9.0, 1.0], [9.0, 9.0]]
    model = SecureKMeans(
        3, init=start, bounds=(-5, 10), max_iter=3, min_size=4, platform=threads
    ).fit(data)
    assert model.labels_.tolist()[24:] == [2] * 3
    assert model.sizes_.tolist()[2] == 0
    assert np.isnan(model.cluster_centers_).any(axis=1).tolist() == [False, False, True]
    assert np.isnan(model.transform(data)[:, 2]).all()
    assert model.predict(data).max() < 2
    nobody = SecureKMeans(1, bounds=(-5, 10), min_size=50, platform=threads).fit(data)
    with pytest.raises(ValueError, match="no cluster has a centre"):
        nobody.predict(data)


def test_several_starts_and_the_inertia_of_the_best(threads):
    model = SecureKMeans(
        3, n_init=3, max_iter=4, inertia=True, random_state=2, bounds=BOUNDS, platform=threads
    ).fit(OWNERS)
    equals_plaintext(model, OWNERS)
    told = SecureKMeans(
        3, init="random", inertia=True, random_state=2, bounds=BOUNDS, platform=threads
    ).fit(OWNERS)
    equals_plaintext(told, OWNERS)
    assert told.converged_
    assert told.score(OWNERS) == -told.inertia_


def test_several_numbers_of_clusters_from_one_job(threads):
    model = SecureKMeans(inertia=True, random_state=2, bounds=BOUNDS, min_size=1, platform=threads)
    fitted = model.fit_each(OWNERS, range(1, 4))
    assert list(fitted) == [1, 2, 3]
    for k, each in fitted.items():
        assert each.n_clusters == k
        assert each.get_feature_names_out().size == k
        equals_plaintext(each, OWNERS)
    assert fitted[1].inertia_ > fitted[2].inertia_ > fitted[3].inertia_
    with pytest.raises(ValueError, match="`fit` takes a single one"):
        model.fit_each(OWNERS, [3])


def test_tol_and_beta_are_the_same_in_two_units():
    spec = Spec("any", SCHEMA, job_for(SecureKMeans(3, tol=1e-4)))
    assert spec.job.beta == 100  # of ub = 1000
    assert job_for(SecureKMeans(3, beta="1/3")).beta.denominator == 3
    with pytest.raises(ValueError, match="give one of them"):
        job_for(SecureKMeans(3, tol=1, beta=1))


def test_a_drawn_seed_is_kept(threads):
    model = SecureKMeans(2, bounds=BOUNDS, max_iter=1, platform=threads).fit(points(9, 1))
    assert model.seed_ == model.spec_.job.seed
    again = clone(model).set_params(random_state=model.seed_).fit(points(9, 1))
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_, equal_nan=True)


def test_the_estimator_of_a_spec_asks_for_that_spec():
    asking = SecureKMeans(
        3, beta="1/3", random_state=8, min_size=2, n_init=4, inertia=True,
        dedup=RecordLinkage(theta="1/7", weights=[2, 1]),
    )  # fmt: skip
    spec = spec_of(asking, SCHEMA)
    again = SecureKMeans.from_spec(spec, verbose=True)
    assert spec_of(again, SCHEMA) == spec
    assert again.verbose


def test_a_fixed_number_of_iterations_gives_the_centres_at_rest(model, threads):
    fixed = SecureKMeans(
        3, bounds=BOUNDS, iterations=model.n_iter_ + 2, random_state=5, platform=threads
    ).fit(OWNERS)
    assert np.array_equal(fixed.cluster_centers_, model.cluster_centers_)
    assert fixed.n_iter_ == model.n_iter_ + 2
    assert spec_of(SecureKMeans.from_spec(fixed.spec_), SCHEMA) == fixed.spec_
    with pytest.raises(ValueError, match="leave out max_iter, tol and beta"):
        SecureKMeans(3, bounds=BOUNDS, iterations=4, max_iter=9, platform=threads).fit(OWNERS)


def test_parameters_and_clones(threads):
    model = SecureKMeans(4, bounds=(0, 1), dedup=RecordLinkage(theta="1/9"), platform=threads)
    again = clone(model)
    assert again.platform is threads
    assert again.get_params()["dedup__theta"] == "1/9"
    assert again.set_params(n_clusters=2, ub=50) is again
    assert (again.n_clusters, again.ub, model.n_clusters) == (2, 50, 4)
    with pytest.raises(ValueError, match="Invalid parameter 'clusters'"):
        again.set_params(clusters=3)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"n_clusters": 0}, "The 'n_clusters' parameter of SecureKMeans must be an int"),
        ({"n_clusters": 6}, "n_samples=5 should be >= n_clusters=6"),
        ({"bounds": None}, "bounds must be given"),
        ({"bounds": "both"}, "'bounds' parameter"),
        ({"bounds": (0, 1)}, "above 1.0"),
        ({"init": "farthest"}, "'init' parameter"),
        ({"init": [[1.0, 2.0]]}, "2 centres"),
        ({"tol": -1}, "'tol' parameter"),
        ({"random_state": -1}, "'random_state' parameter"),
        ({"platform": "here"}, "'platform' parameter"),
    ],
)
def test_what_cannot_work_is_a_value_error_before_anything_starts(parameters, said):
    model = SecureKMeans(**{"n_clusters": 2, "bounds": BOUNDS, **parameters})
    with pytest.raises(ValueError, match=said):
        model.fit(points(5, 1))


def test_what_is_not_fitted_says_so():
    with pytest.raises(NotFittedError):
        SecureKMeans(2).predict(points(3, 1))


def test_in_a_pipeline_and_a_grid_search_over_k(threads):
    data = points(24, 6)
    km = SecureKMeans(bounds=BOUNDS, random_state=1, max_iter=4, min_size=1, platform=threads)
    steps = make_pipeline(FunctionTransformer(), km)
    search = GridSearchCV(steps, {"securekmeans__n_clusters": [1, 3]}, cv=2).fit(data)
    assert search.best_params_ == {"securekmeans__n_clusters": 3}
    assert search.predict(data).shape == (24,)
    assert search.best_estimator_.transform(data).shape == (24, 3)


def test_progress_is_shown_when_asked_for(threads, capsys):
    model = SecureKMeans(1, bounds=BOUNDS, max_iter=1, platform=threads, verbose=True)
    model.fit(points(5, 1))
    assert "iteration 1: assigning records" in capsys.readouterr().out


def test_what_a_suite_does_not_have_is_refused_before_anything_starts():
    model = SecureKMeans(2, bounds=BOUNDS, suite="paillier")
    with pytest.raises(ValueError, match=r"k-means\+\+.* needs the suite 'shares'"):
        model.fit([points(5, 1), points(5, 2)])


def test_totals_equal_plaintext(threads):
    totals = SecureTotals(bounds=BOUNDS, platform=threads).fit(OWNERS)
    whole = np.rint((np.vstack(OWNERS) - [0, -5]) * 100)
    assert totals.count_ == 50
    assert totals.mean_ == pytest.approx(whole.mean(axis=0) / 100 + [0, -5])
    assert totals.var_ == pytest.approx(whole.var(axis=0) / 1e4)


def test_under_differential_privacy(threads):
    owners = [points(400, 6), points(300, 7)]
    model = SecureKMeans(3, bounds=BOUNDS, epsilon=8.0, random_state=1, platform=threads)
    model.fit(owners)
    middles = np.array([[2.0, -3.0], [8.0, 0.0], [5.0, 4.0]])
    order = model.predict(middles)
    assert sorted(order.tolist()) == [0, 1, 2]
    assert np.abs(model.cluster_centers_[order] - middles).max() < 1.0, "12 deviations of the noise"
    assert model.sizes_.sum() == pytest.approx(700, abs=100)
    assert model.n_iter_ == 3
    assert str(model.privacy_) == "privacy of one record: guaranteed epsilon 8 at delta 1e-06."
    assert np.array_equal(model.labels_, model.predict(np.vstack(owners)))
    assert model.transform(owners[0]).argmin(axis=1).tolist() == model.owner_labels_[0].tolist()
    assert -model.score(owners[0]) < 400 * 100**2
    again = SecureKMeans.from_spec(model.spec_)
    assert (again.epsilon, again.delta, again.random_state) == (8.0, 1e-6, 1)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"beta": 1}, "beta does not go with epsilon"),
        ({"iterations": 3}, "iterations does not go with epsilon"),
        ({"init": [[0.0, 0.0]] * 3}, "init does not go with"),
        ({"suite": "paillier"}, "no suite 'paillier' for private-kmeans"),
    ],
)
def test_what_does_not_go_with_noise_is_refused(threads, parameters, words):
    model = SecureKMeans(3, **{"bounds": BOUNDS, "epsilon": 1.0, "platform": threads, **parameters})
    with pytest.raises((InputError, ValueError), match=words):
        model.fit(OWNERS)


@pytest.mark.parametrize("estimator", [SecureKMeans(2), SecureTotals()])
def test_weights_are_refused_with_the_reason(estimator):
    with pytest.raises(ValueError, match="every record counts once"):
        estimator.fit(OWNERS, sample_weight=[1.0] * 50)
    with pytest.raises(TypeError, match="unexpected keyword argument 'weights'"):
        estimator.fit(OWNERS, weights=[1.0] * 50)
    with pytest.raises(ValueError, match="bounds must be given"):  # no weights are none
        estimator.fit(OWNERS, sample_weight=None)


def test_weights_in_a_search_are_refused_with_the_reason():
    search = GridSearchCV(SecureKMeans(2), {"n_clusters": [2]}, cv=2, error_score="raise")
    with pytest.raises(ValueError, match="every record counts once"):
        search.fit(OWNERS[0], sample_weight=np.ones(30))


@pytest.mark.parametrize(("init", "starts"), [("random", 10), ("k-means++", 1), ([[1, 2]], 1)])
def test_auto_is_the_number_of_starts_that_scikit_learn_makes(init, starts):
    model = SecureKMeans(1, init=init, n_init="auto")
    model._check_parameters()
    assert job_for(model).n_init == starts


def test_bounds_that_miss_a_column_or_name_another_say_which(threads):
    frame = pd.DataFrame(OWNERS[0], columns=["age", "height"])
    with pytest.raises(ValueError, match="table of owner 1: missing columns 'size'"):
        SecureKMeans(2, bounds={"age": (0, 9), "size": (0, 9)}, platform=threads).fit(frame)


def test_too_few_records_for_an_epsilon_are_warned_of(threads):
    private = SecureKMeans(2, bounds=BOUNDS, platform=threads, epsilon=0.1, n_init="auto")
    with pytest.warns(UserWarning, match="50 give centres that are mostly noise") as told:
        private.fit(OWNERS)
    assert "iterations" not in str(told[0].message)
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match="fewer than 20 iterations, which share epsilon"):
        private.set_params(max_iter=20).fit(OWNERS)
