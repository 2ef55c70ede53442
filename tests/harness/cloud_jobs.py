"""Both clouds' sides of a job with stores, their workers threads of this process."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cloud1.worker import Worker1
from cloud2.worker import Worker2
from ppodc.cluster.workers import outcomes
from ppodc.crypto.paillier import generate_insecure
from ppodc.crypto.paillier_keys import save_secret, save_share
from ppodc.crypto.split_paillier import split as split_key
from ppodc.kmeans.job import Job
from ppodc.pairs.cloud_job import CloudJob
from ppodc.records.schema import Column, Schema
from ppodc.records.sharing import split
from ppodc.service.job_state import JobState
from ppodc.service.store import Store
from ppodc.spec import Spec
from tests.harness.memory_network import MemoryNetwork
from tests.harness.patience import LONG
from tests.harness.thread_workers import ThreadWorkers
from tests.service.data import members

KEY = generate_insecure(256)
RECORDS = np.random.default_rng(5).integers(0, 10, (14, 2))
NAME = "d"


@dataclass
class TwoCloudJobs:
    """Both clouds' sides of one job; the files of the clouds' keys are in `keys`."""

    first: CloudJob
    second: CloudJob
    keys: Path
    split: bool = False

    @property
    def sides(self) -> tuple[CloudJob, CloudJob]:
        return self.first, self.second

    def pair(self, slot: int) -> None:
        """Fresh workers in this slot, introduced to each other."""
        setups = [side.setup(LONG, Path(side.store.folder, "pools")) for side in self.sides]
        shares = [str(self.keys / f"share{number}") if self.split else None for number in (1, 2)]
        n = None if self.split else int(KEY.public.n)
        secret = None if self.split else str(self.keys / "key")
        one = self.first.workers.start(Worker1, setups[0], n, shares[0], True)
        two = self.second.workers.start(Worker2, setups[1], secret, True, shares[1])
        self.first.place(slot, one)
        self.second.place(slot, two)
        (public,) = outcomes(self.first.workers, [self.first.workers.call(one, "public")], "C1")
        listening = self.second.workers.call(
            two, "listen", "127.0.0.1", (0, 0), public, self.second.pair_name(slot)
        )
        ((endpoint, other),) = outcomes(self.second.workers, [listening], "C2")
        pair = self.first.pair_name(slot)
        told = self.first.workers.call(one, "pair_with", endpoint, other, pair)
        outcomes(self.first.workers, [told], "C1")

    def step(self) -> str:
        """Run the next step at both clouds; its name."""
        step = self.first.walk.next_step()
        assert step is not None
        assert step == self.second.walk.next_step()
        slots = self.first.walk.line(step).slots(self.first.plan)
        for side in self.sides:
            side.begin(step, 1, slots)
        for side in self.sides:
            done, failed, running = side.wait(LONG)
            assert (done, failed, running) == (slots, {}, [])
        for side in self.sides:
            side.commit()
        return step.name

    def run_until(self, name: str) -> None:
        """Run all steps before the next one of this name."""
        while self.first.walk.next_step().name != name:
            self.step()

    def run(self) -> list[str]:
        names = []
        while self.first.walk.next_step() is not None:
            names.append(self.step())
        for side in self.sides:
            side.save_result()
        return names


JOB = Job(k=2, labels=True, min_size=1)


@contextmanager
def two_cloud_jobs(
    folder: Path,
    records: np.ndarray = RECORDS,
    job: Job = JOB,
    suite: str = "shares",
    split_paillier: bool = False,
    pairs: int = 2,
) -> Iterator[TwoCloudJobs]:
    """Both clouds with one upload, taken as it is: nothing checks its values."""
    schema = Schema((Column("x", 0, 9), Column("y", 0, 9)), 9)
    spec = Spec(NAME, schema, job, members("owner1"))
    stores = [Store.open(folder / role, role) for role in ("cloud1", "cloud2")]
    share, seed = split(records)
    upload = secrets.token_hex(16)
    for store in stores:
        store.datasets.create(spec)
        store.uploads.begin(NAME, "owner1", upload, len(records))
    stores[0].uploads.put_chunk(upload, 0, share)
    stores[1].uploads.put_seed(upload, seed)
    for store in stores:
        store.uploads.commit(upload)
        store.seals.seal(NAME, [upload])
        store.jobs.transition(NAME, JobState.PREPARING)
    save_secret(folder / "key", KEY)
    for number, part in enumerate(split_key(KEY), 1):
        save_share(folder / f"share{number}", part)
    network = MemoryNetwork()
    workers = ThreadWorkers(lambda worker: setattr(worker, "network", network))
    sides = [CloudJob(store, workers, NAME, suite, pairs, 1) for store in stores]
    both = TwoCloudJobs(sides[0], sides[1], folder, split_paillier)
    for slot in range(both.first.pairs):
        both.pair(slot)
    try:
        yield both
    finally:
        for side in both.sides:
            side.close()
            side.store.close()
