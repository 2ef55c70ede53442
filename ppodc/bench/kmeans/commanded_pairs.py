"""Commands to all pairs of both clouds: the steps of a job, and their cost.

This process plays the masters of both clouds: states stay in files of their cloud, and their
names go to the pairs that need them next. Each iteration is reported with the cores that were not
free for it: those of other programs, and those that this process itself used (it forwards all
bytes of an imitated link).
"""

import json
import time
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from ppodc.bench.machine import Load
from ppodc.kmeans.row_choice import fraction, initial_rows
from ppodc.local.pair import ROLES, LocalPair
from ppodc.local.pair_process import load_half
from ppodc.records.result_shares import open_output

State = tuple[str, str]  # the files of both clouds
Answers = tuple[dict[str, Any], dict[str, Any]]  # of both clouds of a pair


@dataclass(frozen=True, slots=True)
class Phase:
    """Cost of one phase of an iteration; CPU and bytes sent of either cloud."""

    wall: float
    cpu_c1: float
    cpu_c2: float
    sent_c1: int
    sent_c2: int
    rounds: int

    def __add__(self, other: "Phase") -> "Phase":
        """The cost of two pieces of work, one after the other."""
        return Phase(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class CommandedPairs:
    """Worker pairs that obey commands of this process; the first pair leads."""

    def __init__(
        self,
        pairs: Sequence[LocalPair],
        first_rows: Sequence[int],
        shards_before: Sequence[int],
        start_s: float,
        *,
        in_waits: bool = False,
    ) -> None:
        """The pairs, the first row of each and the number of shards that come before its own.

        With `in_waits` supplies are made as a job makes them, in the waits of its steps.
        """
        self._in_waits = in_waits
        self._pairs, self._lead = pairs, pairs[:1]
        self._first_rows, self._shards_before = first_rows, shards_before
        self.start_s = start_s
        self.offline: list[Phase] = []  # by iteration
        self.online: list[Phase] = []
        self.cluster: list[float] = []  # seconds of `update`
        self.loads: list[Load] = []  # while it ran
        self._scaled: tuple[str | None, str | None] = None, None  # by it, for all pairs

    def ingest(self) -> Phase:
        """All records at their pairs."""
        began = time.perf_counter()
        return _phase(began, self._command(self._pairs, "ingest"))

    def records(self, rows: Sequence[int]) -> State:
        """Clusters of single records, from whichever pairs hold them."""
        states = []
        for row in rows:
            place = bisect_right(self._first_rows, row) - 1
            holder, within = self._pairs[place], row - self._first_rows[place]
            states.append(_results(self._command([holder], "records", rows=[within])[0]))
        return self._on_lead("join", states)

    def spread(self, seed: int, m: int, k: int, start: int) -> tuple[State, Phase]:
        """k records by k-means++, and what all of it took."""
        chosen = self.records(initial_rows(seed, m, 1, start))
        took = Phase(0.0, 0.0, 0.0, 0, 0, 0)
        for number in range(1, k):
            began = time.perf_counter()
            answers = self._command(self._pairs, "spread", chosen=chosen, start=start)
            took += _phase(began, answers)
            totals = self._on_lead("join", [_results(pair) for pair in answers])
            last = len(self._pairs) - 1
            each = [{"before": n, "last": i == last} for i, n in enumerate(self._shards_before)]
            began, word = time.perf_counter(), fraction(seed, number, start)
            answers = self._command(self._pairs, "pick", each, totals=totals, word=word)
            took += _phase(began, answers)
            picked = self._on_lead("add", [_results(pair) for pair in answers])
            chosen = self._on_lead("join", [chosen, picked])
        return chosen, took

    def add(self, states: Sequence[State]) -> State:
        """The sum of some sums."""
        return self._on_lead("add", states)

    def _on_lead(self, do: str, states: Sequence[State]) -> State:
        """One state from several, at the first pair; local to each cloud."""
        return _results(self._command(self._lead, do, states=_by_cloud(states))[0])

    def assign(self, clusters: State, shards: int | None = None) -> State:
        """The sums over all pairs; supplies for an iteration are made first, or in its waits.

        Of each pair's shards, the first `shards` are assigned, or all.
        """
        self.loads.append(Load())
        began = time.perf_counter()
        ahead = 0 if self._in_waits else 1
        self.offline.append(_phase(began, self._command(self._pairs, "prepare", iterations=ahead)))
        began = time.perf_counter()
        answers = self._command(
            self._pairs, "assign", clusters=clusters, scaled=self._scaled, shards=shards
        )
        sums = self.add([_results(pair) for pair in answers])
        self.online.append(_phase(began, answers))
        return sums

    def update(self, clusters: State, sums: State, candidates: State) -> tuple[State, bool]:
        """New clusters and the stop bit, from the first pair."""
        began = time.perf_counter()
        answers = self._command(
            self._lead,
            "update",
            clusters=clusters,
            sums=sums,
            candidates=candidates,
            others=len(self._pairs) > 1,
        )
        self.online[-1] += _phase(began, answers)
        whole = self.offline[-1] + self.online[-1]
        self.loads[-1].stop(whole.cpu_c1 + whole.cpu_c2)
        self.cluster.append(max(answer["wall"] for answer in answers[0]))
        (first, stop, ours), (second, _, theirs) = (answer["result"] for answer in answers[0])
        self._scaled = ours, theirs
        return (first, second), stop

    def open(self, clusters: State) -> list[int]:
        """Open the clusters as an owner would see them."""
        files = _results(self._command(self._lead, "output", clusters=clusters)[0])
        return open_output(load_half(Path(files[0])), load_half(Path(files[1])))

    def steps(self) -> list[dict[str, Any]]:
        """Costs by step of the first pair's C1 since this was asked last."""
        steps: list[dict[str, Any]] = self._command(self._lead, "steps")[0][0]["result"]
        return steps

    def memory(self) -> float:
        """The peak memory of the largest worker, in MB."""
        answers = self._command(self._pairs, "memory")
        return max(float(answer["result"]) for pair in answers for answer in pair)

    def _command(
        self,
        pairs: Sequence[LocalPair],
        do: str,
        each: Sequence[dict[str, Any]] | None = None,
        **values: Any,
    ) -> list[Answers]:
        """A command to these pairs at once, with values for all and `each` for one of them.

        Of a tuple each cloud gets its own part.
        """
        for place, pair in enumerate(pairs):
            for index, role in enumerate(ROLES):
                own = {n: v[index] if isinstance(v, tuple) else v for n, v in values.items()}
                if each is not None:
                    own |= each[place]
                pair.write(role, json.dumps({"do": do, **own}))
        return [(pair.answer(1), pair.answer(2)) for pair in pairs]


def _results(answers: Answers) -> State:
    return answers[0]["result"], answers[1]["result"]


def _by_cloud(states: Sequence[State]) -> tuple[list[str], list[str]]:
    return [first for first, _ in states], [second for _, second in states]


def _phase(began: float, answers: Sequence[Answers]) -> Phase:
    """Cost of a command that several pairs carry out at the same time."""
    wall = time.perf_counter() - began
    cpu, sent = (
        [sum(pair[cloud][what] for pair in answers) for cloud in (0, 1)]
        for what in ("cpu", "bytes")
    )
    return Phase(wall, cpu[0], cpu[1], sent[0], sent[1], max(c1["rounds"] for c1, _ in answers))
