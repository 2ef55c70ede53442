"""k-means over records of which several owners hold the same: each counts once, exactly."""

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.kmeans.job import Job
from ppodc.kmeans.kind import KIND
from ppodc.kmeans.reference import kmeans
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.linkage.reference import distinct
from ppodc.linkage.rules import SquaredDistance
from ppodc.pairs.plan import Place, Task
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import open_output
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from tests.linkage.shared import sealed, uploaded
from tests.mpc.pair import key
from tests.two_clouds import together

SEED, K = 4, 3
UPLOADS = [(0, 20), (1, 30), (0, 10), (2, 20)]
OWNERS = [owner for owner, rows in UPLOADS for _ in range(rows)]
EDGES = (0, 33, 80)


def make_spec(**job) -> Spec:
    columns = tuple(Column(f"x{i}", 0, 1) for i in range(2))
    return Spec("d", Schema(columns, 200), Job(K, seed=SEED, max_iter=4, min_size=1, **job))


def records():
    random = np.random.default_rng(6)
    rows = random.integers(0, 201, (80, 2))
    rows[25:35] = rows[:10]  # copies of the first owner's
    rows[52:56] = np.clip(rows[30:34] + 1, 0, 200)  # near ones; the first owner's stay
    rows[70:] = rows[30:40]
    return rows


def iterations(spec, rows, dedup):
    """Sums and sizes of every iteration, opened."""
    shares = uploaded(rows)
    params = spec.job.parameters(spec.schema, len(rows))

    def run(role, channel):
        half = SharesHalf(role, channel, params, key(role))
        names = ("0", "1")
        for name, first, end in zip(names, EDGES, EDGES[1:], strict=False):
            half.ingest(name, shares[role - 1][first:end])
        if dedup is not None:
            flat = tuple(number for upload in UPLOADS for number in upload)
            KIND.perform(half, Task("dedup", names, flat, (dedup,)), lambda _: None)

        def picked(chosen):
            parts = [(names[row >= EDGES[1]], row - EDGES[1] * (row >= EDGES[1])) for row in chosen]
            return half.join([half.records(name, [row]) for name, row in parts])

        clusters, outputs = picked(initial_rows(SEED, len(rows), K)), []
        for number in range(1, spec.job.max_iter + 1):
            sums = half.add([half.assign(name, clusters) for name in names])
            stand_ins = picked(reseed_rows(SEED, number, len(rows), K))
            clusters, stop = half.update(clusters, sums, stand_ins)
            outputs.append(half.output(sums))
            if stop:
                break
        half.close()
        return outputs

    both = together(lambda channel: run(1, channel), lambda channel: run(2, channel))
    return [np.array(open_output(*halves)).reshape(K, -1) for halves in zip(*both, strict=True)]


@pytest.mark.parametrize("limit", [0, 2])
def test_every_iteration_equals_plaintext_over_the_kept_records(limit):
    rule = SquaredDistance((1, 1), limit)
    spec, rows = make_spec(dedup=rule), records()
    keep = distinct(rule, rows, OWNERS)
    assert 10 < (~keep).sum() < 40
    plain = kmeans(rows, K, beta=0, max_iter=4, seed=SEED, keep=keep)
    found = iterations(spec, rows, rule)
    assert len(found) == plain.n_iter
    for table, expected in zip(found, plain.iterations, strict=True):
        assert table[:, :-1].tolist() == expected.sums.tolist()
        assert table[:, -1].tolist() == expected.sizes.tolist()
    assert plain.sizes.sum() == keep.sum()


def test_without_dedup_all_records_count():
    plain = kmeans(records(), K, beta=0, max_iter=4, seed=SEED)
    found = iterations(make_spec(), records(), None)
    assert found[-1][:, -1].tolist() == plain.sizes.tolist()


def test_the_spec_says_it_and_old_digests_stay():
    spec = make_spec(dedup=SquaredDistance((1, 2), 9))
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()) == spec
    assert b"dedup" not in make_spec().canonical()
    assert KIND.most_pairs(spec) == 1
    assert KIND.most_pairs(make_spec()) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dedup_limit": 1}, "needs job.dedup_weights"),
        ({"dedup_weights": [1, 1]}, "needs job.dedup_weights"),
        ({"dedup_limit": 1, "dedup_weights": [1]}, "1 weights for 2 columns"),
        ({"dedup_limit": 2 * 200 * 200, "dedup_weights": [1, 1]}, "every pair"),
        ({"dedup_limit": -1, "dedup_weights": [1, 1]}, "from 0"),
    ],
)
def test_rules_that_are_refused(change, words):
    document = make_spec().to_dict()
    document["job"] = {**document["job"], **change}
    with pytest.raises(InputError, match=words):
        Spec.from_dict(document)


def test_the_other_suite_refuses_it():
    spec = make_spec(dedup=SquaredDistance((1, 1), 0))
    with pytest.raises(InputError, match="needs the suite 'shares'"):
        KIND.check(spec, 100, "paillier", 2048)
    KIND.check(spec, 100, "shares", 2048)


def test_a_new_worker_drops_duplicates_before_it_assigns():
    spec = make_spec(dedup=SquaredDistance((1, 1), 0))
    shards = [Shard("0", 0, 80, 0)]
    uploads = sealed(*(("abc"[owner], rows) for owner, rows in UPLOADS))
    plan = KIND.plan(spec, uploads, shards, 1, lambda checkpoint: None)
    assign = next(step for step in plan.table if step.name == "assign")
    fresh = assign.tasks(plan, Place(0, tuple(shards), {}))
    assert [task.name for task in fresh][-2:] == ["dedup", "assign"]
    assert fresh[-2].rows == (0, 20, 1, 30, 0, 10, 2, 20)
    later = assign.tasks(plan, Place(0, tuple(shards), {"dedup": 1}))
    assert "dedup" not in [task.name for task in later]
