"""Jobs with `iterations = N`: as many as the spec says, equal to the reference, no stop bit."""

import numpy as np
import pytest

from client.platforms.threads import ThreadPlatform
from ppodc.errors import InputError
from ppodc.kmeans.job import Job
from ppodc.kmeans.plan import Iterated, KMeansPlan
from ppodc.kmeans.reference import kmeans
from ppodc.kmeans.shares import stop_test
from ppodc.kmeans.steps import table
from ppodc.pairs.plan import JobFacts
from ppodc.records.schema import Column, Schema
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store.jobs import Checkpoint
from ppodc.spec import Spec
from tests.kmeans.expected import expected, is_exact

RECORDS = np.random.default_rng(5).integers(0, 101, (60, 2))
SCHEMA = Schema((Column("a", 0, 100), Column("b", 0, 100)), ub=100)


def spec(**job) -> Spec:
    return Spec("fixed", SCHEMA, Job(**job))


@pytest.mark.parametrize(
    ("k", "iterations", "more"),
    [
        (3, 1, {}),
        (3, 30, {}),  # far beyond convergence
        (1, 2, {}),
        (4, 5, {"init": "k-means++", "n_init": 2, "inertia": True, "labels": True}),
    ],
)
def test_results_are_those_of_so_many_iterations(k, iterations, more):
    dataset = spec(k=k, iterations=iterations, min_size=1, **more)
    results = ThreadPlatform().run(dataset, [RECORDS[:35], RECORDS[35:]])
    assert is_exact(dataset.job, results, expected(dataset.job, RECORDS))
    assert results[0].n_iter_ == iterations * more.get("n_init", 1)
    assert results[0].converged_ is None


def test_no_stop_bit_is_opened(monkeypatch):
    def refuse(*_):
        raise AssertionError("a stop bit was opened")

    monkeypatch.setattr(stop_test, "_open", refuse)
    ThreadPlatform().run(spec(k=3, iterations=2, min_size=1), [RECORDS])


def test_no_ledger_entry_speaks_of_a_stop_bit():
    for job, event in ((Job(2, iterations=1), ""), (Job(2), "stop bit revealed")):
        saved: list[Checkpoint] = []
        facts = JobFacts(Sealed(0, "digest", ()), (), 1, save=saved.append)
        plan = KMeansPlan(facts, job, SCHEMA, (), table(job))
        state = np.zeros((2, 3), np.uint64)
        plan.iterated(Iterated(state, state, state, stop=False, scaled=None))
        assert [checkpoint.event for checkpoint in saved] == [event]
        assert any(step.reveals for step in table(job) if step.name == "update") == bool(event)


def test_the_paillier_suite_does_the_same():
    dataset = spec(k=2, iterations=3, min_size=1)
    platform = ThreadPlatform(insecure_key_bits=256)
    results = platform.run(dataset, [RECORDS[:4], RECORDS[4:7]], "paillier")
    assert is_exact(dataset.job, results, expected(dataset.job, RECORDS[:7]))


def test_a_job_that_has_converged_stays_where_it_is():
    until = kmeans(RECORDS, 3, beta=0, max_iter=100, seed=1)
    fixed = kmeans(RECORDS, 3, beta=0, max_iter=until.n_iter + 7, seed=1, stops=False)
    assert until.converged
    assert np.array_equal(until.sums, fixed.sums)


def test_the_spec_says_it_in_words_and_refuses_both_ways_to_end():
    dataset = spec(k=2, iterations=7)
    words = " ".join(dataset.describe())
    assert "exactly 7 iterations" in words
    assert "no stop bit is opened" in words
    assert Spec.from_bytes(dataset.canonical()) == dataset
    for other in ("max_iter", "beta"):
        with pytest.raises(InputError, match="Leave out max_iter and beta"):
            Job.from_dict({"k": 2, "iterations": 7, other: 3})
