"""The results that the studies of `tests.desk.world` have in plaintext, from their tables."""

from dataclasses import replace
from functools import cache

import numpy as np

from ppodc.records.encode import encode
from ppodc.totals.reference import reference as totals
from tests.desk.world import OWNERS, patients, rows_of
from tests.kmeans.expected import expected, is_exact

ROWS = 24


def check_exact(kind, spec, results):
    """The results of both owners equal plaintext bit for bit.

    Where each owner or cloud adds noise that nobody keeps, there is no plaintext to compare with.
    """
    job = spec.job
    if kind == "linkage":
        tables = [rows_of(kind, owner) for owner in range(2)]
        for own, result in enumerate(results):
            found = [
                [(OWNERS[1 - own], 0, j) for j in same]
                for same in _partners(*tables[own:] + tables[:own])
            ]
            assert [list(links) for links in result.links_] == found
    elif kind.startswith("join"):
        columns = [column for column in spec.schema.columns if column.held_by]
        values = np.column_stack([patients(ROWS, owner)[:, 1 + owner] for owner in range(2)])
        records = encode(values, replace(spec.schema, columns=tuple(columns), texts=()))
        keep = np.arange(ROWS) % 3 == 0  # these people stand in both registers
        if "totals" in kind:
            _check_totals(results, [totals(spec, records[keep])] * 2)
        else:
            plain = expected(job, records, keep=keep)
            assert is_exact(replace(job, labels=False), results, plain)
            assert (
                results[0].labels_.tolist() == np.where(keep, plain.by_k[job.k].labels, -1).tolist()
            )
    elif kind in ("kmeans", "several-k", "totals"):
        tables = [encode(patients(ROWS, owner), spec.schema) for owner in range(2)]
        records = np.concatenate(tables)
        if kind == "totals":
            _check_totals(results, [totals(spec, records, ROWS)] * 2)
        else:
            owners = np.repeat([0, 1], ROWS)
            assert is_exact(job, results, expected(job, records, owners=owners))


def _check_totals(results, plain):
    for result, wanted in zip(results, plain, strict=True):
        for name in ("count_", "encoded_sums_", "encoded_squares_", "encoded_cross_"):
            assert getattr(result, name) == getattr(wanted, name)


def _partners(own, others):
    """For each row the others of the same year whose name differs by one letter at most."""
    return [
        [j for j, (year, name) in enumerate(others) if year == born and _edits(name, surname) <= 1]
        for born, surname in own
    ]


@cache
def _edits(a, b):
    if not a or not b:
        return len(a) + len(b)
    return min(_edits(a[1:], b) + 1, _edits(a, b[1:]) + 1, _edits(a[1:], b[1:]) + (a[0] != b[0]))
