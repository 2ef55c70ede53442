"""`ppodc bench linkage-names`: the published experiments of linkage by names, in the clear.

How many pairs are left to compare, and whether a match is lost: two full names a record, edit
distance, records in thirds d1, d2, d3, Alice holds d1 + d2 and Bob d2 + d3. No dump of the
published names is at hand. Names are drawn with the frequencies of the census files that the PyPI
package `names` ships (dist.all.last, dist.female.first, dist.male.first), so that only the order of
the methods can be compared.

*LO* grows a tree over an embedding, *LGN* cuts by length first, *LGW* also narrows coordinates by
the lengths (alpha = 0.9), all three with the published noise, which suppresses records and protects
nobody. *DPRL LO*, *DPRL LGN* and *DPRL LGW* never suppress. *length* has a public cell for each
pair of exact lengths and exact noise. `blocks = "length"` of a job is *length*, `blocks =
"embedding"` is *DPRL LO*; seconds are what their comparisons on shares take of a core of each
cloud, by the rates of `ppodc link estimate`.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ppodc.bench import document, plot
from ppodc.bench.document import Document, Table
from ppodc.bench.linkage.trials import PublishedNoise, means, outcome, thirds
from ppodc.bench.options import KeptPoints
from ppodc.bench.plot import Panel, Series
from ppodc.bench.points import Task, Tell, measure
from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import InputError
from ppodc.linkage.blocks import adtree, embedding, embedding_tree
from ppodc.linkage.blocks.adtree import Budget
from ppodc.linkage.blocks.cells import Partition
from ppodc.linkage.blocks.embedding_tree import PUBLISHED_EDGES, StringTree
from ppodc.linkage.rules import EditDistance, EditPruning
from ppodc.linkage.symbols import NONE
from ppodc.privacy.cell_noise import ExactNoise
from ppodc.records.schema import Schema, TextColumn

CENSUS_HELP = "Folder with dist.all.last etc. of the PyPI package `names`."
LONGEST = 39
REFERENCES = 80
SUPPRESSING = ("LO", "LGN", "LGW")
PADDING = ("DPRL LO", "DPRL LGN", "DPRL LGW")
METHODS = (*SUPPRESSING, *PADDING, "length")
OF_JOBS = ("length", "DPRL LO")
_FILES = ("dist.all.last", "dist.female.first", "dist.male.first")
# Table 4.2
SIZES = (10_000, 20_000, 30_000, 40_000, 50_000)
EPSILONS = ("1/5", "2/5", "3/5", "4/5", "1")
THETAS = (0, 1, 2, 3)
DELTAS = ("1/1000000", "1/100000", "1/10000", "1/1000")  # the text does not name its own
_DELTA = "1/100000"  # of Figure 4.8
# (|S|, epsilon, theta, method): reduction, and recall or None, that the text states
PUBLISHED = {
    (10_000, "1/5", 3, "LO"): (0.6196, 0.9239),
    (10_000, "1/5", 3, "LGW"): (0.7496, None),
    (10_000, "1", 0, "LO"): (0.9876, 0.9596),
    (10_000, "1", 0, "LGW"): (0.9939, None),
    (30_000, "3/5", 0, "LO"): (0.9891, None),
    (30_000, "3/5", 0, "LGN"): (0.9945, None),
    (30_000, "3/5", 0, "LGW"): (0.9954, None),
    (30_000, "3/5", 3, "LO"): (0.7755, None),
    (30_000, "3/5", 3, "LGN"): (0.7961, None),
    (30_000, "3/5", 3, "LGW"): (0.8136, None),
    (30_000, "4/5", 1, "DPRL LO"): (0.902, 1.0),
    (50_000, "3/5", 0, "LO"): (0.9896, 0.9826),
    (50_000, "3/5", 0, "LGW"): (0.9960, None),
}
NOTES = (
    "Means over {seeds} seeds. Reduction = 1 - pairs compared / all pairs, dummies included. "
    "Recall is of the records that both owners hold.",
    "Published: names of DBLP, 30 seeds, only where the text states a number. LO, LGN and LGW have "
    "no delta: they suppress records where noise is negative.",
)


@dataclass(frozen=True, slots=True)
class Setting:
    """One point: |S| records in thirds."""

    size: int
    epsilon: str
    theta: int
    method: str
    delta: str = _DELTA


_SETTING = ("size", "epsilon", "theta", "method")


def grid(sweeps: bool) -> list[Setting]:
    """The points that the text states and those of jobs; with `sweeps` Figures 4.2 to 4.9."""
    points = [Setting(*stated) for stated in PUBLISHED]
    points += [Setting(30_000, "4/5", theta, method) for theta in THETAS for method in OF_JOBS]
    points += [Setting(1_500, "4/5", theta, method) for theta in (0, 1) for method in OF_JOBS]
    for theta, number in ((theta, number) for theta in THETAS if sweeps for number in range(3)):
        cut, padded = SUPPRESSING[number], PADDING[number]
        points += [Setting(10_000, epsilon, theta, cut) for epsilon in EPSILONS]
        points += [Setting(size, "3/5", theta, cut) for size in SIZES]
        points += [Setting(size, "4/5", theta, padded) for size in SIZES]
        points += [Setting(30_000, "4/5", theta, padded, delta) for delta in DELTAS]
    return list(dict.fromkeys(points))


def run(
    data: Annotated[Path, typer.Argument(help=CENSUS_HELP)],
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each point.")] = 10,
    sweeps: Annotated[bool, typer.Option(help="All points of Figures 4.2 to 4.9.")] = True,
    *,
    points: KeptPoints,
) -> Document:
    """Private record linkage by names, in the clear: pairs left to compare, recall, leaves."""
    settings = grid(sweeps)
    tasks = [
        Task(
            f"|S| = {s.size}, {s.method}, epsilon {s.epsilon}, theta {s.theta}",
            {"bench": "linkage-names", "seeds": seeds, **asdict(s)},
            partial(_measure, data, s, seeds),
        )
        for s in settings
    ]
    values = measure("names", tasks, points)
    both = zip(settings, values, strict=True)
    return document.make(
        "linkage-names",
        lambda result: tables(result["points"]),
        parameters={"seeds": seeds, "sweeps": sweeps},
        points=[{**asdict(setting), **value} for setting, value in both],
        notes=[note.format(seeds=seeds) for note in NOTES],
    )


def tables(points: Sequence[dict[str, Any]]) -> list[Table]:
    """Reduction and recall beside the published ones, which are of other names."""
    rows = [
        {
            **point,
            "spent": float(Fraction(point["epsilon"])),
            "seconds": point["pairs"] * _seconds(point["method"], point["theta"]),
            "spent_delta": "-" if point["method"] in SUPPRESSING else point["delta"],
            "stated": told[0],
            "stated_recall": told[1],
        }
        for point in points
        for told in [_told(point)]
    ]
    return [
        document.table_of(
            "Names of the census, two a record, edit distance",
            "cells | |S| | epsilon | delta | theta | pairs | on shares | reduction | recall | "
            "leaves | published reduction (DBLP) | recall (DBLP)",
            "{method} | {size:,} | {spent:g} | {spent_delta} | {theta} | {pairs:,.0f} | "
            "{seconds:time} | {reduction:.4f} | {recall:.4f} | {leaves:.0f} | {stated:.4f} | "
            "{stated_recall:.4f}",
            rows,
        )
    ]


def _told(point: dict[str, Any]) -> tuple[float | None, float | None]:
    """Reduction and recall that the text states of a point."""
    place = tuple(point[name] for name in _SETTING)
    return PUBLISHED.get(place, (None, None)) if point["delta"] == _DELTA else (None, None)


_FIGURES = (  # what, over what, what is fixed, methods, figure
    ("reduction", "epsilon", {"size": 10_000}, SUPPRESSING, "Figure 4.2"),
    ("recall", "epsilon", {"size": 10_000}, SUPPRESSING, "Figure 4.3"),
    ("leaves", "epsilon", {"size": 10_000}, SUPPRESSING, "Figure 4.4"),
    ("reduction", "size", {"epsilon": "3/5"}, SUPPRESSING, "Figure 4.5"),
    ("recall", "size", {"epsilon": "3/5"}, SUPPRESSING, "Figure 4.6"),
    ("leaves", "size", {"epsilon": "3/5"}, SUPPRESSING, "Figure 4.7"),
    ("reduction", "size", {"epsilon": "4/5", "delta": _DELTA}, PADDING, "Figure 4.8"),
    ("reduction", "delta", {"epsilon": "4/5", "size": 30_000}, PADDING, "Figure 4.9"),
)


def draw(result: Document, file: plot.File) -> None:
    """Figures 4.2 to 4.9, for the smallest and the largest theta."""
    panels = []
    for what, over, fixed, methods, figure in _FIGURES:
        lines = []
        for method, theta in ((method, theta) for theta in (0, 3) for method in methods):
            alike = {"method": method, "theta": theta, **fixed}
            drawn = [p for p in result["points"] if over != "size" or p["size"] in SIZES]
            own = [p for p in drawn if all(p[n] == v for n, v in alike.items())]
            known = sorted((_place(point, over), point[what]) for point in own)
            if len(known) > 1:
                lines.append(_line(f"{method}, theta {theta}", known))
        if lines:
            label = {"size": "|S|, thousands", "delta": "log10(delta)"}.get(over, over)
            panels.append(Panel(figure, label, what, [*lines, *_stated(what, over, fixed)]))
    plot.lines(file, panels, "Names of the census: cells of two owners", columns=3)


def _place(point: dict[str, Any], over: str) -> float:
    """Where a point stands on the axis; a delta by its exponent, a size in thousands."""
    value = float(Fraction(point[over]))
    return {"delta": round(math.log10(value)), "size": value / 1000}.get(over, value)


def _stated(what: str, over: str, fixed: dict[str, Any]) -> list[Series]:
    """The text's statements on a figure, for names of DBLP."""
    found: dict[str, list[tuple[float, float]]] = {}
    for place, values in PUBLISHED.items():
        point = dict(zip(_SETTING, place, strict=True))
        value = dict(zip(("reduction", "recall"), values, strict=True)).get(what)
        here = all(point[name] == fixed[name] for name in _SETTING if name in fixed)
        if here and over != "delta" and value is not None and point["theta"] in (0, 3):
            name = "published, {method}, theta {theta}".format(**point)
            found.setdefault(name, []).append((_place(point, over), value))
    return [_line(name, values, published=True) for name, values in found.items()]


