"""Two owners without clouds: links equal plaintext, and what stops one is told to the other."""

from dataclasses import replace

import numpy as np
import pytest

from client.platforms import two_owners
from client.platforms.two_owners import DirectLinkage
from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.records.encode import encode
from ppodc.transport.channel import memory_pair
from tests.harness.together import together
from tests.linkage.test_job import COLUMNS, EPSILON, NUMBERS, spec_of
from tests.linkage.whole_job import check, expected
from tests.service.data import members


def two_tables():
    random = np.random.default_rng(5)
    rows = random.integers(0, 64, (24, 3)).astype(float)
    ann, bob = rows[:11], rows[11:]
    bob[:5, :2], bob[5, :2] = ann[:5, :2], ann[0, :2]
    return {"ann": ann, "bob": bob}


def ends(spec, tables, folder, specs=None, names=("ann", "bob")):
    return [
        DirectLinkage(
            (specs or (spec, spec))[role - 1],
            table,
            role=role,
            owner=names[role - 1],
            privacy=folder / str(role),
        )
        for role, table in enumerate(tables.values(), 1)
    ]


def linked(both, watch=lambda _: None):
    first, second = both
    return together(
        lambda channel: first.run(channel, watch),
        lambda channel: second.run(channel),
    )


def wanted(spec, tables):
    rows = [(owner, encode(table, spec.schema).tolist()) for owner, table in tables.items()]
    return expected(rows, lambda a, b: spec.job.rule.matches(a, b), set(tables))


@pytest.mark.parametrize(
    "job",
    [
        {"blocks": "none", "max_links": 2},
        {"blocks": "adtree", **EPSILON},
        {"blocks": "adtree-shared", "tree_of": "bob", **EPSILON},
    ],
)
def test_both_learn_the_links_of_their_own_rows(tmp_path, job):
    spec, tables = spec_of({**NUMBERS, **job}, COLUMNS), two_tables()
    events = []
    results = linked(ends(spec, tables, tmp_path), events.append)
    named = dict(zip(tables, results, strict=True))
    assert check(named, wanted(spec, tables), job.get("max_links", 1)) > 4
    assert {"exchanging shares", "ingest", "link", "output"} == {e.phase for e in events}
    assert max(event.rows_done for event in events) > 0


@pytest.mark.parametrize("job", [{}, {"blocks": "adtree-shared", "tree_of": "bob", **EPSILON}])
def test_an_owner_without_rows_has_no_links(tmp_path, job):
    spec, tables = spec_of({**NUMBERS, **job}, COLUMNS), two_tables()
    for number, none in enumerate((["ann"], ["bob"], ["ann", "bob"])):
        left = {name: rows[: 0 if name in none else 4] for name, rows in tables.items()}
        results = linked(ends(spec, left, tmp_path / str(number)))
        for rows, result in zip(left.values(), results, strict=True):
            assert result.partners_ == [0] * len(rows)
            assert result.links_ == [()] * len(rows)


def test_flags_and_counts(tmp_path):
    tables = two_tables()
    flags = spec_of({**NUMBERS, "output": "flags"}, COLUMNS)
    links = wanted(flags, tables)
    for owner, result in zip(tables, linked(ends(flags, tables, tmp_path)), strict=True):
        assert result.links_ is None
        assert result.partners_ == [int(bool(each)) for each in links[owner]]
    count = spec_of({**NUMBERS, "output": "count"}, COLUMNS)
    first, second = linked(ends(count, tables, tmp_path))
    assert first.count_ == second.count_ == sum(map(len, links["ann"]))


def test_equal_names_and_what_stops_one_end_reach_the_other(tmp_path):
    spec, tables = spec_of(NUMBERS, COLUMNS), two_tables()
    same = ends(spec, tables, tmp_path, names=("ann", "ann"))
    with pytest.raises(PpodcError, match="both owners are called 'ann'"):
        linked(same)
    ann, bob = ends(spec, tables, tmp_path)
    channels = memory_pair()
    told = []

    def interrupted(event):
        if event.phase == "link":
            raise KeyboardInterrupt

    def first(channel):
        with pytest.raises(KeyboardInterrupt):
            ann.run(channel, interrupted)

    def second(channel):
        with pytest.raises(ChannelError) as caught:
            bob.run(channel)
        told.append(str(caught.value))

    together(first, second, channels)
    assert "the other party stopped" in told[0]


def test_bad_tables_and_foreign_owners_are_refused_before_anything_is_sent(tmp_path):
    spec, tables = spec_of(NUMBERS, COLUMNS), two_tables()
    tables["ann"][3, 1] = 99
    with pytest.raises(InputError, match="row 3"):
        ends(spec, tables, tmp_path)
    shared = spec_of({**NUMBERS, "blocks": "adtree-shared", "tree_of": "eve", **EPSILON}, COLUMNS)
    with pytest.raises(PpodcError, match="'eve', who is neither"):
        linked(ends(shared, two_tables(), tmp_path))
    assert not (tmp_path / "1").exists()


def test_rows_that_nobody_could_take_in_are_refused_before_they_are_made(tmp_path, monkeypatch):
    """A seed stands for as many rows as its owner says."""
    spec, tables = spec_of(NUMBERS, COLUMNS), two_tables()
    ann, bob = ends(spec, tables, tmp_path)

    def lying(channel, _other):
        channel.send(two_owners._OUTLINE, two_owners._Size(1 << 40, 0))
        channel.send(two_owners._SEED, two_owners._Seed(bytes(32)))
        return two_owners._Sent("ann", np.zeros((11, 3), np.uint64), None)

    monkeypatch.setattr(ann, "_own_rows", lying)
    monkeypatch.setattr(bob, "_masks", lambda _seed, rows: np.zeros((rows, 3), np.uint64))
    with pytest.raises(PpodcError, match="has 1,099,511,627,776 rows; 89,478,485 are taken"):
        linked([ann, bob])


def test_a_peer_whom_the_spec_does_not_name_is_refused(tmp_path):
    spec, tables = spec_of(NUMBERS, COLUMNS), two_tables()
    named = replace(spec, owners=members("ann", "cat"))
    ann, bob = ends(spec, tables, tmp_path)
    ann.spec = named
    with pytest.raises(PpodcError, match="calls itself 'bob', whom the spec does not name"):
        linked([ann, bob])
