"""k-means over the columns of several sides, which a join brings together."""

import numpy as np
import pandas as pd
import pytest

from ppodc.errors import InputError
from ppodc.kinds import cloud_side
from ppodc.kmeans.job import Job
from ppodc.kmeans.shares.whole_centres import whole_centres
from ppodc.kmeans.steps import table
from ppodc.mpc.session import Session
from ppodc.pairs.plan import JobFacts
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec
from tests.harness import two_clouds
from tests.harness.together import together
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import give
from tests.kmeans.joined_jobs import (
    COLUMNS,
    COST,
    EVERY,
    TEXTS,
    Known,
    check,
    held,
    people,
    spec_of,
    tables_of,
)
from tests.kmeans.shares.test_dedup import resumed, small
from tests.mpc.pair import Recorder

EXACT = {"rule": "exact", "columns": ["name", "code", "year", "height"]}
FIELDS = {
    "rule": "fields",
    "threshold": 3,
    "fields": [
        {"column": "name", "compare": "edit", "max": 1, "weight": 2},
        {"column": "code", "compare": "exact", "weight": 1},
        {"column": "year", "compare": "exact", "weight": 1},
    ],
}
SSE = {"rule": "sse", "weights": [4, 1], "limit": 1}
KEY = {"blocks": "key", "key": "year", "lossy": True, **COST}
HALF = {"epsilon": 8, "delta": "1/20"}
TWO_KEYS = {
    "blocks": "key",
    "lossy": True,
    "keys": [{"column": "year", **HALF}, {"column": "code", "buckets": 3, **HALF}],
}
CASES = {
    "exact": (EXACT, EVERY, 0.0),
    "fields": (FIELDS, EVERY, 0.1),
    "fields key": ({**FIELDS, **KEY}, EVERY, 0.1),
    "fields keys": ({**FIELDS, **TWO_KEYS}, EVERY, 0.1),
    "sse": (SSE, COLUMNS, 0.0),
    "sse adtree": ({**SSE, "blocks": "adtree", **COST}, COLUMNS, 0.0),
}


@pytest.mark.parametrize("relation", ["1:1", "m:1"])
@pytest.mark.parametrize("case", CASES)
def test_rules_and_blocks(tmp_path, case, relation):
    join, columns, missing = CASES[case]
    spec = spec_of({**join, "relation": relation}, columns, min_size=2)
    tables = tables_of(columns, missing)
    clouds = TwoClouds(give(spec, tables, tmp_path))
    known = check(clouds, clouds.run(), tables)
    assert known.keep.any()
    assert not known.keep.all()


# ------------------------------------------------------------------------- sides, uploads, shapes

SIDES = [
    {**column, "held_by": ["insurer", "mutual"]} if column.get("held_by") == ["insurer"] else column
    for column in EVERY
]
THREE = [*EVERY, {"name": "visits", "low": 0, "high": 30, "held_by": ["practice"]}]


@pytest.mark.parametrize("keys", [{}, TWO_KEYS])
def test_several_owners_of_a_side_and_several_uploads(tmp_path, keys):
    """The anchor's uploads stand apart among the sealed rows."""
    sides = (("hospital", 5), ("mutual", 4), ("hospital", 4), ("insurer", 6))
    spec = spec_of({**EXACT, **keys}, SIDES, min_size=2, inertia=True)
    tables = tables_of(SIDES, 0.05, sides, 2, 14)
    clouds = TwoClouds(give(spec, tables, tmp_path))
    known = check(clouds, clouds.run(), tables)
    assert known.keep.any()
    assert known.own.any()


SHARED = [
    {"name": "stay", "low": 0, "high": 30, "held_by": ["hospital", "clinic"]},
    {"name": "cost", "low": 0, "high": 60, "held_by": ["insurer"]},
]