def _line(name: str, points: Sequence[tuple[float, float]], *, published: bool = False) -> Series:
    x, y = zip(*points, strict=True)
    return Series(name, x, y, published=published)


@lru_cache(maxsize=1)
def census(folder: Path) -> tuple[list[str], NDArray[Any], list[str], NDArray[Any]]:
    """Given names and surnames with their frequencies."""
    lists = []
    for name in _FILES:
        try:
            lines = (folder / name).read_text().split("\n")
        except OSError as error:
            raise InputError(
                f"cannot read {folder / name}: {error.strerror}. The PyPI package `names` has it."
            ) from None
        parts = [line.split() for line in lines if line.strip()]
        lists.append([(part[0].lower(), float(part[1])) for part in parts])
    last, given = lists[0], lists[1] + lists[2]
    weights = [np.array([weight for _, weight in each]) for each in (given, last)]
    return (
        [name for name, _ in given],
        weights[0] / weights[0].sum(),
        [name for name, _ in last],
        weights[1] / weights[1].sum(),
    )


@lru_cache(maxsize=len(SIZES) + 1)
def people(folder: Path, size: int) -> tuple[tuple[str, str], ...]:
    """`size` records of two full names, always the same."""
    given, given_weights, last, last_weights = census(folder)
    random = np.random.default_rng(size)
    first = random.choice(len(given), 2 * size, p=given_weights)
    second = random.choice(len(last), 2 * size, p=last_weights)
    names = [f"{given[a]} {last[b]}"[:LONGEST] for a, b in zip(first, second, strict=True)]
    return tuple(zip(names[:size], names[size:], strict=True))


