"""Blocks by several keys: pairs that agree in any of them, each once, and nothing more is told."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from ppodc.errors import InputError
from ppodc.linkage import blocks
from ppodc.linkage.blocks import passes
from ppodc.linkage.blocks.key_blocks import by_key, key
from ppodc.linkage.blocks.keys import BUCKETS, NO_KEY, Key
from ppodc.linkage.estimate import estimate
from ppodc.linkage.owner import owner_side
from ppodc.linkage.preview import preview
from ppodc.linkage.row_layout import row_numbers
from ppodc.privacy.budget import POPULATION, PrivacyBudget
from ppodc.records.encode import encode
from ppodc.spec import Spec
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import LIMIT, give
from tests.linkage.test_job import EPSILON, FIELDS, TEXTS, YEAR, people, spec_of, text_links
from tests.linkage.whole_job import check, expected

NUMBERS = {"rule": "sse", "weights": [1, 0, 0], "limit": 0}
COLUMNS = [("x", 0, 7), ("a", 0, 2), ("b", 0, 3)]
BOTH = {
    "blocks": "key",
    "lossy": True,
    "keys": [{"column": "a", **EPSILON}, {"column": "b", "epsilon": 2, "delta": "1/50"}],
}


def tables(seed=1):
    """Three owners, one with two uploads; many pairs agree in both keys, in one, in none."""
    random = np.random.default_rng(seed)
    each = [("ann", 9), ("bob", 8), ("cat", 5), ("ann", 4)]
    return [
        (owner, np.column_stack([random.integers(0, 8, n), random.integers(0, 3, n),
                                 random.integers(0, 4, n)]).astype(float))
        for owner, n in each
    ]  # fmt: skip


def wanted(spec, given):
    rows = [(owner, encode(table, spec.schema).tolist()) for owner, table in given]
    return expected(
        rows,
        lambda p, q: (p[1] == q[1] or p[2] == q[2]) and spec.job.rule.matches(p, q),
        {owner for owner, _ in given},
    )


@pytest.mark.parametrize(("most", "pairs"), [(1, 1), (3, 2)])
def test_a_row_is_linked_once_and_partners_of_all_passes_count_together(tmp_path, most, pairs):
    spec = spec_of({**NUMBERS, **BOTH, "max_links": most}, COLUMNS, ub=7)
    given = tables()
    links = wanted(spec, given)
    assert check(TwoClouds(give(spec, given, tmp_path), pairs).run(), links, most) > 20


def test_flags_and_counts_over_passes(tmp_path):
    flags = spec_of({**NUMBERS, **BOTH, "output": "flags"}, COLUMNS, ub=7)
    links = wanted(flags, tables())
    for owner, result in TwoClouds(give(flags, tables(), tmp_path)).run().items():
        assert result.partners_ == [int(bool(each)) for each in links[owner]]
    count = spec_of({**NUMBERS, **BOTH, "output": "count"}, COLUMNS, ub=7)
    total = sum(len(each) for rows in links.values() for each in rows) // 2
    for result in TwoClouds(give(count, tables(), tmp_path)).run().values():
        assert result.count_ == total


def test_texts_and_rows_without_a_key_in_three_passes(tmp_path):
    entries = [
        {"column": "year", **EPSILON},
        {"column": "name", "first": 1, "buckets": 3, **EPSILON},
        {"column": "code", "buckets": 2, **EPSILON},
    ]
    job = {**FIELDS, "max_links": 8, "blocks": "key", "lossy": True, "keys": entries}
    spec = spec_of(job, YEAR, TEXTS)
    given = [(o, people(n, n, 0.25)) for o, n in (("ann", 10), ("bob", 12))]

    def same(p, q):
        rows = [
            {"name": name, "code": code, "year": None if year is None else int(year) - 1990}
            for name, code, _, year in (p, q)
        ]
        return spec.job.blocking.compares(*rows)

    links = text_links(spec.job.rule, given, ["name", "code", "code", "year"], same)
    assert check(TwoClouds(give(spec, given, tmp_path)).run(), links, 8) > 10


def test_keys_of_texts():
    text = Key("postcode", first=2, buckets=50)
    assert text.number("2031") == text.number("20") == text.number("2099")
    assert 0 <= text.number("9999") < 50
    assert text.number("") == text.number(None) == NO_KEY
    assert Key("year").number(7) == 7
    assert {Key("year", buckets=3).number(n) for n in range(40)} == {0, 1, 2}
    spread = np.bincount([Key("name").number(f"{n}") for n in range(1280)], minlength=BUCKETS)
    assert len(spread) == BUCKETS
    assert spread.min() > 0
    # A public function that every release must keep: owners of different releases agree in it.
    assert [Key("p").number("2031"), Key("p").number("koln")] == [79, 43]


# ------------------------------------------------------------------------------- what is told


def test_each_pass_is_an_upload_of_its_own_in_an_order_of_its_own(tmp_path):
    """Given the counts, no order tells which row of one pass is which of another.

    All rows have the same keys, so that only the order inside a cell could tell them apart.
    """
    spec = spec_of({**NUMBERS, **BOTH}, COLUMNS, ub=7)
    form = owner_side(spec)
    table = np.array([[i % 8, 1, 2] for i in range(30)], float)
    sent, outline = form.arrange(form.encode(table), None, tmp_path, LIMIT)
    space, layout = spec.job.space(spec.schema), spec.job.layout(spec.schema)
    sizes = space.rows_of_passes(space.counts(len(sent), outline))
    number = row_numbers(sent[:, layout.number])
    one, two = (part[part > 0] for part in np.split(number, sizes[:1]))
    assert sorted(one) == sorted(two) == list(range(1, 31))
    together = sum(int(p) == int(q) for p, q in zip(one, two, strict=True))
    assert together < 8  # 1 is expected; 8 or more of 30 happen once in 100,000
    real = sent[:, layout.real].reshape(-1) > 0
    assert not sent[~real, : layout.number.stop].any()
    # and every row has its own masks: equal rows look different to both clouds
    chunk = form.chunk(sent, b"s" * 32, 0, 1)
    assert len(np.unique(chunk[:, 0])) == len(chunk)
    again, same = form.arrange(form.encode(table), None, tmp_path, LIMIT)
    assert np.array_equal(sent, again)
    assert np.array_equal(outline, same)


def test_costs_add_up_wherever_they_are_told(tmp_path):
    spec = spec_of({**NUMBERS, **BOTH}, COLUMNS, ub=7)
    blocking = spec.job.blocking
    assert blocking.cost == (6, Fraction(3, 100))
    assert [budget.epsilon for budget in blocking.budgets] == [4, 2]
    assert "epsilon 6 (4 + 2), delta 0.03" in " ".join(spec.describe())
    assert spec.form.privacy().guaranteed.epsilon == 6
    give(spec, [("ann", np.array([[1, 1, 1.0]]))], tmp_path)
    spent = PrivacyBudget(tmp_path / "ann" / "budget.json", LIMIT).spent(POPULATION)
    assert spent == (6, Fraction(3, 100))
    told = estimate(spec, [10, 10])
    assert told.epsilon == 6
    assert told.pairs > 0
    assert told.dummies > 0
    look = preview(spec, tables()[0][1])
    assert (look.cells, look.epsilon) == (4 + 5, 6)
    assert look.dummies > 0


def test_a_spec_keeps_its_keys():
    spec = spec_of({**NUMBERS, **BOTH}, COLUMNS, ub=7)
    assert Spec.from_bytes(spec.canonical()) == spec
    assert Spec.loads(spec.to_toml()) == spec
    short = {"blocks": "key", "key": "a", "lossy": True, "epsilon": "4", "delta": "1/100"}
    one = blocks.from_dict({**BOTH, "keys": BOTH["keys"][:1]})
    assert one.to_dict() == short  # as specs of one key have always been
    assert blocks.from_dict(short) == one == by_key("a", epsilon=4, delta="1/100")
    given = by_key("a", key("b", epsilon=2, delta="1/50"), epsilon=4, delta="1/100")
    assert given == spec.job.blocking
    assert by_key(key("t", buckets=9, first=2), epsilon=1, delta=0.01).passes[0].first == 2
    with pytest.raises(InputError, match="epsilon and delta"):
        by_key("a", key("b", epsilon=1, delta=0.1))


# --------------------------------------------------------------------------- hostile uploads


def test_switches_of_anybody_mix_up_nobody_elses_rows(tmp_path):
    spec = spec_of({**NUMBERS, **BOTH, "max_links": 8}, COLUMNS, ub=7)
    given = give(spec, tables()[:2], tmp_path)
    links = wanted(spec, tables()[:2])
    (_, first), _ = given.sealed.places()
    given.shares[0][: first.rows, -2:] += np.uint64(0x5A5A5)
    results = TwoClouds(given).run()
    assert [sorted(each) for each in results["bob"].links_] == links["bob"]
    assert sum(results["ann"].partners_) == sum(map(len, links["ann"]))


def test_passes_beyond_what_switches_can_order(tmp_path):
    spec = spec_of({**NUMBERS, **BOTH}, COLUMNS, ub=7)
    outline = np.ones((9, 1), np.uint32)
    outline[8] = 1 << 20
    with pytest.raises(InputError, match="1,048,576 rows in a pass"):
        spec.form.check_outline(outline, int(outline.sum()))
    passes.check_sizes([1 << 21])  # a single pass needs none


def test_cells_of_all_keys_are_bounded():
    wide = [{"column": c, "buckets": 9000, **EPSILON} for c in "ab"]
    with pytest.raises(InputError, match="more than 16384 cells"):
        spec_of({**NUMBERS, **BOTH, "keys": wide}, COLUMNS, ub=7)


def test_keys_that_are_no_whole_numbers_are_named(tmp_path):
    spec = spec_of({**NUMBERS, **BOTH}, COLUMNS, ub=7)
    with pytest.raises(InputError, match="column 'b': not a whole number"):
        owner_side(spec).encode(np.array([[1, 1, 1.5]]))
    texts = spec_of({**FIELDS, **BOTH, "keys": [{"column": "year", **EPSILON}]}, YEAR, TEXTS)
    with pytest.raises(InputError, match="column 'year'"):
        owner_side(texts).encode(pd.DataFrame({"name": ["a"], "code": ["1"], "year": [1.5]}))
