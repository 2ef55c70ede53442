"""`python -m tests.campaigns.faults`: jobs struck by random faults must still end exact.

Each schedule is drawn from the campaign's seed: a small job, a number of pairs and faults at named
points (`fault_points`). Owners upload until they have a receipt, and some withdraw and upload
again. The master runs and resumes the job until it is done. Then these properties are checked:

- every owner's result equals the reference; a private result equals the reference with the noise of
  both clouds' keys, and each iteration was opened with one noise only;
- every upload counts once, and a withdrawn upload does not count;
- no row of a pool was handed out twice;
- both ledgers hold, and both clouds agree;
- a job that was cancelled has ended at both clouds, and no owner gets a result.

Workers, services and the master die, stall or lose their connection, disks fill up, and messages
are lost or repeated. The command fails if any schedule violates a property.
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
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress

from master.job import cancel_job, prepare_job, resume_job, run_job, seal_dataset
from ppodc.bench.document import Document, Table, make, table
from ppodc.errors import PpodcError
from ppodc.kmeans.private.job import NoisyJob
from ppodc.members import Members
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig, load
from ppodc.service.job_state import JobState
from tests.campaigns.fault_points import Fate, Fault, watched_rows
from tests.campaigns.fault_schedules import MAX_OWNERS, Schedule, column_names, draw
from tests.campaigns.fault_world import Killed, World
from tests.campaigns.outcome import JsonFile, Seed, conclude
from tests.campaigns.plaintext_results import as_noisy, exact

_KEY_BITS = 256  # no fault depends on the arithmetic, and pairs with a small key start quickly
_TRIES = 30  # of an action that fails, until its schedule counts as stuck
_SECONDS = 1200.0  # after which a schedule counts as stuck


@dataclass(slots=True)
class Verdict:
    """The outcome of a schedule. All counts named in `COUNTS` must be 0."""

    seed: int
    wrong: int = 0
    lost_uploads: int = 0
    doubled_uploads: int = 0
    reused_rows: int = 0
    broken_ledgers: int = 0
    stuck: int = 0
    cancelled: int = 0  # allowed
    struck: list[Fault] = field(default_factory=list)  # the faults that really struck
    tries: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        return any(getattr(self, name) for name in COUNTS)


COUNTS = ("wrong", "lost_uploads", "doubled_uploads", "reused_rows", "broken_ledgers", "stuck")


class Campaign:
    """Keys and configurations that many schedules share."""

    def __init__(self, folder: Path, tries: int = _TRIES) -> None:
        self._folder, self._tries = folder, tries
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
        """Play one schedule and judge it."""
        verdict, fate = Verdict(schedule.seed), Fate(schedule.faults)
        folder = self._folder / f"schedule-{schedule.seed}"
        name = schedule.spec.name
        world = World(self._config1, self._config2, folder, fate, name)
        with watched_rows(fate) as rows:
            try:
                self.play(world, schedule, verdict)
            except Exception as error:  # noqa: BLE001 - the verdict reports it
                verdict.stuck += 1
                verdict.notes.append(f"{type(error).__name__}: {error}")
            finally:
                world.close()
        verdict.reused_rows = rows.reused
        verdict.struck = fate.struck
        shutil.rmtree(folder, ignore_errors=True)
        return verdict

    def play(self, world: World, schedule: Schedule, verdict: Verdict) -> None:
        """Create the dataset, upload, run the job and check its result."""
        deadline = time.monotonic() + _SECONDS
        names = list(self._owners)[: len(schedule.tables)]
        owners = Members.of({name: world.config1.owners[name] for name in names})
        schedule = replace(schedule, spec=replace(schedule.spec, owners=owners))
        spec = schedule.spec
        self._insist(
            lambda _: world.operator().create(spec, single_records=True), deadline, verdict
        )
        receipts = {}
        for number, (name, records) in enumerate(zip(names, schedule.tables, strict=True)):
            upload = partial(self._upload, world, schedule, name, records)
            if number < schedule.withdraws:
                self._insist(upload, deadline, verdict)
                self._insist(partial(self._withdraw, world, schedule, name), deadline, verdict)
            receipts[name] = self._insist(upload, deadline, verdict)
        self._insist(lambda dead: self._drive_or_give_up(world, schedule, dead), deadline, verdict)
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
        spec, data = schedule.spec, records.astype(float)
        if len(names := column_names(spec, name)) < len(spec.schema.columns):
            data = pd.DataFrame(data, columns=names)
        return owner.upload(spec.name, data, spec=spec, progress=False)

    def _withdraw(self, world: World, schedule: Schedule, name: str, dead: threading.Event) -> Any:
        return world.owner(name, self._owners[name], dead).withdraw(schedule.spec.name)

    def result(self, world: World, schedule: Schedule, name: str, dead: threading.Event) -> Any:
        """The result that this owner opens."""
        return world.owner(name, self._owners[name], dead).result(schedule.spec.name, wait=False)

    def _insist(
        self, act: Callable[[threading.Event], Any], deadline: float, verdict: Verdict
    ) -> Any:
        """Repeat an action until it succeeds, as a person would after an error message."""
        for _ in range(self._tries):
            verdict.tries += 1
            if time.monotonic() > deadline:
                break
            try:
                return act(threading.Event())
            except (PpodcError, Killed) as error:
                last = f"{type(error).__name__}: {error}"
        raise TimeoutError(f"Gave up after {verdict.tries} tries. The last error was: {last}")

    def _drive_or_give_up(self, world: World, schedule: Schedule, dead: threading.Event) -> None:
        """Drive the job; cancel it once faults have used up the openings that its proof counts."""
        try:
            self._drive(world, schedule, dead)
        except PpodcError as error:
            if "It may do so no more often" not in str(error):
                raise
            cancel_job(world.config1, schedule.spec.name, world.resources(dead))

    def _drive(self, world: World, schedule: Schedule, dead: threading.Event) -> None:
        """Run or resume the job, depending on its state. A cancelled job is left alone."""
        name, resources = schedule.spec.name, world.resources(dead)
        with world.store("cloud1") as store:
            state = store.jobs.get(name).state
        if state in (JobState.CREATED, JobState.SEALED):
            if schedule.prepare:
                seal_dataset(world.config1, name, schedule.suite, resources)
                ahead = schedule.prepare, schedule.suite, schedule.pairs
                prepare_job(world.config1, name, *ahead, means=resources)
            run_job(world.config1, name, schedule.suite, schedule.pairs, means=resources)
        elif state != JobState.CANCELLED:
            resume_job(world.config1, name, means=resources)

    def _check_uploads(
        self, world: World, schedule: Schedule, receipts: dict[str, Any], verdict: Verdict
    ) -> None:
        """Check that both clouds sealed each upload with a receipt once, and no other upload."""
        expected = [(receipt.upload_id, receipt.rows) for receipt in receipts.values()]
        for role in ("cloud1", "cloud2"):
            with world.store(role) as store:
                uploads = store.seals.sealed(schedule.spec.name).uploads
            own = {receipt.upload_id: receipt.rows for receipt in receipts.values()}
            # An upload in cells contains dummies, hence more rows than its owner has.
            sealed = [(u.upload_id, own.get(u.upload_id) if u.outline else u.rows) for u in uploads]
            verdict.lost_uploads += len(set(expected) - set(sealed))
            verdict.doubled_uploads += len(sealed) - len(set(sealed) & set(expected))

    def _check_ledgers(self, world: World, schedule: Schedule, verdict: Verdict) -> JobState:
        """Check that both ledgers hold and both clouds agree. Return the state of the job."""
        iterations = []
        for role in ("cloud1", "cloud2"):
            with world.store(role) as store:
                if store.ledger.verify().broken is not None:
                    verdict.broken_ledgers += 1
                job = store.jobs.get(schedule.spec.name)
                iterations.append((job.state, job.iteration))
        if iterations[0] != iterations[1]:
            verdict.wrong += 1
            verdict.notes.append(f"The clouds disagree: {iterations}.")
        return iterations[0][0]


def _gives(ask: Callable[[threading.Event], Any]) -> bool:
    """Whether an owner gets a result."""
    try:
        ask(threading.Event())
    except (PpodcError, Killed):
        return False
    return True


def run(schedules: int, seed: int) -> Document:
    """Play a campaign. The document has counts of all outcomes and all details of bad ones."""
    verdicts = []
    console = Console(stderr=True)
    with (
        started() as campaign,
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
        notes=[f"again: python -m tests.campaigns.faults --schedules {schedules} --seed {seed}"],
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
def started(tries: int = _TRIES) -> Iterator[Campaign]:
    """A campaign in a temporary folder, in which every action is tried so often."""
    with tempfile.TemporaryDirectory(prefix="ppodc-faults-") as folder, quiet_logs():
        yield Campaign(Path(folder), tries)


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Suppress log lines: a campaign causes thousands of refusals and lost workers."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def main(
    schedules: Annotated[int, typer.Option(min=1, help="Schedules to play.")] = 1000,
    seed: Seed = 1,
    json_file: JsonFile = None,
) -> None:
    """Play random fault schedules in one process and check every result."""
    document = run(schedules, seed)
    conclude(document, json_file, wrong=bool(document["bad"]))


if __name__ == "__main__":
    typer.run(main)
