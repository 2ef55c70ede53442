"""Whole jobs equal the reference in every iteration: sums, sizes, labels and stop bits."""

import gzip
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from ppodc.crypto.paillier import generate_insecure
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.errors import ChannelError, InputError, PpodcError, WidthError, WireError
from ppodc.kmeans.paillier.half import Half1, Half2
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.reference import kmeans
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.shares import demand as demand_module
from ppodc.kmeans.shares.fixed_point import FixedPoint
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.products import lattice_for
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc import round_trip
from ppodc.records.result_shares import open_output
from ppodc.records.sharing import mask, split
from ppodc.transport.channel import memory_pair
from tests.harness.together import together
from tests.kmeans.suite_jobs import Job, check, garbage, random_job, run_half
from tests.outside_data import KEGG, needs_kegg

SECRET = generate_insecure(256)  # of the paillier suite


def make(role, channel, params, **options):
    return SharesHalf(role, channel, params, **options)


def lattice(role, channel, params, **options):
    return make(role, channel, replace(params, products="lattice"), **options)


def silent(role, channel, params, **options):
    return make(role, channel, replace(params, supplies="silent"), **options)


@pytest.mark.parametrize("case", range(40))
def test_random_jobs_equal_the_reference(case):
    check(make, random_job(case))


@pytest.mark.parametrize("case", range(12))
def test_whatever_is_uploaded_counts_as_a_value_up_to_ub(case):
    job, shares = garbage(case)
    check(make, job, shares=shares)


@pytest.mark.parametrize("min_size", [1, 2, 3, 4, 5, 100])
def test_a_threshold_around_the_sizes_of_the_clusters(min_size):
    records = np.repeat([[0, 0], [50, 0], [0, 99], [99, 99]], [2, 3, 4, 5], axis=0)
    centres = np.array([[1, 1], [49, 1], [1, 98], [98, 98], [60, 60]])  # the last stays empty
    check(make, Job(records, 5, 99, centres=centres, min_size=min_size))


@pytest.mark.parametrize(
    ("m", "k", "l", "ub"),
    [
        (1, 1, 1, 1),
        (9, 9, 2, 1000),  # k = m
        (70, 64, 2, 30),  # the widest tournament, many clusters that go empty
        (300, 24, 2, 1 << 20),  # many limbs
        (130, 3, 1, 1),
    ],
)
def test_edges_of_the_parameters(m, k, l, ub):
    records = np.random.default_rng(m).integers(0, ub + 1, (m, l))
    check(make, Job(records, k, ub, Fraction(1, 7), seed=3, max_iter=2))


@pytest.mark.parametrize("case", [1, 3, 6, 9])
def test_lattice_products_give_the_reference_too(case):
    check(lattice, random_job(case))


def test_silent_supplies_give_the_reference_too():
    check(silent, random_job(7))
    records = np.random.default_rng(7).integers(0, 1001, (1200, 4))
    check(silent, Job(records, 5, 1000, max_iter=3))  # lattice products, more than one batch


def test_chunks_of_lattice_products_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(demand_module, "CHUNK_ROWS", 100)
    records = np.random.default_rng(1).integers(0, 101, (257, 3))
    job = Job(records, 6, 100, max_iter=2)
    check(lambda *a: lattice(*a, memory=0, scratch=tmp_path), job)
    assert list(tmp_path.iterdir()) == []


def test_several_chunks_and_keys_on_disk(monkeypatch, tmp_path):
    monkeypatch.setattr(demand_module, "CHUNK_ROWS", 100)
    records = np.random.default_rng(1).integers(0, 101, (357, 3))
    job = Job(records, 5, 100, max_iter=2)
    check(lambda *a: make(*a, memory=0, scratch=tmp_path), job)
    assert list(tmp_path.iterdir()) == []


def test_larger_job():
    g = np.random.default_rng(2)
    centres = g.integers(0, 1001, (8, 20))
    points = centres[g.integers(0, 8, 5000)] + g.integers(-200, 201, (5000, 20))
    check(make, Job(np.clip(points, 0, 1000), 8, 1000, max_iter=2))


@needs_kegg
def test_kegg():
    with gzip.open(KEGG, "rt") as lines:
        table = np.genfromtxt(lines, delimiter=",", max_rows=6000, usecols=range(1, 11))
    table = table[~np.isnan(table).any(axis=1)][:3000]
    low, high = table.min(axis=0), table.max(axis=0)
    scaled = (table - low) / np.where(high > low, high - low, 1) * 1000
    check(make, Job(np.rint(scaled).astype(np.int64), 4, 1000, max_iter=3))


def test_both_suites_agree():
    job = random_job(7)

    def paillier(role, channel, params):
        if role == 1:
            return Half1(channel, params, SECRET.public, FreshRandomisers(SECRET.public))
        return Half2(channel, params, SECRET, FreshRandomisers(SECRET.public, SECRET))

    m, l = job.records.shape
    share, seed = split(job.records)
    seen = []
    for suite in (make, paillier):
        first, second = together(
            lambda c, suite=suite: run_half(c, suite(1, c, job.params), job, share),
            lambda c, suite=suite: run_half(c, suite(2, c, job.params), job, mask(seed, 0, m, l)),
        )
        seen.append(
            [
                (open_output(a[0], b[0]), open_output(a[1], b[1]), a[2])
                for a, b in zip(first, second, strict=True)
            ]
        )
    assert seen[0] == seen[1]


