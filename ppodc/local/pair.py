"""A whole job on this machine: two pretend owners, C1 and C2 as two processes on loopback.

This process plays the owners (it splits the table and opens the result) and the operator (it
makes the keys and starts the clouds). Each cloud gets a folder with what that cloud may know.
"""

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto import paillier, paillier_keys
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.job import job_of
from ppodc.kmeans.reference import Trace, kmeans
from ppodc.kmeans.widths import check_paillier
from ppodc.local.pair_process import Mode, Revealed, Setting
from ppodc.records.output_half import OutputHalf, open_output
from ppodc.records.sharing import split
from ppodc.spec import Spec
from ppodc.transport.curve_keys import CurveKeys

Event = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the owners see, beside what plaintext k-means gives."""

    n_iter: int
    converged: bool
    sums: NDArray[Any]
    sizes: NDArray[Any]
    labels: NDArray[np.int64] | None
    reference: Trace

    @property
    def identical(self) -> bool:
        """Whether every number equals the reference's."""
        same = (
            self.n_iter == self.reference.n_iter
            and self.converged == self.reference.converged
            and np.array_equal(self.sums, self.reference.sums)
            and np.array_equal(self.sizes, self.reference.sizes)
        )
        return same and (self.labels is None or np.array_equal(self.labels, self.reference.labels))


def run_pair(
    records: NDArray[np.int64],
    spec: Spec,
    folder: Path,
    *,
    key_bits: int,
    insecure: bool,
    mode: Mode,
    event: Event,
) -> Outcome:
    """Cluster encoded records between two processes; `event` is told what happens."""
    job = job_of(spec)
    params = job.parameters(spec.schema, len(records))
    paillier.check_bits(key_bits, insecure=insecure)
    check_paillier(params, key_bits)
    if folder.exists() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; name a new folder.")
    clouds = [folder / "cloud1", folder / "cloud2"]
    setting = Setting(
        1,
        params.m,
        params.l,
        params.k,
        params.ub,
        str(params.beta),
        job_of(spec).max_iter,
        job_of(spec).seed,
        job_of(spec).labels,
        mode=mode,
        insecure_key=insecure,
    )
    event("keys", {"bits": key_bits})
    write_clouds(clouds[0], clouds[1], setting, key_bits)
    write_uploads(
        clouds[0], clouds[1], np.array_split(records, 2), job_of(spec).initial_centres(spec.schema)
    )
    event("uploaded", {"rows": params.m})
    run_clouds(clouds[0], clouds[1], event)
    halves = [
        msgspec.json.decode((cloud / "result.json").read_bytes(), type=Revealed) for cloud in clouds
    ]
    return _open(halves[0], halves[1], records, spec)


def write_clouds(cloud1: Path, cloud2: Path, setting: Setting, key_bits: int) -> None:
    """Keys and settings of both clouds, each in the folder of the one that may know it."""
    for cloud in (cloud1, cloud2):
        cloud.mkdir(mode=0o700, parents=True)
    make = paillier.generate_insecure if setting.insecure_key else paillier.generate
    secret = make(key_bits)
    paillier_keys.save_public(cloud1 / "paillier.pub", secret.public)
    paillier_keys.save_secret(cloud2 / "paillier.key", secret)
    curves = [CurveKeys.generate() for _ in range(2)]
    for role, cloud in enumerate((cloud1, cloud2)):
        curves[role].save(cloud / "curve")
        (cloud / "peer.public").write_bytes(curves[1 - role].public)
        own = msgspec.structs.replace(setting, role=role + 1)
        (cloud / "half.json").write_bytes(msgspec.json.encode(own))


def write_uploads(
    cloud1: Path,
    cloud2: Path,
    owners: list[NDArray[np.int64]],
    centres: NDArray[np.int64] | None,
) -> None:
    """Each owner's share to C1 and its seed to C2."""
    seeds = []
    for number, records in enumerate(owners):
        share, seed = split(records)
        np.save(cloud1 / f"share-{number:03}.npy", share)
        seeds.append({"rows": len(records), "seed": seed.hex()})
    (cloud2 / "seeds.json").write_text(json.dumps(seeds))
    (cloud2 / "seeds.json").chmod(0o600)
    if centres is not None:
        for cloud in (cloud1, cloud2):
            np.save(cloud / "centres.npy", centres)


@contextlib.contextmanager
def start_half(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """One cloud as a process, through the command; ended when the block is left."""
    command = [sys.executable, "-m", "ppodc.cli", "pair-half", str(folder)]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def events(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """The events that a half tells, until it ends."""
    for line in process.stdout or ():
        yield json.loads(line)


def listening(process: subprocess.Popen[str], folder: Path) -> str:
    """Where C2 listens, once it does."""
    for told in events(process):
        if told["event"] == "listening":
            return str(told["endpoint"])
    raise failure(process, folder)


def failure(process: subprocess.Popen[str], folder: Path) -> PpodcError:
    """Why a half ended, in its own words."""
    process.wait()
    said = (folder / "log.txt").read_text().strip().splitlines()
    reason = said[-1] if said else f"it was killed (exit status {process.returncode})"
    return PpodcError(f"{folder.name} stopped: {reason}")


def run_clouds(cloud1: Path, cloud2: Path, event: Event) -> None:
    """Both processes to their ends; the first failure ends both."""
    told: queue.SimpleQueue[tuple[str, dict[str, Any] | None]] = queue.SimpleQueue()

    def listen(name: str, process: subprocess.Popen[str]) -> None:
        for item in events(process):
            told.put((name, item))
        told.put((name, None))

    with start_half(cloud1) as first, start_half(cloud2) as second:
        running = {"cloud1": first, "cloud2": second}
        for name, process in running.items():
            threading.Thread(target=listen, args=(name, process), daemon=True).start()
        while running:
            name, item = told.get()
            if item is None:
                process = running.pop(name)
                if process.wait() != 0:
                    _raise_first((cloud1, first), (cloud2, second))
            elif item["event"] == "listening":
                assert first.stdin is not None  # noqa: S101 - opened as a pipe
                first.stdin.write(item["endpoint"] + "\n")
                first.stdin.flush()
            else:
                event(name, item)


def _raise_first(*halves: tuple[Path, subprocess.Popen[str]]) -> NoReturn:
    """The failure of the half that ended first; one killed says nothing, the other notices."""
    for folder, process in halves:
        if process.poll() not in (None, 0) and not (folder / "log.txt").read_text().strip():
            raise failure(process, folder)
    folder, process = next(h for h in halves if h[1].poll() not in (None, 0))
    raise failure(process, folder)


def _open(first: Revealed, second: Revealed, records: NDArray[np.int64], spec: Spec) -> Outcome:
    """The owners add both halves up."""

    def half(modulus: str, values: list[str]) -> OutputHalf:
        return OutputHalf.of(int(modulus), [int(x) for x in values])

    opened = open_output(half(first.modulus, first.values), half(second.modulus, second.values))
    table = np.array(opened, dtype=object).reshape(job_of(spec).k, -1)
    labels = None
    if job_of(spec).labels:
        labels = np.array(
            open_output(
                half(first.label_modulus, first.labels), half(second.label_modulus, second.labels)
            ),
            dtype=np.int64,
        )
    trace = kmeans(
        records,
        job_of(spec).k,
        beta=job_of(spec).beta,
        max_iter=job_of(spec).max_iter,
        seed=job_of(spec).seed,
        centres=job_of(spec).initial_centres(spec.schema),
    )
    return Outcome(first.n_iter, first.converged, table[:, :-1], table[:, -1], labels, trace)
