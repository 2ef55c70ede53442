"""A whole linkage job in this process: owners' tables, uploads, both clouds' plans and halves."""

from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from ppodc.linkage.half import LinkageHalf
from ppodc.linkage.kind import KIND
from ppodc.pairs.plan import Material, Place, StepResults, due_step
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
    form = KIND.upload(spec)
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
        self.saved: tuple[list, list] = ([], [])
        shards = KIND.shards(given.spec, given.sealed, pairs)
        self.plans = [
            KIND.plan(given.spec, given.sealed, shards, pairs, self.saved[cloud].append)
            for cloud in (0, 1)
        ]
        self.shards = shards
        self.progress: list[int] = []

    def start(self) -> None:
        """Fresh halves that have taken their records in."""
        self.ends, self.halves = [], []
        for slot in range(self.pairs):
            ends = memory_pair()

            def made(role, channel, slot=slot):
                given = self.given
                half = LinkageHalf(role, channel, given.spec, given.sealed.m, Material(key(role)))
                for shard in self.shards:
                    if shard.slot == slot:
                        rows = slice(shard.first, shard.first + shard.rows)
                        half.ingest(shard.name, given.shares[role - 1][rows])
                return half

            self.halves.append(together(lambda c: made(1, c), lambda c: made(2, c), ends))
            self.ends.append(ends)
        for plan in self.plans:
            plan.ready = True

    def step(self) -> bool:
        """Do the step that is due; False if all is done."""
        due = [due_step(plan) for plan in self.plans]
        if due[0] is None:
            return False
        assert due[0] is due[1]
        tasks = [{}, {}]
        results = [{}, {}]
        for slot in due[0].slots(self.plans[0]):
            place = Place(slot, tuple(s for s in self.shards if s.slot == slot), {})
            (one,), (two,) = (due[0].tasks(plan, place) for plan in self.plans)
            assert (one.name, one.shards, one.rows) == (two.name, two.shards, two.rows)
            first, second = self.halves[slot]
            outcome = together(
                lambda _, half=first, task=one: KIND.perform(half, task, self.progress.append),
                lambda _, half=second, task=two: KIND.perform(half, task, lambda _: None),
                self.ends[slot],
            )
            for cloud, task in enumerate((one, two)):
                tasks[cloud][slot], results[cloud][slot] = [task], [outcome[cloud]]
        for plan, done, gave in zip(self.plans, tasks, results, strict=True):
            due[0].keep(plan, StepResults(None, done, gave))
        return True

    def run(self):
        """All steps; what every owner opens, by name."""
        self.start()
        while self.step():
            pass
        return self.opened()

    def opened(self):
        spec, sealed = self.given.spec, self.given.sealed
        first, second = (plan.result() for plan in self.plans)
        assert first.facts == second.facts
        values = {n: open_output(first.halves[n], second.halves[n]) for n in first.halves}
        rows = {n: open_output(first.row_halves[n], second.row_halves[n]) for n in first.row_halves}
        assert tuple(rows) == KIND.row_outputs(spec)
        return {
            owner: KIND.open_result(
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
