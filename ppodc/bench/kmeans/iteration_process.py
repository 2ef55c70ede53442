"""A cloud of a pair under measurement: `python -m ppodc.bench.kmeans.iteration_process FOLDER`.

It reads commands, one JSON object a line, carries them out as a worker would, and answers each
with a line: result, times, bytes. A state stays in a file of this cloud's folder; only its name
travels.
"""

import json
import sys
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ppodc.bench.machine import own_peak_mb
from ppodc.kmeans.half import Half, State
from ppodc.local.pair_process import LocalCloud, main, save_half, tell
from ppodc.pairs.shards import Shard, runs


class Worker:
    """A half and the commands it obeys; each owner's records are a shard of their own."""

    def __init__(self, cloud: LocalCloud, half: Half) -> None:
        self._half, self._cloud = half, cloud
        self._shards: list[Shard] = []
        self._channel, self._folder = cloud.channel, cloud.folder
        self._meter = getattr(half, "meter", None)
        self._numbers = count()

    def obey(self, do: str, **values: Any) -> dict[str, Any]:
        """Carry out one command; return its result with time and bytes."""
        before = self._channel.traffic.snapshot()
        wall, cpu = time.perf_counter(), time.process_time()
        result = getattr(self, f"do_{do}")(**values)
        if self._cloud.recorder is not None:
            self._cloud.recorder.flush()
        spent = self._channel.traffic.snapshot() - before
        return {
            "result": result,
            "wall": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
            "bytes": spent.bytes_sent,
            "rounds": spent.rounds,
        }

    def do_ingest(self) -> None:
        first = 0
        for number, share in enumerate(self._cloud.shares()):
            shard = Shard(str(number), first, len(share), 0)
            self._half.ingest(shard.name, share)
            self._shards.append(shard)
            first += len(share)

    def do_prepare(self, iterations: int) -> None:
        self._half.prepare(iterations)

    def do_records(self, rows: list[int]) -> str:
        found = [self._half.records(run.shard.name, run.rows) for run in runs(rows, self._shards)]
        return self._keep(self._half.join(found))

    def do_assign(self, clusters: str, scaled: str | None, shards: int | None) -> str:
        if scaled is not None:
            self._half.take_scaled(_load(clusters), _load(scaled))
        state = _load(clusters)
        chosen = self._shards[:shards]
        return self._keep(self._half.add([self._half.assign(s.name, state) for s in chosen]))

    def do_add(self, states: list[str]) -> str:
        return self._keep(self._half.add([_load(state) for state in states]))

    def do_join(self, states: list[str]) -> str:
        return self._keep(self._half.join([_load(state) for state in states]))

    def do_update(
        self, clusters: str, sums: str, candidates: str, others: bool
    ) -> tuple[str, bool, str | None]:
        """New clusters, the stop bit and, for `others`, what pairs need of the centres."""
        half = self._half
        if not others:
            half.expect_assign([shard.name for shard in self._shards], more=True)
        new, stop = half.update(_load(clusters), _load(sums), _load(candidates))
        scaled = half.scaled(new) if others and not stop and len(new) > 1 else None
        return self._keep(new), stop, None if scaled is None else self._keep(scaled)

    def do_spread(self, chosen: str, start: int) -> str:
        half, state = self._half, _load(chosen)
        totals = [half.spread(shard.name, state, start) for shard in self._shards]
        return self._keep(self._half.join(totals))

    def do_pick(self, totals: str, before: int, word: int, last: bool) -> str:
        """Pick from `totals` of all shards; `before` of them belong to earlier pairs."""
        half, state, end = self._half, _load(totals), len(self._shards) - 1
        picked = [
            half.pick(shard.name, state, before + at, word, last=last and at == end)
            for at, shard in enumerate(self._shards)
        ]
        return self._keep(self._half.add(picked))

    def do_output(self, clusters: str) -> str:
        file = self._new_file()
        save_half(file, *self._half.output(_load(clusters)))
        return str(file)

    def do_steps(self) -> list[dict[str, Any]]:
        """Costs by step since the last call."""
        if self._meter is None:
            return []
        steps = [
            {
                "step": name,
                "phase": phase,
                "wall_s": cost.wall,
                "cpu_s": cost.cpu,
                "bytes": cost.bytes_sent,
                "rounds": cost.rounds,
            }
            for (phase, name), cost in self._meter.costs.items()
        ]
        self._meter.reset()
        return steps

    def do_memory(self) -> float:
        """Peak memory in MB."""
        return own_peak_mb()

    def _keep(self, state: State) -> str:
        file = self._new_file()
        np.save(file, state)
        return f"{file}.npy"

    def _new_file(self) -> Path:
        return self._folder / f"state-{next(self._numbers)}"


def _load(file: str) -> State:
    state: State = np.load(file, allow_pickle=False)
    return state


def serve(cloud: LocalCloud) -> None:
    """Obey commands until the input ends."""
    with closing(cloud.half()) as half:
        worker = Worker(cloud, half)
        tell(event="ready")
        for line in sys.stdin:
            tell(**worker.obey(**json.loads(line)))


if __name__ == "__main__":
    main(serve)
