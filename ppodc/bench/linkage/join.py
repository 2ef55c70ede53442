"""`ppodc bench join`: what joining columns costs beyond comparing, every joined value checked.

Both clouds are processes on loopback behind CURVE; this process plays the owners. Half of the
people are at both owners, and some rows come twice. People are compared by five numbers in blocks
by key, and each owner has five columns. All pairs are compared first, then fetched over: that, with
making the joined rows, is what joining costs. Supplies are included.
"""

import tempfile
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document
from ppodc.bench.document import Document, Table
from ppodc.bench.linkage.join_whole import beside, merged
from ppodc.bench.machine import watched
from ppodc.bench.options import KeptPoints
from ppodc.bench.points import Task, Tell, measure
from ppodc.errors import InputError
from ppodc.kinds import owner_side
from ppodc.kmeans.job import job_of
from ppodc.linkage.joined.join import Relation
from ppodc.linkage.joined.joining import rows_by_side
from ppodc.linkage.row_layout import row_numbers
from ppodc.local.pair import ROLES, started, write_folders
from ppodc.local.pair_process import Setting
from ppodc.records.upload_form import Outline
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec

ORDER, OUTLINE, JOINED = "order.json", "outline-{}.npy", "joined.npz"
SIDES = ("hospital", "insurer")
UB, COLUMNS = 1000, 5
TARGET_BYTES, TARGET_SECONDS = 20, 0.25e-6  # a pair, 1:1, beyond comparing
STEPS = ("taking in", "comparing", "fetching", "joining")
_PROGRAM = "ppodc.bench.linkage.join_process"
NOTES = (
    f"To be reached beyond comparing, 1:1: {TARGET_BYTES} bytes each way and "
    f"{TARGET_SECONDS * 1e6:g} microseconds of CPU a pair.",
    "CPU time is that of the slower cloud: where `others` is not near 0, it is rough. Bytes hold.",
)


class Order(msgspec.Struct, frozen=True):
    """The join that both clouds are to run: its spec, and the rows of each upload."""

    spec: str
    rows: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Case:
    """Owners' uploads, and what must come out of the join."""

    spec: Spec
    sent: list[NDArray[np.int64]]
    outlines: list[Outline | None]
    values: NDArray[np.int64]
    keep: NDArray[np.bool_]
    tables: list[Any]  # DataFrames, as the owners have them


def sealed(spec: Spec, rows: tuple[int, int], outlines: list[Outline | None]) -> Sealed:
    """Seal the uploads, as both clouds know them."""
    return Sealed.of(spec, list(zip(SIDES, rows, outlines, strict=True)))


def spec_of(cells: int, relation: str) -> Spec:
    """A k-means job over five columns of each side."""
    linking = [{"name": f"x{i}", "low": 0, "high": UB, "use": "link"} for i in range(1, COLUMNS)]
    held = [
        {"name": f"{side[0]}{i}", "low": 0, "high": UB, "held_by": [side]}
        for side in SIDES
        for i in range(COLUMNS)
    ]
    first = {"name": "cell", "low": 0, "high": cells - 1, "use": "link"}
    join = {
        "relation": relation, "rule": "sse", "weights": [1] * COLUMNS, "limit": 0,
        "blocks": "key", "key": "cell", "lossy": True, "epsilon": 1, "delta": "1/1000000",
    }  # fmt: skip
    schema = {"ub": UB, "columns": [first, *linking, *held]}
    return Spec.from_dict({"name": "join", "schema": schema, "job": {"k": 4}, "join": join})


