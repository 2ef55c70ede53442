"""One cloud's part in a job, run again from its record; the first deviation is named.

The cloud's plan is walked once more with the code of this release. Its halves draw from the
committed seeds, take in the share, and get the recorded messages. Whatever they send is compared
with the recorded digests message by message, and after each step with the running digests that both
clouds have signed. An honest cloud passes whatever its peer did: the peer's messages are inputs.

A slot has a record for every worker it had, in turn. A worker that was replaced did part of a step
which its successor repeats. Records of a session that broke off end early. What both clouds have
signed must be there in full.

Who learns what: whoever runs it sees one cloud's view, which tells nothing of the records. With the
other cloud's view of any session of the same dataset it would tell all of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ppodc.errors import DeviationError, PpodcError, RecordEndsError
from ppodc.pairs.cloud_side import Material, PairHalf
from ppodc.pairs.plan import PlanStep, Step, StepResults, Task
from ppodc.pairs.recording import Replayed
from ppodc.pairs.tasks import agreed, do_task, ingest
from ppodc.pairs.walk import Held, Order, ShardRows, Walk
from ppodc.records.result_shares import ResultShare
from ppodc.records.upload_form import Cloud
from ppodc.service.sealed_uploads import Sealed
from ppodc.service.store import Checkpoint
from ppodc.service.store.jobs import KEPT_CHECKPOINTS
from ppodc.spec import Spec
from ppodc.transport.channel import Channel
from ppodc.transport.message_log import Heads


@dataclass(frozen=True, slots=True)
class PairRecord:
    """The record of a worker: its pair's name, slot and generation, the seed and the file."""

    pair: str
    seed: bytes = field(repr=False)
    file: Path

    @property
    def place(self) -> tuple[int, int]:
        slot, _, generation = self.pair.partition(".")
        return int(slot), int(generation)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session of the job: how it began, a record for each worker, and what both signed."""

    session_id: str
    suite: str
    pairs: int
    shards_per_pair: int
    resume_from: int | None
    records: Sequence[PairRecord]
    signed: Mapping[tuple[str, int], Heads]  # by pair and step: as the audited cloud sees them
    bound: Mapping[tuple[str, int], Heads] = field(default_factory=dict)  # by that cloud alone


@dataclass(frozen=True, slots=True)
class JobRecord:
    """All that a cloud's part in a job depends on."""

    spec: Spec
    sealed: Sealed
    role: Cloud
    rows: ShardRows
    sessions: Sequence[SessionRecord]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome: how much was compared, and the first deviation; empty if there is none.

    `doubts` are contradictions between the clouds for which either may be the cause.
    """

    sessions: int
    steps: int
    messages: int
    deviation: str = ""
    doubts: tuple[str, ...] = ()
    result: ResultShare | None = field(default=None, repr=False)


@dataclass(slots=True)
class _Worker:
    """A worker that is run again."""

    record: PairRecord
    replayed: Replayed
    held: Held = field(default_factory=Held)
    channel: Channel | None = None
    half: PairHalf | None = None
    ended: bool = False  # the recorded one did no more


def replay(job: JobRecord, progress: Callable[[str, Step], None] = lambda *_: None) -> Verdict:
    """Run all sessions of the job again, each from where the one before has left it."""
    checkpoints: dict[int, Checkpoint] = {}
    sessions = steps = messages = 0
    result = None
    for record in job.sessions:
        session = _Session(job, record, checkpoints, progress)
        try:
            result = session.run()
        except Exception as error:  # noqa: BLE001 - whatever a hostile record does is its fault
            words = str(error) if isinstance(error, PpodcError) else type(error).__name__
            where = f"session {record.session_id}, {session.place()}: {words}"
            return Verdict(sessions, steps + session.steps, messages + session.messages(), where)
        finally:
            session.close()
        sessions, steps = sessions + 1, steps + session.steps
        messages += session.messages()
    return Verdict(sessions, steps, messages, result=result)


class _Session:
    """One session, run again."""

    def __init__(
        self,
        job: JobRecord,
        record: SessionRecord,
        checkpoints: dict[int, Checkpoint],
        progress: Callable[[str, Step], None],
    ) -> None:
        self._job, self._record, self._progress = job, record, progress
        self._checkpoints = checkpoints
        self._walk = Walk(
            job.spec,
            job.sealed,
            record.pairs,
            shards_per_pair=record.shards_per_pair,
            save=self._save,
        )
        self._workers: dict[int, list[_Worker]] = {}  # by slot, in turn
        for pair in sorted(record.records, key=lambda pair: pair.place):
            worker = _Worker(pair, Replayed(pair.seed, pair.file))
            self._workers.setdefault(pair.place[0], []).append(worker)
        self._at: tuple[str, Step | None] = ("", None)
        self._compared: set[tuple[str, int]] = set()
        self.steps = 0

    def run(self) -> ResultShare | None:
        """Walk as far as the records go; this cloud's share of the result if that is the end."""
        self._restore()
        while (step := self._walk.next_step()) is not None:
            self._progress(self._record.session_id, step)
            line = self._walk.line(step)
            tasks, results = dict[int, list[Task]](), dict[int, list[Any]]()
            slots = line.slots(self._walk.plan)
            for slot in slots:
                done = self._slot(step, line, slot)
                if done is not None:
                    tasks[slot], results[slot] = done
            if len(results) < len(slots) or not self._signed(step, slots):
                break  # the session broke off in this step: nobody went on from it
            self.steps += 1
            self._walk.keep(StepResults(step, tasks, results))
        self._finish()
        return self._walk.plan.result() if self._walk.next_step() is None else None

    def place(self) -> str:
        """The place that the replay has reached, in words."""
        pair, step = self._at
        if step is None:
            return "before its first step"
        return f"step {step.number} ({step.name} of iteration {step.iteration}), pair {pair}"

    def messages(self) -> int:
        """Messages that were compared."""
        played = [w.replayed.channel for workers in self._workers.values() for w in workers]
        return sum(channel.heads.sent for channel in played if channel is not None)

    def close(self) -> None:
        """Forget all states."""
        for workers in self._workers.values():
            for worker in workers:
                if worker.half is not None:
                    worker.half.close()

    def _restore(self) -> None:
        """Begin where the sessions before have left the job."""
        at = self._record.resume_from
        for iteration in [i for i in self._checkpoints if i > (at or 0)]:
            del self._checkpoints[iteration]
        if at is None:
            return
        if at not in self._checkpoints:
            raise DeviationError(f"it went on from iteration {at}, which it had not computed.")
        self._walk.plan.restore(self._checkpoints[at], self._checkpoints.get(at - 1))

    def _save(self, checkpoint: Checkpoint) -> None:
        """Keep as many as a cloud does, so that a session goes on from what that cloud had."""
        self._checkpoints[checkpoint.iteration] = checkpoint
        for iteration in sorted(self._checkpoints)[:-KEPT_CHECKPOINTS]:
            del self._checkpoints[iteration]

    def _slot(
        self, step: Step, line: PlanStep[Any], slot: int
    ) -> tuple[list[Task], list[Any]] | None:
        """The step on a slot: by its worker, or by the one that repeats it; None if by none."""
        workers = self._workers.get(slot, [])
        outcome: tuple[list[Task], list[Any]] | None = None
        for worker in workers:
            call = worker.replayed.next_call()
            if worker.ended or (call is not None and call.step > step.number):
                continue  # it was replaced before, or comes later
            self._at = worker.record.pair, step
            order = self._walk.order(line, slot, worker.held)
            outcome = self._run(worker, step, order)
            if outcome is not None:
                worker.held.add(order.tasks, step.iteration)
            self._compare(worker, step)
        return outcome

    def _run(
        self, worker: _Worker, step: Step, order: Order
    ) -> tuple[list[Task], list[Any]] | None:
        """A worker's part in the step; None if its record ends before that does."""
        try:
            for shard in order.missing:
                self._call(worker, step, [ingest(shard, self._job.rows(shard))])
                worker.held.shards.add(shard.name)
            return order.tasks, self._call(worker, step, order.tasks)
        except (DeviationError, MemoryError):
            raise
        except Exception:  # noqa: BLE001 - the record ends, or what came made the half stop
            worker.ended = True
            return None

    def _call(self, worker: _Worker, step: Step, tasks: Sequence[Task]) -> list[Any]:
        call = worker.replayed.begin()
        if call.step != step.number:
            raise DeviationError(f"the worker did step {call.step} instead.")
        if not tasks:
            return []
        side, (channel, half) = self._walk.side, self._met(worker)
        with agreed(channel, step, call.attempt, tasks):
            return [do_task(side, half, task, lambda _: None) for task in tasks]

    def _met(self, worker: _Worker) -> tuple[Channel, PairHalf]:
        side, job = self._walk.side, self._job
        if worker.channel is None:
            worker.channel, secrets = worker.replayed.open()
            worker.half = side.open_half(
                self._record.suite,
                job.role,
                worker.channel,
                job.sealed.m,
                Material(secrets=secrets),
            )
        if worker.half is None:
            raise RecordEndsError("the session of the pair did not begin.")
        return worker.channel, worker.half

    def _signed(self, step: Step, slots: Sequence[int]) -> bool:
        """Whether both clouds have signed the step for every slot. No cloud goes on before."""
        pairs = {pair for pair, number in self._record.signed if number == step.number}
        return {int(pair.partition(".")[0]) for pair in pairs} >= set(slots)

    def _compare(self, worker: _Worker, step: Step) -> None:
        """Compare with what both clouds, or the audited one alone, have signed after the step."""
        place, channel = (worker.record.pair, step.number), worker.replayed.channel
        self._compared.add(place)
        for signed in (self._record.signed.get(place), self._record.bound.get(place)):
            if signed is not None and (channel is None or channel.heads != signed):
                raise DeviationError(
                    "the record is not the one whose running digests this cloud has signed."
                )

    def _finish(self) -> None:
        """Refuse what was recorded beyond the protocol, and signed steps without a record."""
        for workers in self._workers.values():
            for worker in workers:
                self._at = worker.record.pair, self._at[1]
                if worker.replayed.channel is not None:
                    worker.replayed.channel.finish()
        missing = {*self._record.signed, *self._record.bound} - self._compared
        for pair, step in sorted(missing, key=lambda place: place[1])[:1]:
            raise DeviationError(
                f"this cloud has signed step {step} of pair {pair}, and no record holds it."
            )
