"""`ppodc bench start`: cost of choosing the first records by k-means++, beside an iteration.

The same job as in `iteration`, for each k: its iterations are measured, then two starts. The first
computes the norms of the records, which the second finds. All supplies of a start are made within
it. Which records are chosen is compared with the reference.
"""

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.bench import document, network_presets, options
from ppodc.bench.document import Document, Table
from ppodc.bench.kmeans.iteration import Run, random_records
from ppodc.bench.points import measure_anew
from ppodc.errors import PpodcError

_STARTS = 2


def run(
    m: options.Records = 10_000,
    l: options.Attributes = 10,
    k: options.ManyClusters = (4, 20),
    pairs: options.Pairs = 1,
    iterations: options.Iterations = 3,
    link: options.ImitatedLink = None,
    gbit: options.Gbit = None,
    latency_ms: options.LatencyMs = None,
    key_bits: options.KeyBits = 2048,
) -> Document:
    """Choosing the first records by k-means++, beside an iteration of the same job."""
    over = network_presets.imitated(link, gbit, latency_ms)
    job = Run("shares", 1, pairs, iterations, link=over, key_bits=key_bits, starts=_STARTS)
    points = [_point(replace(job, k=clusters), random_records(m, l)) for clusters in k]
    shape: dict[str, Any] = {name: points[0][name] for name in ("m", "l", "pairs", "link")}
    notes = [f"Emulated link: {shape['link']}."] if shape["link"] else []
    return document.make("start", _tables, notes=notes, points=points, **shape)


def _point(job: Run, records: NDArray[np.int64]) -> dict[str, Any]:
    figures = measure_anew("start", f"k = {job.k}", lambda tell: job.exact(records, tell))
    first, second = figures["starts"]
    if not (first["exact"] and second["exact"]):
        raise PpodcError("k-means++ on shares chose other records than plaintext.")
    return {
        **figures,
        "first": first,
        "second": second,
        "times": first["wall_s"] / figures["total_s"],
        "bytes": max(figures["bytes_c1_to_c2"], figures["bytes_c2_to_c1"]),
        "cpu_s": max(figures["cpu_c1_s"], figures["cpu_c2_s"]),
    }


def _tables(result: Document) -> list[Table]:
    title = "A start by k-means++ beside an iteration, m = {m:,}, l = {l}, {pairs} pair(s)"
    return [
        document.table_of(
            title.format(**result),
            "k | start s | again s | iteration s | ratio | CPU s of a cloud | MB by a cloud | "
            "rounds | exact",
            "{k} | {first[wall_s]:.2f} | {second[wall_s]:.2f} | {total_s:.2f} | {times:.1f} | "
            "{first[cpu_s]:.2f} : {cpu_s:.2f} | {first[bytes]:/1e6 .1f} : {bytes:/1e6 .1f} | "
            "{first[rounds]:,} : {rounds:,} | {exact:yes}",
            result["points"],
        )
    ]