def make(rows: int, cells: int, relation: str) -> Case:
    """Draw two owners' tables, and join them in the clear."""
    import pandas as pd

    spec, random = spec_of(cells, relation), np.random.default_rng(1)
    people = np.column_stack(
        [random.integers(0, cells, 2 * rows), random.integers(0, UB + 1, (2 * rows, COLUMNS - 1))]
    )
    tables, frames, sent, outlines = [], list[Any](), [], list[Outline | None]()
    for number, side in enumerate(SIDES):
        who = random.permutation(np.arange(rows) + number * (rows // 2))
        who[: max(1, rows // 30)] = who[-max(1, rows // 30) :]  # some twice
        own = random.integers(0, UB + 1, (rows, COLUMNS))
        names = ["cell", *(f"x{i}" for i in range(1, COLUMNS)), *_held(side)]
        table = np.column_stack([people[who], own])
        owner = owner_side(spec).of(side)
        frames.append(pd.DataFrame(table, columns=names))
        values = owner.encode(frames[-1])
        with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as folder:
            arranged, outline = owner.arrange(values, None, Path(folder), Fraction(100))
        tables.append(table)
        sent.append(arranged)
        outlines.append(outline)
    return Case(spec, sent, outlines, *_plain(spec, tables, sent, outlines, relation), frames)


def _held(side: str) -> list[str]:
    return [f"{side[0]}{i}" for i in range(COLUMNS)]


def _plain(
    spec: Spec,
    tables: list[NDArray[np.int64]],
    sent: list[NDArray[np.int64]],
    outlines: list[Outline | None],
    relation: str,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The insurer's columns for each row of the hospital as sent, and who counts."""
    columns = job_of(spec).joined(spec.schema)
    assert columns is not None  # noqa: S101 - the spec has a join
    number = [row_numbers(rows[:, columns.layout.number]) - 1 for rows in sent]
    people = [[tuple(row) for row in table[:, :COLUMNS].tolist()] for table in tables]
    counts = [Counter(listed) for listed in people]
    place = {person: row for row, person in enumerate(people[1])}
    uploads = rows_by_side(columns, sealed(spec, (len(sent[0]), len(sent[1])), outlines))
    home = uploads[0].in_first_pass
    theirs = sent[1][: uploads[1].in_first_pass, columns.layout.width + COLUMNS :]
    values = theirs[np.arange(home) % len(theirs)].copy()
    keep = np.zeros(home, np.bool_)
    for i, row in enumerate(number[0][:home].tolist()):
        person = people[0][row]
        if row >= 0 and counts[1][person] == 1 and (relation == "m:1" or counts[0][person] == 1):
            keep[i] = True
            values[i] = tables[1][place[person], COLUMNS:]
    return values, keep


def run_case(case: Case, tell: Tell) -> dict[str, Any]:
    """Run both clouds; costs, and whether every joined value and bit is right."""
    rows = len(case.sent[0]), len(case.sent[1])
    setting = Setting(1, "shares", sum(rows), case.sent[0].shape[1], 1, UB, "0")
    order = Order(case.spec.canonical().decode(), rows)
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place, watched() as load:
        folders = write_folders(Path(place), setting, None, case.sent)
        for folder in folders:
            (folder / ORDER).write_bytes(msgspec.json.encode(order))
            for number, outline in enumerate(case.outlines):
                np.save(folder / OUTLINE.format(number), np.asarray(outline))
        costs: dict[str, dict[str, Any]] = {}
        with started(folders, _PROGRAM) as pair:
            for what in STEPS:
                tell(what)
                both = [pair.answer(role) for role in ROLES]
                costs[what] = {n: max(c[n] for c in both) for n in ("cpu_s", "bytes", "peak_mb")}
            for _ in pair.events():
                pass
        opened = [np.load(folder / JOINED, allow_pickle=False) for folder in folders]
        values = opened[0]["values"] - opened[1]["values"]
        keep = (opened[0]["keep"] ^ opened[1]["keep"]).astype(np.bool_)
        pairs = int(opened[0]["pairs"])
    beyond = {n: costs["fetching"][n] + costs["joining"][n] for n in ("cpu_s", "bytes")}
    return {
        "pairs": pairs,
        "joined": int(case.keep.sum()),
        "exact": np.array_equal(keep, case.keep) and np.array_equal(values, case.values),
        "comparing_bytes": costs["comparing"]["bytes"],
        "comparing_cpu_s": costs["comparing"]["cpu_s"],
        "join_bytes": beyond["bytes"],
        "join_cpu_s": beyond["cpu_s"],
        "peak_mb": costs["joining"]["peak_mb"],
        "others": load.others,
    }


def whole(case: Case, relation: str) -> dict[str, Any]:
    """Run all of k-means over the joined columns, and the same in the clear."""
    keys = ["cell", *(f"x{i}" for i in range(1, COLUMNS))]
    spec, plain = merged(case.spec, case.tables, keys, relation)
    rows = len(case.sent[0]), len(case.sent[1])
    return beside(spec, sealed(spec, rows, case.outlines), case.sent, plain)


def run(
    rows: Annotated[int, typer.Option(min=20, help="Rows of each owner.")] = 6000,
    cells: Annotated[int, typer.Option(min=2, help="Values of the key.")] = 58,
    relation: Annotated[str, typer.Option(help="1:1, m:1 or both.")] = "both",
    clusters: Annotated[
        bool, typer.Option(help="Run k-means too, beside pandas.merge and scikit-learn.")
    ] = True,
    *,
    points: KeptPoints,
) -> Document:
    """The cost of joining columns beyond comparing. Every joined value is checked."""
    sizes = {"rows": rows, "cells": cells, "clusters": clusters}
    known = get_args(Relation)
    if relation not in (*known, "both"):
        raise InputError("--relation must be 1:1, m:1 or both.")
    tasks = [
        Task(
            each,
            {"bench": "join", "relation": each, **sizes},
            partial(_measured, rows, cells, each, clusters),
        )
        for each in (known if relation == "both" else (relation,))
    ]
    values = measure("join", tasks, points)
    return document.make("join", _tables, parameters=sizes, points=values, notes=NOTES)


def _measured(rows: int, cells: int, relation: str, clusters: bool, tell: Tell) -> dict[str, Any]:
    tell("plaintext")
    case = make(rows, cells, relation)
    found = {"relation": relation, **run_case(case, tell)}
    if clusters:
        tell("the whole job")
        found |= whole(case, relation)
    return found


def _tables(result: Document) -> list[Table]:
    lines = []
    for point in result["points"]:
        each, pairs = {}, point["pairs"]
        for name in ("comparing", "join"):
            each[f"{name}_each"] = point[f"{name}_bytes"] / pairs
            each[f"{name}_us"] = point[f"{name}_cpu_s"] / pairs * 1e6
        lines.append({**point, **each})
    tables = [
        document.table_of(
            "Joining five columns, two processes on loopback",
            "relation | pairs | joined | exact | bytes to compare | to join | us to compare | to "
            "join | MB | others",
            "{relation} | {pairs:,} | {joined:,} | {exact:yes} | {comparing_each:.1f} | "
            "{join_each:.1f} | {comparing_us:.2f} | {join_us:.2f} | {peak_mb:.0f} | {others:cores}",
            lines,
        )
    ]
    if whole_ones := [line for line in lines if "whole_same" in line]:
        tables.append(
            document.table_of(
                "The whole job, k = 4, beside pandas.merge and scikit-learn from the same centres",
                "relation | joined | same sizes and centres | iterations | CPU s of both clouds | "
                "in the clear",
                "{relation} | {joined:,} | {whole_same:yes} | {whole_iterations} | "
                "{whole_cpu_s:.1f} | {plain_cpu_s:.2f}",
                whole_ones,
            )
        )
    return tables