@lru_cache(maxsize=len(SIZES) + 1)
def points_of(folder: Path, size: int) -> NDArray[np.int64]:
    """Lengths and coordinates of all records: (size, 4)."""
    columns: list[NDArray[np.int64]] = []
    records = people(folder, size)
    for attribute in range(2):
        texts = embedding.coded([record[attribute] for record in records])
        references = embedding.reference_set(bytes([attribute] * 32), REFERENCES, LONGEST)
        columns += [(texts != NONE).sum(axis=1), embedding.embed(texts, references)]
    return np.column_stack([columns[0], columns[2], columns[1], columns[3]])


def _seconds(method: str, theta: int) -> float:
    """Of a pair on shares: lengths are public in cells of lengths only."""
    rule = EditDistance(2, theta)
    rule = rule.with_public_lengths(4) if method == "length" else rule
    texts = tuple(TextColumn(name, "words", LONGEST) for name in ("a", "b"))
    return rule.matcher(Schema((), 1, texts)).cost().seconds


def _measure(folder: Path, setting: Setting, seeds: int, tell: Tell) -> dict[str, float]:
    tell("embedding the names")
    place = _lengths if setting.method == "length" else points_of
    points = place(folder, setting.size)
    return means([_run(points, setting, seed) for seed in range(seeds)])


