"""Estimators over real clouds: a deployment through its owners' configurations, and one machine."""

import numpy as np
import pytest

from client.platforms import jobs
from ppodc import LocalPlatform, RecordLinkage, RemotePlatform, SecureKMeans, SecureTotals
from ppodc.errors import InputError
from ppodc.kmeans.reference import kmeans
from ppodc.linkage.rules import SquaredDistance
from ppodc.records.encode import encode
from tests.client.points import BOUNDS, SCHEMA, equals_plaintext, points
from tests.client.test_examples import run_example
from tests.end_to_end.two_services import TwoServices
from tests.harness.patience import LONG
from tests.linkage.reference import distinct


@pytest.fixture
def deployment(services: TwoServices) -> RemotePlatform:
    """Three owners and the operator of real clouds; the job is run as at cloud 1."""
    configs = [services.parties.party(f"owner{i}").config for i in (1, 2, 3)]
    operator = services.parties.party("operator").config
    return RemotePlatform(*configs, operator=operator, start=services.run, timeout=LONG)


def test_a_real_deployment_gives_plaintext(deployment: RemotePlatform):
    owners = [points(30, 1), points(20, 2), points(25, 3)]
    model = SecureKMeans(3, bounds=BOUNDS, random_state=5, max_iter=20, platform=deployment)
    assert model.fit(owners) is model
    equals_plaintext(model, owners)
    totals = SecureTotals(bounds=BOUNDS, platform=deployment).fit(owners)
    assert totals.count_ == 75
    assert totals.sum_ == pytest.approx(np.vstack(owners).sum(axis=0), abs=75 * 0.005)


def test_people_that_owners_have_in_common_are_linked_and_count_once(deployment: RemotePlatform):
    first, third = points(30, 1), points(4, 3)
    second = np.concatenate([first[5:20], points(12, 2)])
    link = RecordLinkage(theta=0, bounds=BOUNDS, platform=deployment).fit([first, second, third])
    assert {((0, row + 5), (1, row)) for row in range(15)} <= {
        ((a, i), (b, j)) for a, i, b, j in link.all_links_.values.tolist()
    }
    assert link.n_pairs_ is None  # the clouds know it, and owners must not
    model = SecureKMeans(
        2,
        init="random",
        bounds=BOUNDS,
        max_iter=5,
        random_state=3,
        min_size=1,
        dedup=RecordLinkage(theta=0),
        platform=deployment,
    ).fit([first, second, third])
    rows = encode(np.concatenate([first, second, third]), SCHEMA)
    keep = distinct(SquaredDistance((1, 1), 0), rows, [0] * 30 + [1] * 27 + [2] * 4)
    plain = kmeans(rows, 2, beta=0, max_iter=5, seed=3, keep=keep)
    assert model.sizes_.tolist() == plain.sizes.tolist()
    assert model.sizes_.sum() == keep.sum() < 61
    assert model.labels_.tolist() == plain.labels.tolist()


def test_one_platform_on_this_machine_serves_many_fits():
    model = SecureKMeans(3, bounds=BOUNDS, random_state=5, max_iter=20)
    with LocalPlatform(owners=2, pairs=1) as platform:
        for owners in ([points(30, 1)], [points(20, 2), points(25, 3)]):
            equals_plaintext(model.set_params(platform=platform).fit(owners), owners)
        with pytest.raises(ValueError, match=r"LocalPlatform\(owners=3\)"):
            model.fit([points(5, 1)] * 3)
        link = RecordLinkage(theta=0, bounds=BOUNDS, platform=platform)
        assert link.fit([points(20, 2), points(25, 3)]).n_pairs_ == 500
        folder = platform.folder
        assert folder.exists()
    assert not folder.exists()
    with pytest.raises(InputError, match="does not run"):
        model.fit(points(9, 1))


def test_the_example_of_a_platform_on_this_machine():
    run_example("LocalPlatform")


def test_without_a_platform_fit_starts_one_for_large_tables(monkeypatch, caplog):
    monkeypatch.setattr(jobs, "SMALL", 26)
    caplog.set_level("INFO", logger=jobs.log.name)
    data = np.vstack([points(24, 4), np.full((3, 2), 4.5)])
    start = [[1.0, -4.0], [9.0, 1.0], [5.0, 5.0]]
    model = SecureKMeans(3, init=start, bounds=(-5, 10), max_iter=3, min_size=1)
    labels = model.fit_predict(data)
    assert labels.tolist() == model.labels_.tolist()
    assert model.sizes_.sum() == 27
    assert "threads of this process" not in caplog.text
