"""Noise on shares equals the reference with the same noise, to the last bit."""

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError, WidthError
from ppodc.kmeans.private.half import NoisyHalf
from ppodc.kmeans.private.job import NoisyJob, plan_of
from ppodc.kmeans.private.noisy_kmeans import (
    Opened,
    next_centres,
    noisy_kmeans,
    own_noise,
    residual_sums,
)
from ppodc.kmeans.private.ring import Ring
from ppodc.kmeans.reference import as_taken_in
from ppodc.pairs.cloud_side import Material
from ppodc.records.result_shares import open_output
from ppodc.records.schema import Column, Schema
from ppodc.records.sharing import mask, split
from ppodc.spec import Spec
from tests.harness.together import together


def make_spec(columns: int = 2, ub: int = 100, k: int = 2, **privacy) -> Spec:
    listed = tuple(Column(f"x{i}", 0, 1) for i in range(columns))
    return Spec("t", Schema(listed, ub), NoisyJob(k=k, **{"epsilon": 4.0, "seed": 5, **privacy}))


def seed(role: int, iteration: int) -> bytes:
    return bytes([role, iteration] * 16)


def noise(plan):
    """Both clouds' noise, from the seeds that the test gives them."""
    return lambda iteration, _: sum(
        own_noise(plan, SecureRandom(seed(role, iteration))) for role in (1, 2)
    )