def _lengths(folder: Path, size: int) -> NDArray[np.int64]:
    return np.array([[len(a), len(b)] for a, b in people(folder, size)])


def _run(points: NDArray[np.int64], setting: Setting, seed: int) -> dict[str, float]:
    n = setting.size // 3 * 2  # even: the halves are d2
    alice, bob = thirds(len(points), n, seed)
    rule = EditDistance(2, setting.theta)
    if setting.method == "length":
        pruning = EditPruning(rule, (0, 1))
    else:
        pruning = EditPruning(rule, _tree(setting).dimensions)
    sides = [_partition(points[rows], setting, 2 * seed + i) for i, rows in enumerate((alice, bob))]
    result = outcome(sides[0], sides[1], pruning, n // 2)
    if setting.method in SUPPRESSING:
        result["recall"] *= _kept(sides, n // 2, seed)
    return result


def _tree(setting: Setting) -> StringTree:
    """The published methods: suppression spends all of epsilon on a path, padding half of it."""
    by_length = "LG" in setting.method
    buckets = embedding_tree.cut_lengths(PUBLISHED_EDGES, LONGEST)
    factor = 1 if setting.method.startswith("DPRL") else 2
    return StringTree(
        factor * Fraction(setting.epsilon),
        Fraction(setting.delta),
        (LONGEST, LONGEST),
        (0, 1),
        tree_share=Fraction(3, 5) if by_length else Fraction(13, 20),
        length_share=Fraction(1, 20) if by_length else Fraction(0),
        buckets=(buckets, buckets) if by_length else (),
        adjust=setting.method.endswith("LGW"),
        lower=Fraction(9, 10) if setting.method == "LGW" else Fraction(0),
    )


def _partition(points: NDArray[np.int64], setting: Setting, seed: int) -> Partition:
    exact = ExactNoise(SecureRandom.public(seed))
    if setting.method == "length":
        buckets = embedding_tree.exact_lengths(4, 24, LONGEST)
        boxes = embedding_tree.length_boxes(buckets, 2)
        budget = Budget(Fraction(setting.epsilon), Fraction(setting.delta))
        return adtree.count_cells(points, boxes, budget, exact)
    if setting.method.startswith("DPRL"):
        return embedding_tree.build(points, _tree(setting), exact)
    drawn = embedding_tree.build(points, _tree(setting), PublishedNoise(seed, suppress=True))
    true = np.bincount(drawn.cell, minlength=len(drawn.boxes))
    return Partition(drawn.boxes, drawn.cell, np.maximum(drawn.padding, -true))


def _kept(sides: Sequence[Partition], common: int, seed: int) -> float:
    """The part of the common records that neither owner suppressed."""
    kept = np.ones(common, np.bool_)
    random = np.random.default_rng(seed)
    for number, side in enumerate(sides):
        gone = np.zeros(len(side.cell), np.bool_)
        for cell in np.flatnonzero(side.padding < 0):
            rows = np.flatnonzero(side.cell == cell)
            gone[random.choice(rows, -side.padding[cell], replace=False)] = True
        kept &= ~(gone[len(gone) - common :] if number == 0 else gone[:common])
    return float(kept.mean())
