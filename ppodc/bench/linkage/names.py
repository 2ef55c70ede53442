"""The experiments on strings of `ppodc bench linkage`: two full names a record, edit distance.

Names are drawn with the frequencies of the census files that the PyPI package `names` ships
(dist.all.last, dist.female.first, dist.male.first). Methods: *LO* grows a tree over an embedding,
*LGN* cuts by length first, *LGW* also narrows coordinates by the lengths (alpha = 0.9), all three
with the published noise, which suppresses records; *DPRL LO* and *DPRL LGW* never suppress;
*length* has a public cell for each pair of exact lengths and exact noise. `blocks = "length"` of a
job is *length*, `blocks = "embedding"` is *DPRL LO*; seconds are what their comparisons on shares
take of a core of each cloud, by the rates of `ppodc link estimate`.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.bench import document
from ppodc.bench.document import Table
from ppodc.bench.linkage.trials import PublishedNoise, means, outcome, thirds
from ppodc.bench.points import Points, Task, Tell, measure
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
METHODS = ("LO", "LGN", "LGW", "DPRL LO", "DPRL LGW", "length")
OF_JOBS = ("length", "DPRL LO")
_FILES = ("dist.all.last", "dist.female.first", "dist.male.first")
# (|S|, epsilon, theta, method): reduction that the text states (Sections 4.4, 4.5)
PUBLISHED = {
    (10_000, "1", 0, "LO"): 0.9876,
    (10_000, "1", 0, "LGW"): 0.9939,
    (30_000, "3/5", 0, "LO"): 0.9891,
    (30_000, "3/5", 0, "LGN"): 0.9945,
    (30_000, "3/5", 0, "LGW"): 0.9954,
    (30_000, "3/5", 3, "LO"): 0.7755,
    (30_000, "3/5", 3, "LGN"): 0.7961,
    (30_000, "3/5", 3, "LGW"): 0.8136,
    (30_000, "4/5", 1, "DPRL LO"): 0.902,
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One point: |S| records in thirds."""

    size: int
    epsilon: str
    theta: int
    method: str


_SETTING = tuple(field.name for field in fields(Setting))
SETTINGS = (
    *(Setting(10_000, "1", 0, method) for method in METHODS[:3]),
    *(Setting(30_000, "3/5", theta, method) for theta in (0, 3) for method in METHODS[:3]),
    *(Setting(30_000, "4/5", theta, method) for theta in range(4) for method in OF_JOBS),
    *(Setting(1_500, "4/5", theta, method) for theta in range(2) for method in OF_JOBS),
    Setting(30_000, "4/5", 1, "DPRL LGW"),
)


def measured(folder: Path, seeds: int, points: Points) -> list[dict[str, Any]]:
    """All settings over at most 3 seeds: the embedding is what takes the time."""
    runs = min(3, seeds)
    tasks = [
        Task(
            f"names, |S| = {s.size}, {s.method}, theta {s.theta}",
            {"bench": "linkage-names", "seeds": runs, **asdict(s)},
            partial(_measure, folder, s, runs),
        )
        for s in SETTINGS
    ]
    values = measure("names", tasks, points)
    return [{**asdict(s), **value} for s, value in zip(SETTINGS, values, strict=True)]


def tables(points: Sequence[dict[str, Any]]) -> list[Table]:
    """Reduction and recall beside the published ones, which are of other names."""
    rows = [
        {
            **point,
            "spent": float(Fraction(point["epsilon"])),
            "seconds": point["pairs"] * _seconds(point["method"], point["theta"]),
            "stated": PUBLISHED.get(tuple(point[name] for name in _SETTING)),
        }
        for point in points
    ]
    shown = document.table_of(
        "Names of the census, two a record, edit distance",
        "cells | |S| | epsilon | theta | pairs | on shares | reduction | recall | leaves | "
        "published (DBLP)",
        "{method} | {size:,} | {spent:g} | {theta} | {pairs:,.0f} | {seconds:time} | "
        "{reduction:.4f} | {recall:.4f} | {leaves:.0f} | {stated:.4f}",
        rows,
    )
    return [shown] if rows else []


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


@lru_cache(maxsize=2)
def people(folder: Path, size: int) -> tuple[tuple[str, str], ...]:
    """`size` records of two full names, always the same."""
    given, given_weights, last, last_weights = census(folder)
    random = np.random.default_rng(size)
    first = random.choice(len(given), 2 * size, p=given_weights)
    second = random.choice(len(last), 2 * size, p=last_weights)
    names = [f"{given[a]} {last[b]}"[:LONGEST] for a, b in zip(first, second, strict=True)]
    return tuple(zip(names[:size], names[size:], strict=True))


@lru_cache(maxsize=2)
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
    n = setting.size * 2 // 3
    alice, bob = thirds(len(points), n, seed)
    rule = EditDistance(2, setting.theta)
    if setting.method == "length":
        pruning = EditPruning(rule, (0, 1))
    else:
        pruning = EditPruning(rule, _tree(setting).dimensions)
    sides = [_partition(points[rows], setting, 2 * seed + i) for i, rows in enumerate((alice, bob))]
    result = outcome(sides[0], sides[1], pruning, n // 2)
    if setting.method in METHODS[:3]:
        result["recall"] *= _kept(sides, n // 2, seed)
    return result


def _tree(setting: Setting) -> StringTree:
    """The published methods: suppression spends all of epsilon on a path, padding half of it."""
    by_length = "LG" in setting.method
    buckets = embedding_tree.cut_lengths(PUBLISHED_EDGES, LONGEST)
    factor = 1 if setting.method.startswith("DPRL") else 2
    return StringTree(
        factor * Fraction(setting.epsilon),
        Fraction(1, 100_000),
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
        budget = Budget(Fraction(setting.epsilon), Fraction(1, 100_000))
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
