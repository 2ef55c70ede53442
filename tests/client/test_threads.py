"""Both clouds as threads: the result is plaintext's, and a failure ends both with its cause."""

import pickle
import threading

import numpy as np
import pytest

from client.estimators.secure_kmeans import SecureKMeans
from client.platforms import jobs
from client.platforms.threads import ThreadPlatform
from ppodc.kmeans.job import Job
from ppodc.kmeans.reference import kmeans
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from tests.client.points import BOUNDS, equals_plaintext, points

RECORDS = np.random.default_rng(3).integers(0, 21, (17, 2))
SPEC = Spec("d", Schema((Column("x", 0, 20), Column("y", 0, 20)), 20), Job(3, labels=True, seed=4))


@pytest.fixture(scope="module")
def threads() -> ThreadPlatform:
    return ThreadPlatform(insecure_key_bits=256)


def test_every_owner_opens_the_reference_and_its_own_labels(threads):
    tables = [RECORDS[:5], RECORDS[5:6], RECORDS[6:]]
    results = threads.run(SPEC, tables)
    owners = np.repeat([0, 1, 2], [5, 1, 11])
    least = SPEC.job.min_size
    plain = kmeans(RECORDS, 3, beta=0, max_iter=100, seed=4, min_size=least, owners=owners)
    for number, result in enumerate(results):
        assert result.sums_.tolist() == plain.for_owner(number).sums.tolist()
        assert result.n_iter_ == plain.n_iter
    assert [len(result.labels_) for result in results] == [5, 1, 11]
    assert np.array_equal(np.concatenate([r.labels_ for r in results]), plain.labels)


def test_the_cause_of_a_failure_is_raised_and_no_thread_stays(threads):
    def watch(event):
        if event.iteration == 1:
            raise ArithmeticError(event.phase)

    before = threading.active_count()
    with pytest.raises(ArithmeticError, match="iterate"):
        threads.run(SPEC, [RECORDS], progress=watch)
    assert threading.active_count() == before


def test_it_travels_without_its_key(threads):
    threads.run(SPEC, [RECORDS])
    again = pickle.loads(pickle.dumps(threads))  # noqa: S301
    assert again._secret is None
    assert again._insecure_bits == 256


def test_a_small_fit_without_a_platform_runs_in_this_process_and_says_so(caplog):
    caplog.set_level("INFO", logger=jobs.log.name)
    owners = [points(9, 1), points(8, 2)]
    model = SecureKMeans(3, bounds=BOUNDS, random_state=5, max_iter=20)
    equals_plaintext(model.fit(owners), owners)
    assert "17 rows and no platform: both clouds run as threads of this process" in caplog.text
