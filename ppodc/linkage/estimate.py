"""What a linkage will cost, before anything is sent: pairs, seconds, bytes and privacy.

Without blocks the number of pairs is known. With blocks it depends on the data, which nobody has
here: rows are taken to spread evenly over the public domain, and every cell to get its usual
padding. Real data are uneven, which leaves more pairs; `preview` shows an owner its own cells.

Seconds are of one core of each cloud for one worker pair, from rates that `ppodc bench
linkage-pairs` has measured: good for orders of magnitude.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage import adtree
from ppodc.linkage.blocking import Blocking
from ppodc.linkage.cells import Synopsis, pairs_compared
from ppodc.linkage.edit_distance import band
from ppodc.linkage.encoding import field_size
from ppodc.linkage.job import Job, job_of
from ppodc.linkage.keys import KEY_BITS
from ppodc.linkage.noise import padding_shift
from ppodc.linkage.rules import Dice, EditDistance, Field, SquaredDistance
from ppodc.linkage.upload import upload_columns
from ppodc.mpc.correlated_ot import top_bytes
from ppodc.records.schema import Schema
from ppodc.spec import Spec

_ANDS = 1.0e7  # AND pairs a second, made and used
_PRODUCTS = 7.4e6  # transfers a second
_COMPARISON = (1.2e-6, 69.0)  # seconds and bytes of a comparison of 17 bits
_AND_BYTES = 4.4
_ROW_BYTES = 60.0  # to take in one uploaded number, roughly


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of a whole job; `reduction` is the share of pairs that blocks save."""

    rows: int
    dummies: int
    pairs: int
    reduction: float
    seconds: float
    gigabytes: float  # sent by each cloud
    epsilon: float
    delta: float

    def figures(self) -> dict[str, Any]:
        return asdict(self)


def without_blocks(spec: Spec, rows: Sequence[int]) -> Estimate:
    """What comparing all pairs would cost instead, which tells the clouds nothing but sizes."""
    return estimate(replace(spec, job=replace(job_of(spec), blocking=Blocking())), rows)


def estimate(spec: Spec, rows: Sequence[int]) -> Estimate:
    """For owners with so many rows each."""
    if len(rows) < 2 or min(rows) < 0:
        raise InputError("give the rows of at least two owners, none below 0.")
    job, schema = job_of(spec), spec.schema
    told = [_usual(job, schema, count, number) for number, count in enumerate(rows)]
    pruning = job.cutting(schema).pruning
    every = list(combinations(range(len(rows)), 2))
    pairs = sum(pairs_compared(told[a], told[b], pruning) for a, b in every)
    whole = sum(rows[a] * rows[b] for a, b in every)
    seconds, size = _pair_cost(job, schema)
    sent = sum(each.rows for each in told)
    numbers = sent * upload_columns(job, schema)
    return Estimate(
        rows=sum(rows),
        dummies=sent - job.blocking.passes * sum(rows),
        pairs=pairs,
        reduction=1 - pairs / whole if whole else 0.0,
        seconds=pairs * seconds,
        gigabytes=(pairs * size + numbers * _ROW_BYTES) / 1e9,
        epsilon=float(job.blocking.epsilon),
        delta=float(job.blocking.delta),
    )


class _UsualNoise:
    """Noise at its most likely value: it is not drawn."""

    def count(self, epsilon: Fraction) -> int:
        return 0

    def padding(self, epsilon: Fraction, delta: Fraction) -> int:
        return padding_shift(epsilon, delta)

    def choose(self, scores: Sequence[int], epsilon: Fraction) -> int:
        return max(range(len(scores)), key=lambda place: scores[place])


def _usual(job: Job, schema: Schema, rows: int, number: int) -> Synopsis:
    """The synopsis of rows that are spread evenly."""
    cutting, blocking = job.cutting(schema), job.blocking
    if not blocking.padded:
        return Synopsis(np.array([[[0, 1]]]), np.array([rows]))
    blocking.budget().check_rows(rows)
    if cutting.fixed is not None:
        counts = [
            rows // len(boxes)
            + (np.arange(len(boxes)) < rows % len(boxes))
            + padding_shift(budget.epsilon / 2, budget.delta)
            for boxes, budget in zip(cutting.passes, blocking.budgets(), strict=True)
        ]
        return Synopsis(cutting.fixed, np.concatenate(counts))
    random = SecureRandom(bytes([number]) * 32)
    wide, most = len(cutting.domain), len(cutting.domain[0])
    points = (random.uint64((rows, wide)) % np.uint64(most)).astype(np.int64)
    return adtree.build(points, cutting.domain, blocking.budget(), _UsualNoise()).synopsis


def _pair_cost(job: Job, schema: Schema) -> tuple[float, float]:
    """(seconds, bytes) of one pair, with links of both rows."""
    seconds, size = _matching_cost(job, schema)
    ands = (job.blocking.passes - 1) / 2 * (KEY_BITS + 2)  # whether an earlier key agrees
    seconds, size = seconds + ands / _ANDS, size + ands * _AND_BYTES
    words = 1 if job.output == "count" else job.max_links * (job.max_links + 1)
    sides = {"count": 1, "shared": 0}.get(job.output, 2)
    return seconds + sides * (1 + words / 4) / _PRODUCTS, size + sides * (8.0 * words + 4)


def _matching_cost(job: Job, schema: Schema) -> tuple[float, float]:
    rule = job.rule
    if isinstance(rule, SquaredDistance):
        numbers = job.numbers(schema)
        bits, wide = numbers.bits * len(rule.weights), numbers.width / 17
        seconds, size = _COMPARISON
        return seconds * wide + bits * 1.8e-8, size * wide + numbers.product_bytes
    if isinstance(rule, Dice):
        wide = (4 * rule.threshold.denominator * rule.bits).bit_length() + 1
        seconds, size = _COMPARISON
        return 1.35e-5 * rule.bits / 1024 + seconds, rule.bits * top_bytes(wide + 1) + size
    if isinstance(rule, EditDistance):
        public = job.blocking.kind == "length"
        parts = [_edit_ands(text.longest, rule.limit, public) for text in schema.texts]
        return sum(parts) / _ANDS, sum(parts) * _AND_BYTES
    costs = [_field_cost(part, field_size(part, schema)) for part in rule.fields]
    return sum(cost[0] for cost in costs), sum(cost[1] for cost in costs)


def _edit_ands(length: int, most: int, public: bool) -> float:
    """AND pairs: 3 a row and diagonal, 1 on the outermost two, and those of adding up."""
    diagonals = len(band(0, most)) if public else 2 * most + 1
    sums = 1 if public else diagonals
    return length * (max(0, 3 * diagonals - 4) + sums)


def _field_cost(part: Field, size: int) -> tuple[float, float]:
    if part.how == "numeric":
        wide, (seconds, sent) = 2 * (size + 2) / 17, _COMPARISON
        return wide * seconds, wide * sent
    ands = size + 1 if part.how == "exact" else _edit_ands(size, part.most, False)
    return ands / _ANDS, ands * _AND_BYTES
