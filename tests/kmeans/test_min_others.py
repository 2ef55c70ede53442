"""An owner is told of a cluster only if `min_size` of its records are not the owner's own."""

import numpy as np
import pytest

from client.platforms.threads import ThreadPlatform
from ppodc.kmeans.job import Job
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import give
from tests.kmeans.expected import expected, is_exact

SCHEMA = Schema((Column("a", 0, 1000), Column("b", 0, 1000)), ub=1000)
RARE = [912, 871]


def spec(**job) -> Spec:
    return Spec("spied", SCHEMA, Job(**job))


def points(*sizes: int) -> list[np.ndarray]:
    g = np.random.default_rng(3)
    return [g.integers(0, 1001, (size, 2)) for size in sizes]


def whose(tables) -> np.ndarray:
    return np.repeat(np.arange(len(tables)), [len(table) for table in tables])


def test_made_up_rows_do_not_read_a_rare_record():
    """min_size - 1 made-up rows beside a rare record: their owner could subtract them."""
    made_up = np.tile([[990, 990]], (4, 1))
    honest = np.vstack([points(60)[0] // 4, [RARE]])
    centres = ((150.0, 150.0), (950.0, 950.0))
    dataset = spec(k=2, init=centres, min_size=5, labels=True, inertia=True)
    spy, victim = ThreadPlatform().run(dataset, [made_up, honest])
    assert spy.labels_.tolist() == [1, 1, 1, 1]
    assert victim.labels_[-1] == 1  # all five are one cluster
    assert (spy.sums_[1] - made_up.sum(axis=0)).tolist() != RARE
    assert spy.sizes_.tolist() == [60, 0]
    assert victim.sizes_.tolist() == [0, 0]  # all others' records, four, are in the other cluster
    assert spy.inertia_ is not None
    assert victim.inertia_ == 0


@pytest.mark.parametrize(
    ("sizes", "job"),
    [
        ((9, 6, 25), {"k": 3, "min_size": 4}),
        ((20, 20), {"k": 4, "min_size": 5, "labels": True, "inertia": True}),
        ((1, 0, 30, 9), {"k": 2, "min_size": 9, "iterations": 2}),
        ((30,), {"k": 4, "min_size": 5, "inertia": True}),  # nobody to be protected from it
        ((0, 30), {"k": 4, "min_size": 5}),
        ((12, 13), {"k": 1, "min_size": 13, "labels": True}),
        ((3, 3), {"k": 2, "min_size": 1000}),
        ((15, 15, 15), {"k": 3, "ks": (2, 3), "min_size": 6, "init": "k-means++", "n_init": 2,
                        "inertia": True, "labels": True, "max_iter": 4}),
        ((15, 15, 15), {"k": 3, "ks": (2, 3), "min_size": 6, "max_iter": 4}),
    ],
)  # fmt: skip
def test_every_owner_gets_what_the_reference_says(sizes, job):
    tables = points(*sizes)
    dataset = spec(**job)
    results = ThreadPlatform().run(dataset, tables)
    plain = expected(dataset.job, np.vstack(tables), owners=whose(tables))
    assert is_exact(dataset.job, results, plain)


def test_the_paillier_suite_does_the_same():
    low, high = [10, 20], [900, 800]
    tables = [np.array([low] * a + [high] * b) for a, b in ((4, 1), (2, 1), (1, 2))]
    dataset = spec(k=2, min_size=5, max_iter=2, init=((0.0, 0.0), (999.0, 999.0)))
    results = ThreadPlatform(insecure_key_bits=512).run(dataset, tables, "paillier")
    centres = dataset.job.initial_centres(SCHEMA)
    plain = expected(dataset.job, np.vstack(tables), centres=centres, owners=whose(tables))
    assert is_exact(dataset.job, results, plain)
    assert [result.sizes_.tolist() for result in results] == [[0, 0], [7, 0], [7, 0]]


@pytest.mark.parametrize("pairs", [1, 3])
def test_several_uploads_of_an_owner_are_all_its_own(pairs, tmp_path):
    """Uploads of two owners in turn, cut by shards of several worker pairs."""
    order = ["ann", "bob", "ann", "bob", "ann"]
    tables = points(4, 5, 4, 6, 9)
    dataset = spec(k=3, min_size=4, max_iter=5, labels=True, inertia=True)
    clouds = TwoClouds(give(dataset, list(zip(order, tables, strict=True)), tmp_path), pairs)
    results = clouds.run()
    owners = np.repeat([("ann", "bob").index(name) for name in order], [len(t) for t in tables])
    trace = expected(dataset.job, np.vstack(tables), owners=owners).by_k[3]
    for number, owner in enumerate(("ann", "bob")):
        told = trace.for_owner(number)
        assert results[owner].sums_.tolist() == told.sums.tolist()
        assert results[owner].sizes_.tolist() == told.sizes.tolist()
        assert results[owner].inertia_ == told.inertia


def test_a_worker_that_comes_after_the_last_iteration_counts_members_too(tmp_path):
    """Its half has not seen the assignment; it is done once more."""
    tables, dataset = points(14, 12), spec(k=2, min_size=5, max_iter=3)
    given = give(dataset, list(zip(("ann", "bob"), tables, strict=True)), tmp_path)
    clouds = TwoClouds(given)
    clouds.start()
    while clouds.walks[0].next_step().name != "tally":
        clouds.step()
    kept = [saved[-1] for saved in clouds.saved]
    again = TwoClouds(given)
    for plan, checkpoint in zip(again.plans, kept, strict=True):
        assert plan.can_go_on_from(checkpoint, {checkpoint.iteration})
        plan.restore(checkpoint, None)
    results = again.run()
    assert again.names == ["tally", "output"]
    plain = expected(dataset.job, np.vstack(tables), owners=whose(tables))
    for number, owner in enumerate(("ann", "bob")):
        told = plain.by_k[2].for_owner(number)
        assert results[owner].sizes_.tolist() == told.sizes.tolist()


def test_halves_of_owners_are_masked_apart(tmp_path):
    """The half of one owner tells nothing of another's: equal values have other masks."""
    tables = list(zip(("ann", "bob"), points(15, 15), strict=True))
    clouds = TwoClouds(give(spec(k=1, min_size=5, max_iter=1), tables, tmp_path))
    clouds.run()
    for plan in clouds.plans:
        ann, bob = plan.result().own_halves["clusters"].values()
        assert not set(ann.values) & set(bob.values)
