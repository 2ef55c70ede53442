"""`ppodc bench ldp speed`: how fast reports are made and counted, on one core, with memoised noise.

Every time includes the keyed tag of each record, from which its noise follows. CPU seconds, so that
other programs on the machine do not count.
"""

import time
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer

from ppodc.bench import document
from ppodc.bench.document import Document, Table
from ppodc.bench.local_dp.scores import seeded
from ppodc.local_dp.categories import AttributeResponse
from ppodc.local_dp.oracles import oracle
from ppodc.local_dp.published.bit_estimates import DistanceScale
from ppodc.local_dp.published.bit_reports import ldpseg, privbv, privbv_as_published
from ppodc.local_dp.published.distances import distance_matrix
from ppodc.local_dp.published.nearest_bits import assign_and_sum
from ppodc.local_dp.report_streams import RecordStreams, ReportKey, row_ids


def run(
    rows: Annotated[int, typer.Option(min=100, help="Records.")] = 1_000_000,
) -> Document:
    """Reports made and counted, distances and clustering: CPU seconds of one core."""
    generator = np.random.default_rng(1)
    records = generator.integers(0, 4, (rows, 10))
    key = ReportKey()

    def streams(count: int = rows) -> RecordStreams:
        return key.streams(b"speed", row_ids(0, count), records[:count])

    categories = AttributeResponse.of((4,) * 10, 10.0)
    segments = ldpseg(10, 3, epsilon=100.0, bits=10)
    vectors = privbv(10, 1000, epsilon=640.0, bits=64, random=seeded(1))
    unary = oracle(256, 1.0, "oue")
    cells = generator.integers(0, 256, rows)
    quarter = rows // 4
    reports = unary.perturb(cells, streams())
    small = privbv_as_published(1, 1000, b=1, bits=1000, t=500, random=seeded(2))
    matrix_rows = min(2000, rows)
    strings = small.perturb(records[:matrix_rows, :1], streams(matrix_rows))
    linear_rows = rows // 10
    linear = generator.integers(0, 1 << 62, (linear_rows, 16)).astype(np.uint64)
    linear[:, -1] &= np.uint64((1 << 40) - 1)
    ones = np.ones((10, 1000), np.int64)
    scale = DistanceScale.of(small.flips, 1000, 1000, 500)
    works: list[tuple[str, int, Callable[[], Any]]] = [
        ("tags of records", rows, streams),
        ("GRR, 10 attributes", rows, lambda: categories.perturb(records, streams())),
        ("LDPseg, 10 x 10 bits", rows, lambda: segments.perturb(records, streams())),
        ("PrivBV, 10 x 64 bits", quarter,
         lambda: vectors.perturb(records[:quarter], streams(quarter))),
        ("OUE, 256 points", rows, lambda: unary.perturb(cells, streams())),
        ("OUE, counting", rows, lambda: unary.count(reports)),
        ("distance matrix, 1,000 bits (pairs)", matrix_rows**2,
         lambda: distance_matrix(strings, 1, scale)),
        ("linear kCluster, 1,000 bits, k = 10", linear_rows,
         lambda: assign_and_sum(linear, 1, 1000, ones, np.arange(1, 11))),
    ]  # fmt: skip
    points = [_timed(*work) for work in works]
    return document.make(
        "ldp speed",
        _tables,
        parameters={"rows": rows},
        points=points,
        notes=["CPU seconds of one process."],
    )


def _timed(name: str, items: int, work: Callable[[], Any]) -> dict[str, Any]:
    started = time.process_time()
    work()
    spent = time.process_time() - started
    return {"name": name, "items": items, "cpu_s": spent}


def _tables(result: Document) -> list[Table]:
    points = [{**p, "rate": p["items"] / max(p["cpu_s"], 1e-9)} for p in result["points"]]
    return [
        document.table_of(
            "Reports under local differential privacy",
            "work | items | CPU | million a second",
            "{name} | {items:,} | {cpu_s:time} | {rate:/1e6 .3g}",
            points,
        )
    ]
