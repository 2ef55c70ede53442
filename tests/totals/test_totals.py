"""Totals of columns: exact on both halves, and as an owner opens them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.platforms.threads import ThreadPlatform
from ppodc.errors import InputError, ProtocolError
from ppodc.kmeans.reference import as_taken_in
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.plan import Task
from ppodc.records.result_shares import OpenedResult, open_output
from ppodc.records.schema import Column, Schema
from ppodc.records.sharing import mask, split
from ppodc.spec import Spec
from ppodc.totals.cloud import cloud_side
from ppodc.totals.half import TotalsHalf
from ppodc.totals.job import SAMPLE, Job
from ppodc.totals.kind import KIND
from ppodc.totals.owner import owner_side
from ppodc.totals.reference import reference
from tests.harness.together import together


def make_spec(columns: int, ub: int, *, variance: bool = True, least: int = 1) -> Spec:
    listed = tuple(Column(f"x{i}", -2.5 * i, 10.0 + i) for i in range(columns))
    return Spec("t", Schema(listed, ub), Job(variance=variance, least=least))


def opened(spec: Spec, records: np.ndarray, parts: int = 1) -> list[list[int]]:
    """The values that both halves give, from `parts` shards."""
    share, seed = split(records)
    theirs = mask(seed, 0, *records.shape)
    edges = [len(records) * i // parts for i in range(parts + 1)]
    names = tuple(f"{i}" for i in range(parts))

    def run(role: int, channel: object, rows: np.ndarray) -> list:
        half = TotalsHalf(role, channel, spec, len(records), Material())
        for name, first, end in zip(names, edges, edges[1:], strict=False):
            half.ingest(name, rows[first:end])
        counted, side = list[int](), cloud_side(spec)
        states = [side.perform(half, Task("sum", (name,)), counted.append) for name in names]
        assert sum(counted) == len(records)
        return side.perform(half, Task("output", inputs=tuple(states)), counted.append)

    first, second = together(
        lambda channel: run(1, channel, share), lambda channel: run(2, channel, theirs)
    )
    return [open_output(a, b) for a, b in zip(first, second, strict=True)]


@pytest.mark.parametrize("ub", [1, 2, 1000, 1 << 20])
@pytest.mark.parametrize("fill", ["zeros", "ub", "random", "one row"])
def test_sums_and_squares_equal_plaintext(ub, fill):
    shape = (1 if fill == "one row" else 37, 3)
    records = np.random.default_rng(ub).integers(0, ub + 1, shape)
    if fill in ("zeros", "ub"):
        records[:] = 0 if fill == "zeros" else ub
    spec = make_spec(3, ub)
    plain = reference(spec, records)
    assert opened(spec, records, parts=min(2, len(records))) == [
        plain.encoded_sums_,
        plain.encoded_squares_,
    ]


def test_without_variance_nothing_is_squared():
    spec = make_spec(2, 9, variance=False)
    records = np.arange(10).reshape(5, 2)
    assert opened(spec, records) == [[20, 25]]
    assert reference(spec, records).var_ is None


@pytest.mark.parametrize("ub", [1, 9, 15, 1000])
def test_whatever_is_uploaded_counts_as_a_value_up_to_ub(ub):
    spec = make_spec(2, ub)
    records = np.random.default_rng(ub).integers(0, 1 << 20, (40, 2))
    records[0] = ub, ub + 1
    plain = reference(spec, as_taken_in(records, ub))
    assert opened(spec, records) == [plain.encoded_sums_, plain.encoded_squares_]


def test_too_few_records_are_refused_before_anything_is_sealed():
    spec = make_spec(1, 9, least=5)
    cloud_side(spec).check(5, "shares", 2048)
    with pytest.raises(InputError, match="at least 5 records, but there are 4"):
        cloud_side(spec).check(4, "shares", 2048)


@pytest.mark.parametrize("sizes", [(40, 3), (4, 5, 4), (9,), (0, 7)])
def test_an_owner_learns_totals_only_if_enough_records_are_not_its_own(sizes):
    """Of two owners the one with 40 rows would read the totals of the other's three."""
    g, spec = np.random.default_rng(1), make_spec(2, 9, least=5)
    tables = [g.integers(0, 10, (size, 2)) for size in sizes]
    records = np.vstack(tables)
    for table, result in zip(tables, ThreadPlatform().run(spec, tables), strict=True):
        plain = reference(spec, records, len(table))
        assert result.encoded_sums_ == plain.encoded_sums_
        assert result.encoded_squares_ == plain.encoded_squares_
        others = len(records) - len(table)
        assert result.told == (others >= 5 or not others)
        assert ("you are told no totals" in result.summary()) != result.told
        assert (result.figures()["sum"] is None) != result.told


def test_a_spec_without_least_keeps_its_digest_and_its_meaning():
    old = make_spec(1, 9).to_dict()
    assert old["job"] == {"kind": "totals", "variance": True}
    assert Spec.from_dict(old).job == Job(least=1)
    assert Job().least == Spec.loads(SAMPLE).job.least == 5


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
@settings(max_examples=50)
def test_real_units_are_those_of_numpy(values):
    spec = make_spec(1, 50)
    low, high = spec.schema.columns[0].low, spec.schema.columns[0].high
    real = low + np.array(values) / 50 * (high - low)
    found = reference(spec, np.array(values)[:, None])
    assert found.count_ == len(values)
    assert np.allclose([found.sum_[0], found.mean_[0]], [real.sum(), real.mean()])
    assert found.var_ is not None
    assert np.isclose(found.var_[0], real.var())


def test_the_sample_is_a_spec_of_this_kind_and_k_means_keeps_its_digest():
    spec = Spec.loads(SAMPLE)
    assert spec.kind is KIND
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()) == spec
    assert b'"kind":"totals"' in spec.canonical()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"variance": 1}, "true or false"),
        ({"least": 0}, "job.least"),
        ({"k": 3}, "unknown key"),
        ({"kind": "medians"}, "no kind of job 'medians'"),
    ],
)
def test_jobs_that_are_refused(change, words):
    document = {**make_spec(1, 9).to_dict()}
    document["job"] = {**document["job"], **change}
    with pytest.raises(InputError, match=words):
        Spec.from_dict(document)


def test_totals_that_could_wrap_are_refused():
    spec = make_spec(1, 1 << 20)
    cloud_side(spec).check((1 << 24) - 1, "shares", 2048)
    with pytest.raises(InputError, match="64 bits"):
        cloud_side(spec).check(1 << 24, "shares", 2048)


@pytest.mark.parametrize(
    ("facts", "sums", "squares"),
    [
        ({}, [3], [5]),
        ({"records": 0}, [3], [5]),
        ({"records": 2}, [19], [5]),
        ({"records": 2}, [3, 3], [5]),
        ({"records": 2}, [3], [1 << 63]),
    ],
)
def test_halves_that_do_not_belong_together(facts, sums, squares):
    values = {"sums": sums, "squares": squares}
    with pytest.raises(ProtocolError, match="do not belong together"):
        owner_side(make_spec(1, 9)).open_result(OpenedResult(facts, values, {}))