@pytest.mark.parametrize("sizes", [True, False])
@pytest.mark.parametrize("anchor", ["clinic", "insurer"])
def test_an_owner_cannot_subtract_its_rows_from_those_of_its_side(tmp_path, anchor, sizes):
    """A clinic with four insured patients makes up their stays, beside a rare one elsewhere."""
    tables = [
        ("hospital", pd.DataFrame({"name": list("abcdefghr"), "stay": [1, 2] * 4 + [29]})),
        ("clinic", pd.DataFrame({"name": list("wxyz"), "stay": [30] * 4})),
        ("insurer", pd.DataFrame({"name": list("abcdefghrwxyz"), "cost": [4] * 8 + [59] * 5})),
    ]
    join = {"rule": "exact", "columns": ["name"], "anchor": anchor}
    spec = spec_of(
        join,
        [*SHARED, TEXTS[0]],
        init=[[1, 4], [30, 60]],
        min_size=5,
        iterations=1,
        sizes=sizes,
        labels=False,
    )
    clouds = TwoClouds(give(spec, tables, tmp_path))
    results = clouds.run()
    told = {owner: result.sizes_.tolist() for owner, result in results.items()}
    wanted = {"hospital": [0, 0], "clinic": [8, 0], "insurer": [8, 5]}
    if not sizes:
        wanted = {owner: [int(size > 0) for size in each] for owner, each in wanted.items()}
    assert told == wanted
    if sizes:
        check(clouds, results, tables)


@pytest.mark.parametrize("job", [{"labels": False}, {"k": [1, 2], "inertia": True, "max_iter": 2}])
def test_who_knows_which_of_its_own_rows_are_joined_cannot_subtract_them(tmp_path, job):
    """Of several owners on the anchor's side, each counts the joined rows of the others."""
    both = ["hospital", "practice"]
    columns = [{**c, "held_by": both} if c["name"] == "stay" else c for c in EVERY]
    tables = [("practice", named("hospital", ["f", "g"])[1]), named("insurer", list("fbadceh"))]
    tables.append(named("hospital", list("abcde")))
    clouds = TwoClouds(give(spec_of(EXACT, columns, min_size=3, **job), tables, tmp_path), pairs=2)
    results = clouds.run()
    known = check(clouds, results, tables)
    assert known.keep.sum() == 6  # five of the hospital, one of the practice
    first = {o: r.by_k[1] if "inertia" in job else r for o, r in results.items()}
    assert first["hospital"].sizes_.sum() == 0
    assert first["insurer"].sizes_.sum() > 0
    if "inertia" in job:
        assert first["practice"].sizes_.tolist() == first["insurer"].sizes_.tolist() == [6]


@pytest.mark.parametrize(("visits", "told"), [("rrrrr", 0), ("rrrss", 0), ("rrrrstttt", 9)])
def test_a_repeated_row_does_not_read_its_partner(tmp_path, visits, told):
    """With m:1 a clinic could ask for anybody's costs: a row five times is still one person."""
    alone = [{**column, "held_by": ["clinic"]} for column in SHARED[:1]]
    patients = [*"abcdef", *visits]
    stays = [1] * 6 + [30] * len(visits)
    costs = pd.DataFrame({"name": list("abcdefrst"), "cost": [4] * 6 + [57, 58, 59]})
    tables = [("clinic", pd.DataFrame({"name": patients, "stay": stays})), ("insurer", costs)]
    join = {"rule": "exact", "columns": ["name"], "relation": "m:1"}
    starts = {"init": [[1, 4], [30, 60]], "iterations": 1, "labels": False}
    spec = spec_of(join, [*alone, SHARED[1], TEXTS[0]], min_size=3, **starts)
    clouds = TwoClouds(give(spec, tables, tmp_path))
    results = clouds.run()
    check(clouds, results, tables)
    assert [result.sizes_.tolist() for result in results.values()] == [[6, told]] * 2


