"""`python -m tests.campaigns.soak`: jobs of all kinds on real services while processes die.

The services and the Ray of each cloud are real, and every action is a command (`soak_world`). Each
round draws a job (`soak_jobs`) and shots at random processes (`soak_fire`): services, masters,
uploads, workers and Ray's own processes. Owners upload until they have a receipt. The master runs
and resumes the job until it is done. Then the result of every owner must equal plaintext bit for
bit, the ledgers must hold, and the services must be ready. After the processes of the job have had
time to end, the resources that the deployment still holds are counted (`soak_leaks`).

Services are killed only during the first third of the time, so that their memory can be observed
over many jobs afterwards. Ctrl-C ends a soak early, with a report. The command fails if a job had a
problem, if anything is left, or if a resource grows.
"""

import contextlib
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from client.operator import Operator
from client.owner import Owner
from ppodc.bench import document, machine
from ppodc.bench.document import Document, Table
from ppodc.bench.points import notices
from ppodc.errors import PpodcError
from ppodc.files import private_folder
from ppodc.service.deployment import members
from ppodc.service.ledger_entries import verify
from tests.campaigns import faults, soak_jobs
from tests.campaigns.fault_schedules import MAX_OWNERS
from tests.campaigns.outcome import JsonFile, Seed, conclude
from tests.campaigns.processes import orphaned_shared_memory
from tests.campaigns.soak_fire import draw_shots, under_fire
from tests.campaigns.soak_leaks import Footprint, Growth, growth, look
from tests.campaigns.soak_world import SoakWorld

_COMMAND_SECONDS = 1200.0
_TRIES = 12
_SETTLE_SECONDS = 300.0  # at most; the machine may be busy
_LOOK_SECONDS = 0.5


@dataclass(slots=True)
class Round:
    """The outcome of one job."""

    family: str
    dataset: str
    exact: bool = False
    ledgers_hold: bool = False
    uploads_again: int = 0
    resumed: int = 0
    hits: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    settled: float = 0.0  # seconds until no process of the job was left
    unready: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    problem: str = ""


def run(minutes: float, seed: int, folder: Path | None = None) -> Document:
    """Play rounds until the time is over, at least one."""
    rounds: list[Round] = []
    footprints: list[Footprint] = []
    before = orphaned_shared_memory()
    with _place(folder) as place, faults.quiet_logs(), machine.watched() as load:
        with SoakWorld(place, MAX_OWNERS) as world:
            began = time.monotonic()
            try:
                while not rounds or time.monotonic() - began < 60 * minutes:
                    early = time.monotonic() - began < 20 * minutes
                    played = _Play(world, seed, len(rounds), early).round()
                    rounds.append(played)
                    footprints.append(look(world))
                    _report(len(rounds), played)
            except KeyboardInterrupt:
                notices.print("interrupted: reporting the rounds so far", markup=False)
            left = world.stop()
            files = len(list(world.temporary.iterdir()))
        orphaned = orphaned_shared_memory() - before
    return document.make(
        "soak",
        _tables,
        notes=[f"again: python -m tests.campaigns.soak --minutes {minutes:g} --seed {seed}"],
        minutes=minutes,
        seed=seed,
        seconds=load.seconds,
        load_of_others=load.others,
        **_counts(rounds),
        left_at_the_end={"processes": left, "files": files, "shared memory": len(orphaned)},
        growth=[{**asdict(each), "leaks": each.leaks} for each in growth(footprints)],
        rounds=[asdict(each) for each in rounds],
        footprints=[asdict(each) for each in footprints],
    )


@contextlib.contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """The folder of the deployment: the user's, which is kept, or a temporary one."""
    if folder is not None:
        yield private_folder(folder)
        return
    with tempfile.TemporaryDirectory(prefix="ppodc-soak-") as place:
        yield Path(place)


def _report(number: int, played: Round) -> None:
    hits = ", ".join(played.hits) or "no fault"
    again = f", resumed {played.resumed} times" if played.resumed else ""
    verdict = "exact" if played.exact and not played.problem else f"PROBLEM {played.problem}"
    notices.print(
        f"{number}: {played.family}, {played.seconds:.0f} s, {hits}{again}: {verdict}",
        markup=False,
    )


