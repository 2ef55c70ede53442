"""k-means over joined columns, and what it must give: the reference over the rows as sealed."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ppodc.linkage.joined.joining import Joining, rows_by_side
from ppodc.linkage.row_layout import row_numbers
from ppodc.linkage.rules import EditDistance, Fields
from ppodc.records.encode import encode
from ppodc.spec import Spec
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import Uploaded
from tests.kmeans.expected import Expected, expected
from tests.kmeans.linked_jobs import _meet
from tests.linkage import reference

UB = 30
COST = {"epsilon": 8, "delta": "1/10"}
HOSPITAL, INSURER = ["hospital"], ["insurer"]
COLUMNS = [
    {"name": "year", "low": 1990, "high": 1993, "use": "link"},
    {"name": "stay", "low": 0, "high": 30, "held_by": HOSPITAL},
    {"name": "cost", "low": 0, "high": 60, "held_by": INSURER},
    {"name": "height", "low": 0, "high": 30},
    {"name": "claims", "low": 0, "high": 30, "held_by": INSURER},
]
TEXTS = [
    {"name": "name", "text": "words", "longest": 6},
    {"name": "code", "text": "digits", "longest": 3},
]
NAMES = ["anna", "anne", "hanna", "bo", "berta", "bertha", "carl", "karl"]
EVERY = [*COLUMNS, *TEXTS]


def spec_of(join, columns=EVERY, kind="kmeans", ub=UB, **job) -> Spec:
    """A small job over people whose columns are joined like this."""
    labels = job.get("sizes", True)
    usual = {"k": 2, "seed": 4, "init": "k-means++", "labels": labels, **job}
    if "iterations" not in job:
        usual = {"max_iter": 3, **usual}
    if kind != "kmeans":
        usual = {"kind": kind, **job}
    schema = {"ub": ub, "columns": columns}
    return Spec.from_dict({"name": "d", "schema": schema, "job": usual, "join": join})


def people(rows: int, seed: int, missing: float = 0.0) -> pd.DataFrame:
    """People with all columns; texts and years may be missing."""
    random = np.random.default_rng(seed)
    gone = ("year", "name", "code")

    def one():
        row = {
            "year": int(random.integers(1990, 1994)),
            "height": int(random.integers(0, 31)),
            "stay": int(random.integers(0, 31)),
            "cost": int(random.integers(0, 61)),
            "claims": int(random.integers(0, 31)),
            "visits": int(random.integers(0, 31)),
            "name": NAMES[random.integers(len(NAMES))],
            "code": f"{random.integers(100, 104)}",
        }
        return {k: None if k in gone and random.random() < missing else v for k, v in row.items()}

    return pd.DataFrame([one() for _ in range(rows)])


def held(owner: str, columns) -> list[str]:
    return [c["name"] for c in columns if owner in c.get("held_by", [owner])]


def tables_of(
    columns=EVERY, missing=0.0, sides=(("hospital", 7), ("insurer", 8)), seed=1, population=11
):
    """Tables of owners who have some people in common, some of them twice."""
    all_of_them = people(population, seed, missing)
    random = np.random.default_rng(seed + 100)
    found = []
    for number, (owner, rows) in enumerate(sides):
        who = random.permutation(population)[:rows]
        who[-1] = who[0]
        table = all_of_them.iloc[who].reset_index(drop=True)
        own = people(rows, seed + 10 * number + 1)
        for name in ("stay", "cost", "claims", "visits"):
            table[name] = own[name]
        found.append((owner, table[held(owner, columns)]))
    return found


def _record(spec: Spec, row: pd.Series):
    """A row as the rule compares it."""
    rule = spec.job.join.linkage.rule
    if isinstance(rule, Fields):
        values = [row[part.column] for part in rule.fields]
        return [None if pd.isna(value) else value for value in values]
    if isinstance(rule, EditDistance):
        return [row[text.name] for text in spec.schema.texts]
    linking = [column for column in spec.schema.columns if column.use != "cluster"]
    scaled = [(row[c.name] - c.low) / (c.high - c.low) * spec.schema.ub for c in linking]
    return [round(value) for value in scaled]


@dataclass
class SideRows:
    """Rows of first passes of one side, in the order of its uploads, as sealed."""

    values: np.ndarray  # joined columns
    rows: list  # of the owners' tables; None of a dummy
    places: list  # (upload, row of its table); -1 of a dummy


class Known:
    """The rows as the clouds have them, in the clear, and their join."""

    def __init__(self, given: Uploaded, tables, *, checked: bool = True) -> None:
        self.spec, self.given, self.checked = given.spec, given, checked
        self.owner_of = [owner for owner, _ in tables]  # of each upload
        columns = self.columns = given.spec.job.joined(given.spec.schema)
        self.sides = [self._side(n, tables) for n in range(len(columns.sides))]
        self.parts: list[list[float]] = []  # of each other side, of a row with this partner
        self.partners = [self._partners(side) for side in self.sides[1:]]
        own, *others = [
            side.values[:, list(columns.sides[n].places)] for n, side in enumerate(self.sides)
        ]
        parts, self.keep = reference.joined(own, list(zip(others, self.partners, strict=True)))
        self.records = np.empty((len(own), len(columns.joined.columns)), np.int64)
        for side, part in zip(columns.sides, parts, strict=True):
            self.records[:, list(side.places)] = part

    def _side(self, number: int, tables) -> SideRows:
        columns, (first, second) = self.columns, self.given.shares
        sent = (first - second).astype(np.int64)
        values, rows, places = [], [], []
        for upload, place in enumerate(rows_by_side(columns, self.given.sealed)):
            if place.owner != number:
                continue
            part = sent[place.first : place.first + place.in_first_pass]
            table, at = tables[upload][1], np.arange(len(part))
            if columns.job.rearranged:
                at = row_numbers(part[:, columns.layout.number]) - 1
            values.append(part[:, columns.layout.width :])
            rows += [None if i < 0 else table.iloc[i] for i in at]
            places += [(upload, int(i)) for i in at]
            if self.checked:
                self._check_values(number, part, table, at)
        return SideRows(np.concatenate(values), rows, places)

    def _check_values(self, number, part, table, at) -> None:
        """A row has its owner's values, and a dummy those of one of its owner's rows."""
        columns, own = self.columns, self.columns.own(number)
        plain = encode(table[own.names], own)
        mine = part[:, columns.layout.width :][:, list(columns.sides[number].places)]
        assert np.array_equal(mine[at >= 0], plain[at[at >= 0]])
        assert all((plain == row).all(axis=1).any() for row in mine[at < 0])

    def _partners(self, side: SideRows) -> list[int | None]:
        join, anchor = self.spec.job.join, self.sides[0]
        named = join.linkage.blocking.named_columns

        def matches(i: int, j: int) -> bool:
            a, b = anchor.rows[i], side.rows[j]
            if a is None or b is None or not _meet(named, a, b):
                return False
            records = _record(self.spec, a), _record(self.spec, b)
            return bool(join.linkage.rule.matches(*records))

        rows, others = len(anchor.rows), len(side.rows)
        shared = [sum(matches(i, j) for i in range(rows)) for j in range(others)]
        self.parts.append([reference.part_of_one(n, join.relation) if n else 0.0 for n in shared])
        return reference.partners(rows, others, matches, join.relation)

    def labels(self, labels, tables, owner: str) -> list[int] | None:
        """Those of an owner's own rows, from the labels of all rows of the anchor."""
        if self.columns.side_of(owner):
            return None
        keep = self.keep & (self.keep.sum() >= self.spec.job.join.least)
        found = dict(zip(self.sides[0].places, np.where(keep, labels, -1).tolist(), strict=True))
        own = [(n, len(table)) for n, (who, table) in enumerate(tables) if who == owner]
        return [found[upload, i] for upload, rows in own for i in range(rows)]

    @property
    def own(self) -> np.ndarray:
        """(rows, owners in order of first upload): how much of a joined row does not count.

        All of it, if it holds a row of this owner on a side that several owners share. With m:1
        (of two sides) what it lacks to a whole person.
        """
        found = np.zeros((len(self.keep), len(set(self.owner_of))))
        numbers = {owner: n for n, owner in enumerate(dict.fromkeys(self.owner_of))}
        each = [list(range(len(self.keep))), *self.partners]
        for i in np.flatnonzero(self.keep):
            found[i] = 1 - self.parts[0][self.partners[0][i]]
            for side, rows in zip(self.sides, each, strict=True):
                whose = [self.owner_of[upload] for upload, _ in side.places]
                if len(set(whose)) > 1:
                    found[i, numbers[whose[rows[i]]]] = 1
        return found

    def weights(self) -> list[list[int]]:
        """Each row's weight for thresholds, on each side that counts."""
        whole, kept = self.spec.job.join.whole, self.keep.astype(int)
        if whole == 1:
            return [[int(keep)] for keep in kept]
        sides = list(zip(self.parts, self.partners, strict=True))
        each = enumerate(kept.tolist())
        return [[int(whole * p[of[i]]) if keep else 0 for p, of in sides] for i, keep in each]

    def told(self) -> list[bool]:
        """Whether each owner is told anything: `least` of the joined people are not its own."""
        least, others = self.spec.job.join.least, ((1 - self.own) * self.keep[:, None]).sum(axis=0)
        return [least == 1 or count >= least for count in others.tolist()]

    def expected(self) -> Expected:
        centres, records = self.spec.job.initial_centres(self.spec.schema), self.records
        return expected(self.spec.job, records, centres=centres, keep=self.keep, owners=self.own)


