"""Columns of the same records at two owners: the sum of shares, unbiased pairs, centres."""

import math

import numpy as np
import pytest

from client import LocalPrivateSplitKMeans
from ppodc.errors import InputError
from ppodc.local_dp.report_streams import insecure_streams
from ppodc.local_dp.split_columns import SplitColumns
from ppodc.privacy.chances import WORD
from ppodc.privacy.weighted_kmeans import mean_squared_distance


def table_of(made, owner):
    """Pr[report | own point], from the words that shift a point."""
    size, other = made.response.sizes[owner], made.response.others[owner]
    return np.full((size, size), other / WORD) + np.eye(size) * (1 - size * other / WORD)


def test_a_record_spends_the_sum_of_the_shares_and_no_less():
    """All pairs of points, all pairs of reports."""
    made = SplitColumns.of((1, 2), 20, 1.5, 50, 1, 1)
    both = np.kron(table_of(made, 0), table_of(made, 1))
    spent = made.guarantee()
    most = math.log((both.max(axis=0) / both.min(axis=0)).max())
    assert most == pytest.approx(spent.guaranteed.epsilon, abs=1e-9)
    assert 1.5 - 1e-6 < spent.guaranteed.epsilon <= 1.5
    assert sum(spent.per_attribute) == pytest.approx(spent.guaranteed.epsilon)
    truth = np.arange(len(both)) * 3.0
    assert np.allclose(made.response.estimate(truth @ both, 0), truth), "unbiased"


def test_reports_follow_the_table():
    made = SplitColumns.of((1, 1), 20, 2.0, 50, 1, 1)
    n = 60_000
    for owner in (0, 1):
        own = np.repeat(made.points[owner][2:3], n, axis=0)
        counts = np.bincount(made.perturb(owner, own, insecure_streams(n, owner))[:, 0])
        expected = table_of(made, owner)[2] * n
        assert ((counts - expected) ** 2 / expected).sum() < 25


def test_centres_over_columns_that_nobody_has_together():
    """The groups differ only in how the owners' columns go together."""
    words = insecure_streams(20_000, 3).words(3).astype(np.int64)
    group = words[:, 2] % 2
    first = np.where(group, 200, 800)[:, None] + words[:, :1] % 81 - 40
    second = np.where(group, 750, 250)[:, None] + words[:, 1:2] % 81 - 40
    made = SplitColumns.of((1, 1), 1000, 4.0, len(first), 2, 1)
    reports = [made.perturb(owner, own, insecure_streams(len(own), 5 + owner))
               for owner, own in enumerate((first, second))]  # fmt: skip
    found = made.collect(reports, 2, 1)
    whole = np.concatenate([first, second], axis=1) / 1000
    exact = np.array([[0.2, 0.75], [0.8, 0.25]])
    blind = mean_squared_distance(whole, np.array([[0.25, 0.5], [0.75, 0.5]]))
    assert mean_squared_distance(whole, found.centres / 1000) < blind / 4
    assert np.allclose(found.centres[found.centres[:, 0].argsort()] / 1000, exact, atol=0.12)
    with pytest.raises(InputError, match="same rows"):
        made.collect([reports[0][1:], reports[1]], 2, 1)
    model = LocalPrivateSplitKMeans(2, epsilon=4.0, bounds=(0, 1000), insecure_noise_seed=1)
    assert mean_squared_distance(whole, model.fit([first, second]).cluster_centers_ / 1000) < blind
    for tables, reason in (([first, second[1:]], "same rows"), (first, "each owner")):
        with pytest.raises(InputError, match=reason):
            model.fit(tables)
    with pytest.raises(InputError, match="two owners"):
        SplitColumns.of((2,), 1000, 1.0, 100, 2, 1)
