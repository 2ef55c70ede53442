"""Random fault schedules: whatever dies, stalls, fills or gets lost, the result is the reference's.

Each schedule is drawn from the campaign's seed: a small job, a number of pairs, and faults at named
points (`fault_points`). Owners upload until they have a receipt, some withdraw and give again, the
master runs and resumes until the job is done. Then it is checked: the owners' result equals the
reference (a private one the reference with the noise of both clouds' keys, each iteration opened
with one noise), every upload counts once, no withdrawn one does, no row of a pool was handed out
twice, both ledgers hold, both clouds agree. A job that somebody cancelled on the way is over at
both clouds, and no owner gets a result.
"""

import contextlib
import logging
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from ppodc.bench.document import Document, Table, make, table
from ppodc.bench.fault_points import Fate, Fault, watched_rows
from ppodc.bench.fault_schedules import MAX_OWNERS, Schedule, draw
from ppodc.bench.fault_world import Killed, Parties, World
from ppodc.bench.plaintext_results import as_noisy, exact
from ppodc.errors import PpodcError
from ppodc.kmeans.noisy.job import NoisyJob
from ppodc.members import Members
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig, load
from ppodc.service.job_state import JobState

_KEY_BITS = 256  # the faults are not in the arithmetic; a small key makes pairs quick to start
_TRIES = 30
_SECONDS = 120.0  # after which a schedule counts as stuck


@dataclass(slots=True)
class Verdict:
    """What a schedule came to; all counts are 0 when all is well."""

    seed: int
    wrong: int = 0
    lost_uploads: int = 0
    doubled_uploads: int = 0
    reused_rows: int = 0
    broken_ledgers: int = 0
    stuck: int = 0
    cancelled: int = 0  # which is no fault
    struck: list[Fault] = field(default_factory=list)  # the faults that came to pass
    tries: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        return any(getattr(self, name) for name in COUNTS)


COUNTS = ("wrong", "lost_uploads", "doubled_uploads", "reused_rows", "broken_ledgers", "stuck")


class Campaign:
    """Keys and configurations, made once for many schedules."""

    def __init__(self, parties: Parties, folder: Path) -> None:
        self._parties, self._folder = parties, folder
        made = deployment.create(
            folder / "keys",
            MAX_OWNERS,
            insecure_key_bits=_KEY_BITS,
            suites=("shares", "paillier"),
        )
        self._config1 = load(made.party("cloud1").config, Cloud1Config)
        self._config2 = load(made.party("cloud2").config, Cloud2Config)
        names = [f"owner{i}" for i in range(1, MAX_OWNERS + 1)]
        self._owners = {name: load(made.party(name).config, OwnerConfig) for name in names}

    def run(self, schedule: Schedule) -> Verdict:
        """One schedule from upload to verdict."""
        verdict, fate = Verdict(schedule.seed), Fate(schedule.faults)
        folder = self._folder / f"schedule-{schedule.seed}"
        name = schedule.spec.name
        world = World(self._parties, self._config1, self._config2, folder, fate, name)
        with watched_rows(fate) as rows:
            try:
                self.play(world, schedule, verdict)
            except Exception as error:  # noqa: BLE001 - whatever it is, the verdict tells
                verdict.stuck += 1
                verdict.notes.append(f"{type(error).__name__}: {error}")
            finally:
                world.close()
        verdict.reused_rows = rows.reused
        verdict.struck = fate.struck
        shutil.rmtree(folder, ignore_errors=True)
        return verdict

    def play(self, world: World, schedule: Schedule, verdict: Verdict) -> None:
        """From the dataset's creation to the checks of its result."""
        deadline = time.monotonic() + _SECONDS
        names = list(self._owners)[: len(schedule.tables)]
        owners = Members.of({name: world.config1.owners[name] for name in names})
        schedule = replace(schedule, spec=replace(schedule.spec, owners=owners))
        self._insist(lambda _: world.operator().create(schedule.spec), deadline, verdict)
        receipts = {}
        for number, (name, records) in enumerate(zip(names, schedule.tables, strict=True)):
            upload = partial(self._upload, world, schedule, name, records)
            if number < schedule.withdraws:
                self._insist(upload, deadline, verdict)
                self._insist(partial(self._withdraw, world, schedule, name), deadline, verdict)
            receipts[name] = self._insist(upload, deadline, verdict)
        self._insist(lambda dead: self._drive(world, schedule, dead), deadline, verdict)
        self._check_uploads(world, schedule, receipts, verdict)
        state = self._check_ledgers(world, schedule, verdict)
        fetch = [partial(self.result, world, schedule, name) for name in names]
        if state == JobState.CANCELLED:
            verdict.cancelled = 1
            verdict.wrong += sum(_gives(ask) for ask in fetch)
            return
        results = [self._insist(ask, deadline, verdict) for ask in fetch]
        if isinstance(schedule.spec.job, NoisyJob):
            verdict.wrong += not as_noisy(world.store, schedule.spec, schedule.tables, results)
        else:
            verdict.wrong += not exact(schedule.spec, schedule.tables, results)

    def _upload(
        self,
        world: World,
        schedule: Schedule,
        name: str,
        records: NDArray[np.int64],
        dead: threading.Event,
    ) -> Any:
        owner = world.owner(name, self._owners[name], dead)
        spec = schedule.spec
        return owner.upload(spec.name, records.astype(float), spec=spec, progress=False)

    def _withdraw(self, world: World, schedule: Schedule, name: str, dead: threading.Event) -> Any:
        return world.owner(name, self._owners[name], dead).withdraw(schedule.spec.name)

    def result(self, world: World, schedule: Schedule, name: str, dead: threading.Event) -> Any:
        """What this owner opens."""
        return world.owner(name, self._owners[name], dead).result(schedule.spec.name, wait=False)

    def _insist(
        self, act: Callable[[threading.Event], Any], deadline: float, verdict: Verdict
    ) -> Any:
        """Do it, again and again, as a person would who was told what to do."""
        for _ in range(_TRIES):
            verdict.tries += 1
            if time.monotonic() > deadline:
                break
            try:
                return act(threading.Event())
            except (PpodcError, Killed) as error:
                last = f"{type(error).__name__}: {error}"
        raise TimeoutError(f"given up after {verdict.tries} tries; the last said: {last}")

    def _drive(self, world: World, schedule: Schedule, dead: threading.Event) -> None:
        """Run the job, or resume it, as its state says, unless somebody has cancelled it.

        `prepare` comes before, once.
        """
        name, parties = schedule.spec.name, self._parties
        means = world.means(dead)
        with world.store("cloud1") as store:
            state = store.jobs.get(name).state
        if state in (JobState.CREATED, JobState.SEALED):
            if schedule.prepare:
                parties.seal_dataset(world.config1, name, schedule.suite, means)
                parties.prepare_job(
                    world.config1,
                    name,
                    schedule.prepare,
                    schedule.suite,
                    schedule.pairs,
                    means=means,
                )
            parties.run_job(world.config1, name, schedule.suite, schedule.pairs, means=means)
        elif state != JobState.CANCELLED:
            parties.resume_job(world.config1, name, means=means)

    def _check_uploads(
        self, world: World, schedule: Schedule, receipts: dict[str, Any], verdict: Verdict
    ) -> None:
        """Every receipt's upload is among the sealed rows of both clouds, once, and no other."""
        expected = [(receipt.upload_id, receipt.rows) for receipt in receipts.values()]
        for role in ("cloud1", "cloud2"):
            with world.store(role) as store:
                uploads = store.seals.sealed(schedule.spec.name).uploads
            own = {receipt.upload_id: receipt.rows for receipt in receipts.values()}
            # an upload in cells has dummies, so more rows than its owner
            sealed = [(u.upload_id, own.get(u.upload_id) if u.outline else u.rows) for u in uploads]
            verdict.lost_uploads += len(set(expected) - set(sealed))
            verdict.doubled_uploads += len(sealed) - len(set(sealed) & set(expected))

    def _check_ledgers(self, world: World, schedule: Schedule, verdict: Verdict) -> JobState:
        """Both chains hold and both clouds stand alike; where that is."""
        iterations = []
        for role in ("cloud1", "cloud2"):
            with world.store(role) as store:
                if store.ledger.verify().broken is not None:
                    verdict.broken_ledgers += 1
                job = store.jobs.get(schedule.spec.name)
                iterations.append((job.state, job.iteration))
        if iterations[0] != iterations[1]:
            verdict.wrong += 1
            verdict.notes.append(f"the clouds disagree: {iterations}")
        return iterations[0][0]


