"""k-means with a linkage inside, and what it must give: the reference over the rows as sealed."""

import base64

import numpy as np
import pandas as pd

from ppodc.linkage.row_layout import row_numbers
from ppodc.linkage.rules import Dice, EditDistance, Fields
from ppodc.linkage.schedule import rows_of
from ppodc.records.encode import encode
from ppodc.spec import Spec
from tests.harness.two_clouds import TwoClouds
from tests.harness.uploads import Uploaded
from tests.kmeans.expected import Expected, expected

UB = 30
COST = {"epsilon": 8, "delta": "1/10"}
COLUMNS = [
    {"name": "year", "low": 1990, "high": 1993, "use": "link"},
    {"name": "height", "low": 0, "high": 30},
    {"name": "weight", "low": 0, "high": 30, "use": "cluster"},
]
TEXTS = [
    {"name": "name", "text": "words", "longest": 6},
    {"name": "code", "text": "digits", "longest": 3, "use": "link"},
]
FILTER = {"name": "clk", "text": "filter", "longest": 16}
NAMES = ["anna", "anne", "hanna", "bo", "berta", "bertha", "carl", "karl"]


def spec_of(linkage, columns=COLUMNS, **job) -> Spec:
    """A small k-means job over people who are linked like this."""
    usual = {"k": 2, "seed": 4, "max_iter": 3, "labels": True, "init": "k-means++", **job}
    schema = {"ub": UB, "columns": columns}
    return Spec.from_dict({"name": "d", "schema": schema, "job": usual, "linkage": linkage})


def people(rows: int, seed: int, missing: float = 0.0) -> pd.DataFrame:
    """People of whom two tables have some in common; texts and years may be missing."""
    random = np.random.default_rng(seed)

    def one():
        height = int(random.integers(0, 31))
        bits = np.packbits(random.integers(0, 2, 16).astype(np.uint8) | (np.arange(16) == 3))
        row = {
            "year": int(random.integers(1990, 1994)),
            "height": height,
            "weight": (height + int(random.integers(0, 9))) % 31,
            "name": NAMES[random.integers(len(NAMES))],
            "code": f"{random.integers(100, 104)}",
            "clk": base64.b64encode(bits.tobytes()).decode(),
        }
        gone = ("year", "name", "code")
        return {k: None if k in gone and random.random() < missing else v for k, v in row.items()}

    return pd.DataFrame([one() for _ in range(rows)])


def tables_of(columns, missing=0.0):
    """Three owners, one with two uploads, some of whose people are the same or nearly."""
    names = [column["name"] for column in columns]
    ann, bob, cat, more = (people(n, n, missing) for n in (6, 7, 4, 6))
    bob.iloc[:4], cat.iloc[:2], more.iloc[0] = ann.iloc[:4], ann.iloc[2:4], bob.iloc[5]
    bob.loc[3, "height"] = min(30, ann.loc[3, "height"] + 1)
    bob.loc[3, "weight"] = 30 - ann.loc[3, "weight"]
    listed = (("ann", ann), ("bob", bob), ("cat", cat), ("ann", more))
    return [(owner, table[names]) for owner, table in listed]


def _record(spec: Spec, row: pd.Series):
    """A row as the rule compares it."""
    rule = spec.job.dedup.rule
    if isinstance(rule, Fields):
        values = [row[part.column] for part in rule.fields]
        return [None if pd.isna(value) else value for value in values]
    if isinstance(rule, EditDistance):
        return [row[text.name] for text in spec.schema.texts]
    if isinstance(rule, Dice):
        return [int.from_bytes(base64.b64decode(row["clk"]))]
    linking = [column for column in spec.schema.columns if column.use != "cluster"]
    scaled = [(row[c.name] - c.low) / (c.high - c.low) * spec.schema.ub for c in linking]
    return [round(value) for value in scaled]


def _meet(columns, a: pd.Series, b: pd.Series) -> bool:
    """Whether blocks by these columns have both in a cell; rows without a key are in none."""
    return not columns or any(a[column] == b[column] for column in columns)


