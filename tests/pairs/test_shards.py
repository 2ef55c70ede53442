"""The plan that both clouds derive: shards, and runs of records."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ppodc.pairs.shards import SHARD_ROWS, SHARD_VALUES, runs, split, usable_pairs


@given(st.integers(1, 200_000), st.integers(1, 16), st.integers(1, 8))
def test_shards_cover_all_rows_once_and_evenly(m, pairs, most):
    pairs = usable_pairs(m, pairs)
    shards = split(m, pairs, most)
    assert [s.first for s in shards] == [0, *[s.first + s.rows for s in shards][:-1]]
    assert shards[-1].first + shards[-1].rows == m
    assert max(s.rows for s in shards) - min(s.rows for s in shards) <= 1
    assert min(s.rows for s in shards) >= 1
    per_slot = [sum(1 for s in shards if s.slot == slot) for slot in range(pairs)]
    assert len(set(per_slot)) == 1
    assert 1 <= per_slot[0] <= max(most, -(-m // (pairs * SHARD_ROWS)))
    assert [s.slot for s in shards] == sorted(s.slot for s in shards)


@given(st.integers(1, 10**8), st.integers(1, 16), st.integers(1, 4096))
def test_no_shard_is_larger_than_a_worker_is_handed_at_a_time(m, pairs, columns):
    shards = split(m, usable_pairs(m, pairs), 1, columns)
    largest = max(shard.rows for shard in shards)
    assert largest <= max(SHARD_ROWS, SHARD_VALUES // columns)
    assert len(shards) <= pairs or min(shard.rows for shard in shards) >= SHARD_ROWS // 2


def test_small_data_are_not_cut_into_many_shards():
    assert len(split(SHARD_ROWS, 1, 4)) == 1
    assert len(split(4 * SHARD_ROWS, 1, 4)) == 4
    assert len(split(40 * SHARD_ROWS, 1, 4)) == 4


@given(st.lists(st.integers(0, 99), min_size=1, max_size=20), st.integers(1, 7))
def test_runs_keep_the_order_of_the_clusters(rows, pairs):
    shards = split(100, pairs, 1)
    found = runs(rows, shards)
    assert [run.shard.first + row for run in found for row in run.rows] == rows
    assert all(a.shard != b.shard for a, b in itertools.pairwise(found))
