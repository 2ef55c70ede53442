"""`ppodc bench linkage-pairs`: what comparing a pair of records on shares costs, all bits checked.

Both clouds are processes on loopback behind CURVE; this process plays the owners and compares every
match bit with plaintext. Pairs a second are of one core of each cloud: pairs / CPU time of the
slower one. Supplies are made while comparing: nothing was prepared.
"""

import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.linkage import adult, trials
from ppodc.bench.machine import watched
from ppodc.bench.network_presets import Link
from ppodc.bench.options import KeptPoints, ManyPairs
from ppodc.bench.plot import Panel
from ppodc.bench.points import Task, Tell, measure
from ppodc.bench.slow_network import slow
from ppodc.crypto.random_stream import SecureRandom
from ppodc.linkage.blocks import adtree, cells
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.blocks.candidates import Block, Work, blocks, rectangle
from ppodc.linkage.blocks.cells import NoPruning, Partition
from ppodc.linkage.rules import SquaredDistance, SquaredPruning
from ppodc.linkage.schedule import rounds
from ppodc.linkage.symbols import NONE, levenshtein
from ppodc.local.pair import ROLES, Route, started, write_folders
from ppodc.local.pair_process import Setting
from ppodc.privacy.cell_noise import ExactNoise

ORDER, BITS = "order.json", "bits.npy"
UB = 160
_PROGRAM = "ppodc.bench.linkage.process"
NOTES = (
    "Published: 38.94 ms and 13.5 kB for a pair of 5 numbers, three parties, 1,024-bit keys; no "
    "figure for strings.",
    "`others` are the cores that other programs kept busy: where it is not near 0, wall times are "
    "too long, CPU times hold roughly.",
)


PARALLEL_NOTE = (
    "Over worker pairs: each pair takes in all rows and compares its portion, as in a job; the "
    "pairs ran one after the other, and the busiest worker is what a job waits for."
)


class Order(msgspec.Struct, frozen=True):
    """Comparison that both clouds are to run."""

    kind: str  # numbers, lengths (public), secret (lengths), fields or job
    first: int  # rows of the first owner; the others are the second's
    blocks: list[tuple[int, int, list[tuple[int, int]]]]
    limit: int = 0
    bits: int = 8
    weights: list[int] = []
    lengths: list[int] = []
    block_lengths: list[tuple[list[int], list[int]]] = []  # of the texts in each block
    rule: dict[str, Any] = {}  # of fields
    spec: str = ""  # of a job, whose uploads the rows are
    earlier: list[int] = []  # of each block of a job: passes before its own


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table: rows of both owners, the order, and what must come out."""

    name: str
    rows: tuple[NDArray[np.int64], NDArray[np.int64]]
    order: Order
    expected: list[NDArray[np.bool_]]  # of each block


def numbers_case(side: int) -> Case:
    """Random rows of 5 values, a quarter of them at both owners."""
    random = np.random.default_rng(1)
    xs = random.integers(0, UB + 1, (side, 5))
    ys = np.concatenate([xs[: side // 4], random.integers(0, UB + 1, (side - side // 4, 5))])
    plan = list(rectangle((0, side), [(0, side)]))
    return _numeric(f"5 numbers, {side} x {side}", xs, ys, plan, np.ones(side), np.ones(side))


def adult_case(file: Path, n: int, method: str) -> Case:
    """Adult as in `ppodc bench linkage`, rows in cells with dummies; theta = 0."""
    values, domain = adult.load(file)
    alice, bob = trials.thirds(len(values), n, 0)
    noise = ExactNoise(SecureRandom(bytes(32)))
    budget = Budget(Fraction(1), Fraction(1, 10_000))
    if method == "none":
        box = np.array([[0, UB + 1]] * 5)
        sides = [cells.whole(n, box), cells.whole(n, box)]
    else:
        first = adtree.build(values[alice], domain, budget, noise)
        shared = method == "adtree-shared"
        sides = [first, adtree.count_cells(values[bob], first.boxes, budget, noise) if shared
                 else adtree.build(values[bob], domain, budget, noise)]  # fmt: skip
    pruning = NoPruning() if method == "none" else SquaredPruning(SquaredDistance((1,) * 5, 0))
    plan = list(blocks(sides[0].cell_counts, sides[1].cell_counts, pruning))
    (xs, real_x), (ys, real_y) = (
        _arranged(values[rows], side) for rows, side in zip((alice, bob), sides, strict=True)
    )
    return _numeric(f"Adult, N = {n}, {method}", xs, ys, plan, real_x, real_y)


def _arranged(
    values: NDArray[np.int64], partition: Partition
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows in the order of their cells, dummies as copies of some row, and which are real."""
    order = partition.arranged()
    return values[np.maximum(order, 0)], (order >= 0).astype(np.int64)