class Sealed:
    """The rows as the clouds have them, in the clear."""

    def __init__(self, given: Uploaded, tables) -> None:
        self.spec, self.given = given.spec, given
        linked = given.spec.job.linked(given.spec.schema)
        first, second = given.shares
        values = (first - second).astype(np.int64)
        self.records = values[:, list(linked.places)]
        sizes = [upload.rows for upload in given.sealed.uploads]
        self.upload = np.repeat(np.arange(len(sizes)), sizes)
        self.row = np.concatenate([np.arange(size) for size in sizes])
        if linked.job.rearranged:
            self.row = row_numbers(values[:, linked.layout.number]) - 1
            assert (values[:, linked.layout.real].reshape(-1) == (self.row >= 0)).all()
        uploads = rows_of(linked.spec, given.sealed)
        first = [np.arange(u.count) < u.in_first_pass for u in uploads]
        self.real = (self.row >= 0) & np.concatenate(first)
        self.keep = self.real & ~self._duplicates(tables)
        self._check_values(tables, linked.clustered)

    def _duplicates(self, tables) -> np.ndarray:
        """Rows that match one of an owner before, by first upload, within the same block."""
        order = self.given.sealed.owners
        blocking, rule = self.spec.job.dedup.blocking, self.spec.job.dedup.rule
        rows = [(u, tables[u][1].iloc[i]) for u, i in zip(self.upload, self.row, strict=True)]
        owners = [order.index(tables[u][0]) for u in self.upload]
        found = np.zeros(len(rows), bool)
        for j in np.flatnonzero(self.real):
            for i in np.flatnonzero(self.real):
                a, b = rows[i][1], rows[j][1]
                if owners[i] < owners[j] and not found[j] and _meet(blocking.named_columns, a, b):
                    found[j] = rule.matches(_record(self.spec, a), _record(self.spec, b))
        return found

    def _check_values(self, tables, clustered) -> None:
        """A row has its owner's values, and a dummy those of one of its owner's rows."""
        for number, (_, table) in enumerate(tables):
            own = encode(table[clustered.names], clustered)
            here = self.upload == number
            assert np.array_equal(self.records[here & self.real], own[self.row[here & self.real]])
            dummies = self.records[here & ~self.real]
            assert all((own == row).all(axis=1).any() for row in dummies)

    def expected(self) -> Expected:
        """By the reference."""
        centres = self.spec.job.initial_centres(self.spec.schema)
        sealed = self.given.sealed
        runs = sealed.owners_of(0, sealed.m)
        owners = np.repeat(runs[:, 1], runs[:, 0])
        return expected(self.spec.job, self.records, centres=centres, keep=self.keep, owners=owners)

    def labels(self, owner: str, labels: np.ndarray) -> list[int]:
        """Of the owner's rows, upload by upload, in the order of its tables."""
        uploads = self.given.sealed.uploads
        mine = [u for u in np.unique(self.upload) if uploads[u].owner == owner]
        places = [np.flatnonzero((self.upload == u) & self.real) for u in mine]
        return [int(label) for at in places for label in labels[at[np.argsort(self.row[at])]]]


def check(clouds: TwoClouds, results, tables, known: Sealed | None = None) -> Sealed:
    """Every iteration that left a checkpoint, and what every owner opened, to the last bit."""
    known = known or Sealed(clouds.given, tables)
    plain, job = known.expected(), clouds.given.spec.job
    for k, trace in plain.by_k.items():
        for number, (owner, result) in enumerate(results.items()):
            one, own = result.by_k[k] if job.ks else result, trace.for_owner(number)
            assert (one.sums_.tolist(), one.sizes_.tolist()) == (
                own.sums.tolist(),
                own.sizes.tolist(),
            )
            assert one.inertia_ == (own.inertia if job.inertia else None)
            assert (one.n_iter_, one.converged_) == (plain.n_iter, plain.converged)
            if job.labels:
                assert one.labels_.tolist() == known.labels(owner, trace.labels)
    if not job.several_runs:
        check_iterations(clouds, plain.by_k[job.k])
    return known


def check_iterations(clouds: TwoClouds, trace) -> None:
    both = zip(*clouds.saved, strict=True)
    opened = [
        # small jobs: a state is right modulo 2^32
        ((first.arrays["sums"] + second.arrays["sums"]) & np.uint64(0xFFFFFFFF), first.stop)
        for first, second in both
        if "sums" in first.arrays
    ]
    for (sums, stop), wanted in zip(opened[::-1], trace.iterations[::-1], strict=False):
        assert sums[:, :-1].tolist() == wanted.sums.tolist()
        assert sums[:, -1].tolist() == wanted.sizes.tolist()
        assert stop == wanted.stop
