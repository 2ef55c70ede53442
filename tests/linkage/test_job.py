"""Whole linkage jobs of every rule and all blocks, on threads: all links equal plaintext."""

import base64

import numpy as np
import pandas as pd
import pytest

from ppodc.errors import InputError, ProtocolError
from ppodc.linkage import schedule
from ppodc.linkage.blocks.candidates import Block, Work, pairs_of
from ppodc.linkage.half import LinkageHalf
from ppodc.linkage.kind import KIND
from ppodc.linkage.owner import owner_side
from ppodc.linkage.rules import SquaredDistance
from ppodc.linkage.tokens import ROW_BITS, UPLOAD_BITS
from ppodc.pairs.cloud_side import Material
from ppodc.records.encode import encode
from ppodc.records.result_shares import OpenedResult
from ppodc.spec import Spec
from tests.harness.together import together
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import give
from tests.linkage.whole_job import check, expected
from tests.service.data import members

OWNERS = members("ann", "bob")
EPSILON = {"epsilon": 4, "delta": "1/100"}


def spec_of(job, columns=(), texts=(), ub=63) -> Spec:
    listed = [{"name": n, "low": low, "high": high} for n, low, high in columns]
    listed += [{"name": n, "text": signs, "longest": most} for n, signs, most in texts]
    schema = {"ub": ub, "columns": listed}
    return Spec.from_dict({"name": "d", "schema": schema, "job": {"kind": "linkage", **job}})


# --------------------------------------------------------------------------------- numbers

X = {"column": "x", **EPSILON}
NUMBERS = {"rule": "sse", "weights": [1, 2, 0], "limit": 3}
COLUMNS = [("x", 0, 63), ("y", 0, 63), ("other", 0, 63)]


def number_tables(seed=3):
    """Three owners, one with two uploads; rows with no, one, two and three partners."""
    random = np.random.default_rng(seed)
    rows = random.integers(0, 64, (40, 3)).astype(float)
    ann, bob, cat, more = rows[:11], rows[11:24], rows[24:31], rows[31:]
    bob[:6, :2], cat[:3, :2], more[0, :2] = ann[:6, :2], ann[:3, :2], ann[7, :2]
    bob[6, :2] = ann[0, :2] + (1 if ann[0, 0] < 63 else -1, 0)
    return [("ann", ann), ("bob", bob), ("cat", cat), ("ann", more)]


def number_links(spec, tables):
    rows = [(owner, encode(table, spec.schema).tolist()) for owner, table in tables]
    return expected(rows, lambda a, b: spec.job.rule.matches(a, b), {o for o, _ in tables})


@pytest.mark.parametrize(
    "blocks",
    [
        {"blocks": "none"},
        {"blocks": "adtree", **EPSILON},
        {"blocks": "adtree-shared", "tree_of": "ann", **EPSILON},
    ],
)
def test_numbers_in_blocks_that_lose_nothing(tmp_path, blocks):
    spec, tables = spec_of({**NUMBERS, **blocks}, COLUMNS), number_tables()
    clouds = TwoClouds(give(spec, tables, tmp_path))
    results = clouds.run()
    assert check(results, number_links(spec, tables)) > 10
    assert {0, 1, 2} <= set(results["ann"].partners_)
    done = {event.iteration: event.rows_done for event in clouds.events if event.phase == "link"}
    rows = sum(shard.rows for shard in clouds.walks[0].plan.facts.shards)
    assert done == dict.fromkeys(range(1, clouds.plans[0].iteration + 1), rows)


@pytest.mark.parametrize(("most", "blocks"), [(2, {}), (3, {"blocks": "adtree", **EPSILON})])
def test_several_links_of_a_row(tmp_path, most, blocks):
    spec, tables = spec_of({**NUMBERS, **blocks, "max_links": most}, COLUMNS), number_tables()
    results = TwoClouds(give(spec, tables, tmp_path)).run()
    check(results, number_links(spec, tables), most)
    assert 2 in results["ann"].partners_