def _numeric(
    name: str,
    xs: NDArray[np.int64],
    ys: NDArray[np.int64],
    plan: Sequence[Block],
    real_x: NDArray[Any],
    real_y: NDArray[Any],
) -> Case:
    rule = SquaredDistance((1,) * xs.shape[1], 0)
    expected = []
    for block in plan:
        rows, columns = np.arange(*block.xs), block.columns
        match = rule.distances(xs[rows], ys[columns]) <= rule.limit
        expected.append(match & (real_x[rows, None] > 0) & (real_y[None, columns] > 0))
    weights = list(rule.weights)
    order = Order("numbers", len(xs), listed(plan), rule.limit, UB.bit_length(), weights)
    both = np.column_stack([xs, real_x]), np.column_stack([ys, real_y])
    return Case(name, (both[0].astype(np.int64), both[1].astype(np.int64)), order, expected)


def edit_case(side: int, length: int, most: int, *, secret: bool) -> Case:
    """Random words and copies of them with edits; secret lengths differ by up to 3."""
    random = np.random.default_rng(2)
    lengths = length - random.integers(0, 4, side) if secret else np.full(side, length)
    words = [random.integers(0, 6, n).tolist() for n in lengths]
    copies = [_edited(random, word, secret=secret) for word in words]
    plan = list(rectangle((0, side), [(0, side)]))
    near = [[levenshtein(a, b) <= most for b in copies] for a in words]
    match = np.array(near, np.bool_)
    expected = [match[block.xs[0] : block.xs[1]][:, block.columns] for block in plan]
    kind, wide = ("secret", length + most) if secret else ("lengths", length)
    known = [([length], [length])] * len(plan)
    order = Order(kind, side, listed(plan), most, lengths=[length], block_lengths=known)
    tables = [np.array([[*w, *[NONE] * (wide - len(w)), 1] for w in x]) for x in (words, copies)]
    name = f"edit, length {'up to ' if secret else ''}{length}, d = {most}, {side} x {side}"
    return Case(name, (tables[0], tables[1]), order, expected)


def _edited(random: np.random.Generator, word: list[int], *, secret: bool) -> list[int]:
    """One or two characters changed; with secret lengths perhaps one lost."""
    copy = list(word)
    for place in random.integers(0, len(copy), random.integers(0, 3)):
        copy[place] = int(random.integers(0, 6))
    return copy[1:] if secret and random.integers(0, 3) == 0 else copy


