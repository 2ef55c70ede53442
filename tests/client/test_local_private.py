"""Estimators under local differential privacy: results, reports of privacy, refusals."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from client import LocalPrivateDBSCAN, LocalPrivateKMeans, LocalPrivateKModes
from ppodc.errors import InputError
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.privacy.weighted_kmeans import mean_squared_distance

CENTRES = np.array([[2.0, 3.0], [8.0, 7.0]])


def numbers(rows, seed=1):
    words = insecure_streams(rows, seed).words(9)
    spread = (words[:, :8].reshape(rows, 2, 4) % 1001).sum(axis=2) / 4004 - 0.5
    return CENTRES[words[:, 8] % 2] + 2 * spread


def test_kmeans_of_two_owners():
    owners = [numbers(3000, 1), numbers(2000, 2)]
    model = LocalPrivateKMeans(
        2, epsilon=3.0, bounds=(0, 10), random_state=0, insecure_noise_seed=1
    ).fit(owners)
    whole = np.concatenate(owners)
    exact = mean_squared_distance(whole, CENTRES)
    assert mean_squared_distance(whole, model.cluster_centers_) < 2 * exact
    assert len(model.labels_) == 5000
    assert model.privacy_.guaranteed.epsilon <= 3.0
    assert model.usable_
    assert (model.standard_error_ < 2).all()
    again = clone(model).fit(owners)
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)
    assert np.array_equal(model.predict(owners), model.labels_)
    other = clone(model).set_params(insecure_noise_seed=None).fit(owners)
    assert not np.array_equal(other.sizes_, model.sizes_), "noise is fresh unless asked otherwise"


def test_too_few_records_are_told():
    model = LocalPrivateKMeans(8, epsilon=0.5, bounds=(0, 10), insecure_noise_seed=1)
    with pytest.warns(UserWarning, match="too few"):
        model.fit(numbers(200))
    assert not model.usable_
    with pytest.raises(InputError, match="n_samples=5 should be >= n_clusters=8"):
        model.fit(numbers(5))
    with pytest.raises(InputError, match="bounds"):
        LocalPrivateKMeans(2).fit(numbers(50))


@pytest.mark.parametrize("mechanism", ["privbv", "ldpseg"])
def test_published_settings_warn_with_what_they_spend(mechanism):
    model = LocalPrivateKMeans.as_published(
        mechanism, b=1.0, s=100, n_clusters=2, bounds=(0, 10), random_state=0, insecure_noise_seed=1
    )
    with pytest.warns(UserWarning, match="does not hold"):
        clone(model).fit(numbers(400))
    with pytest.warns(UserWarning, match="does not hold"):
        model.fit(numbers(400))
    assert model.privacy_.guaranteed.epsilon > 100
    honest = LocalPrivateKMeans(
        2, mechanism=mechanism, epsilon=5.0, bounds=(0, 10), random_state=0, insecure_noise_seed=1
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "nothing tells how much")
        assert honest.fit(numbers(400)).privacy_.guaranteed.epsilon <= 5.0
    assert not honest.usable_


@pytest.mark.parametrize("grouping", ["matrix", "hierarchical"])
def test_all_pairs_of_reports_can_be_compared(grouping):
    options = {"bounds": (0, 10), "random_state": 0, "insecure_noise_seed": 1}
    model = LocalPrivateKMeans.as_published(
        "privbv", b=4.0, s=100, n_clusters=2, grouping=grouping, **options
    )
    with pytest.warns(UserWarning, match="does not hold"):
        model.fit(numbers(200))
    assert np.allclose(model.cluster_centers_[np.argsort(model.cluster_centers_[:, 0])], CENTRES,
                       atol=0.7)  # fmt: skip
    with pytest.raises(InputError, match="for privbv"):
        LocalPrivateKMeans(2, bounds=(0, 10), grouping=grouping).fit(numbers(50))


def test_both_rules_of_ldpseg_can_be_asked_for():
    points = np.repeat([[1.0], [9.0]], 40, axis=0)
    spent = []
    for flips in ("moue", "uer"):
        model = LocalPrivateKMeans.as_published(
            "ldpseg", b=1.0, s=10, flips=flips, n_clusters=2, bounds=(0, 10), random_state=1
        )
        with pytest.warns(UserWarning, match="epsilon"):
            model.fit([points])
        spent.append(model.privacy_.guaranteed.epsilon)
    assert spent[0] != spent[1]


@pytest.mark.parametrize("mechanism", ["joint", "ldpk-modes"])
def test_kmodes(mechanism):
    words = insecure_streams(4000, 3).words(4).astype(np.int64)
    modes = np.array([[0, 0, 0], [2, 1, 2]])[words[:, 3] % 2]
    records = np.where(words[:, :3] % 5 == 0, words[:, :3] % [3, 2, 3], modes)
    model = LocalPrivateKModes(
        2,
        epsilon=6.0,
        mechanism=mechanism,
        categories=(3, 2, 3),
        random_state=0,
        insecure_noise_seed=2,
    ).fit([records[:1000], records[1000:]])
    assert sorted(map(tuple, model.cluster_centers_.tolist())) == [(0, 0, 0), (2, 1, 2)]
    assert (model.labels_[words[:, 3] % 2 == 0] == model.labels_[0]).mean() in (
        pytest.approx(0, abs=0.15), pytest.approx(1, abs=0.15),
    )  # fmt: skip
    with pytest.raises(InputError, match="row 0"):
        model.fit(np.array([[0, 2, 0], [0, 0, 0]]))
    published = LocalPrivateKModes.as_published(
        epsilon=2.0, n_clusters=2, categories=(3, 2, 3), random_state=0, insecure_noise_seed=2
    )
    with pytest.warns(UserWarning, match="does not hold"):
        published.fit(records)
    assert published.privacy_.guaranteed.epsilon == pytest.approx(6.0, abs=1e-6)


def test_kmodes_of_more_cells_than_can_be_counted():
    """12 attributes of 4 values: each record tells the nearest of some points of the domain."""
    words = insecure_streams(4000, 3).words(13).astype(np.int64)
    modes = np.array([[0] * 12, [3] * 12])[words[:, 12] % 2]
    records = np.where(words[:, :12] % 4 == 0, words[:, :12] // 4 % 4, modes)
    model = LocalPrivateKModes(
        2, epsilon=4.0, categories=(4,) * 12, random_state=1, insecure_noise_seed=2
    ).fit(records)
    assert model.privacy_.guaranteed.epsilon <= 4.0
    same = (model.labels_ == words[:, 12] % 2).mean()
    assert max(same, 1 - same) > 0.9


def test_kmodes_of_words():
    words = insecure_streams(2000, 3).words(3).astype(np.int64)
    smoker = np.array(["no", "yes"])[np.where(words[:, 0] % 5 == 0, words[:, 2], words[:, 1]) % 2]
    records = np.stack([smoker, np.array(["f", "m"])[words[:, 1] % 2]], axis=1)
    model = LocalPrivateKModes(
        2,
        epsilon=4.0,
        categories=(["no", "yes"], ["f", "m"]),
        random_state=0,
        insecure_noise_seed=2,
    ).fit([records[:500], records[500:]])
    assert sorted(map(tuple, model.cluster_centers_.tolist())) == [("no", "f"), ("yes", "m")]
    assert model.usable_
    records[3, 0] = "often"
    with pytest.raises(InputError, match="row 3"):
        model.fit(records)
    with pytest.raises(ValueError, match="could not convert"):
        LocalPrivateKMeans(2, bounds=(0, 1)).fit(records)


def test_dbscan_finds_groups_with_a_published_budget():
    records = numbers(300)
    model = LocalPrivateDBSCAN.as_published(
        1.2, b=4.0, s=1000, min_samples=5, bounds=(0, 10), random_state=0, insecure_noise_seed=1
    )
    with pytest.warns(UserWarning, match="does not hold"):
        labels = model.fit_predict(records)
    groups = (records[:, 0] > 5).astype(int)
    assert len(set(labels[labels >= 0])) == 2
    assert (labels >= 0).mean() > 0.9
    for label in (0, 1):
        assert len(set(groups[labels == label])) == 1
    with pytest.warns(UserWarning, match="little but noise"):
        assert not LocalPrivateDBSCAN(1.2, bounds=(0, 10)).fit(records[:50]).usable_
    with pytest.raises(InputError, match="same bounds"):
        LocalPrivateDBSCAN(bounds=[(0, 10), (0, 20)]).fit(records)


def test_parameters_by_name():
    model = LocalPrivateKMeans(3, epsilon=2.0)
    assert model.get_params()["epsilon"] == 2.0
    assert model.set_params(epsilon=1.0).epsilon == 1.0
    assert "n_clusters=3" in repr(model)
    with pytest.raises(ValueError, match="Invalid parameter 'wrong'"):
        model.set_params(wrong=1)