@pytest.mark.parametrize("blocks", [{"blocks": "adtree", **EPSILON}])
def test_flags_and_counts_tell_no_more_than_they_say(tmp_path, blocks):
    tables = number_tables()
    flags = spec_of({**NUMBERS, **blocks, "output": "flags"}, COLUMNS)
    wanted = number_links(flags, tables)
    for owner, result in TwoClouds(give(flags, tables, tmp_path)).run().items():
        assert result.partners_ == [int(bool(links)) for links in wanted[owner]]
        assert result.links_ is None
    count = spec_of({**NUMBERS, **blocks, "output": "count"}, COLUMNS)
    total = sum(len(links) for rows in wanted.values() for links in rows) // 2
    for result in TwoClouds(give(count, tables, tmp_path)).run().values():
        assert result.count_ == total
        assert result.own_rows() == {}
    assert KIND.row_outputs(count) == ()


def test_blocks_by_key_compare_equal_keys_only(tmp_path):
    job = {**NUMBERS, "blocks": "key", "key": "other", "lossy": True, **EPSILON}
    spec, tables = spec_of(job, [*COLUMNS[:2], ("other", 0, 3)]), number_tables()
    for _, table in tables:
        table[:, 2] %= 4
    whole = number_links(spec, tables)
    rows = [(o, encode(t, spec.schema).tolist()) for o, t in tables]
    rule = spec.job.rule
    wanted = expected(rows, lambda a, b: a[2] == b[2] and rule.matches(a, b), set(whole))
    assert wanted != whole
    assert check(TwoClouds(give(spec, tables, tmp_path)).run(), wanted) > 2


# ------------------------------------------------------------------------- several pairs


def test_portions_over_pairs_and_a_resumed_job(tmp_path, monkeypatch):
    monkeypatch.setattr(SquaredDistance, "batch_pairs", 40)
    monkeypatch.setattr(SquaredDistance, "portion_pairs", 100)
    spec, tables = spec_of(NUMBERS, COLUMNS), number_tables()
    given = give(spec, tables, tmp_path)
    first = TwoClouds(given, pairs=3)
    rounds = first.plans[0].max_iter
    assert rounds >= 2
    first.start()
    first.step()
    assert [plan.iteration for plan in first.plans] == [1, 1]
    # everything is lost but the checkpoints; two pairs go on
    second = TwoClouds(given, pairs=2)
    for plan, saved in zip(second.plans, first.saved, strict=True):
        assert plan.can_go_on_from(saved[-1], {1})
        assert not saved[-1].event  # nothing was learnt
        plan.restore(saved[-1], None)
    compared = sum(map(pairs_of, (part for r in second.plans[0].rounds for part in r)))
    assert 0 < compared < pairs_of([w for r in TwoClouds(given).plans[0].rounds
                                         for part in r for w in part])  # fmt: skip
    check(second.run(), number_links(spec, tables))