@pytest.mark.parametrize("relation", ["1:1", "m:1"])
def test_three_sides_are_a_star_at_the_anchor(tmp_path, relation):
    sides = (("insurer", 8), ("practice", 8), ("hospital", 7))
    spec = spec_of({**EXACT, "relation": relation, "anchor": "hospital"}, THREE)
    tables = tables_of(THREE, 0.05, sides, seed=10)
    clouds = TwoClouds(give(spec, tables, tmp_path))
    known = check(clouds, clouds.run(), tables)
    assert known.keep.any()
    assert not known.keep.all()


def named(owner, names):
    """People of these names, who differ in nothing else that is compared."""
    table = people(len(names), 5).assign(name=names, year=1990, code="100", height=3)
    return owner, table[held(owner, EVERY)]


MATRICES = {  # names of hospital and insurer: every shape of who matches whom
    "nobody": (["a", "b", "c"], ["d", "e", "f"]),
    "everybody": (["a", "b", "c"], ["c", "a", "b"]),
    "two partners": (["a", "b", "c"], ["a", "a", "c"]),
    "a partner of two": (["a", "a", "c"], ["a", "b", "c"]),
    "three partners": (["a", "b", "c"], ["a", "a", "a", "b"]),
    "two and two": (["a", "a", "b"], ["a", "a", "b"]),
    "one row each": (["a", "b"], ["a"]),
    "fewer than k": (["a", "b", "c", "d", "e"], ["e", "x"]),
}


@pytest.mark.parametrize("relation", ["1:1", "m:1"])
@pytest.mark.parametrize("case", MATRICES)
def test_all_shapes_of_matches(tmp_path, case, relation):
    tables = [
        named(o, names) for o, names in zip(("hospital", "insurer"), MATRICES[case], strict=True)
    ]
    spec = spec_of({**EXACT, "relation": relation}, max_iter=2)
    clouds = TwoClouds(give(spec, tables, tmp_path))
    known = check(clouds, clouds.run(), tables)
    assert known.keep.any() == (case != "nobody")


@pytest.mark.parametrize("job", [
    {"k": [1, 2], "inertia": True, "max_iter": 2},
    {"init": "random", "n_init": 2, "inertia": True, "max_iter": 2},
    {"init": [[3, 4, 5, 6], [20, 25, 9, 1]]},
    {"iterations": 2},
    {"min_size": 3},
])  # fmt: skip
@pytest.mark.parametrize("least", [7, 8])
def test_jobs_and_the_fewest_joined_rows(tmp_path, job, least):
    spec = spec_of({**EXACT, "least": least}, **job)
    tables = [named("hospital", list("abcdefgh")), named("insurer", list("hgfedcxa"))]
    clouds = TwoClouds(give(spec, tables, tmp_path))
    known = check(clouds, clouds.run(), tables)
    assert known.keep.sum() == 7


def test_words_beyond_the_bounds_and_in_columns_not_held(tmp_path):
    """A hostile owner's words count as min(t mod 2^b, ub), and only in its own columns."""
    tables = [named("hospital", ["a", "b", "c"]), named("insurer", ["c", "a", "x"])]
    spec = spec_of(EXACT)
    given = give(spec, tables, tmp_path)
    first, _ = given.shares
    columns = spec.job.joined(spec.schema)
    at = columns.layout.width
    first[:3, [at + 1, at + 3]] += np.uint64(77)  # the hospital in the insurer's columns
    first[3:, at] += np.uint64(1 << 40)  # the insurer in the hospital's
    first[3:, at + 1] += np.uint64(1 << 33)  # far above ub, nothing modulo 2^5
    plain = (first - given.shares[1])[3:, at + 3] & np.uint64(31)
    first[3:, at + 3] += np.uint64(31) - plain  # 31, one above ub
    clouds = TwoClouds(given)
    results = clouds.run()
    known = Known(given, tables, checked=False)
    known.records = np.minimum(known.records % 32, 30)
    plain = known.expected().by_k[2]
    for result in results.values():
        assert result.sums_.tolist() == plain.sums.tolist()
        assert result.sizes_.tolist() == plain.sizes.tolist()


