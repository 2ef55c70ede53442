"""`ppodc bench soak`: jobs of all kinds, one after the other, while processes die: does it last?

Real services, a real Ray at each cloud, everything by the command. Each round draws a small job as
`bench faults` does (k-means of both suites with all its options, totals, linkage) and shots at
random processes: services, master, workers, Ray's own. Owners upload until they have a receipt, the
master runs and is resumed until the job is done; then what every owner opens must be plaintext's,
to the last bit, and both ledgers must hold. Between rounds it is counted what the deployment holds:
processes, memory, descriptors, sockets, threads.
"""

import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ppodc.bench import document, faults
from ppodc.bench.document import Document, Table
from ppodc.bench.points import Tell, measure_anew
from ppodc.bench.soak_world import PAIRS, Footprint, SoakWorld
from ppodc.errors import PpodcError
from ppodc.service.deployment import members
from ppodc.service.store.ledger import verify

_SHOTS = (0, 1, 1, 2, 3)
_FIRE_SECONDS = 20.0
_JOB_SECONDS = 180.0
_TRIES = 12
_SETTLE_SECONDS = 2.0


@dataclass(slots=True)
class Round:
    """What one job came to."""

    kind: str
    exact: bool = False
    ledgers_hold: bool = False
    resumed: int = 0
    hits: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    footprint: dict[str, int] = field(default_factory=dict)
    problem: str = ""


def run(minutes: float, seed: int, owner: Any, operator: Any) -> Document:
    """Rounds for so many minutes; `owner` and `operator` are the classes of the SDK."""

    def work(tell: Tell) -> Document:
        rounds: list[Round] = []
        with (
            tempfile.TemporaryDirectory(prefix="ppodc-soak-") as place,
            SoakWorld(Path(place), faults.MAX_OWNERS) as world,
            faults.quiet_logs(),
        ):
            over = time.monotonic() + 60 * minutes
            while not rounds or time.monotonic() < over:
                tell(f"{len(rounds)} jobs, {sum(r.exact for r in rounds)} exact")
                number = seed * 1_000_000 + len(rounds)
                rounds.append(_Play(world, owner, operator, number).round())
            left = world.stop()
        return _document(minutes, seed, rounds, left)

    return measure_anew("soak", "rounds", work)


class _Play:
    """One round."""

    def __init__(self, world: SoakWorld, owner: Any, operator: Any, seed: int) -> None:
        self._world, self._owner, self._operator = world, owner, operator
        self._chance = random.Random(f"soak {seed}")
        self._schedule = faults.draw(seed, private=False)  # owners last for many rounds
        self._round = Round(f"{self._schedule.spec.job.kind}, {self._schedule.suite}")

    def round(self) -> Round:
        """Play it to the end; whatever goes wrong is noted, and the next round begins."""
        began = time.monotonic()
        shots = self._chance.choice(_SHOTS)
        try:
            with self._world.under_fire(self._chance, shots, _FIRE_SECONDS) as hits:
                self._upload()
                self._job()
            self._round.hits = dict(hits)
            self._check()
        except PpodcError as error:
            self._round.problem = str(error)
        self._round.seconds = time.monotonic() - began
        time.sleep(_SETTLE_SECONDS)  # workers and Ray's processes need a moment to go
        self._round.footprint = asdict(self._world.footprint())
        return self._round

    def _upload(self) -> None:
        schedule, folder = self._schedule, self._world.made.folder
        self._spec = spec = replace(schedule.spec, owners=members(folder, 1))
        self._ask(self._operator, "operator", "create", spec)
        for number, table in enumerate(schedule.tables, 1):
            given = (spec.name, table.astype(float))
            self._ask(self._owner, f"owner{number}", "upload", *given, spec=spec, progress=False)

    def _job(self) -> None:
        schedule = self._schedule
        pairs = str(min(PAIRS, schedule.pairs))
        options = ("--suite", schedule.suite, "--pairs", pairs)
        code, said = self._world.master("run", self._spec.name, *options, seconds=_JOB_SECONDS)
        while code != 0:
            self._round.resumed += 1
            if self._round.resumed > _TRIES:
                raise PpodcError(f"not done after {_TRIES} attempts: {said}")
            # A master that died before sealing has nothing to resume.
            command = "run" if self._round.resumed % 2 == 0 else "resume"
            code, said = self._world.master(command, self._spec.name, seconds=_JOB_SECONDS)

    def _check(self) -> None:
        owners = [f"owner{number}" for number in range(1, len(self._schedule.tables) + 1)]
        name = self._spec.name
        results = [self._ask(self._owner, each, "result", name, timeout=60.0) for each in owners]
        self._round.exact = faults.exact(self._schedule, results)
        if not self._round.exact:
            self._round.problem = "the result is not that of plaintext"
        chains = [self._ask(self._owner, owners[0], "ledger", cloud) for cloud in (1, 2)]
        self._round.ledgers_hold = all(verify(iter(chain)).broken is None for chain in chains)

    def _ask(self, kind: Any, party: str, method: str, *given: Any, **options: Any) -> Any:
        """What a party's call gives; while a service is away, once more."""
        config = self._world.made.party(party).config
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