def scattered(cells: int, rows: int):
    """An outline whose every second cell meets all of the others' and keeps them apart."""
    everywhere, corner = [rows, 0, 64, 0, 64], [rows, 63, 64, 63, 64]
    return np.array([everywhere, corner] * (cells // 2), np.uint32)


def test_cells_that_would_fill_the_clouds_memory_are_refused(monkeypatch):
    spec = spec_of({**NUMBERS, "blocks": "adtree", **EPSILON}, COLUMNS)
    honest = np.array([[1, x, x + 1, 0, 64] for x in range(60)], np.uint32)
    hostile = scattered(200, 1)
    uploads = [schedule.Rows(0, 0, 0, 60), schedule.Rows(1, 0, 60, 200)]

    def listed(outlines):
        return schedule.all_work(spec.job, spec.schema, uploads, outlines)

    blocks = listed([honest, hostile])
    assert sum(len(each.block.ys) for each in blocks) == 60 * 100
    monkeypatch.setattr(schedule, "_MOST_STRETCHES", 6000)
    assert listed([honest, hostile]) == blocks
    monkeypatch.setattr(schedule, "_MOST_STRETCHES", 5999)
    with pytest.raises(InputError, match="too many pairs"):
        listed([honest, hostile])
    monkeypatch.setattr(schedule, "_MOST_MEETINGS", 60 * 200 - 1)
    with pytest.raises(InputError, match="too many cells"):
        listed([honest, hostile])
    # cells without rows are not looked at
    uploads[1] = schedule.Rows(1, 0, 60, 0)
    assert listed([honest, scattered(200, 0)]) == []


def test_rounds_hold_every_block_once_and_spread_them():
    blocks = [Work(0, 1, Block((0, n), ((0, 2),))) for n in (1, 2, 3, 4, 50, 1)]
    found = schedule.rounds(blocks, 2, 8)
    assert [each for part in found for portion in part for each in portion] == blocks
    assert all(len(part) <= 2 for part in found)
    assert len(found) >= 2
    assert max(pairs_of(p) for part in found for p in part) == 100  # a block is not cut here
    assert schedule.rounds([], 2, 8) == []
    assert len({schedule.digest(portion) for part in found for portion in part}) == sum(
        map(len, found)
    )


# ----------------------------------------------------------------------------------- texts


def people(count, seed, missing=0.0):
    random = np.random.default_rng(seed)
    names = ["anna", "anne", "hanna", "bo", "berta", "bertha", "carl", "karl"]

    def one():
        row = {
            "name": names[random.integers(len(names))],
            "code": f"{random.integers(100, 104)}",
            "year": int(random.integers(1990, 1994)),
        }
        return {key: None if random.random() < missing else value for key, value in row.items()}

    return pd.DataFrame([one() for _ in range(count)])


TEXTS = [("name", "words", 6), ("code", "digits", 3)]


def text_links(rule, tables, columns, same=lambda a, b: True):
    rows = [
        (o, [[None if pd.isna(v) else v for v in row] for row in t[columns].values.tolist()])
        for o, t in tables
    ]
    return expected(rows, lambda a, b: same(a, b) and rule.matches(a, b), {o for o, _ in tables})


@pytest.mark.parametrize(
    ("limit", "blocks"),
    [
        (0, {}),
        (1, {}),
        (2, {"blocks": "length", "epsilon": 8, "delta": "1/10", "shortest": 2}),
        (1, {"blocks": "embedding", "epsilon": 40, "delta": "1/10", "lengths": [3]}),
    ],
)
def test_texts_of_secret_and_of_public_lengths(tmp_path, blocks, limit):
    job = {"rule": "edit", "attributes": 2, "limit": limit, "max_links": 8, **blocks}
    spec = spec_of(job, texts=TEXTS)
    tables = [(o, people(n, n)[["code", "name"]]) for o, n in (("ann", 7), ("bob", 9))]
    wanted = text_links(spec.job.rule, tables, ["name", "code"])
    assert check(TwoClouds(give(spec, tables, tmp_path)).run(), wanted, 8) > 3


FIELDS = {
    "rule": "fields",
    "threshold": 4,
    "fields": [
        {"column": "name", "compare": "edit", "max": 1, "weight": 3},
        {"column": "code", "compare": "edit", "max": 1, "weight": 1},
        {"column": "code", "compare": "exact", "weight": 1},
        {"column": "year", "compare": "numeric", "max": 1, "weight": 2},
    ],
}
YEAR = [("year", 1990, 1993)]


@pytest.mark.parametrize("blocks", ["none", "key"])
def test_fields_with_values_missing(tmp_path, blocks):
    by_key = {"blocks": "key", "key": "year", "lossy": True, **EPSILON}
    job = {**FIELDS, "max_links": 8, **(by_key if blocks == "key" else {})}
    spec = spec_of(job, YEAR, TEXTS)
    tables = [(o, people(n, n, 0.15)) for o, n in (("ann", 12), ("bob", 15))]
    columns = ["name", "code", "code", "year"]
    same = (
        (lambda a, b: True)
        if blocks == "none"
        else (lambda a, b: a[3] is not None and a[3] == b[3])
    )
    wanted = text_links(spec.job.rule, tables, columns, same)
    assert check(TwoClouds(give(spec, tables, tmp_path)).run(), wanted, 8) > 10


@pytest.mark.parametrize(
    "job",
    [
        {"rule": "exact", "columns": ["name", "year"]},
        {"rule": "numeric", "columns": ["year"], "max": 0},
    ],
)
def test_rules_in_short(tmp_path, job):
    spec = spec_of({**job, "max_links": 8}, YEAR, TEXTS)
    tables = [(o, people(n, n)) for o, n in (("ann", 8), ("bob", 6))]
    wanted = text_links(spec.job.rule, tables, job["columns"])
    assert check(TwoClouds(give(spec, tables, tmp_path)).run(), wanted, 8) > 0


def test_filters_by_dice(tmp_path):
    random = np.random.default_rng(4)
    bits = random.integers(0, 2, (11, 20)).astype(np.uint8)
    bits[:, 0], bits[6:9, 1:] = 1, bits[:3, 1:]
    bits[6, 4:6] ^= 1
    texts = [base64.b64encode(np.packbits(row).tobytes()).decode() for row in bits]
    spec = spec_of({"rule": "dice", "bits": 20, "threshold": 0.8}, texts=[("clk", "filter", 20)])
    tables = [(o, pd.DataFrame({"clk": t})) for o, t in (("ann", texts[:6]), ("bob", texts[6:]))]
    numbers = [[int("".join(map(str, row)), 2)] for row in bits]
    rule = spec.job.rule
    wanted = expected(
        [("ann", numbers[:6]), ("bob", numbers[6:])],
        lambda a, b: rule.matches(a, b),
        ("ann", "bob"),
    )
    assert check(TwoClouds(give(spec, tables, tmp_path)).run(), wanted) >= 3


# ---------------------------------------------------------------------------------- results


def token(owner, row, upload=0):
    return (owner + 1) << (ROW_BITS + UPLOAD_BITS) | upload << ROW_BITS | row + 1


def result(partners, links, **change):
    spec = spec_of({**NUMBERS, **change}, COLUMNS)
    spec = Spec(spec.name, spec.schema, spec.job, OWNERS)
    columns = {"partners": partners, "links1": links}
    return owner_side(spec).open_result(OpenedResult({"owners": 2}, {}, columns))


def test_an_owner_opens_names_and_row_numbers():
    links = result([0, 1, 2], [0, token(1, 7, 3), 0])
    assert links.links_ == [(), (("bob", 3, 7),), ()]
    assert links.table()[1] == [["none", 1], ["1", 1], ["more than 1", 1]]
    assert links.own_rows() == {"partners": [0, 1, 2]}
    assert links.figures()["links"] == links.links_
    summary = "own rows: 3; 1 of 3 rows have more than max_links = 1 partners"
    assert links.summary().startswith(summary)
    assert "larger max_links (at most 8), or a stricter rule" in links.summary()
    assert result([0, 1], [0, token(1, 7)]).summary() == "own rows: 2"


def test_a_partner_without_a_number_does_not_spoil_the_result():
    """An owner may send whatever it likes as the numbers of its own rows."""
    assert result([1], [token(1, -1)]).links_ == [(("bob", 0, -1),)]


@pytest.mark.parametrize(
    ("partners", "links"),
    [([3], [0]), ([1], [token(2, 0)]), ([0], [5]), ([2], [5]), ([1], []), ([1], [0])],
)
def test_halves_that_do_not_belong_together(partners, links):
    with pytest.raises(ProtocolError, match="do not belong together"):
        result(partners, links)


def test_a_half_refuses_rows_that_do_not_fit():
    spec = spec_of(NUMBERS, COLUMNS)

    def run(role, channel):
        half = LinkageHalf(role, channel, spec, 2, Material())
        with pytest.raises(InputError, match="does not fit"):
            half.ingest("0x", np.zeros((3, 3), np.uint64))

    together(lambda channel: run(1, channel), lambda channel: run(2, channel))