class _Play:
    """One round."""

    def __init__(self, world: SoakWorld, seed: int, number: int, early: bool) -> None:
        self._world = world
        self._job = soak_jobs.draw(seed, number)
        chance = random.Random(f"shots {seed} {number}")
        self._shots = draw_shots(chance, kill_services=early, local=self._job.local)
        self._at = world.reports if self._job.local else world.clouds
        self._spec = replace(self._job.spec, owners=members(self._at.folder, 1))
        self._owners = [f"owner{number}" for number in range(1, len(self._job.tables) + 1)]
        self._files = [world.folder / f"{owner}.csv" for owner in self._owners]
        self._round = Round(self._job.family, self._spec.name)

    def round(self) -> Round:
        """Play the job to its end and record any problem, so that the next round can begin."""
        began = time.monotonic()
        hits = Counter[str]()
        try:
            with under_fire(self._world, self._shots) as hits:
                self._upload()
                self._compute()
            self._check()
        except PpodcError as error:
            self._round.problem = str(error)
        self._round.hits = {name: times for name, times in hits.items() if times}
        self._round.seconds = time.monotonic() - began
        self._settle()
        return self._round

    def _upload(self) -> None:
        agreed = self._world.folder / "spec.toml"
        agreed.write_text(self._spec.to_toml())
        self._ask(Operator, "operator", "create", self._spec, single_records=True)
        for number, (owner, file) in enumerate(zip(self._owners, self._files, strict=True), 1):
            self._job.write(number, file)
            command = ("upload", self._spec.name, str(file), "--spec", str(agreed))
            self._round.uploads_again += self._insist([command], owner)

    def _compute(self) -> None:
        name = self._spec.name
        suite = () if self._job.local else ("--suite", self._job.suite)
        run = ("run", name, *suite, "--pairs", str(self._job.pairs))
        # If a master died before sealing, there is nothing to resume.
        party = "collector" if self._job.local else "cloud1"
        self._round.resumed = self._insist([run, ("resume", name)], party)

    def _insist(self, commands: Sequence[Sequence[str]], party: str) -> int:
        """Try the commands in turn until one succeeds. Return the number of failed attempts."""
        said = ""
        for attempt in range(_TRIES):
            command = commands[attempt % len(commands)]
            code, said = self._world.command(
                *command, party=party, at=self._at, seconds=_COMMAND_SECONDS
            )
            if code == 0:
                return attempt
        raise PpodcError(f"{commands[0][0]} failed {_TRIES} times. The last error was: {said}")

    def _check(self) -> None:
        name = self._spec.name
        results = [
            self._ask(Owner, each, "result", name, timeout=_SETTLE_SECONDS) for each in self._owners
        ]
        self._round.exact = self._job.exact(self._spec, results, self._files, self._at)
        if not self._round.exact:
            self._round.problem = "The result differs from plaintext."
        clouds = (1,) if self._job.local else (1, 2)
        chains = [self._ask(Owner, self._owners[0], "ledger", cloud) for cloud in clouds]
        self._round.ledgers_hold = all(verify(iter(chain)).broken is None for chain in chains)

    def _ask(self, kind: Any, party: str, method: str, *given: Any, **options: Any) -> Any:
        """The answer to a party's call, which is repeated while a service is down."""
        config = self._at.party(party).config
        attempt = 1
        while True:
            try:
                with kind.connect(config) as connected:
                    return getattr(connected, method)(*given, **options)
            except PpodcError:
                if attempt == _TRIES:
                    raise
                attempt += 1
                time.sleep(1.0)

    def _settle(self) -> None:
        """Wait until all processes of the job have ended and all services are ready."""
        began = time.monotonic()
        while time.monotonic() - began < _SETTLE_SECONDS:
            strays, unready = self._world.strays(), self._world.unready()
            if not strays and not unready:
                break
            time.sleep(_LOOK_SECONDS)
        self._round.settled = time.monotonic() - began
        self._round.strays = strays
        self._round.unready = unready


