"""One iteration of the paillier suite over all records of a job, in parts that are kept one by one.

At the published size it takes hours of CPU. So a pair of its own, with a key of its own, does each
part. It takes in the part's records and those that the job starts from, all numbers as wide as in
the whole job, and does Stage 2 for the part: distances to the centres of the whole job, minimum,
sums. The pair of the last part then adds the sums of the others to its own and does Stage 3 for the
whole job: clusters without a record and the stop bit.

The sums of each part, the new clusters and the bit are compared with plaintext k-means over all
records. A job of the platform does the same, but for this: between parts the sums were opened and
encrypted under the next key, and the centres are scaled in each part, not once.
"""

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import astuple, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ppodc.bench import machine
from ppodc.bench.document import Figures, plural
from ppodc.bench.kmeans.commanded_pairs import CommandedPairs, Phase, State
from ppodc.bench.points import Points, Task, Tell, measure
from ppodc.crypto.paillier import SecretKey
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.randomisers import PowerRandomisers
from ppodc.errors import PpodcError
from ppodc.kmeans.reference import kmeans
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.local.pair import ROLES, make_key, started, write_folders
from ppodc.local.pair_process import Setting

_PROGRAM = "ppodc.bench.kmeans.iteration_process"
_SEED = 7
_BENCH = "paillier iteration"
NOTE = (
    "Where paillier ran in parts, each did Stage 2 for its records and the centres of the whole "
    "job, and the last one Stage 3 for all. Sums of each, new clusters and stop bit were compared "
    "with plaintext. Parts may be of different releases and machines; a run that is not finished "
    "shows those that are done, and no more."
)

Table = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WholeIteration:
    """The first iteration of a job over these records, `each` of them a part."""

    k: int
    key_bits: int
    each: int
    ub: int
    table: str  # tells the records from others

    def task(self, records: Table, start: int, end: int, others: Iterable[Figures] = ()) -> Task:
        """A part; `others` are the ones before the last."""
        m, l = records.shape
        about = {"suite": "paillier", "m": m, "l": l, "k": self.k, "key_bits": self.key_bits}
        about |= {"start": start, "rows": end - start}
        key = {"bench": _BENCH, "ub": self.ub, "table": self.table, **about}
        label = f"{self.key_bits} bits, records {start + 1:,} to {end:,} of {m:,}"
        work = partial(self._part, records, start, end, list(others))
        return Task(label, key, lambda tell: {**about, **work(tell)}, anywhere=True)

    def run(self, records: Table, points: Points) -> dict[str, Any]:
        """All parts that are not kept, and their sum."""
        m = len(records)
        starts = list(range(0, m, self.each))
        spans = list(zip(starts, [*starts[1:], m], strict=True))
        title = "paillier, one iteration"
        done = measure(title, [self.task(records, *span) for span in spans[:-1]], points)
        done += measure(title, [self.task(records, *spans[-1], done)], points)
        return added(done)

    def _part(
        self, records: Table, start: int, end: int, others: Sequence[Figures], tell: Tell
    ) -> dict[str, Any]:
        (m, l), k = records.shape, self.k
        first, spare = (rows(_SEED, m, k) for rows in (initial_rows, _candidates))
        own, count = records[start:end], end - start
        whole = kmeans(records, k, beta=Fraction(0), max_iter=1, seed=_SEED).iterations[0]
        wanted = _clusters(own, whole.labels[start:end], k)
        setting = Setting(1, "paillier", m, l, k, self.ub, "0", insecure_key=True)
        with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place, ExitStack() as stack:
            tell("keys and start")
            secret = make_key(self.key_bits, insecure=True)
            owners = [own, records[first], records[spare]]
            folders = write_folders(Path(place), setting, secret, owners)
            pair = stack.enter_context(started(folders, _PROGRAM))
            for role in ROLES:
                pair.answer(role)  # it is ready
            clouds = CommandedPairs([pair], [0], [0], 0.0)
            tell("taking in")
            clouds.ingest()
            centres = clouds.records(range(count, count + k))
            tell("Stage 2")
            sums = clouds.assign(centres, shards=1)
            opened = _opened(clouds, sums, k)
            exact, stage3 = np.array_equal(opened, wanted), end == m
            if stage3:
                tell("Stage 3")
                if others:
                    before = np.sum([point["sums"] for point in others], axis=0)
                    given = _given(folders[0], secret, before)
                    sums = clouds.add([sums, (given, sums[1])])
                candidates = clouds.records(range(count + k, count + 2 * k))
                new, stop = clouds.update(centres, sums, candidates)
                expected = np.column_stack([whole.next_sums, whole.next_sizes])
                exact = exact and np.array_equal(_opened(clouds, new, k), expected)
                exact = exact and stop == whole.stop
        took = Phase(*map(sum, zip(*map(astuple, clouds.offline + clouds.online), strict=True)))
        return {
            "total_s": took.wall,
            "cpu_c1_s": took.cpu_c1,
            "cpu_c2_s": took.cpu_c2,
            "bytes_c1_to_c2": took.sent_c1,
            "bytes_c2_to_c1": took.sent_c2,
            "sums": opened.tolist(),
            "stage3": stage3,
            "exact": exact,
            "release": machine.describe()["code"],
        }


