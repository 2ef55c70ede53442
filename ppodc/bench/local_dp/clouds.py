"""`ppodc bench ldp clouds`: an iteration with noise in the two clouds, on real processes.

Both clouds are processes on loopback behind CURVE. `iteration` is the online part, from public
centres to opened noisy sums, `supplies` what was made ahead of it and depends on no centre. Every
opened value is compared with the plaintext reference under the same noise.
"""

import secrets
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer

from ppodc.bench import document
from ppodc.bench.document import Document, Table
from ppodc.bench.machine import watched
from ppodc.bench.options import Iterations, KeptPoints
from ppodc.bench.points import Task, Tell, measure
from ppodc.kmeans.private.job import NoisyJob, plan_of
from ppodc.kmeans.private.reference import reference
from ppodc.local.pair import ROLES, started, write_folders
from ppodc.local.pair_process import Setting
from ppodc.records.schema import Column, Schema
from ppodc.spec import Spec

ORDER, OPENED = "order.json", "opened.npy"
_PROGRAM = "ppodc.bench.local_dp.clouds_process"
_UB = 1000
_COUNTED = ("wall_s", "cpu_s", "bytes", "rounds")


class Order(msgspec.Struct, frozen=True):
    """Order to one cloud: the spec, and the seeds of its own noise, by iteration."""

    spec: bytes
    seeds: list[bytes]


def run(
    m: Annotated[int, typer.Option(min=1, help="Records.")] = 10_000,
    l: Annotated[int, typer.Option(min=1, help="Columns.")] = 10,
    k: Annotated[int, typer.Option(min=1, max=64, help="Clusters.")] = 8,
    iterations: Iterations = 3,
    *,
    points: KeptPoints,
) -> Document:
    """An iteration with noise in the two clouds, on real processes: seconds and bytes."""
    shape = {"m": m, "l": l, "k": k, "iterations": iterations}
    task = Task("two clouds", {"bench": "ldp clouds", **shape}, partial(_measured, shape))
    (point,) = measure("ldp clouds", [task], points)
    return document.make(
        "ldp clouds",
        _tables,
        parameters=shape,
        points=[point],
        notes=[
            "Of the slower cloud; MB are what one cloud sends. iteration: from public centres to "
            "opened noisy sums; supplies: made ahead of it. epsilon 1, delta 1e-6, ub 1000.",
            f"All opened values equal the reference: {document.yes(point['exact'])}. Cores that "
            f"other programs kept busy: {document.cores(point['others'])}.",
        ],
    )


def _measured(shape: dict[str, int], tell: Tell) -> dict[str, Any]:
    columns = tuple(Column(f"x{i}", 0.0, 1.0) for i in range(shape["l"]))
    job = NoisyJob(k=shape["k"], epsilon=1.0, iterations=shape["iterations"], seed=1)
    spec = Spec("noise", Schema(columns, _UB), job)
    records = np.random.default_rng(1).integers(0, _UB + 1, (shape["m"], shape["l"]))
    seeds = [[secrets.token_bytes(32) for _ in range(shape["iterations"])] for _ in ROLES]
    setting = Setting(1, "shares", shape["m"], shape["l"], shape["k"], _UB, "0")
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place, watched() as load:
        folders = write_folders(Path(place), setting, None, [records])
        for folder, own in zip(folders, seeds, strict=True):
            (folder / ORDER).write_bytes(msgspec.json.encode(Order(spec.canonical(), own)))
        tell("two clouds")
        with started(folders, _PROGRAM) as pair:
            told = [(role, event) for role, event in pair.events() if "what" in event]
        opened = [np.load(folder / OPENED, allow_pickle=False) for folder in folders]
    tell("plaintext")
    wanted = reference(spec, records, seeds).opened
    plain = [np.concatenate([o.sums, o.counts[:, None]], axis=1) for o in wanted]
    return {
        **shape,
        "centres": plan_of(spec).centres,
        "exact": all(np.array_equal(found, np.stack(plain)) for found in opened),
        "parts": [_part(told, what) for what in ("taking in", "supplies", "iteration")],
        "peak_mb": max(event["peak_mb"] for _, event in told),
        "others": load.others,
    }


def _part(told: list[tuple[int, dict[str, Any]]], what: str) -> dict[str, Any]:
    """Mean over the times a part was done, of the larger of both clouds."""
    first, second = (
        [event for by, event in told if (by, event["what"]) == (role, what)] for role in ROLES
    )
    pairs = list(zip(first, second, strict=True))
    means = {name: float(np.mean([max(a[name], b[name]) for a, b in pairs])) for name in _COUNTED}
    return {"what": what, **means}


def _tables(result: Document) -> list[Table]:
    (point,) = result["points"]
    title = "{m:,} records, l = {l}, k = {k} from {centres} points".format(**point)
    row = "{what} | {wall_s:time} | {cpu_s:time} | {bytes:/1e6 .1f} | {rounds:.0f}"
    return [document.table_of(title, "part | wall | CPU | MB sent | rounds", row, point["parts"])]
