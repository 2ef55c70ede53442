"""The jobs of a soak: every kind in all its forms, small, with the results that are expected.

Families come in decks: each family once, in random order, before any comes again. Everything drawn
follows from the seed. Owners write their tables as CSV files. A private result must equal plaintext
with the noise of both clouds' keys. A local result must equal the collection of the reports that
the owners' own keys give.
"""

import base64
import csv
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from ppodc.kmeans.job import Job as KMeansJob
from ppodc.kmeans.private.job import NoisyJob
from ppodc.linkage import rules
from ppodc.linkage.blocks import Blocking, NoBlocks
from ppodc.linkage.blocks.embedding_blocks import by_embedding
from ppodc.linkage.blocks.key_blocks import by_key
from ppodc.linkage.blocks.keys import Key
from ppodc.linkage.blocks.length_blocks import by_length
from ppodc.linkage.blocks.tree_blocks import adtree_shared
from ppodc.linkage.job import Job as LinkageJob
from ppodc.linkage.outputs import Output, Shared, output_named
from ppodc.linkage.rules import Dice, EditDistance, SquaredDistance
from ppodc.local_dp.cloud import make_result
from ppodc.local_dp.job import Job as LocalJob
from ppodc.local_dp.kind import form_of
from ppodc.local_dp.owner import owner_side
from ppodc.local_dp.result import open_result
from ppodc.local_dp.tallies import ReportsHere
from ppodc.records.result_shares import OpenedResult
from ppodc.records.schema import Column, Schema, TextColumn
from ppodc.service.deployment import Deployment
from ppodc.service.store import Role, Store
from ppodc.spec import Spec
from ppodc.totals.job import Job as TotalsJob
from tests.campaigns.fault_schedules import (
    MAX_OWNERS,
    UB,
    column_names,
    joined_job,
    linkage_job,
    with_starts,
)
from tests.campaigns.plaintext_results import as_noisy, exact, same_links

LIMIT = 1e9  # privacy budget of an owner, large because a soak is long
_EPSILON: dict[str, Any] = {"epsilon": 4, "delta": "1/100"}  # of blocks
_WORDS = ("no", "former", "yes")
_FILTER_BITS = 16

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class SoakJob:
    """A spec without its owners, and a table for each owner."""

    family: str
    spec: Spec
    tables: tuple[Rows, ...]  # as the owners write them
    suite: str = "shares"
    pairs: int = 2

    @property
    def local(self) -> bool:
        """Whether a collector runs the job instead of pairs."""
        return isinstance(self.spec.job, LocalJob)

    def write(self, owner: int, path: Path) -> None:
        """Write the table of owner 1, 2, ... as a CSV file."""
        with path.open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(column_names(self.spec, f"owner{owner}"))
            lines.writerows(self.tables[owner - 1])

    def exact(self, spec: Spec, results: list[Any], files: Sequence[Path], at: Deployment) -> bool:
        """Whether each owner opened the expected result. `spec` names the owners."""
        job = spec.job
        if isinstance(job, LocalJob):
            return _as_reported(spec, results, files, at)
        if isinstance(job, LinkageJob):
            return same_links([_compared(job, rows) for rows in self.tables], job, results)
        tables = [np.array(rows, np.int64) for rows in self.tables]
        if isinstance(job, NoisyJob):
            return as_noisy(lambda role: _store(at, role), spec, tables, results)
        return exact(spec, tables, results)


def draw(seed: int, number: int) -> SoakJob:
    """The job of this number in a soak of this seed."""
    deck, place = divmod(number, len(FAMILIES))
    order = random.Random(f"deck {seed} {deck}").sample(list(FAMILIES), len(FAMILIES))
    family = order[place]
    drawn = FAMILIES[family](random.Random(f"job {seed} {number}"))
    return replace(drawn, family=family, spec=replace(drawn.spec, name=f"soak-{seed}-{number}"))


# ------------------------------------------------------------------- families


