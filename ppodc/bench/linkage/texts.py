"""`ppodc bench linkage-texts`: texts compared on shares, names in cells and mixed fields.

*Names*: two full names a record, put together from the census' frequencies as in `ppodc bench
linkage`, |S| records in thirds; edit distances of both add up to at most theta; a public cell for
each pair of exact lengths, padded under epsilon = 0.8, delta = 1e-5. *Fields*: seven fields as
FEBRL has them, of made-up people of whom a quarter is at both owners with errors; all pairs.

Both clouds are processes, on loopback or over an imitated link, and every match bit is compared
with plaintext. Wall time goes from the first transfer to the last match bit: it has the start of
the session, taking in the rows and comparing in it. Nothing was prepared.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, network_presets
from ppodc.bench.document import Document, Table
from ppodc.bench.linkage import febrl, names, trials
from ppodc.bench.linkage.febrl import LONGEST, SIZES, Owner, People, Value
from ppodc.bench.linkage.names import CENSUS_HELP
from ppodc.bench.linkage.pairs import Case, Order, compare, listed
from ppodc.bench.network_presets import Link
from ppodc.bench.options import Gbit, ImitatedLink, KeptPoints, LatencyMs
from ppodc.bench.points import Task, Tell, measure
from ppodc.crypto.random_stream import SecureRandom
from ppodc.linkage.blocks import adtree
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.blocks.candidates import Block, cell_blocks, rectangle
from ppodc.linkage.rules import EditDistance, EditPruning, Fields, edit, exact
from ppodc.linkage.symbols import LETTERS, NONE, codes, levenshtein
from ppodc.privacy.cell_noise import ExactNoise

SHORTEST, LENGTH = 4, 24  # of a full name; longer ones (1 in 75,000) are cut
BUDGET = Budget(Fraction(4, 5), Fraction(1, 100_000))
RULE = Fields(  # weights and threshold of the specification's example
    (
        edit("given_name", max=1, weight=2),
        edit("surname", max=1, weight=2),
        edit("date_of_birth", max=1, weight=3),
        edit("postcode", max=1, weight=2),
        edit("suburb", max=1, weight=2),
        edit("address_1", max=2, weight=3),
        exact("street_number"),
    ),
    7,
)
NOTES = (
    "Published on other names, 20,000 at each owner, theta = 1: reduction 0.902, no time.",
    "Published at 700 Mbit/s, 60 ms: 8.74 s for one record against 10,000 (three parties), 92 s "
    "for the system it is compared with. Here the 60 ms are one way.",
    "`others` are the cores that other programs kept busy: where it is not near 0, wall times are "
    "too long, CPU times hold roughly.",
)
Codes = NDArray[np.uint8]


# ------------------------------------------------------------- names


def names_case(folder: Path, size: int, theta: int) -> tuple[Case, dict[str, float]]:
    """Two names a record in cells of exact lengths; and what the cells save and lose."""
    cut = [(a[:LENGTH], b[:LENGTH]) for a, b in names.people(folder, size)]
    lengths = np.array([[len(a), len(b)] for a, b in cut])
    table = np.array([_padded(a) + _padded(b) for a, b in cut], np.uint8)
    n = size * 2 // 3
    rule = EditDistance(2, theta)
    axis = [(length, length + 1) for length in range(SHORTEST, LENGTH + 1)]
    boxes = np.array(list(product(axis, repeat=2)), np.int64)
    noise = ExactNoise(SecureRandom(bytes(32)))
    owners = trials.thirds(size, n, 0)
    sides = [adtree.count_cells(lengths[rows], boxes, BUDGET, noise) for rows in owners]
    pruning = EditPruning(rule, (0, 1))
    plan = list(cell_blocks(sides[0].cell_counts, sides[1].cell_counts, pruning))
    orders = [side.arranged() for side in sides]
    # a dummy is a copy of some row: what it holds is compared with nothing
    rows = [table[owner[np.maximum(order, 0)]] for owner, order in zip(owners, orders, strict=True)]
    real = [order >= 0 for order in orders]
    expected, told = [], []
    for a, b, block in plan:
        both = boxes[a, :, 0].tolist(), boxes[b, :, 0].tolist()
        told.append(both)
        expected.append(_expected(theta, block, both, rows, real))
    blocks = [block for _, _, block in plan]
    order = Order(
        "lengths", len(rows[0]), listed(blocks), theta, lengths=[LENGTH] * 2, block_lengths=told
    )
    uploads = [np.column_stack(side).astype(np.int64) for side in zip(rows, real, strict=True)]
    saved = trials.outcome(sides[0], sides[1], pruning, n // 2)
    name = f"names, |S| = {size:,}, theta = {theta}"
    return Case(name, (uploads[0], uploads[1]), order, expected), saved


def _padded(text: str) -> list[int]:
    return [*codes(text), *[NONE] * (LENGTH - len(text))]


def _expected(
    theta: int,
    block: Block,
    lengths: tuple[list[int], list[int]],
    rows: Sequence[Codes],
    real: Sequence[NDArray[np.bool_]],
) -> NDArray[np.bool_]:
    """Match bits of a block: the first name of all pairs at once, the second where that is near."""
    (a, c), (b, d) = lengths
    xs, ys = rows[0][slice(*block.xs)], rows[1][block.columns]
    match = within(xs[:, :a], ys[:, :b], theta)
    match &= real[0][slice(*block.xs), None] & real[1][None, block.columns]
    for i, j in np.argwhere(match):
        first = levenshtein(xs[i, :a].tolist(), ys[j, :b].tolist())
        second = levenshtein(
            xs[i, LENGTH : LENGTH + c].tolist(), ys[j, LENGTH : LENGTH + d].tolist()
        )
        match[i, j] = first + second <= theta
    return match


def within(xs: Codes, ys: Codes, most: int) -> NDArray[np.bool_]:
    """[edit distance <= most] of all rows of xs (n, a) with all of ys (m, b): plaintext.

    The table of distances, cell by cell for all pairs at once; cells further than `most` from the
    diagonal cannot lie on such a path and count as too much.
    """
    rows, columns = xs.shape[1], ys.shape[1]
    far = np.full((len(xs), len(ys)), most + 1, np.uint8)
    above = {j: np.full_like(far, min(j, most + 1)) for j in range(columns + 1)}
    for i in range(1, rows + 1):
        row = {0: np.full_like(far, min(i, most + 1))}
        for j in range(max(1, i - most), min(columns, i + most) + 1):
            differ = xs[:, i - 1, None] != ys[None, :, j - 1]
            step = np.minimum(above.get(j, far), row.get(j - 1, far)) + np.uint8(1)
            row[j] = np.minimum(np.minimum(above.get(j - 1, far) + differ, step), far)
        above = row
    near: NDArray[np.bool_] = above.get(columns, far) <= most
    return near


# ------------------------------------------------------------- fields


def fields_case(side: int) -> Case:
    """All pairs of made-up people; a quarter of the second owner's are the first's with errors."""
    random = np.random.default_rng(3)
    first = [_person(random) for _ in range(side)]
    copies = [tuple(_error(random, value) for value in row) for row in first[: side // 4]]
    second = copies + [_person(random) for _ in range(side - len(copies))]
    tables = [tuple(map(_numbered, rows)) for rows in (first, second)]
    people = People(*(Owner(rows, rows, {}, ()) for rows in tables))
    plan = list(rectangle((0, side), [(0, side)]))
    pairs = np.argwhere(np.ones((side, side), np.bool_))
    apart = febrl.outcomes(people, pairs)
    match = (febrl.weighed(apart, RULE.fields) >= RULE.threshold).reshape(side, side)
    expected = [match[slice(*block.xs)][:, block.columns] for block in plan]
    rule = RULE.to_dict()
    order = Order("fields", side, listed(plan), lengths=list(SIZES), rule=rule)
    both = [febrl.encoded(RULE, owner.rows, np.arange(side)) for owner in (people.a, people.b)]
    return Case(f"fields, {side:,} x {side:,}", (both[0], both[1]), order, expected)


def _person(random: np.random.Generator) -> tuple[Value, ...]:
    """Words of few letters, so that some are alike by chance; one value in twenty is missing."""
    words = [
        "".join(LETTERS[x] for x in random.integers(0, 4, random.integers(2, max(4, most + 1))))
        for most in LONGEST
    ]
    return tuple(
        None if random.random() < 0.05 else w[:n] for w, n in zip(words, LONGEST, strict=True)
    )


def _numbered(row: tuple[Value, ...]) -> tuple[Value, ...]:
    """Replace letters by digits in columns of the rule `exact`, which hold numbers."""
    digits = str.maketrans(LETTERS[:4], "0123")
    return tuple(
        value.translate(digits) if value is not None and field.how == "exact" else value
        for field, value in zip(RULE.fields, row, strict=True)
    )


def _error(random: np.random.Generator, value: Value) -> Value:
    """One value in five has a letter changed or lost."""
    if value is None or random.random() < 0.8:
        return value
    place = int(random.integers(0, len(value)))
    other = LETTERS[int(random.integers(0, 4))] if random.random() < 0.5 else ""
    return value[:place] + other + value[place + 1 :]


# ------------------------------------------------------------- the command


def run(
    names: Annotated[Path | None, typer.Argument(help=CENSUS_HELP)] = None,
    people: Annotated[int, typer.Option(min=9, help="People whose names are drawn.")] = 30_000,
    theta: Annotated[
        int, typer.Option(min=0, max=8, help="Most edits of both names together.")
    ] = 1,
    side: Annotated[
        int, typer.Option(min=0, help="Rows of each owner, fields; 0 leaves them out.")
    ] = 100,
    link: ImitatedLink = None,
    gbit: Gbit = None,
    latency_ms: LatencyMs = None,
    *,
    points: KeptPoints,
) -> Document:
    """Names in cells of lengths and mixed fields on shares, also over an imitated slow link.

    Every match bit is checked. Fields are of made-up people. Names need the lists of the census.
    """
    over = network_presets.imitated(link, gbit, latency_ms)
    about = "loopback" if over is None else f"{over.gbit_s:g} Gbit/s, {over.one_way_ms:g} ms"
    shared = {"bench": "linkage-texts", "link": about}
    tasks = []
    if names is not None:
        key = {**shared, "people": people, "theta": theta}
        tasks.append(Task("names", key, partial(_names, names, people, theta, over)))
    if side:
        tasks.append(Task("fields", {**shared, "side": side}, partial(_fields, side, over)))
    values = [{"link": about, **value} for value in measure("linkage-texts", tasks, points)]
    return document.make(
        "linkage-texts", _tables, parameters={"link": about}, points=values, notes=NOTES
    )


def _names(folder: Path, people: int, theta: int, over: Link | None, tell: Tell) -> dict[str, Any]:
    tell("plaintext")
    case, saved = names_case(folder, people, theta)
    kept = {name: saved[name] for name in ("reduction", "recall")}
    return {"case": case.name, **kept, **compare(case, tell, over)}


def _fields(side: int, over: Link | None, tell: Tell) -> dict[str, Any]:
    tell("plaintext")
    case = fields_case(side)
    return {"case": case.name, "reduction": 0.0, "recall": 1.0, **compare(case, tell, over)}


def _tables(result: Document) -> list[Table]:
    points = [
        {
            **point,
            "all_s": point["take_in_s"] + point["wall_s"],
            "all_cpu_s": point["take_in_cpu_s"] + point["cpu_s"],
            "mb": (point["take_in_bytes"] + point["bytes"]) / 1e6,
        }
        for point in result["points"]
    ]
    return [
        document.table_of(
            "Texts compared on shares, two processes",
            "records | link | pairs | reduction | recall | matches | exact | wall | CPU | "
            "MB sent by each | rounds | peak MB | others",
            "{case} | {link} | {pairs:,} | {reduction:.4f} | {recall:.4f} | {matches:,} | "
            "{exact:yes} | {all_s:time} | {all_cpu_s:time} | {mb:,.0f} | {rounds:,} | "
            "{peak_mb:.0f} | {others:cores}",
            points,
        )
    ]