# ----------------------------------------------------------------------------------- pairs, faults


def test_pairs_share_the_join_and_a_killed_job_goes_on(tmp_path, monkeypatch):
    small(monkeypatch)
    sides = (("insurer", 9), ("hospital", 5), ("hospital", 4))
    spec = spec_of({**FIELDS, **TWO_KEYS}, k=3, max_iter=4)
    tables = tables_of(EVERY, 0.1, sides)
    given = give(spec, tables, tmp_path)
    first = TwoClouds(given, pairs=3)
    assert len(first.plans[0].linking.rounds) >= 2
    first.start()
    first.step()  # everything is lost but the checkpoints, three times
    second = resumed(given, first, 2)
    assert 0 < second.plans[0].linking.done < len(second.plans[0].linking.work)
    second.start()
    while second.plans[0].linking.rounds:
        second.step()
    third = resumed(given, second, 2)  # before the rows are joined
    third.start()
    while third.plans[0].links:
        third.step()
    assert third.names == ["home"]
    fourth = resumed(given, third, 3)
    fourth.start()
    while fourth.plans[0].iteration < fourth.plans[0].linked + 2:
        fourth.step()
    assert not {"link", "home"} & set(fourth.names)
    fifth = resumed(given, fourth, 1)
    check(fifth, fifth.run(), tables)
    assert "start" not in fifth.names


def test_more_pairs_than_rows_of_the_anchor(tmp_path):
    tables = [named("hospital", ["a", "b"]), named("insurer", ["c", "a", "b"])]
    clouds = TwoClouds(give(spec_of(EXACT), tables, tmp_path), pairs=4)
    check(clouds, clouds.run(), tables)
    assert clouds.plans[0].slots == [1, 3]


def test_a_job_without_a_side_is_refused(tmp_path):
    tables = [named("hospital", ["a", "b", "c"]), named("insurer", ["c"])]
    given = give(spec_of(EXACT), tables, tmp_path)
    alone = Sealed.of(given.spec, [("hospital", 3, None)])
    with pytest.raises(InputError, match="insurer has uploaded nothing"):
        cloud_side(given.spec).plan(JobFacts(alone))
    few = Sealed.of(given.spec, [("hospital", 1, None), ("insurer", 9, None)])
    with pytest.raises(InputError, match="needs at least 2 rows of hospital"):
        cloud_side(given.spec).plan(JobFacts(few))
    many = Sealed.of(given.spec, [("hospital", 1 << 17, None), ("insurer", 1 << 17, None)])
    with pytest.raises(InputError, match="compares at most"):
        cloud_side(given.spec).plan(JobFacts(many))


def test_the_other_suite_refuses_it():
    with pytest.raises(InputError, match="join needs the suite 'shares'"):
        cloud_side(spec_of(EXACT, init="random")).check(100, "paillier", 2048)


@pytest.mark.parametrize("relation", ["1:1", "m:1"])
def test_sizes_of_all_messages_are_the_same_whoever_is_joined(tmp_path, monkeypatch, relation):
    """Nothing hints at how many are joined, with a fixed number of iterations."""
    ends = []

    def recorded(make=two_clouds.memory_pair):
        ends.append([Recorder(end) for end in make()])
        return ends[-1]

    monkeypatch.setattr(two_clouds, "memory_pair", recorded)
    names = ["a", "b", "c", "d"]
    for number, theirs in enumerate((["e", "f", "g"], ["d", "a", "c"], ["a", "a", "b"])):
        tables = [named("hospital", names), named("insurer", theirs)]
        spec = spec_of({**EXACT, "relation": relation, "least": 2}, iterations=2)
        clouds = TwoClouds(give(spec, tables, tmp_path / str(number)))
        check(clouds, clouds.run(), tables)
    first, *others = [[end.shape() for end in pair] for pair in ends]
    assert all(other == first for other in others)
    assert len(ends[0][0].sent) > 10