def _kmeans(chance: random.Random, *, one_start: bool = True, **more: Any) -> SoakJob:
    columns = chance.randint(1, 3)
    job = KMeansJob(
        chance.randint(1, 3),
        max_iter=chance.randint(1, 5),
        seed=chance.randrange(1 << 30),
        labels=chance.random() < 0.6,
        min_size=chance.randint(1, 5),
    )
    if one_start and chance.random() < 0.4:
        lots = chance.sample(range((UB + 1) ** columns), job.k)  # different centres
        digits = [(UB + 1) ** i for i in range(columns)]
        centres = tuple(tuple(float(lot // d % (UB + 1)) for d in digits) for lot in lots)
        job = replace(job, init=centres)
    return _of_numbers(chance, job, columns, **more)


def _many_starts(chance: random.Random) -> SoakJob:
    drawn = _kmeans(chance, one_start=False)
    job: Any = drawn.spec.job
    return replace(drawn, spec=replace(drawn.spec, job=with_starts(job, chance)))


def _dedup(chance: random.Random) -> SoakJob:
    drawn = _kmeans(chance, one_start=chance.random() < 0.5)
    job: Any = drawn.spec.job
    weights = (1,) * len(drawn.spec.schema.columns)
    job = replace(job, dedup=LinkageJob(SquaredDistance(weights, chance.choice((0, 2))), Shared()))
    return replace(drawn, spec=replace(drawn.spec, job=job), pairs=1)


def _joined(chance: random.Random, kind: str) -> SoakJob:
    spec, tables = joined_job(chance, chance.randint(2, MAX_OWNERS), kind)
    rows: Any = tuple([tuple(row) for row in table.tolist()] for table in tables)
    return SoakJob("", spec, rows, pairs=chance.choice((1, 2)))


def _totals(chance: random.Random) -> SoakJob:
    job = TotalsJob(variance=chance.random() < 0.5, least=3)
    return _of_numbers(chance, job, chance.randint(1, 3))


def _private(chance: random.Random) -> SoakJob:
    job = NoisyJob(
        chance.randint(1, 3),
        epsilon=8.0,
        iterations=chance.randint(1, 4),
        seed=chance.randrange(1 << 30),
    )
    return _of_numbers(chance, job, chance.randint(1, 3))


def _local_numbers(chance: random.Random) -> SoakJob:
    mechanism: Any = chance.choice(("codebook", "codebook", "privbv", "ldpseg"))
    job = LocalJob(
        2, 3.0, mechanism, points=16 * (mechanism == "codebook"), seed=chance.randrange(1 << 30)
    )
    return _of_numbers(chance, job, chance.randint(1, 3), most=300)


def _local_categories(chance: random.Random) -> SoakJob:
    mechanism: Any = chance.choice(("joint", "ldpk-modes"))
    schema = Schema((Column.of_words("smoker", _WORDS), Column("grade", 0, 4)), UB)
    job = LocalJob(2, 3.0, mechanism, seed=chance.randrange(1 << 30))
    return _of(chance, job, schema, lambda: (chance.choice(_WORDS), chance.randint(0, 4)), most=300)


def _linked_numbers(chance: random.Random) -> SoakJob:
    columns = chance.randint(1, 3)
    job = linkage_job(chance, columns)
    if chance.random() < 0.3:
        job = replace(job, blocking=adtree_shared("owner1", **_EPSILON))
    return _of_numbers(chance, job, columns, least_owners=2)


def _linked_texts(chance: random.Random) -> SoakJob:
    schema = Schema((), UB, (TextColumn("name", "words", 5), TextColumn("code", "digits", 3)))
    blocking = chance.choice((NoBlocks(), by_length(**_EPSILON), by_embedding(**_EPSILON)))
    job = LinkageJob(EditDistance(2, chance.randint(0, 2)), *_linked(chance, blocking))
    return _of(
        chance, job, schema, lambda: (_text(chance, "ab", 5), _text(chance, "01", 3)), 2, most=8
    )


def _linked_fields(chance: random.Random) -> SoakJob:
    schema = Schema(
        (Column("year", 0, 3), Column("height", 0, 9)), UB, (TextColumn("name", "words", 5),)
    )
    rule = rules.fields(
        [rules.exact("year"), rules.numeric("height", max=1), rules.edit("name", max=1, weight=2)],
        threshold=3,
    )
    year, name = by_key("year", **_EPSILON), Key("name", first=1, buckets=3)
    blocking = chance.choice((NoBlocks(), year, by_key("year", name, **_EPSILON)))

    def row() -> tuple[Any, ...]:
        values = (chance.randint(0, 3), chance.randint(0, 9), _text(chance, "ab", 5))
        return tuple(None if chance.random() < 0.1 else value for value in values)

    return _of(chance, LinkageJob(rule, *_linked(chance, blocking)), schema, row, 2, most=8)


def _linked_filters(chance: random.Random) -> SoakJob:
    schema = Schema((), UB, (TextColumn("filter", "filter", _FILTER_BITS),))
    rule = Dice(_FILTER_BITS, Fraction(chance.choice((6, 8)), 10))
    job = LinkageJob(rule, *_linked(chance, NoBlocks()))

    def row() -> tuple[Any, ...]:
        bits = chance.randrange(1, 1 << _FILTER_BITS)
        return (base64.b64encode(bits.to_bytes(_FILTER_BITS // 8, "big")).decode(),)

    return _of(chance, job, schema, row, 2, most=12)


FAMILIES: dict[str, Callable[[random.Random], SoakJob]] = {
    "k-means": _kmeans,
    "k-means, starts and several k": _many_starts,
    "k-means, distinct records": _dedup,
    "k-means, joined columns": lambda chance: _joined(chance, "kmeans"),
    "totals, joined columns": lambda chance: _joined(chance, "totals"),
    "k-means, paillier": lambda chance: replace(_kmeans(chance, most=9), suite="paillier"),
    "totals": _totals,
    "private k-means": _private,
    "local, numbers": _local_numbers,
    "local, categories": _local_categories,
    "linkage of numbers": _linked_numbers,
    "linkage of texts": _linked_texts,
    "linkage by fields": _linked_fields,
    "linkage of filters": _linked_filters,
}


# ------------------------------------------------------------------- parts of them


def _of_numbers(chance: random.Random, job: Any, columns: int, **more: Any) -> SoakJob:
    schema = Schema(tuple(Column(f"x{i}", 0.0, float(UB)) for i in range(columns)), UB)
    return _of(
        chance, job, schema, lambda: tuple(chance.randint(0, UB) for _ in range(columns)), **more
    )


def _of(
    chance: random.Random,
    job: Any,
    schema: Schema,
    row: Callable[[], tuple[Any, ...]],
    least_owners: int = 1,
    most: int = 40,
) -> SoakJob:
    owners = chance.randint(least_owners, MAX_OWNERS)
    tables = tuple([row() for _ in range(chance.randint(3, most))] for _ in range(owners))
    return SoakJob("", Spec("soak", schema, job), tables, pairs=chance.choice((1, 2)))


def _linked(chance: random.Random, blocking: Blocking) -> tuple[Output, Blocking]:
    output = chance.choice(("links", "links", "flags", "count"))
    return output_named(output, chance.choice((1, 3)) if output == "links" else 1), blocking


def _text(chance: random.Random, letters: str, longest: int) -> str:
    return "".join(chance.choice(letters) for _ in range(chance.randint(1, longest)))


# ------------------------------------------------------------------- what they must give


def _compared(job: LinkageJob, rows: Rows) -> Rows:
    """Rows in the form that the plaintext reference compares."""
    if not isinstance(job.rule, Dice):
        return rows
    return [(int.from_bytes(base64.b64decode(text), "big"),) for (text,) in rows]


def _store(at: Deployment, role: Role) -> Store:
    return Store.open(at.party(role).folder / "store", role)


def _as_reported(spec: Spec, results: Sequence[Any], files: Sequence[Path], at: Deployment) -> bool:
    form, reports = owner_side(spec), []
    for owner, file in enumerate(files, 1):
        values = form.encode(file)
        # Charging the same records again costs nothing and returns the same secret.
        secret = form.charge(values, at.party(f"owner{owner}").folder / "privacy", Fraction(LIMIT))
        reports.append(form.chunk(values, secret, 0, 1))
    whole = np.concatenate(reports)
    counted = ReportsHere(form_of(spec).mechanism.tally, lambda: iter([whole]))
    half = make_result(spec, counted, len(whole))
    opened = {name: output.values for name, output in half.halves.items()}
    plain = open_result(spec, OpenedResult(half.facts, opened, {}))
    return all(
        np.array_equal(result.encoded, plain.encoded)
        and np.array_equal(result.sizes_, plain.sizes_)
        and result.count_ == plain.count_
        for result in results
    )