def opened_join(clouds: TwoClouds) -> tuple[np.ndarray, np.ndarray]:
    """The joined columns and who counts, from both clouds."""
    both = [plan.linking for plan in clouds.plans]
    assert all(isinstance(each, Joining) and each.joined is not None for each in both)
    (first, second) = (each.joined for each in both)
    return first.values - second.values, first.keep ^ second.keep


def check(clouds: TwoClouds, results, tables) -> Known:
    """Joined values, keep bits, sums, sizes and iterations, to the last bit."""
    known = Known(clouds.given, tables)
    values, keep = opened_join(clouds)
    others = [place for side in known.columns.partners for place in side.places]
    assert keep.astype(bool).tolist() == known.keep.tolist()
    assert values.tolist() == known.records[:, others].tolist()
    first, second = (plan.linking.joined.weight for plan in clouds.plans)
    assert (first + second).tolist() == known.weights()
    plain, job, enough = known.expected(), clouds.given.spec.job, known.told()
    for k, whole in plain.by_k.items():
        for number, (owner, result) in enumerate(results.items()):
            told, trace = enough[number], whole.for_owner(number)
            one = result.by_k[k] if job.ks else result
            labels = known.labels(trace.labels, tables, owner) if job.labels else None
            assert (None if one.labels_ is None else one.labels_.tolist()) == labels
            assert one.sums_.tolist() == (trace.sums * told).tolist()
            assert one.sizes_.tolist() == (trace.sizes * told).tolist()
            assert (one.n_iter_, one.converged_) == (plain.n_iter, plain.converged)
            if job.inertia:
                assert one.inertia_ == (trace.inertia if told else 0)
    return known