# -------------------------------------------------------------------------------------- the ledger


def test_what_is_revealed_is_on_record():
    reveals = [step.reveals for step in table(spec_of(EXACT).job) if step.reveals]
    assert reveals == [
        "both clouds: the stop bit",  # in one step with the assignment
        "both clouds: the stop bit",  # in a step of its own
        "owners, from both halves: sums and sizes of the joined records",
        "owners of the anchor: which of their rows are joined, and the labels of these",
    ]


# ----------------------------------------------------------------------------------- without sizes


@pytest.mark.parametrize(("least", "min_size"), [(1, 1), (7, 3), (8, 1), (1, 8)])
def test_centres_without_sizes(tmp_path, least, min_size):
    spec = spec_of({**EXACT, "least": least}, sizes=False, min_size=min_size, max_iter=3)
    tables = [named("hospital", list("abcdefgh")), named("insurer", list("hgfedcxa"))]
    clouds = TwoClouds(give(spec, tables, tmp_path))
    results = clouds.run()
    known = Known(clouds.given, tables)
    last = known.expected().by_k[2].iterations[-1]
    n = last.sizes
    told = (n >= min_size) & (n.sum() >= least)
    centres = (2 * last.sums + n[:, None]) // np.maximum(1, 2 * n)[:, None]
    wanted = np.where(told[:, None], centres, 0)
    for result in results.values():
        assert result.sums_.tolist() == wanted.tolist()
        assert result.sizes_.tolist() == told.tolist()
        assert not result.sized
        assert "records" not in result.table()[0]
        assert "records" not in result.to_frame()
        assert result.figures()["sizes"] is None


@pytest.mark.parametrize("ub", [1, 2, 30, 1000, 1 << 20])
def test_quotients_are_rounded_halves_upwards(ub):
    """Sums and sizes at all edges: 0, all, halves, just below and above."""
    edges = [(n, {0, 1, n // 2, n * ub // 2, n * ub - 1, n * ub}) for n in (1, 2, 3, 7, 50)]
    cases = [(s, n) for n, sums in edges for s in sums if s <= n * ub]
    plain = np.array([*cases, (0, 0)], np.uint64)
    random = np.random.default_rng(3)
    other = random.integers(0, 1 << 63, plain.shape, np.uint64)

    def half(role):
        def run(channel):
            session = Session.start(role, channel, "centres")
            share = plain - other if role == 1 else other
            return whole_centres(session, share, 3, 50, ub)

        return run

    first, second = together(half(1), half(2))
    told = plain[:, 1] >= 3
    n = np.where(told, plain[:, 1], 1)
    wanted = np.where(told, (2 * plain[:, 0] + n) // (2 * n), 0)
    assert (first + second)[:, 0].tolist() == wanted.tolist()
    assert (first + second)[:, 1].tolist() == told.tolist()


def test_specs_without_sizes():
    spec = spec_of(EXACT, sizes=False)
    assert Spec.loads(spec.to_toml()) == spec
    assert "nobody learns how many rows are joined" in " ".join(spec.describe())
    assert "sizes" not in spec_of(EXACT).to_dict()["job"]
    with pytest.raises(InputError, match="labels would tell how many rows are joined"):
        spec_of(EXACT, sizes=False, labels=True)
    with pytest.raises(InputError, match="inertia would tell the sizes"):
        spec_of(EXACT, sizes=False, inertia=True)
    with pytest.raises(InputError, match="false with a table"):
        Job(2, sizes=False)
    with pytest.raises(InputError, match="need more than 62 bits"):
        cloud_side(spec_of(EXACT, ub=1 << 20, sizes=False)).check(1 << 42, "shares", 0)
    (*_, output, _) = table(spec.job)
    assert output.reveals == "owners, from both halves: centres in whole steps, no sizes"
