"""A whole job with linkage in this process: tables, uploads, both clouds' plans and halves."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from ppodc.pairs.plan import Material, Place, StepResults, Task, due_step, pair_kind, shards_at
from ppodc.pairs.shards import Shard, split
from ppodc.records.output_half import OpenedResult, open_output
from ppodc.records.sharing import combine, mask
from ppodc.records.upload_form import Arranges
from ppodc.service.upload import Sealed, Upload, outline_digest
from ppodc.spec import Spec
from ppodc.transport.channel import memory_pair
from tests.mpc.pair import key
from tests.service.data import members
from tests.two_clouds import together

LIMIT = Fraction(100)


@dataclass
class Uploaded:
    """Both clouds' rows of all uploads, and the seal."""

    spec: Spec
    sealed: Sealed
    shares: tuple[np.ndarray, np.ndarray]


def give(spec: Spec, tables, folder: Path) -> Uploaded:
    """What both clouds have of [(owner, table), ...], in this order."""
    spec = replace(spec, owners=members(*sorted({owner for owner, _ in tables})))
    form = spec.kind.upload(spec)
    uploads, outlines, parts, extents = [], {}, [], None
    for number, (owner, table) in enumerate(tables):
        values, outline, secret = form.encode(table), None, bytes([number]) * 32
        if isinstance(form, Arranges):
            others = None if owner == form.follows else extents
            values, outline = form.arrange(values, others, folder / owner, LIMIT)
            form.check_outline(outline, len(values))
            if owner == form.follows:
                extents = form.extents(outline)
        name = f"{number:032x}"
        digest = "" if outline is None else outline_digest(outline)
        uploads.append(Upload(name, "d", owner, len(values), True, True, "", digest))
        outlines |= {} if outline is None else {name: outline}
        chunk = form.chunk(values, secret, 0, 1)
        if len(values):
            form.part(1).check(chunk, 0, len(values))
        parts.append((chunk, mask(secret, 0, *chunk.shape)))
        combine(*parts[-1])
    shares = tuple(np.concatenate([part[cloud] for part in parts]) for cloud in (0, 1))
    m = sum(upload.rows for upload in uploads)
    return Uploaded(spec, Sealed(m, "0" * 64, tuple(uploads), outlines), shares)


class TwoClouds:
    """Both clouds' plans, and a pair of halves in every slot."""

    def __init__(self, given: Uploaded, pairs: int = 1) -> None:
        self.given, self.pairs = given, pairs
        self.kind = pair_kind(given.spec)
        self.saved: tuple[list, list] = ([], [])
        usual = split(given.sealed.m, pairs, 1)
        self.shards = self.kind.shards(given.spec, given.sealed, pairs, usual)
        self.plans = [
            self.kind.plan(given.spec, given.sealed, self.shards, pairs, self.saved[cloud].append)
            for cloud in (0, 1)
        ]
        self.progress: list[int] = []
        self.names: list[str] = []

    def start(self) -> None:
        """Fresh halves that have taken their records in."""
        self.ends, self.halves = [], []
        self.held = [set() for _ in range(self.pairs)]
        self.done = [{} for _ in range(self.pairs)]
        for slot in range(self.pairs):
            self.ends.append(memory_pair())
            self.halves.append(together(self.half(1), self.half(2), self.ends[slot]))
            self.take_in(slot)
        for plan in self.plans:
            plan.ready = True

    def half(self, role):
        """How a half of the cloud `role` is made."""
        opening = self.given.spec, self.given.sealed.m, Material(key(role))
        return lambda channel: self.kind.open_half("shares", role, channel, *opening)

    def take_in(self, slot: int) -> tuple[Shard, ...]:
        """What the pair lacks of the rows that it works on now; all of these."""
        own = shards_at(self.plans[0], self.shards, slot)
        for shard in own:
            if shard not in self.held[slot]:
                rows = slice(shard.first, shard.first + shard.rows)
                parts = [share[rows] for share in self.given.shares]
                self.both(slot, lambda half, part, s=shard: half.ingest(s.name, part), parts)
        self.held[slot] |= set(own)
        return own

    def both(self, slot: int, act, inputs):
        """The same at both halves of a pair, at the same time."""
        one, two = zip(self.halves[slot], inputs, strict=True)
        return together(lambda _: act(*one), lambda _: act(*two), self.ends[slot])

    def step(self) -> bool:
        """Do the step that is due; False if all is done."""
        due = [due_step(plan) for plan in self.plans]
        if due[0] is None:
            return False
        assert due[0].name == due[1].name
        self.names.append(due[0].name)
        iteration = due[0].iteration(self.plans[0])
        tasks, results = [{}, {}], [{}, {}]
        for slot in due[0].slots(self.plans[0]):
            place = Place(slot, self.take_in(slot), dict(self.done[slot]))
            lists = [due[0].tasks(plan, place) for plan in self.plans]
            gave = [self.do(slot, one, two) for one, two in zip(*lists, strict=True)]
            self.done[slot] |= {task.name: iteration for task in lists[0]}
            for cloud in (0, 1):
                tasks[cloud][slot] = lists[cloud]
                results[cloud][slot] = [each[cloud] for each in gave]
        for plan, done, gave in zip(self.plans, tasks, results, strict=True):
            due[0].keep(plan, StepResults(None, done, gave))
        return True

    def do(self, slot: int, one: Task, two: Task):
        assert (one.name, one.shards, one.rows) == (two.name, two.shards, two.rows)
        listeners = (one, self.progress.append), (two, lambda _: None)
        return self.both(slot, lambda half, task: self.kind.perform(half, *task), listeners)

    def run(self):
        """All steps; what every owner opens, by name."""
        self.start()
        while self.step():
            pass
        return self.opened()

    def opened(self):
        spec, sealed, kind = self.given.spec, self.given.sealed, self.kind
        first, second = (plan.result() for plan in self.plans)
        assert first.facts == second.facts
        values = {n: open_output(first.halves[n], second.halves[n]) for n in first.halves}
        rows = {n: open_output(first.row_halves[n], second.row_halves[n]) for n in first.row_halves}
        assert tuple(rows) == kind.row_outputs(spec)
        return {
            owner: kind.open_result(
                spec,
                OpenedResult(
                    first.facts,
                    values,
                    {name: _own(sealed, owner, column) for name, column in rows.items()},
                ),
            )
            for owner in sealed.owners
        }


def _own(sealed: Sealed, owner: str, column: list[int]) -> list[int]:
    places = [(first, u.rows) for first, u in sealed.places() if u.owner == owner]
    return [value for first, rows in places for value in column[first : first + rows]]


def expected(given_rows, matches, names):
    """Links of every owner's rows by a predicate on rows: {owner: [sorted links of each row]}.

    `given_rows` is [(owner, rows)] of all uploads.
    """
    numbered, seen = [], {}
    for owner, rows in given_rows:
        upload = seen.get(owner, 0)
        seen[owner] = upload + 1
        numbered += [(owner, upload, number, row) for number, row in enumerate(rows)]
    return {
        name: [
            sorted(
                (other, upload, number)
                for other, upload, number, partner in numbered
                if other != owner and matches(row, partner)
            )
            for owner, _, _, row in numbered
            if owner == name
        ]
        for name in names
    }


def check(results, wanted, most: int = 1) -> int:
    """Whether every owner has exactly these links; how many there are."""
    total = 0
    for owner, links in wanted.items():
        result = results[owner]
        assert result.partners_ == [min(len(each), most + 1) for each in links], owner
        assert [sorted(each) for each in result.links_] == [
            each if len(each) <= most else [] for each in links
        ]
        total += sum(map(len, links))
    return total