def listed(plan: Sequence[Block]) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Blocks as the order has them."""
    return [(block.xs[0], block.xs[1], list(block.ys)) for block in plan]


def parts_of(case: Case, pairs: int) -> list[Case]:
    """A case as a job divides it among worker pairs: neighbouring blocks, round by round."""
    places = {Block((a, b), tuple(ys)): i for i, (a, b, ys) in enumerate(case.order.blocks)}
    work = [Work(0, 1, block) for block in places]
    most = SquaredDistance(tuple(case.order.weights), case.order.limit).portion_pairs
    slots: list[list[int]] = [[] for _ in range(pairs)]
    for portions in rounds(work, pairs, most):
        for slot, portion in zip(slots, portions, strict=False):
            slot += [places[each.block] for each in portion]
    return [
        replace(
            case,
            order=msgspec.structs.replace(
                case.order, blocks=[case.order.blocks[at] for at in slot]
            ),
            expected=[case.expected[at] for at in slot],
        )
        for slot in slots
        if slot
    ]


def _parallel(make: Any, pairs: int, tell: Tell) -> dict[str, Any]:
    """The costs of every pair, one pair after the other, so that none waits for a core."""
    tell("plaintext")
    runs = [compare(part, tell) for part in parts_of(make(), pairs)]
    spent = [run["cpu_s"] + run["take_in_cpu_s"] for run in runs]
    return {
        "pairs": pairs,
        "exact": all(run["exact"] for run in runs),
        "compared": sum(run["pairs"] for run in runs),
        "busiest_s": max(spent),
        "all_s": sum(spent),
        "take_in_s": max(run["take_in_cpu_s"] for run in runs),
        "bytes": max(run["bytes"] + run["take_in_bytes"] for run in runs),
    }


def compare(case: Case, tell: Tell, over: Link | None = None) -> dict[str, Any]:
    """Run both clouds on a case; costs, and whether every match bit is right."""
    opened, costs = opened_bits(case, tell, over)
    both = zip(opened, case.expected, strict=True)
    return {
        "pairs": sum(bits.size for bits in case.expected),
        "matches": int(sum(bits.sum() for bits in case.expected)),
        "exact": all(np.array_equal(bits, right) for bits, right in both),
        **costs,
    }


def opened_bits(
    case: Case, tell: Tell, over: Link | None = None
) -> tuple[list[NDArray[np.bool_]], dict[str, Any]]:
    """Run both clouds on a case, `over` an imitated link or loopback: match bits and costs."""
    columns = case.rows[0].shape[1]
    rows = sum(map(len, case.rows))
    setting = Setting(1, "shares", rows, columns, 1, 1 << 20, "0")
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place, watched() as load:
        folders = write_folders(Path(place), setting, None, list(case.rows))
        for folder in folders:
            (folder / ORDER).write_bytes(msgspec.json.encode(case.order))
        tell("taking in")
        route: Route = nullcontext if over is None else partial(slow, link=over)
        with started(folders, _PROGRAM, route) as pair:
            taking_in = [pair.answer(role) for role in ROLES]
            tell("comparing")
            comparing = [pair.answer(role) for role in ROLES]
            for _ in pair.events():
                pass
        shares = [np.load(folder / BITS, allow_pickle=False) for folder in folders]
    costs = {
        "take_in_s": max(cost["wall_s"] for cost in taking_in),
        "take_in_cpu_s": max(cost["cpu_s"] for cost in taking_in),
        "take_in_bytes": max(cost["bytes"] for cost in taking_in),
        "wall_s": max(cost["wall_s"] for cost in comparing),
        "cpu_s": max(cost["cpu_s"] for cost in comparing),
        "bytes": max(cost["bytes"] for cost in comparing),
        "rounds": comparing[0]["rounds"],
        "peak_mb": max(cost["peak_mb"] for cost in comparing),
        "others": load.others,
    }
    return _blocks_of(shares[0] ^ shares[1], [bits.shape for bits in case.expected]), costs


def _blocks_of(packed: NDArray[np.uint8], shapes: Sequence[Any]) -> list[NDArray[np.bool_]]:
    """The bits of each block, which starts at a whole byte."""
    ends = np.cumsum([-(-height * width // 8) for height, width in shapes])
    parts = np.split(packed, ends[:-1])
    return [
        np.unpackbits(part, count=height * width).reshape(height, width).astype(np.bool_)
        for part, (height, width) in zip(parts, shapes, strict=True)
    ]


def run(
    data: Annotated[Path | None, typer.Argument(help="adult.data, if available.")] = None,
    side: Annotated[int, typer.Option(min=4, help="Rows of each owner, numbers.")] = 2048,
    strings: Annotated[int, typer.Option(min=4, help="Rows of each owner, strings.")] = 256,
    m: Annotated[int, typer.Option(help="Rows of each owner, Adult.")] = 6000,
    every: Annotated[
        bool, typer.Option(help="Adult also without cells: all pairs of rows.")
    ] = False,
    pairs: ManyPairs = (),
    *,
    points: KeptPoints,
) -> Document:
    """The cost of comparing a pair of records on shares. Every match bit is checked.

    Numbers and strings are drawn at random. Adult runs in cells if its file is given, with --pairs
    also divided among worker pairs (Figure 3.9).
    """
    cases = [
        ("numbers", partial(numbers_case, side)),
        *((f"edit {d}", partial(edit_case, strings, 16, d, secret=False)) for d in (1, 2)),
        *((f"secret {d}", partial(edit_case, strings, 16, d, secret=True)) for d in (1, 2)),
    ]
    parallel = []
    if data is not None:
        ways = ("none", "adtree", "adtree-shared") if every else ("adtree", "adtree-shared")
        cases += [(f"Adult {way}", partial(adult_case, data, m, way)) for way in ways]
        parallel = [
            Task(
                f"{psi} pair(s)",
                {"bench": "linkage-pairs", "pairs": psi, "m": m},
                partial(_parallel, partial(adult_case, data, m, "adtree"), psi),
            )
            for psi in pairs
        ]
    sizes = {"side": side, "strings": strings, "m": m}
    tasks = [
        Task(name, {"bench": "linkage-pairs", "case": name, **sizes}, partial(_measured, make))
        for name, make in cases
    ]
    values = measure("linkage-pairs", tasks, points)
    return document.make(
        "linkage-pairs",
        _tables,
        parameters=sizes,
        points=values,
        parallel=measure("linkage-pairs", parallel, points),
        notes=[*NOTES, *([PARALLEL_NOTE] if parallel else [])],
    )


def _measured(make: Any, tell: Tell) -> dict[str, Any]:
    tell("plaintext")
    case = make()
    return {"case": case.name, **compare(case, tell)}


def _tables(result: Document) -> list[Table]:
    rows = [
        {**p, "speed": p["pairs"] / p["cpu_s"], "each": p["bytes"] / p["pairs"]}
        for p in result["points"]
    ]
    return [
        document.table_of(
            "Comparing on shares, two processes on loopback",
            "records | pairs | matches | exact | pairs/s of a core | bytes | rounds | CPU "
            "| wall | MB | others",
            "{case} | {pairs:,} | {matches:,} | {exact:yes} | {speed:,.0f} | "
            "{each:.0f} | {rounds:,} | {cpu_s:time} | {wall_s:time} | {peak_mb:.0f} | "
            "{others:cores}",
            rows,
        ),
        *([_parallel_table(result)] if result["parallel"] else []),
    ]


def _parallel_table(result: Document) -> Table:
    points = result["parallel"]
    table = document.table_of(
        "Adult in cells of own trees, N = {m:,}, over worker pairs".format(**result["parameters"]),
        "pairs | pairs of rows | exact | busiest worker, CPU | of it taking in | all workers | "
        "MB of the busiest | speed-up",
        "{pairs} | {compared:,} | {exact:yes} | {busiest_s:time} | {take_in_s:time} | "
        "{all_s:time} | {bytes:/1e6 .1f} | {gain:.2f}",
        [{**p, "gain": points[0]["busiest_s"] / p["busiest_s"]} for p in points],
    )
    told = ["published, 100 jobs", "1,310,000", "-", "35.48 min of 14.19 h"]
    table["rows"].append([*told, "-", "-", "-", "24.00"])
    return table


def draw(result: Document, file: plot.File) -> None:
    """CPU of the busiest worker over worker pairs, beside an even division."""
    points = result["parallel"]
    ideal = [{**p, "even": points[0]["busiest_s"] / p["pairs"]} for p in points]
    lines = [
        plot.series("busiest worker", points, "pairs", "busiest_s"),
        plot.series("the first, divided evenly", ideal, "pairs", "even", estimated=True),
    ]
    panel = Panel("", "worker pairs", "CPU seconds", lines if points else [])
    plot.lines(file, [panel], "Linkage of Adult in cells over worker pairs", log="y")
