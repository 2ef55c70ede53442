"""A linkage of texts in key blocks over real services and Ray: links as in plaintext."""

from dataclasses import replace

import numpy as np
import pandas as pd

from client.operator import Operator
from client.owner import Owner
from ppodc.cluster.ray_head import LocalRay
from ppodc.members import Members
from ppodc.service.job_state import JobState
from ppodc.spec import Spec
from tests.end_to_end.two_services import Once, TwoServices, kill_worker
from tests.harness.patience import LONG

SPEC = """
name = "people"
[schema]
columns = [
    { name = "year", low = 1990, high = 1992 },
    { name = "surname", text = "words", longest = 6 },
    { name = "code", text = "digits", longest = 4 },
]
[job]
kind = "linkage"
rule = "fields"
threshold = 3
fields = [
    { column = "surname", compare = "edit", max = 1, weight = 2 },
    { column = "code", compare = "exact", weight = 1 },
    { column = "year", compare = "numeric", max = 0, weight = 1 },
]
blocks = "key"
key = "year"
lossy = true
epsilon = 4
delta = 0.01
max_links = 3
"""
NAMES = ("anna", "anne", "bertha", "carl", None)


def table(rows: int, seed: int) -> pd.DataFrame:
    """People of few names, codes and years; the order of columns is each owner's own."""
    random = np.random.default_rng(seed)
    columns = {
        "surname": [NAMES[random.integers(len(NAMES))] for _ in range(rows)],
        "code": [f"{random.integers(4):04}" for _ in range(rows)],
        "year": random.integers(1990, 1993, rows),
    }
    return pd.DataFrame({name: columns[name] for name in random.permutation(list(columns))})


def linked(spec: Spec, tables: dict[str, pd.DataFrame]) -> dict[str, list[list[tuple]]]:
    """Partners of every row, of the same year only: owner, upload and row."""
    columns = [field.column for field in spec.job.rule.fields]
    rows = [
        (owner, number, [None if pd.isna(value) else value for value in row])
        for owner, own in tables.items()
        for number, row in enumerate(own[columns].values.tolist())
    ]
    return {
        owner: [
            [(o, 0, j) for o, j, y in rows if o != owner and x[2] == y[2]
             and spec.job.rule.matches(x, y)]
            for own, _, x in rows if own == owner
        ]
        for owner in tables
    }  # fmt: skip


def test_three_owners_learn_their_links_though_a_worker_dies(
    services: TwoServices, ray_head: LocalRay
):
    spec = Spec.loads(SPEC)
    spec = replace(spec, owners=Members.of(services.config1.owners, 3))
    tables = {f"owner{n}": table(rows, n) for n, rows in ((1, 9), (2, 7), (3, 8))}
    with Operator.connect(services.parties.party("operator").config) as operator:
        operator.create(spec)
    for name, own in tables.items():
        with Owner.connect(services.parties.party(name).config) as owner:
            owner.upload(spec.name, own, spec=spec, progress=False)
    fault = Once("link", 2, lambda: kill_worker(ray_head, "ray::Worker2"))
    assert services.run(spec.name, pairs=2, progress=fault).state == JobState.DONE
    assert fault.done
    wanted = linked(spec, tables)
    for name in tables:
        with Owner.connect(services.parties.party(name).config) as owner:
            result = owner.result(spec.name, timeout=LONG)
        assert result.partners_ == [min(len(links), 4) for links in wanted[name]]
        told = [sorted(links) for links in result.links_]
        assert told == [links if len(links) <= 3 else [] for links in wanted[name]]
    assert {0, 1} <= {len(links) for own in wanted.values() for links in own}