def opened(spec: Spec, records: np.ndarray, parts: int = 1) -> list[np.ndarray]:
    """The opened values of every iteration, from the records in `parts` shards; equal at both."""
    share, key = split(records)
    shares = share, mask(key, 0, *records.shape)
    edges = [len(records) * i // parts for i in range(parts + 1)]
    names = [str(i) for i in range(parts)]
    plan = plan_of(spec)

    def run(role, channel):
        half = NoisyHalf(role, channel, spec, len(records), Material())
        for name, first, end in zip(names, edges, edges[1:], strict=False):
            half.ingest(name, shares[role - 1][first:end])
        centres, tables = plan.start(), []
        for iteration in range(1, plan.iterations + 1):
            rows: list[int] = []
            # each shard as if on a pair of its own
            sums = [half.assign([name], centres, rows.append) for name in names]
            assert sum(rows) == len(records)
            tables.append(half.open(sums, seed(role, iteration)))
            centres = next_centres(centres, Opened.of(tables[-1]), plan, iteration)
        half.close()
        return tables

    first, second = together(lambda channel: run(1, channel), lambda channel: run(2, channel))
    for a, b in zip(first, second, strict=True):
        assert np.array_equal(a, b)
    return first


def check(spec: Spec, records: np.ndarray, parts: int = 1) -> None:
    plan = plan_of(spec)
    wanted = noisy_kmeans(as_taken_in(records, plan.ub), plan, noise(plan)).opened
    found = opened(spec, records, parts)
    assert len(found) == len(wanted) == plan.iterations
    for table, both in zip(found, wanted, strict=True):
        assert np.array_equal(table[:, :-1], both.sums)
        assert np.array_equal(table[:, -1], both.counts)


@pytest.mark.parametrize("ub", [1, 100, 1000, 1 << 20])
@pytest.mark.parametrize("columns", [1, 3])
def test_every_iteration_equals_the_reference(ub, columns):
    records = np.random.default_rng(ub).integers(0, ub + 1, (150, columns))
    check(make_spec(columns, ub, k=2), records, parts=2)


@pytest.mark.parametrize("fill", ["zeros", "ub", "one row", "one cluster", "beyond ub"])
def test_special_records(fill):
    records = np.random.default_rng(1).integers(0, 101, (1 if fill == "one row" else 40, 2))
    if fill in ("zeros", "ub"):
        records[:] = 0 if fill == "zeros" else 100
    if fill == "beyond ub":
        records = records * 1000
    check(make_spec(k=1 if fill == "one cluster" else 3, iterations=2), records)


def test_records_at_the_radius_are_within_and_ties_go_to_the_lowest():
    spec = make_spec(2, 12, k=1, centres=3, iterations=1, seed=1)
    plan = plan_of(spec)
    records = np.stack(np.meshgrid(np.arange(13), np.arange(13)), axis=-1).reshape(-1, 2)
    distances = np.sort(((records[:, None] - plan.start()) ** 2).sum(axis=2), axis=1)
    assert (distances[:, 0] == distances[:, 1]).any(), "some record has two nearest centres"
    assert (distances[:, 0] == plan.radius**2).any(), "some record lies at the radius"
    assert (distances[:, 0] > plan.radius**2).any(), "some record lies beyond it"
    check(spec, records)


def test_large_numbers_take_the_wide_ring():
    narrow, wide = make_spec(), make_spec(ub=1 << 20, epsilon=0.001)
    assert Ring.of(plan_of(narrow), 1000).sum_top == 4
    assert Ring.of(plan_of(wide), 1000).sum_top == 8
    check(wide, np.random.default_rng(2).integers(0, 1 << 20, (60, 2)))
    with pytest.raises(WidthError, match="do not fit"):
        Ring.of(
            plan_of(make_spec(100, 1 << 20, epsilon=1e-6, delta=1e-30, iterations=100)), 1 << 40
        )


def test_one_clouds_noise_alone_stands_between_the_other_cloud_and_the_sums():
    """C2 can compute the exact sums plus C1's noise, of the variance in the proof."""
    spec = make_spec(iterations=1)
    plan = plan_of(spec)
    records = np.random.default_rng(4).integers(0, 101, (80, 2))
    table = opened(spec, records)[0]
    sums, counts = residual_sums(records, plan.start(), plan.radius)
    exact = np.concatenate([sums, counts[:, None]], axis=1)
    for role in (1, 2):
        own = own_noise(plan, SecureRandom(seed(role, 1)))
        other = own_noise(plan, SecureRandom(seed(3 - role, 1)))
        assert np.array_equal(table - own - exact, other)
    many = np.stack([own_noise(plan, SecureRandom(bytes([i] * 32))) for i in range(60)])
    assert many[..., :-1].var() == pytest.approx(float(plan.sum_variance), rel=0.25)
    assert many[..., -1].var() == pytest.approx(float(plan.count_variance), rel=0.35)


def test_the_output_is_fresh_halves_of_what_both_know():
    spec, values = make_spec(k=1), np.array([[3, 4, -7], [0, 100, 12], [1, 1, 0]])

    def run(role, channel):
        half = NoisyHalf(role, channel, spec, 1, Material())
        return half.output(values), half.output(values)

    first, second = together(lambda channel: run(1, channel), lambda channel: run(2, channel))
    assert first[0] != first[1], "masked afresh"
    for halves in zip(first, second, strict=True):
        words = np.array(open_output(*halves), np.uint64)
        assert words.view(np.int64).reshape(3, 3).tolist() == values.tolist()


def test_what_does_not_fit_is_refused():
    spec = make_spec()

    def run(role, channel):
        half = NoisyHalf(role, channel, spec, 3, Material())
        with pytest.raises(InputError, match="announced with 3"):
            half.ingest("s", np.zeros((4, 2), np.uint64))

    together(lambda channel: run(1, channel), lambda channel: run(2, channel))


def test_supplies_made_ahead_serve_a_whole_job(tmp_path):
    spec, plan = make_spec(), plan_of(make_spec())
    records = np.random.default_rng(6).integers(0, 101, (100, 2))
    share, key = split(records)
    shares = share, mask(key, 0, *records.shape)

    def run(role, channel):
        material = Material(pools=tmp_path / str(role))
        half = NoisyHalf(role, channel, spec, 100, material)
        half.prepare(plan.iterations, rows=[100])
        assert half.to_prepare(plan.iterations, rows=[100]) == 0
        half.meter.reset()
        half.ingest("all", shares[role - 1])
        for _ in range(plan.iterations):
            half.assign(["all"], plan.start(), lambda _: None)
        made = half.meter.phase("offline").bytes_sent
        half.close()
        return made

    assert together(lambda c: run(1, c), lambda c: run(2, c)) == (0, 0)