def _document(minutes: float, seed: int, rounds: Sequence[Round], left: int) -> Document:
    hits: Counter[str] = Counter()
    for each in rounds:
        hits.update(each.hits)
    return document.make(
        "soak",
        _tables,
        notes=[f"again: ppodc bench soak --minutes {minutes:g} --seed {seed}"],
        minutes=minutes,
        seed=seed,
        jobs=len(rounds),
        exact=sum(each.exact for each in rounds),
        ledgers_hold=sum(each.ledgers_hold for each in rounds),
        resumed=sum(each.resumed for each in rounds),
        hits=dict(hits),
        left_at_the_end=left,
        growth=_growth(rounds),
        rounds=[asdict(each) for each in rounds],
    )


def _growth(rounds: Sequence[Round]) -> dict[str, list[float]]:
    """Medians of the second and the last fifth of the rounds: the start is not growth."""
    fifth = max(1, len(rounds) // 5)
    early, late = rounds[fifth : 2 * fifth] or rounds, rounds[-fifth:]
    return {
        name: [statistics.median(r.footprint[name] for r in part) for part in (early, late)]
        for name in Footprint.__dataclass_fields__
    }


def _tables(found: Document) -> list[Table]:
    counts = [
        ("jobs", str(found["jobs"])),
        ("exact at every owner", str(found["exact"])),
        ("both ledgers hold", str(found["ledgers_hold"])),
        ("masters run again", str(found["resumed"])),
        ("processes left after the end", str(found["left_at_the_end"])),
    ]
    kinds = Counter(each["kind"] for each in found["rounds"])
    exact = Counter(each["kind"] for each in found["rounds"] if each["exact"])
    held = [
        (name if name != "memory" else "memory, MB", *(_figure(name, value) for value in values))
        for name, values in found["growth"].items()
    ]
    problems = [(each["kind"], each["problem"]) for each in found["rounds"] if each["problem"]]
    return [
        document.table(f"Soak, {found['minutes']:g} minutes", ("", "count"), counts),
        document.table(
            "Jobs",
            ("kind", "jobs", "exact"),
            [(k, str(n), str(exact[k])) for k, n in kinds.items()],
        ),
        document.table(
            "Faults that struck",
            ("fault", "times"),
            [(name, str(n)) for name, n in sorted(found["hits"].items())],
        ),
        document.table("Held between jobs", ("by services, or in all", "early", "late"), held),
        *([document.table("Problems", ("job", "what"), problems)] if problems else []),
    ]


def _figure(name: str, value: float) -> str:
    return f"{value / 1e6:.0f}" if name == "memory" else f"{value:g}"
