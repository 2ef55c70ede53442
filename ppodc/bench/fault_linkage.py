"""Linkages among the fault schedules: which are drawn, and what their owners must get."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from ppodc.linkage.blocking import Blocking, adtree
from ppodc.linkage.job import Job, Output
from ppodc.linkage.reference import matches
from ppodc.linkage.rules import SquaredDistance


def linkage_job(chance: random.Random, columns: int) -> Job:
    """Links, flags or their number, with cells of an owner's own tree or without."""
    tree = adtree(epsilon=4, delta="1/100")
    output: Output = chance.choice(("links", "links", "flags", "count"))
    return Job(
        SquaredDistance((1,) * columns, chance.choice((0, 2, 10))),
        output,
        chance.choice((Blocking(), tree)),
        chance.choice((1, 3)) if output == "links" else 1,
    )


def same_links(
    tables: Sequence[Iterable[Any]], job: Job, results: Sequence[Any], key: int | None = None
) -> bool:
    """Whether the links of owner1, owner2, ... are those of plaintext, by owner and row.

    Rows whose values at `key` differ are not compared.
    """
    rows = [(owner, i, row) for owner, table in enumerate(tables) for i, row in enumerate(table)]
    partners = [
        [
            (f"owner{other + 1}", 0, j)
            for other, j, y in rows
            if other != own and (key is None or x[key] == y[key]) and matches(job.rule, x, y)
        ]
        for own, _, x in rows
    ]
    if job.output == "count":
        total = sum(map(len, partners)) // 2
        return all(result.count_ == total for result in results)
    most = 1 if job.output == "flags" else job.max_links + 1
    counts = [min(len(each), most) for each in partners]
    same = [n for result in results for n in result.partners_] == counts
    if job.output == "flags":
        return same
    found = [sorted(links) for result in results for links in result.links_]
    return same and found == [each if len(each) < most else [] for each in partners]