def _gives(ask: Callable[[threading.Event], Any]) -> bool:
    """Whether an owner gets a result where there must be none."""
    try:
        ask(threading.Event())
    except (PpodcError, Killed):
        return False
    return True


def run(schedules: int, seed: int, parties: Parties) -> Document:
    """The campaign's document: how many schedules came to what, and the bad ones in full."""
    verdicts = []
    console = Console(stderr=True)
    with (
        _campaign(parties) as campaign,
        Progress(console=console, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task("schedules", total=schedules)
        for number in range(schedules):
            verdict = campaign.run(draw(seed * 1_000_000 + number))
            verdicts.append(verdict)
            progress.update(task, advance=1)
            if verdict.bad:
                console.print(f"schedule {verdict.seed}: {_fault_text(verdict)}", markup=False)
    return make(
        "faults",
        _tables,
        notes=[f"again: ppodc bench faults --schedules {schedules} --seed {seed}"],
        schedules=len(verdicts),
        seed=seed,
        **{name: sum(getattr(verdict, name) for verdict in verdicts) for name in COUNTS},
        cancelled=sum(verdict.cancelled for verdict in verdicts),
        struck=dict(Counter(fault.kind for v in verdicts for fault in v.struck)),
        phases=dict(Counter(fault.phase for v in verdicts for fault in v.struck)),
        tries=sum(verdict.tries for verdict in verdicts),
        bad=[asdict(verdict) for verdict in verdicts if verdict.bad],
    )


def _fault_text(verdict: Verdict) -> str:
    counts = [f"{name} {getattr(verdict, name)}" for name in COUNTS if getattr(verdict, name)]
    return "; ".join([*counts, *map(str, verdict.struck), *verdict.notes])


def _tables(document: Document) -> list[Table]:
    names = ("schedules", *COUNTS, "cancelled")
    counts = [[name.replace("_", " "), str(document[name])] for name in names]
    struck = sorted(document["struck"].items())
    when = sorted(document["phases"].items())
    return [
        table("Fault schedules", ("", "count"), counts),
        table("Faults that struck", ("fault", "times"), [[k, str(n)] for k, n in struck]),
        table("When they struck", ("call or step", "times"), [[k, str(n)] for k, n in when]),
    ]


@contextlib.contextmanager
def _campaign(parties: Parties) -> Iterator[Campaign]:
    with tempfile.TemporaryDirectory(prefix="ppodc-faults-") as folder, quiet_logs():
        yield Campaign(parties, Path(folder))


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Refusals and lost workers are what this is about: nobody need read them as they come."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
