"""Supplies made ahead are exactly what comparing takes, whatever the rule."""

from dataclasses import replace

import pandas as pd
import pytest

from ppodc.linkage.blocks.candidates import pairs_of
from ppodc.mpc import supplies
from ppodc.mpc.supplies import Needs
from ppodc.pairs.plan import LEAD, Prepare, SlotView
from tests.harness.together import together
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import give
from tests.linkage.test_job import (
    COLUMNS,
    EPSILON,
    FIELDS,
    NUMBERS,
    TEXTS,
    YEAR,
    number_tables,
    people,
    spec_of,
)

EDIT = {"rule": "edit", "attributes": 2, "limit": 1}
LENGTHS = {"blocks": "length", "epsilon": 8, "delta": "1/10", "shortest": 2}
KEY = {"blocks": "key", "key": "year", "lossy": True, **EPSILON}
DICE = {"rule": "dice", "bits": 8, "threshold": 0.5}


def texts():
    return [(owner, people(n, n)) for owner, n in (("ann", 7), ("bob", 9))]


def spec_and_tables(name):
    if name == "numbers":
        return spec_of({**NUMBERS, "blocks": "adtree", **EPSILON}, COLUMNS), number_tables()
    if name == "fields":
        return spec_of({**FIELDS, **KEY, "output": "count"}, YEAR, TEXTS), texts()
    if name == "dice":
        filters = [(o, pd.DataFrame({"clk": ["/w==", "8A=="]})) for o in ("ann", "bob")]
        return spec_of(DICE, texts=[("clk", "filter", 8)]), filters
    own = [(owner, table[["name", "code"]]) for owner, table in texts()]
    return spec_of({**EDIT, **(LENGTHS if name == "lengths" else {})}, texts=TEXTS), own


@pytest.mark.parametrize("name", ["numbers", "fields", "lengths", "secret lengths", "dice"])
def test_nothing_more_is_made_and_nothing_is_left(tmp_path, monkeypatch, name):
    clouds = TwoClouds(give(*spec_and_tables(name), tmp_path))
    clouds.start()
    for plan in clouds.plans:
        plan.facts = replace(plan.facts, prepare=plan.max_iter)
    place = SlotView(LEAD, tuple(clouds.plans[0].facts.shards), {})
    (task,), _ = (Prepare().tasks(plan, place) for plan in clouds.plans)
    halves = clouds.halves[0]

    def prepare(half):
        half.expect(*task.inputs)
        work, made = half.to_prepare(*task.agreed[:1]), []
        half.prepare(1, made.append)
        assert sum(made) >= work > 0
        assert half.to_prepare(1) == 0

    together(lambda _: prepare(halves[0]), lambda _: prepare(halves[1]), clouds.ends[0])
    more = []
    monkeypatch.setattr(supplies, "make", lambda _, orders, **__: more.append(orders))
    while clouds.plans[0].rounds:
        for plan in clouds.plans:
            plan.facts = replace(plan.facts, prepare=0)
        clouds.step()
    assert more == []
    assert all(half._session.supplies.available() == Needs() for half in halves)


def test_only_the_rounds_that_were_asked_for(tmp_path):
    clouds = TwoClouds(give(*spec_and_tables("numbers"), tmp_path), pairs=2)
    plan = clouds.plans[0]
    plan.facts = replace(plan.facts, prepare=1)
    told = [plan.ahead(slot) for slot in range(2)]
    assert told == [[portion] for portion in plan.rounds[0]]
    plan.facts = replace(plan.facts, prepare=10_000)
    told = [portion for slot in range(2) for portion in plan.ahead(slot)]
    assert sorted(map(pairs_of, told)) == sorted(pairs_of(p) for r in plan.rounds for p in r)