def added(parts: Sequence[Figures]) -> dict[str, Any]:
    """Parts of one iteration together; of two that overlap, the one that begins first."""
    done: list[Figures] = []
    for point in sorted(parts, key=lambda p: (p["start"], p["rows"])):
        if not done or point["start"] >= done[-1]["start"] + done[-1]["rows"]:
            done.append(point)
    if not done:
        raise PpodcError("no part of a paillier iteration was kept.")
    job = {name: done[0][name] for name in ("suite", "m", "l", "k", "key_bits")}
    costs = ("total_s", "cpu_c1_s", "cpu_c2_s", "bytes_c1_to_c2", "bytes_c2_to_c1")
    return {
        **job,
        "pairs": 1,
        "parts": len(done),
        "done": sum(p["rows"] for p in done),
        "stage3": any(p["stage3"] for p in done),
        **{name: sum(p[name] for p in done) for name in costs},
        "exact": all(p["exact"] for p in done),
        "releases": sorted({p["release"] for p in done}),
    }


def kept(lines: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The finished parts of each iteration among the lines of a file of points."""
    jobs: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in lines:
        key = line["key"]
        if key.get("bench") == _BENCH:
            job = tuple(key[name] for name in ("table", "m", "l", "k", "key_bits"))
            jobs.setdefault(job, []).append(line["value"])
    return [added(list({p["start"]: p for p in done}.values())) for done in jobs.values()]


def how(p: Figures) -> str:
    """How far an iteration is, in words."""
    done = f"measured in {plural(p['parts'], 'part')}"
    return done if p["done"] == p["m"] else f"{done}, {p['done']:,} of {p['m']:,} records so far"


def _candidates(seed: int, m: int, k: int) -> list[int]:
    return reseed_rows(seed, 1, m, k)


def _clusters(records: Table, labels: Table, k: int) -> Table:
    """Sums and size of each cluster."""
    rows = np.column_stack([records, np.ones(len(records), np.int64)])
    return np.stack([rows[labels == h].sum(axis=0) for h in range(k)])


def _opened(clouds: CommandedPairs, state: State, k: int) -> Table:
    return np.array(clouds.open(state), object).reshape(k, -1).astype(np.int64)


def _given(folder: Path, secret: SecretKey, sums: Table) -> str:
    """A file of C1's with these sums, encrypted under the key of this part's pair."""
    public = secret.public
    cipher = Cipher(public, PowerRandomisers(public))
    file = folder / "given.npy"
    np.save(file, cipher.encrypt(sums.ravel().tolist()).to_array())
    return str(file)
