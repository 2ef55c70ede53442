"""`ppodc bench soak`: jobs of all kinds, one after the other, while processes die: does it last?

Real services, a real Ray at each cloud, everything by the command (`soak_world`). Each round draws
a job (`soak_jobs`) and shots at random processes (`soak_fire`): services, masters, uploads,
workers, Ray's own. Owners upload until they have a receipt, the master runs and is resumed until
the job is done; then what every owner opens must be plaintext's, to the last bit, ledgers must hold
and services be ready. When all that belongs to the job had time to go, it is counted what the
deployment holds (`soak_leaks`).

Services are killed during the first third of the time only, so that afterwards their memory can be
watched over many jobs. Ctrl-C ends a soak early; it reports what was until then.
"""

import contextlib
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ppodc.bench import document, faults, machine, soak_jobs
from ppodc.bench.document import Document, Table
from ppodc.bench.fault_schedules import MAX_OWNERS
from ppodc.bench.points import notices
from ppodc.bench.soak_fire import draw_shots, under_fire
from ppodc.bench.soak_leaks import Footprint, Growth, growth, look
from ppodc.bench.soak_world import SoakWorld
from ppodc.errors import PpodcError
from ppodc.files import private_folder
from ppodc.service.deployment import members
from ppodc.service.store.ledger import verify

_COMMAND_SECONDS = 240.0
_TRIES = 12
_SETTLE_SECONDS = 30.0
_LOOK_SECONDS = 0.5


@dataclass(slots=True)
class Round:
    """What one job came to."""

    family: str
    dataset: str
    exact: bool = False
    ledgers_hold: bool = False
    uploads_again: int = 0
    resumed: int = 0
    hits: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    settled: float = 0.0  # seconds until nothing of the job was left
    unready: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    problem: str = ""


def run(minutes: float, seed: int, folder: Path | None, owner: Any, operator: Any) -> Document:
    """Rounds for so many minutes; `owner` and `operator` are the classes of the SDK."""
    rounds: list[Round] = []
    footprints: list[Footprint] = []
    forgotten = machine.forgotten_shared_memory()
    with _place(folder) as place, faults.quiet_logs(), machine.watched() as load:
        with SoakWorld(place, MAX_OWNERS) as world:
            began = time.monotonic()
            try:
                while not rounds or time.monotonic() - began < 60 * minutes:
                    early = time.monotonic() - began < 20 * minutes
                    played = _Play(world, owner, operator, seed, len(rounds), early).round()
                    rounds.append(played)
                    footprints.append(look(world))
                    _tell(len(rounds), played)
            except KeyboardInterrupt:
                notices.print("interrupted: reporting what was until now", markup=False)
            left = world.stop()
            files = len(list(world.temporary.iterdir()))
        forgotten = machine.forgotten_shared_memory() - forgotten
    return document.make(
        "soak",
        _tables,
        notes=[f"again: ppodc bench soak --minutes {minutes:g} --seed {seed}"],
        minutes=minutes,
        seed=seed,
        seconds=load.seconds,
        load_of_others=load.others,
        **_counts(rounds),
        left_at_the_end={
            "processes": left,
            "files": files,
            "shared memory": len(forgotten),
        },
        growth=[{**asdict(each), "leaks": each.leaks} for each in growth(footprints)],
        rounds=[asdict(each) for each in rounds],
        footprints=[asdict(each) for each in footprints],
    )


@contextlib.contextmanager
def _place(folder: Path | None) -> Iterator[Path]:
    """Where the deployment is made: the user's folder, which stays, or one for the time being."""
    if folder is not None:
        yield private_folder(folder)
        return
    with tempfile.TemporaryDirectory(prefix="ppodc-soak-") as place:
        yield Path(place)


def _tell(number: int, played: Round) -> None:
    hits = ", ".join(played.hits) or "no fault"
    again = f", {played.resumed} times again" if played.resumed else ""
    verdict = "exact" if played.exact and not played.problem else f"PROBLEM {played.problem}"
    notices.print(
        f"{number}: {played.family}, {played.seconds:.0f} s, {hits}{again}: {verdict}",
        markup=False,
    )


class _Play:
    """One round."""

    def __init__(
        self, world: SoakWorld, owner: Any, operator: Any, seed: int, number: int, early: bool
    ) -> None:
        self._world, self._owner, self._operator = world, owner, operator
        self._job = soak_jobs.draw(seed, number)
        chance = random.Random(f"shots {seed} {number}")
        self._shots = draw_shots(chance, kill_services=early, local=self._job.local)
        self._at = world.reports if self._job.local else world.clouds
        self._spec = replace(self._job.spec, owners=members(self._at.folder, 1))
        self._owners = [f"owner{number}" for number in range(1, len(self._job.tables) + 1)]
        self._files = [world.folder / f"{owner}.csv" for owner in self._owners]
        self._round = Round(self._job.family, self._spec.name)

    def round(self) -> Round:
        """Play it to the end; whatever goes wrong is noted, and the next round begins."""
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
        self._ask(self._operator, "operator", "create", self._spec)
        for number, (owner, file) in enumerate(zip(self._owners, self._files, strict=True), 1):
            self._job.write(number, file)
            command = ("upload", self._spec.name, str(file), "--spec", str(agreed))
            self._round.uploads_again += self._insist([command], owner)

    def _compute(self) -> None:
        name = self._spec.name
        suite = () if self._job.local else ("--suite", self._job.suite)
        run = ("run", name, *suite, "--pairs", str(self._job.pairs))
        # A master that died before sealing has nothing to resume.
        party = "collector" if self._job.local else "cloud1"
        self._round.resumed = self._insist([run, ("resume", name)], party)

    def _insist(self, commands: Sequence[Sequence[str]], party: str) -> int:
        """One after the other until one succeeds; how often it took another attempt."""
        said = ""
        for attempt in range(_TRIES):
            command = commands[attempt % len(commands)]
            code, said = self._world.command(
                *command, party=party, at=self._at, seconds=_COMMAND_SECONDS
            )
            if code == 0:
                return attempt
        raise PpodcError(f"{commands[0][0]} is not done after {_TRIES} attempts: {said}")

    def _check(self) -> None:
        name = self._spec.name
        results = [
            self._ask(self._owner, each, "result", name, timeout=60.0) for each in self._owners
        ]
        self._round.exact = self._job.exact(self._spec, results, self._files, self._at)
        if not self._round.exact:
            self._round.problem = "the result is not that of plaintext"
        clouds = (1,) if self._job.local else (1, 2)
        chains = [self._ask(self._owner, self._owners[0], "ledger", cloud) for cloud in clouds]
        self._round.ledgers_hold = all(verify(iter(chain)).broken is None for chain in chains)

    def _ask(self, kind: Any, party: str, method: str, *given: Any, **options: Any) -> Any:
        """What a party's call gives; while a service is away, once more."""
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
        """Workers, drivers and Ray's processes need a moment to go, services one to come back."""
        began = time.monotonic()
        while time.monotonic() - began < _SETTLE_SECONDS:
            strays, unready = self._world.strays(), self._world.unready()
            if not strays and not unready:
                break
            time.sleep(_LOOK_SECONDS)
        self._round.settled = time.monotonic() - began
        self._round.strays = [process.title for process in strays]
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
        "with_strays": f"jobs of which a process was left after {_SETTLE_SECONDS:g} s",
        "unready": "jobs after which a service was not ready",
    }
    left = found["left_at_the_end"].items()
    return [
        *((text, str(found[name])) for name, text in words.items()),
        *((f"left after the end: {what}", str(count)) for what, count in left),
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
