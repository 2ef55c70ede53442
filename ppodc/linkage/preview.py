"""What an owner can see before it uploads, on its own machine and on its own rows alone.

Its cells and dummies under noise that is drawn for this look only (nothing leaves, so nothing is
charged), how many of its rows are the same as an earlier one, and, of a sample, how many pairs of
its own rows would match at the spec's threshold and around it: of a table that holds everybody
once, hardly any should.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.linkage.encoding import encode_rows, field_size, fills, link_columns
from ppodc.linkage.field_encoding import width
from ppodc.linkage.job import Job, job_of
from ppodc.linkage.noise import ExactNoise
from ppodc.linkage.reference import Record, agrees
from ppodc.linkage.rules import Dice, EditDistance, Field, SquaredDistance
from ppodc.linkage.strings import NONE, levenshtein
from ppodc.linkage.upload import PaddedRows, upload_form
from ppodc.records.schema import Schema
from ppodc.spec import Spec

_SAMPLE = 300  # rows whose pairs are looked at
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Preview:
    """`matches` has (threshold, pairs of sampled own rows that meet it), the spec's own among them.

    `duplicates` counts, over all rows, those that equal an earlier one in what is compared. Of an
    owner that follows the tree of another (`tree_of`), cells are those that a tree of its own would
    have: the real ones come from that owner.
    """

    rows: int
    cells: int = 1
    dummies: int = 0
    largest_cell: int = 0
    epsilon: float = 0.0  # what an upload would be charged, over all passes
    delta: float = 0.0
    sampled: int = 0
    threshold: float = 0.0
    matches: list[tuple[float, int]] = field(default_factory=list)
    duplicates: int = 0
    tree_of: str = ""


def preview(spec: Spec, data: Any, *, header: bool = True) -> Preview:
    """Of one owner's table; InputError, with row and column, if it cannot be used."""
    job = job_of(spec)
    values = encode_rows(data, spec, header=header)
    rows, form = len(values), upload_form(spec)
    cells, dummies, largest = 1, 0, rows
    if isinstance(form, PaddedRows):
        job.blocking.budget().check_rows(rows)
        told = form.partition(values, None, ExactNoise()).synopsis
        cells, largest = len(told.boxes), int(told.counts.max())
        dummies = told.rows - job.blocking.passes * rows
    chosen = np.sort(SecureRandom().permutation(rows)[:_SAMPLE])
    records = plain_rows(job, spec.schema, values[chosen])
    threshold, steps, nearer = _thresholds(job)
    scores = np.array([_score(job, a, b) for a, b in combinations(records, 2)])
    matches = [(step, int(nearer(scores, step).sum())) for step in steps]
    cost = float(job.blocking.epsilon), float(job.blocking.delta)
    compared = values[:, : link_columns(job, spec.schema)]
    return Preview(
        rows, cells, dummies, largest, *cost, len(chosen), threshold, matches,
        duplicates=rows - len(np.unique(compared, axis=0)),
        tree_of=job.blocking.tree_of,
    )  # fmt: skip


def plain_rows(job: Job, schema: Schema, values: Ints) -> list[Record]:
    """Encoded rows as the oracle compares them (`reference.matches`)."""
    rule = job.rule
    if isinstance(rule, SquaredDistance):
        return [row[: len(rule.weights)] for row in values.tolist()]
    if isinstance(rule, Dice):
        return [(int("".join(map(str, row)), 2),) for row in values[:, : rule.bits].tolist()]
    if isinstance(rule, EditDistance):
        more = rule.limit if fills(job) else 0
        ends = np.cumsum([text.longest + more for text in schema.texts])
        parts = np.split(values, ends, axis=1)[: len(ends)]
        return [tuple(map(_text, row)) for row in zip(*(p.tolist() for p in parts), strict=True)]
    ends = np.cumsum([width(part, field_size(part, schema)) for part in rule.fields])
    parts = np.split(values, ends, axis=1)[: len(ends)]
    columns = [
        [_field(part, entry) for entry in table.tolist()]
        for part, table in zip(rule.fields, parts, strict=True)
    ]
    return list(zip(*columns, strict=True))


def _text(codes: Sequence[int]) -> tuple[int, ...]:
    return tuple(code for code in codes if code != NONE)


def _field(part: Field, entry: list[int]) -> Any:
    """The value of a field; None if it is missing."""
    if part.how == "exact":
        return None if entry[0] & 1 else tuple(entry)
    if part.how == "numeric":
        return entry[0] if entry[1] else None
    return None if entry[-1] else _text(entry[:-1])


def _score(job: Job, a: Record, b: Record) -> float:
    rule = job.rule
    if isinstance(rule, SquaredDistance):
        return float(sum(w * (x - y) ** 2 for w, x, y in zip(rule.weights, a, b, strict=True)))
    if isinstance(rule, EditDistance):
        return sum(levenshtein(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(rule, Dice):
        common, ones = (a[0] & b[0]).bit_count(), a[0].bit_count() + b[0].bit_count()
        return float(2 * common / ones)
    parts = zip(rule.fields, a, b, strict=True)
    return sum(part.weight for part, x, y in parts if agrees(part, x, y))


def _thresholds(job: Job) -> tuple[float, list[float], Callable[..., Any]]:
    """The spec's threshold, those to look at, and which scores meet one."""
    rule = job.rule
    if isinstance(rule, SquaredDistance):
        around = {0, rule.limit // 4, rule.limit, 4 * rule.limit, 16 * rule.limit + 1}
        return rule.limit, sorted(around), np.less_equal
    if isinstance(rule, EditDistance):
        return rule.limit, list(range(rule.limit + 3)), np.less_equal
    if isinstance(rule, Dice):
        own = float(rule.threshold)
        return own, sorted({0.5, 0.6, 0.7, 0.8, 0.9, own}), np.greater_equal
    total = sum(part.weight for part in rule.fields)
    return rule.threshold, list(range(1, total + 1)), np.greater_equal
