"""The kind `linkage`: specs, both halves over shards and uploads, what an owner opens."""

import itertools

import numpy as np
import pytest

from ppodc.errors import InputError
from ppodc.linkage.half import LinkageHalf
from ppodc.linkage.job import SAMPLE, Job
from ppodc.linkage.kind import KIND
from ppodc.linkage.outcome import OWNER_BITS
from ppodc.linkage.pieces import pieces
from ppodc.linkage.plan import LinkagePlan
from ppodc.linkage.reference import match_matrix
from ppodc.linkage.rules import SquaredDistance
from ppodc.pairs.plan import Material
from ppodc.pairs.shards import Shard
from ppodc.records.output_half import OpenedResult, open_output
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec
from tests.linkage.shared import sealed, uploaded
from tests.mpc.pair import key
from tests.two_clouds import together


def make_spec(columns: int = 2, ub: int = 63, limit: int = 2, output: str = "links") -> Spec:
    listed = tuple(Column(f"x{i}", 0, 1) for i in range(columns))
    return Spec("d", Schema(listed, ub), Job(SquaredDistance((1,) * columns, limit), output))


def opened(spec, records, plan, edges):
    """What each row output holds for every sealed row."""
    shares = uploaded(records)
    names = tuple(f"{a}-{b}" for a, b in itertools.pairwise(edges))
    (task,) = plan.table[0].tasks(plan, _Place(names))
    counted: list[int] = []

    def run(role, channel):
        half = LinkageHalf(role, channel, spec, len(records), Material(key(role)))
        for name, first, end in zip(names, edges, edges[1:], strict=False):
            half.ingest(name, shares[role - 1][first:end])
        return KIND.perform(half, task, counted.append)

    both = together(lambda channel: run(1, channel), lambda channel: run(2, channel))
    assert sum(counted) == 2 * len(records)
    return [open_output(*halves) for halves in zip(*both, strict=True)]


class _Place:
    def __init__(self, names):
        self.names = names


def expected_links(spec, records, owners, tokens):
    """Partners and token of each row, from plaintext."""
    meets = match_matrix(spec.job.rule, records, records)
    meets &= np.array(owners)[:, None] != np.array(owners)[None, :]
    counts = meets.sum(axis=1)
    found = [tokens[int(np.flatnonzero(row)[0])] if row.sum() == 1 else 0 for row in meets]
    return np.minimum(counts, 2).tolist(), found


OWNERS = [0] * 9 + [1] * 12 + [0] * 4 + [2] * 5
TOKENS = [owner << OWNER_BITS | OWNERS[:row].count(owner) for row, owner in enumerate(OWNERS)]
UPLOADS = sealed(("a", 9), ("b", 12), ("a", 4), ("c", 5))


def records(ub=63):
    random = np.random.default_rng(3)
    rows = random.integers(0, ub + 1, (30, 2))
    rows[9:15] = rows[:6]  # one partner each
    rows[25:27] = rows[:2]  # two partners
    rows[21] = rows[20]
    rows[3] = (ub, ub)
    return rows


@pytest.mark.parametrize("edges", [(0, 30), (0, 7, 11, 30)])
def test_links_of_three_owners_equal_plaintext(edges):
    """An owner with two uploads, shards that cut uploads, rows with none, one, several partners."""
    spec, rows = make_spec(), records()
    plan = LinkagePlan(spec.job, UPLOADS, [], 1)
    partners, links = opened(spec, rows, plan, edges)
    wanted = expected_links(spec, rows, OWNERS, TOKENS)
    assert (partners, links) == wanted
    assert set(partners) == {0, 1, 2}


def test_flags_tell_only_whether_there_is_a_partner():
    spec, rows = make_spec(output="flags"), records()
    (flags,) = opened(spec, rows, LinkagePlan(spec.job, UPLOADS, [], 1), (0, 30))
    partners, _ = expected_links(spec, rows, OWNERS, TOKENS)
    assert flags == [min(1, count) for count in partners]


def test_pieces_follow_shards_and_uploads():
    listed = list(pieces([("s", 3), ("t", 4)], [(0, 2), (1, 4), (0, 1)]))
    assert [(p.owner, p.shard, p.rows, p.first) for p in listed] == [
        (0, "s", (0, 2), 0),
        (1, "s", (2, 3), 2),
        (1, "t", (0, 3), 3),
        (0, "t", (3, 4), 6),
    ]
    assert [p.token for p in listed] == [0, 1 << OWNER_BITS, 1 << OWNER_BITS | 1, 2]


def test_one_owner_alone_is_refused():
    with pytest.raises(InputError, match="two owners"):
        KIND.plan(make_spec(), sealed(("a", 3), ("a", 4)), [Shard("s", 0, 7, 0)], 1, print)


def test_the_sample_is_a_spec_of_this_kind():
    spec = Spec.loads(SAMPLE)
    assert spec.kind is KIND
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()) == spec


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rule": "soundex"}, 'must be "sse"'),
        ({"weights": [1]}, "1 weights for 2 columns"),
        ({"weights": [0, 0]}, "more than 0"),
        ({"weights": 3}, "list of whole numbers"),
        ({"limit": -1}, "whole number from 0"),
        ({"limit": 2 * 63 * 63}, "every pair"),
        ({"blocks": "adtree"}, 'must be "none"'),
        ({"output": "everything"}, "one of links, flags"),
        ({"epsilon": 1}, "unknown key"),
    ],
)
def test_jobs_that_are_refused(change, words):
    document = make_spec().to_dict()
    document["job"] = {**document["job"], **change}
    with pytest.raises(InputError, match=words):
        Spec.from_dict(document)


def result(partners, links, facts=None):
    facts = {"owners": ["a", "b"]} if facts is None else facts
    return KIND.open_result(
        make_spec(), OpenedResult(facts, {}, {"partners": partners, "links": links})
    )


def test_an_owner_opens_names_and_row_numbers():
    links = result([0, 1, 2], [0, 1 << OWNER_BITS | 7, 0])
    assert links.links_ == [None, ("b", 7), None]
    assert links.table()[1] == [["none", "1"], ["one", "1"], ["several", "1"]]
    assert links.own_rows() == {"partners": [0, 1, 2]}
    assert links.figures()["links"] == [None, ("b", 7), None]
    assert "3" in links.summary()


@pytest.mark.parametrize(
    ("partners", "links", "facts"),
    [
        ([3], [0], None),
        ([1], [2 << OWNER_BITS], None),
        ([0], [5], None),
        ([1], [], None),
        ([0], [0], {}),
    ],
)
def test_halves_that_do_not_belong_together(partners, links, facts):
    with pytest.raises(InputError, match="do not belong together"):
        result(partners, links, facts)


def test_a_half_refuses_rows_that_do_not_fit():
    spec = make_spec()

    def run(role, channel):
        half = LinkageHalf(role, channel, spec, 2, Material(key(role)))
        with pytest.raises(InputError, match="does not fit"):
            half.ingest("s", np.zeros((3, 2), np.uint64))

    together(lambda channel: run(1, channel), lambda channel: run(2, channel))