# ------------------------------------------------------------------- the document


def _counts(rounds: Sequence[Round]) -> dict[str, Any]:
    hits: Counter[str] = Counter()
    for each in rounds:
        hits.update(each.hits)
    return {
        "jobs": len(rounds),
        "exact": sum(each.exact for each in rounds),
        "ledgers_hold": sum(each.ledgers_hold for each in rounds),
        "uploads_again": sum(each.uploads_again for each in rounds),
        "resumed": sum(each.resumed for each in rounds),
        "with_strays": sum(bool(each.strays) for each in rounds),
        "unready": sum(bool(each.unready) for each in rounds),
        "hits": dict(hits),
    }


def _tables(found: Document) -> list[Table]:
    problems = [
        (f"{each['dataset']}, {each['family']}", "; ".join(said))
        for each in found["rounds"]
        if (said := [*filter(None, [each["problem"]]), *each["strays"], *each["unready"]])
    ]
    return [
        document.table(f"Soak, {found['minutes']:g} minutes", ("", "count"), _overview(found)),
        document.table("Jobs", ("family", "jobs", "exact", "median, s"), _families(found)),
        document.table(
            "Faults that struck",
            ("fault", "times"),
            [(name, str(n)) for name, n in sorted(found["hits"].items())],
        ),
        document.table(
            "Held between jobs",
            ("", "jobs", "early", "late", "more a job", ""),
            [_held(Growth(*(each[name] for name in Growth.__dataclass_fields__)))
             for each in found["growth"]],
        ),
        *([document.table("Problems", ("job", "what"), problems)] if problems else []),
    ]  # fmt: skip


def _overview(found: Document) -> list[tuple[str, str]]:
    words = {
        "jobs": "jobs",
        "exact": "exact at every owner",
        "ledgers_hold": "ledgers hold",
        "uploads_again": "uploads repeated",
        "resumed": "masters run again",
        "with_strays": f"jobs with a process left after {_SETTLE_SECONDS:g} s",
        "unready": "jobs after which a service was not ready",
    }
    left = found["left_at_the_end"].items()
    return [
        *((text, str(found[name])) for name, text in words.items()),
        *((f"left at the end: {what}", str(count)) for what, count in left),
    ]


def _families(found: Document) -> list[tuple[str, str, str, str]]:
    rows = []
    for family in soak_jobs.FAMILIES:
        own = [each for each in found["rounds"] if each["family"] == family]
        if own:
            seconds = sorted(each["seconds"] for each in own)[len(own) // 2]
            exact = sum(each["exact"] for each in own)
            rows.append((family, str(len(own)), str(exact), f"{seconds:.0f}"))
    return rows


def _held(each: Growth) -> tuple[str, ...]:
    figures = (each.early, each.late, each.slope)
    texts = [f"{value:.3g}" for value in figures]
    if each.what.endswith("memory"):
        texts = [f"{each.early / 1e6:.1f} MB", f"{each.late / 1e6:.1f} MB"]
        texts.append(f"{each.slope / 1e3:.1f} kB")
    return each.what, str(each.jobs), *texts, "GROWS" if each.leaks else ""


def _is_wrong(found: Document) -> bool:
    complete = found["jobs"] == found["exact"] == found["ledgers_hold"]
    disturbed = found["with_strays"] or found["unready"] or any(found["left_at_the_end"].values())
    problems = any(each["problem"] for each in found["rounds"])
    return not complete or disturbed or problems or any(each["leaks"] for each in found["growth"])


def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="Duration.")] = 60,
    seed: Seed = 1,
    folder: Annotated[
        Path | None, typer.Option(help="New folder that keeps the deployment and all logs.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Run jobs of all kinds on real services and Ray while processes die at random."""
    found = run(minutes, seed, folder)
    conclude(found, json_file, wrong=_is_wrong(found))


if __name__ == "__main__":
    typer.run(main)