@pytest.mark.parametrize("beta", [Fraction(0), Fraction(1, 10**6)])
def test_two_pairs_with_two_shards_each(beta):
    """Partial sums of one cloud add up across pairs; one pair updates and scales for both."""
    records = np.random.default_rng(4).integers(0, 51, (90, 2))
    edges = [0, 20, 45, 45, 90]  # one shard is empty
    params = Parameters(90, 2, 4, 50, beta)
    share, seed = split(records)
    parts = (share, mask(seed, 0, 90, 2))
    channels = [memory_pair(), memory_pair()]

    started = [
        together(lambda c: make(1, c, params), lambda c: make(2, c, params), channels[pair])
        for pair in (0, 1)
    ]
    clouds = [[started[pair][role] for pair in (0, 1)] for role in (0, 1)]

    def each(step):
        """step(half, cloud, shard numbers) at both halves of both pairs: [cloud][pair]."""
        out = []
        for pair in (0, 1):
            numbers = (2 * pair, 2 * pair + 1)
            out.append(
                together(
                    lambda _, p=pair, n=numbers: step(clouds[0][p], 0, n),
                    lambda _, p=pair, n=numbers: step(clouds[1][p], 1, n),
                    channels[pair],
                )
            )
        return [[out[pair][cloud] for pair in (0, 1)] for cloud in (0, 1)]

    each(
        lambda half, cloud, numbers: [
            half.ingest(str(n), parts[cloud][edges[n] : edges[n + 1]]) for n in numbers
        ]
    )

    def gather(cloud, rows):
        states = []
        for row in rows:
            n = next(i for i in range(4) if edges[i] <= row < edges[i + 1])
            states.append(clouds[cloud][n // 2].records(str(n), [row - edges[n]]))
        return clouds[cloud][0].join(states)

    clusters = [gather(cloud, initial_rows(1, 90, 4)) for cloud in (0, 1)]
    scaled = None

    def assign(half, cloud, numbers):
        if scaled is not None:
            half.take_scaled(clusters[cloud], scaled[cloud])
        return half.add([half.assign(str(n), clusters[cloud]) for n in numbers])

    for number, expected in enumerate(
        kmeans(records, 4, beta=beta, max_iter=3, seed=1).iterations, 1
    ):
        clouds[0][1].meter.reset()
        partial = each(assign)
        looked_up = clouds[0][1].meter.costs.get(("online", "scaling"))
        assert (looked_up is not None and looked_up.rounds > 0) == (number == 1)
        sums = [clouds[cloud][0].add(partial[cloud]) for cloud in (0, 1)]
        candidates = [gather(cloud, reseed_rows(1, number, 90, 4)) for cloud in (0, 1)]
        updated = together(
            lambda _, a=clusters, b=sums, c=candidates: clouds[0][0].update(a[0], b[0], c[0]),
            lambda _, a=clusters, b=sums, c=candidates: clouds[1][0].update(a[1], b[1], c[1]),
            channels[0],
        )
        clusters = [state for state, _ in updated]
        scaled = together(
            lambda _, now=clusters: clouds[0][0].scaled(now[0]),
            lambda _, now=clusters: clouds[1][0].scaled(now[1]),
            channels[0],
        )
        assert [stop for _, stop in updated] == [expected.stop] * 2
        # 90 records: a state is right modulo 2^32
        table = ((clusters[0] + clusters[1]) & np.uint64(0xFFFFFFFF)).astype(np.int64)
        assert np.array_equal(table[:, :-1], expected.next_sums)
        assert np.array_equal(table[:, -1], expected.next_sizes)
        labels = each(lambda half, _, numbers: [half.labels(str(n)) for n in numbers])
        opened = [
            label
            for first, second in zip(*labels, strict=True)
            for a, b in zip(first, second, strict=True)
            for label in open_output(a, b)
        ]
        assert opened == expected.labels.tolist()


def test_states_of_public_centres_are_not_mixed_up():
    """C2 holds zeros for any public centres; two different ones must not share a scaling."""
    records = np.random.default_rng(5).integers(0, 11, (40, 1))
    params = Parameters(40, 1, 2, 10, Fraction(0))
    share, seed = split(records)
    parts = (share, mask(seed, 0, 40, 1))

    def half(role):
        def run(channel):
            worker = make(role, channel, params)
            worker.ingest("all", parts[role - 1])
            out = []
            for centres in ([[0], [10]], [[2], [3]], [[0], [10]]):
                worker.assign("all", worker.centres(np.array(centres)))
                out.append(worker.labels("all"))
            return out

        return run

    first, second = together(half(1), half(2))
    for centres, a, b in zip(([0, 10], [2, 3], [0, 10]), first, second, strict=True):
        assert open_output(a, b) == np.argmin(abs(records - centres), axis=1).tolist()


def test_after_an_error_the_session_is_over():
    params = Parameters(5, 2, 2, 10, Fraction(0))
    records = np.arange(10).reshape(5, 2)
    share, seed = split(records)
    seen = {}

    def half(role, own):
        def run(channel):
            worker = make(role, channel, params)
            worker.ingest("all", own)
            start = worker.records("all", [0, 1])
            with pytest.raises(PpodcError) as caught:
                worker.assign("no such shard" if role == 1 else "all", start)
            seen[role] = str(caught.value)
            with pytest.raises(ChannelError, match="over"):
                worker.assign("all", start)

        return run

    together(half(1, share), half(2, mask(seed, 0, 5, 2)))
    assert "has not been taken in" in seen[1]
    assert "has not been taken in" in seen[2]


def test_a_message_of_another_shape_ends_the_session():
    params = Parameters(5, 2, 2, 10, Fraction(0))

    def liar(channel):
        worker = make(1, channel, params)
        worker._session.link.send("shares.extension", np.zeros((32, 7), np.uint64))

    def honest(channel):
        worker = make(2, channel, params)
        with pytest.raises(WireError, match="should hold"):
            worker.ingest("all", np.zeros((5, 2), np.uint64))
        with pytest.raises(ChannelError, match="over"):
            worker.labels("all")

    together(liar, honest)


def test_bad_arguments_are_named():
    params = Parameters(5, 2, 2, 10, Fraction(0))

    def run(role):
        def half(channel):
            worker = make(role, channel, params)
            worker.ingest("all", np.zeros((5, 2), np.uint64))
            with pytest.raises(InputError, match="rows 0 to 4"):
                worker.records("all", [5])
            with pytest.raises(InputError, match="must lie in"):
                worker.centres(np.array([[11, 0], [0, 0]]))
            with pytest.raises(InputError, match="shares suite"):
                worker.add([np.zeros((2, 3), np.uint8)])

        return half

    together(run(1), run(2))


def test_widths_have_a_stated_limit():
    with pytest.raises(WidthError, match="fewer clusters"):
        Rings.of(Parameters(10**6, 10, 400, 1000, Fraction(1)))
    assert Rings.of(Parameters(10**6, 10, 400, 1000, Fraction(0))).stop == 0
    with pytest.raises(WidthError, match="more than a job on shares takes"):
        Rings.of(Parameters(1 << 31, 10, 4, 1000, Fraction(0)))
    with pytest.raises(WidthError, match="rescale"):
        Rings.of(Parameters(10, 10, 2, (1 << 20) + 1, Fraction(0)))
    assert Rings.of(Parameters(10, 10, 2, 1 << 20, Fraction(0))).bits == 21
    wide = Rings.of(Parameters(10_000, 10, 64, 1000, Fraction(1, 3)))
    assert (wide.distance, wide.stop) == (2, 30)


def test_the_log_says_how_records_are_multiplied(caplog):
    params = Parameters(5, 2, 2, 10, Fraction(0))
    with caplog.at_level("INFO"):
        together(lambda channel: make(1, channel, params), lambda channel: make(2, channel, params))
    assert caplog.text.count("products with records by transfers") == 2


@pytest.mark.parametrize(("slow_us", "way"), [(0, "lattice encryption"), (1 << 40, "transfers")])
def test_a_job_on_few_records_looks_at_the_link(slow_us, way, monkeypatch, caplog):
    monkeypatch.setattr(round_trip, "SLOW_US", slow_us)
    records = np.random.default_rng(8).integers(0, 1001, (400, 4))
    with caplog.at_level("INFO"):
        check(make, Job(records, 2, 1000, max_iter=2))
    assert caplog.text.count(f"products with records by {way}") == 2


def test_a_job_chooses_how_records_are_multiplied():
    large, small = (Parameters(m, 10, 4, 1000, Fraction(0)) for m in (1000, 999))
    huge = Parameters((1 << 31) - 70, 10, 64, 1 << 20, Fraction(0))
    for params, lattice in ((large, True), (small, False), (huge, True)):
        assert (lattice_for(params, Rings.of(params)) is not None) == lattice
    assert lattice_for(small, Rings.of(small), slow=True) is not None
    tiny = replace(small, m=399)
    assert lattice_for(tiny, Rings.of(tiny), slow=True) is None
    assert lattice_for(replace(small, products="lattice"), Rings.of(small)) is not None
    for slow in (False, True):
        transfers = replace(large, products="transfers")
        assert lattice_for(transfers, Rings.of(large), slow=slow) is None
    beyond = replace(Rings.of(large), point=FixedPoint.of(10**9, 10**6, 4, (1 << 200) - 1))
    assert lattice_for(large, beyond) is None
    with pytest.raises(WidthError, match="by transfers"):
        lattice_for(replace(large, products="lattice"), beyond)
