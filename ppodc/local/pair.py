"""Two clouds on this machine: a folder and a process for each, connected over loopback.

This process plays the operator (it makes the keys and starts the clouds) and the owners (it splits
the records and opens the result). Each cloud's folder has what that cloud may know.
"""

import json
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto import paillier, paillier_keys
from ppodc.crypto.paillier import SecretKey
from ppodc.crypto.split_paillier import split as split_key
from ppodc.errors import OptionError, PpodcError, SpecError
from ppodc.kmeans import suites
from ppodc.kmeans.job import job_of
from ppodc.kmeans.reference import Trace, kmeans
from ppodc.kmeans.result import Result, open_one
from ppodc.kmeans.suites import Mode, Suite
from ppodc.local.pair_process import LINK_ERROR, SEEDS, SETTING, SPEC, Setting, load_result
from ppodc.pairs.progress import Event, Listener
from ppodc.records.result_shares import open_shares
from ppodc.records.sharing import split
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys

RUN_JOB = "ppodc.local.pair_process"  # the program that runs a whole job
ROLES = (1, 2)
_LAST_WORDS_SECONDS = 5.0

Folders = tuple[Path, Path]  # of C1 and of C2
Route = Callable[[str], AbstractContextManager[str]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The owners' result, beside that of plaintext k-means."""

    result: Result
    reference: Trace

    @property
    def identical(self) -> bool:
        """Whether every number equals the reference's."""
        ours, plain = self.result, self.reference
        same = (
            (ours.n_iter_, ours.converged_) == (plain.n_iter, plain.converged)
            and np.array_equal(ours.sums_, plain.sums)
            and np.array_equal(ours.sizes_, plain.sizes)
        )
        return same and (ours.labels_ is None or np.array_equal(ours.labels_, plain.labels))


def run_pair(
    records: NDArray[np.int64],
    spec: Spec,
    folder: Path,
    *,
    suite: Suite,
    key_bits: int,
    insecure: bool,
    mode: Mode,
    progress: Listener,
) -> Outcome:
    """Cluster encoded records, split between two owners, from shares to the opened result."""
    job = job_of(spec)
    p = job.parameters(spec.schema, len(records))
    paillier.check_bits(key_bits, insecure=insecure)
    suites.check(suite, p, key_bits)
    if job.beyond_published:
        raise SpecError(
            f"job: {', '.join(job.beyond_published)} is not for a single pair of processes. "
            'Use `ppodc run` or `ppodc demo`, or a spec without (init = "random").'
        )
    if folder.exists() and any(folder.iterdir()):
        raise OptionError(f"{folder} is not empty; name a new folder.")
    setting = Setting(
        1, suite, p.m, p.l, p.k, p.ub, str(p.beta), p.min_size, mode=mode, insecure_key=insecure,
        products=p.products,
    )  # fmt: skip
    key = None
    if suite == "paillier":
        progress(Event(spec.name, f"making keys of {key_bits} bits", 0, job.max_iter, 0, 0))
        key = make_key(key_bits, insecure=insecure)
    folders = write_folders(folder, setting, key, np.array_split(records, 2), spec)
    with started(folders) as pair:
        for role, event in pair.events():
            if role == 1 and event.pop("event") == "progress":
                progress(Event(**event))
    trace = kmeans(
        records, job.k, beta=job.beta, max_iter=job.max_iter, seed=job.seed,
        centres=job.initial_centres(spec.schema), min_size=job.min_size,
    )  # fmt: skip
    return Outcome(open_one(spec, open_shares(*map(load_result, folders)), job.k), trace)


# ------------------------------------------------------------------- folders


def make_key(bits: int, *, insecure: bool = False) -> SecretKey:
    """C2's Paillier key."""
    return paillier.generate_insecure(bits) if insecure else paillier.generate(bits)


def write_folders(
    place: Path,
    setting: Setting,
    key: SecretKey | None,
    owners: Sequence[NDArray[np.int64]],
    spec: Spec | None = None,
) -> Folders:
    """Keys, settings and shares of both clouds, each in the folder of the one that may know it.

    `key` is C2's of the paillier suite. `spec` is the job for `RUN_JOB`; other programs have orders
    of their own.
    """
    folders = (place / "cloud1", place / "cloud2")
    curves = (CurveKeys.generate(), CurveKeys.generate())
    for index, folder in enumerate(folders):
        folder.mkdir(mode=0o700, parents=True)
        curves[index].save(folder / "curve")
        (folder / "peer.public").write_bytes(curves[1 - index].public)
        own = msgspec.structs.replace(setting, role=ROLES[index])
        (folder / SETTING).write_bytes(msgspec.json.encode(own))
        if spec is not None:
            (folder / SPEC).write_bytes(spec.canonical())
    if key is not None and setting.split_key:
        for folder, part in zip(folders, split_key(key), strict=True):
            paillier_keys.save_share(folder / "paillier.share", part)
    elif key is not None:
        paillier_keys.save_public(folders[0] / "paillier.pub", key.public)
        paillier_keys.save_secret(folders[1] / "paillier.key", key)
    seeds = []
    for number, records in enumerate(owners):
        share, seed = split(records)
        np.save(folders[0] / f"share-{number:05}.npy", share)
        seeds.append({"rows": len(records), "seed": seed.hex()})
    (folders[1] / SEEDS).touch(0o600)
    (folders[1] / SEEDS).write_text(json.dumps(seeds))
    return folders


# ----------------------------------------------------------------- processes


@contextmanager
def started(
    folders: Folders, program: str = RUN_JOB, route: Route = nullcontext
) -> Iterator["LocalPair"]:
    """Both clouds as processes of this program, connected; ended when the block is left.

    `route` gives the address under which C1 finds C2's, such as that of an imitated slow link.
    """
    with ExitStack() as stack:
        first, second = (stack.enter_context(_process(program, folder)) for folder in folders)
        pair = LocalPair(folders, (first, second))
        endpoint = pair.answer(2)["endpoint"]
        pair.write(1, stack.enter_context(route(endpoint)))
        yield pair


@contextmanager
def _process(program: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", program, str(folder)],
            stdin=pipe, stdout=pipe, stderr=log, text=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class LocalPair:
    """Two running processes: lines to them, events from them, and the reason for their end."""

    def __init__(
        self, folders: Folders, processes: tuple[subprocess.Popen[str], subprocess.Popen[str]]
    ) -> None:
        self._folders, self.processes = folders, processes
        self._said: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()
        self._waiting: dict[int, deque[dict[str, Any]]] = {role: deque() for role in ROLES}
        self._running = set(ROLES)
        for role in ROLES:
            threading.Thread(target=self._listen, args=(role,), daemon=True).start()

    def write(self, role: int, line: str) -> None:
        """A line to one of them."""
        pipe = self.processes[role - 1].stdin
        assert pipe is not None  # noqa: S101 - opened as a pipe
        try:
            pipe.write(line + "\n")
            pipe.flush()
        except BrokenPipeError:
            with suppress(BrokenPipeError):
                pipe.close()  # or Python would complain about the line when it tidies up
            raise self._failure(role) from None

    def answer(self, role: int) -> dict[str, Any]:
        """The next event of one of them; what the other says meanwhile is kept."""
        while not self._waiting[role]:
            if role not in self._running:
                raise self._failure(role)
            self._hear()
        return self._waiting[role].popleft()

    def events(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Events of both processes, by role and as they come, until both have ended."""
        while True:
            for role in ROLES:
                while self._waiting[role]:
                    yield role, self._waiting[role].popleft()
            if not self._running:
                return
            self._hear()

    def _listen(self, role: int) -> None:
        for line in self.processes[role - 1].stdout or ():
            self._said.put((role, json.loads(line)))
        self._said.put((role, None))

    def _hear(self) -> None:
        role, event = self._said.get()
        if event is not None:
            self._waiting[role].append(event)
            return
        self._running.discard(role)
        if self.processes[role - 1].wait() != 0:
            raise self._failure(role)

    def _failure(self, role: int) -> PpodcError:
        """Why the pair ended: in the words of this process, or of the one it only lost."""
        if self.processes[role - 1].wait() == LINK_ERROR and self._failed_first(3 - role):
            role = 3 - role
        status, folder = self.processes[role - 1].wait(), self._folders[role - 1]
        words = (folder / "log.txt").read_text().strip().splitlines()
        reason = f"it was killed (signal {-status})." if status < 0 else "without a word."
        return PpodcError(f"{folder.name} stopped: {words[-1] if status > 0 and words else reason}")

    def _failed_first(self, role: int) -> bool:
        """Whether this one ended by itself, and not because it lost the other."""
        try:
            return self.processes[role - 1].wait(_LAST_WORDS_SECONDS) not in (0, LINK_ERROR)
        except subprocess.TimeoutExpired:
            return False
