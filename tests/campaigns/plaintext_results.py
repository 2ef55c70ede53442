"""Compares opened results with plaintext, for every kind of job on worker pairs."""

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.kmeans.job import Job as KMeansJob
from ppodc.kmeans.private.job import plan_of
from ppodc.linkage.job import Job as LinkageJob
from ppodc.linkage.outputs import Flags
from ppodc.service.store import Role, Store
from ppodc.spec import Spec
from ppodc.totals.job import Job as TotalsJob
from ppodc.totals.reference import reference as totals
from tests.kmeans.expected import expected, is_exact
from tests.linkage.reference import distinct, joined, part_of_one, partners

Tables = Sequence[NDArray[np.int64]]  # of each owner, encoded


def exact(spec: Spec, tables: Tables, results: list[Any]) -> bool:
    """Whether all opened results equal plaintext bit for bit."""
    job = spec.job
    if getattr(job, "join", None) is not None:
        return _exact_join(spec, tables, results)
    records = np.concatenate(tables)
    if isinstance(job, TotalsJob):
        plain = [totals(spec, records, len(table)) for table in tables]
        return all(map(_same_totals, results, plain))
    if isinstance(job, LinkageJob):
        return same_links(tables, job, results)
    assert isinstance(job, KMeansJob)
    keep, owners = None, np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    if job.dedup is not None:
        keep = distinct(job.dedup.rule, list(records), owners.tolist())
    centres = job.initial_centres(spec.schema)
    plain = expected(job, records, centres=centres, keep=keep, owners=owners)
    return is_exact(job, results, plain)


def _exact_join(spec: Spec, tables: Tables, results: list[Any]) -> bool:
    """Of a join by the first column of every table, which are those of owner1, owner2, ..."""
    job: Any = spec.job
    join, columns = job.join, job.joined(spec.schema)
    sides: list[list[NDArray[np.int64]]] = [[] for _ in columns.sides]
    whose: list[list[int]] = [[] for _ in columns.sides]
    for number, table in enumerate(tables):
        side = columns.side_of(f"owner{number + 1}")
        sides[side].append(table)
        whose[side] += [number] * len(table)
    (own, other) = (np.concatenate(side) for side in sides)

    def matches(i: int, j: int) -> bool:
        return bool(join.linkage.rule.matches(own[i, :1], other[j, :1]))

    found = partners(len(own), len(other), matches, join.relation)
    parts, keep = joined(own[:, 1:], [(other[:, 1:], found)])
    records = np.empty((len(own), 2), np.int64)
    for side, part in zip(columns.sides, parts, strict=True):
        records[:, list(side.places)] = part
    owned = np.zeros((len(own), len(tables)))  # how much of a row counts for no threshold
    for i in np.flatnonzero(keep).tolist():
        j = found[i]
        shared = sum(matches(each, j) for each in range(len(own)))
        owned[i] = 1 - part_of_one(shared, join.relation)
        for owners, row in zip(whose, (i, j), strict=True):
            if len(set(owners)) > 1:
                owned[i, owners[row]] = 1
    others = ((1 - owned) * keep[:, None]).sum(axis=0)
    if isinstance(job, TotalsJob):
        return all(
            _same_totals(result, totals(spec, records[keep], keep.sum() - count))
            for result, count in zip(results, others, strict=True)
        )
    plain = expected(job, records, keep=keep, owners=owned)
    labelled = keep & (keep.sum() >= join.least)
    for k in job.clusters:
        opened = [r.by_k[k] if job.ks else r for r in results]
        labels = np.concatenate([one.labels_ for one in opened if one.labels_ is not None])
        if not np.array_equal(labels, np.where(labelled, plain.by_k[k].labels, -1)):
            return False
        for number, one in enumerate(opened):
            told = join.least == 1 or others[number] >= join.least
            trace = plain.by_k[k].for_owner(number)
            same = (
                np.array_equal(one.sums_, trace.sums * told)
                and np.array_equal(one.sizes_, trace.sizes * told)
                and (one.n_iter_, one.converged_) == (plain.n_iter, plain.converged)
                and one.inertia_ == (trace.inertia * told if job.inertia else None)
            )
            if not same:
                return False
    return True


def as_noisy(
    store_of: Callable[[Role], Store], spec: Spec, tables: Tables, results: list[Any]
) -> bool:
    """Whether all results are one, of no more openings than the proof counts.

    Nobody keeps the noise, so that there is no plaintext to compare with. No more records are
    counted than there are, but for 64 deviations of all noise.
    """
    plan, roles = plan_of(spec), ("cloud1", "cloud2")
    for role in roles:
        with store_of(role) as store:
            entries = [e for e in store.ledger.entries(spec.name) if e.event == "reveal begun"]
        opened = sum(json.loads(entry.detail)["step"] == "open" for entry in entries)
        if not plan.iterations <= opened <= plan.openings:
            return False
    first, rows = results[0], sum(map(len, tables))
    room = 64 * (plan.count_deviation + 1) * len(first.counts_)
    return -room <= first.counts_.sum() <= rows + room and all(
        np.array_equal(result.counts_, first.counts_)
        and np.array_equal(result.encoded_centres_, first.encoded_centres_)
        for result in results
    )


def _same_totals(result: Any, plain: Any) -> bool:
    exact = ("count_", "encoded_sums_", "encoded_squares_", "encoded_cross_")
    return all(getattr(result, name) == getattr(plain, name) for name in exact)


def same_links(tables: Sequence[Iterable[Any]], job: LinkageJob, results: Sequence[Any]) -> bool:
    """Whether the links of owner1, owner2, ... equal those of plaintext, by owner and row.

    A key names a column of a `fields` rule. Its numbers start at 0.
    """
    rows = [(owner, i, row) for owner, table in enumerate(tables) for i, row in enumerate(table)]
    partners = [
        [
            (f"owner{other + 1}", 0, j)
            for other, j, y in rows
            if other != own and _meet(job, x, y) and job.rule.matches(x, y)
        ]
        for own, _, x in rows
    ]
    if not job.output.by_row:
        total = sum(map(len, partners)) // 2
        return all(result.count_ == total for result in results)
    most = 1 if job.output == Flags() else job.max_links + 1
    counts = [min(len(each), most) for each in partners]
    same = [n for result in results for n in result.partners_] == counts
    if job.output == Flags():
        return same
    found = [sorted(links) for result in results for links in result.links_]
    return same and found == [each if len(each) < most else [] for each in partners]


def _meet(job: LinkageJob, x: Any, y: Any) -> bool:
    """Whether two rows share a block."""
    names = job.rule.named_columns
    return job.blocking.compares(*(dict(zip(names, row, strict=False)) for row in (x, y)))
