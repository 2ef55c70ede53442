"""An iteration of the paillier suite step by step, measured between two processes.

C2 is a process of its own behind CURVE; this process is C1. Real records run through the real
protocol: the distances of SSED_OP are what SBD decomposes, its bits are what SMIN_k compares, and
the sums at the end are checked against plaintext. A mode fixes where randomisers come from:

- online+offline: made when needed, as r^n like the published system does, or with this system's
  fixed-base tables;
- online: from pools on disk, filled before the clock starts; the clouds take turns;
- pipelined: the same, with several batches in flight.
"""

import io
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto import paillier_keys
from ppodc.crypto.paillier import Cipher, Ciphertexts, SecretKey, Tally
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.paillier import demand, exchange, ingest
from ppodc.kmeans.paillier.assign import assign, one_hot_sums
from ppodc.kmeans.paillier.exchange import Cloud1, Step
from ppodc.kmeans.paillier.half import IN_FLIGHT
from ppodc.kmeans.paillier.questions import Requests
from ppodc.kmeans.paillier.sbd import Bits, sbd
from ppodc.kmeans.paillier.smin_k import smin_k
from ppodc.kmeans.paillier.smp import smp
from ppodc.kmeans.paillier.ssed_op import scale, ssed_op
from ppodc.kmeans.paillier.update import Clusters, reseed, setc
from ppodc.kmeans.reference import nearest
from ppodc.kmeans.widths import Widths, check_paillier, clamp_beta
from ppodc.local.pair import events, listening, start_half, write_clouds, write_uploads
from ppodc.local.pair_process import Mode, Randomisers, Setting, open_channel, open_source
from ppodc.transport.channel import Channel, Traffic

T = TypeVar("T")
MODES: tuple[Mode, ...] = ("online+offline", "online", "pipelined")
STEPS = 10  # steps that C2 serves: see `measure`
WHOLE_STEPS = 4  # and in `measure_whole`
MOST_BATCH = 4
# As the published system makes them; online they come from pools, and their origin is all one.
SOURCES: dict[Mode, Randomisers] = {
    "online+offline": "power", "online": "fixed-base", "pipelined": "fixed-base",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured: the parameters, some records of the m, and the clusters they meet."""

    params: Parameters
    key_bits: int
    records: NDArray[np.int64]
    sums: NDArray[np.int64]
    sizes: NDArray[np.int64]
    batch: int

    @property
    def widths(self) -> Widths:
        return check_paillier(self.params, self.key_bits)


@dataclass(slots=True)
class Sample:
    """What one step cost: wall time, C1's tally and traffic; C2's tally is added at the end."""

    seconds: float
    tally: Tally
    traffic: Traffic
    questions: int


@dataclass(slots=True)
class Bench:
    """C1's end of a measurement."""

    c1: Cloud1
    channel: Channel
    requests: Requests
    in_flight: int
    samples: dict[str, Sample] = field(default_factory=dict)

    def step(self, name: str, steps: Iterable[Step[T]]) -> list[T]:
        """Run one step for all batches and note its cost."""
        tally, traffic = self.c1.cipher.tally.snapshot(), self.channel.traffic.snapshot()
        started = time.perf_counter()
        results = exchange.run(steps, self.requests, self.in_flight)
        seconds = time.perf_counter() - started
        moved = self.channel.traffic - traffic
        self.samples[name] = Sample(
            seconds, self.c1.cipher.tally - tally, moved, moved.messages_sent
        )
        self.requests.finish()
        return results


def batch_of(records: int) -> int:
    """Records that go through a step together: pipelining needs IN_FLIGHT batches to show."""
    return max(1, min(MOST_BATCH, records // IN_FLIGHT))


def make_case(m: int, l: int, k: int, key_bits: int, records: int) -> Case:
    """Synthetic records around k centres, and the clusters that all m of them form."""
    if not 2 <= k <= m or l < 1:
        raise InputError(f"m = {m}, l = {l}, k = {k}: use 2 to m clusters, at least one attribute.")
    g = np.random.default_rng(5)
    ub = 1000
    middles = g.integers(0, ub + 1, (k, l))
    spread = g.normal(0, ub / 8, (m, l))
    data = np.clip(middles[g.integers(0, k, m)] + spread, 0, ub).astype(np.int64)
    _, first = np.unique(data, axis=0, return_index=True)
    if len(first) < k:
        raise InputError(f"{m} records with {l} attribute(s) are too few for {k} clusters.")
    start = data[np.sort(first)[:k]]  # equal ones would leave a cluster empty
    labels = nearest(data, start, np.ones(k, dtype=np.int64))
    sums = np.array([data[labels == h].sum(axis=0) for h in range(k)], dtype=np.int64)
    sizes = np.bincount(labels, minlength=k).astype(np.int64)
    params = Parameters(m, l, k, ub, Fraction(0))
    some = data[:records]
    return Case(params, key_bits, some, sums, sizes, batch_of(len(some)))


@contextmanager
def _clouds(
    case: Case, mode: Mode, source: Randomisers, insecure: bool, steps: int, times: int
) -> Iterator[tuple[Bench, Path, SecretKey, list[dict[str, int]]]]:
    """C2 as a process, C1 as this one, with filled pools; C1's folder; C2's key and tallies.

    C2 serves so many steps; the pools are filled for so many `times` an iteration.
    """
    p = case.params
    needed = demand.iteration(p, case.key_bits, len(case.records), case.batch) * times
    needed += demand.ingest(p, len(case.records)) + demand.Demand(2000, 2000)
    setting = Setting(
        1, p.m, p.l, p.k, p.ub, str(p.beta), 1, 1, labels=False,
        mode=mode, randomisers=source, insecure_key=insecure, batch=case.batch, pool=needed.c1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as folder:
        cloud1, cloud2 = Path(folder, "cloud1"), Path(folder, "cloud2")
        write_clouds(cloud1, cloud2, setting, case.key_bits)
        write_uploads(cloud1, cloud2, [case.records], None)
        theirs = msgspec.structs.replace(setting, role=2, pool=needed.c2, serve_steps=steps)
        (cloud2 / "half.json").write_bytes(msgspec.json.encode(theirs))
        secret = paillier_keys.load_secret(cloud2 / "paillier.key", allow_insecure=insecure)
        tallies: list[dict[str, int]] = []
        with start_half(cloud2) as process:
            endpoint = listening(process, cloud2)
            with open_channel(cloud1, setting, endpoint) as channel:
                with redirect_stdout(io.StringIO()):  # its words are for a parent process
                    randomisers = open_source(cloud1, setting, secret.public, None)
                c1 = Cloud1(Cipher(secret.public, randomisers))
                in_flight = IN_FLIGHT if mode == "pipelined" else 1
                yield Bench(c1, channel, Requests(channel), in_flight), cloud1, secret, tallies
                tallies += [t["tally"] for t in events(process) if t["event"] == "served"]


def measure(
    case: Case, mode: Mode, source: Randomisers, *, insecure: bool = False
) -> dict[str, Sample]:
    """Every step of an iteration over the records, primitive by primitive, then as a whole."""
    w, p = case.widths, case.params
    with _clouds(case, mode, source, insecure, STEPS, 3) as (bench, cloud1, secret, tallies):
        c1 = bench.c1
        rows = range(0, len(case.records), case.batch)
        batches = _batches(c1, case)
        bits = [c1.cipher.encrypt(np.arange(len(b[0]) * p.l) % 2) for b in batches]
        old = _clusters(c1, case)
        (scaled,) = bench.step("scale", [scale(c1, old.sums, old.sizes, w)])
        bench.step(
            "SMP",
            [
                smp(c1, bit, Ciphertexts.concat(list(b)), w.value)
                for bit, b in zip(bits, batches, strict=True)
            ],
        )
        distances = bench.step("SSED_OP", (ssed_op(c1, b, scaled, w) for b in batches))
        numbers = bench.step("SBD", (sbd(c1, d, w.distance) for d in distances))
        minima = bench.step("SMIN_k", (smin_k(c1, _by_cluster(n, p.k)) for n in numbers))
        sums = bench.step(
            "sums",
            (one_hot_sums(c1, b, gamma, w) for b, (gamma, _) in zip(batches, minima, strict=True)),
        )
        whole = bench.step("record", (assign(c1, b, scaled, w) for b in batches))
        _check(case, secret, [sums, [assigned.sums for assigned in whole]])
        bench.step("reseed", [reseed(c1, old, old, w)])
        bench.step("stop test", [setc(c1, old, old, clamp_beta(p), w)])
        share = np.load(cloud1 / "share-000.npy", allow_pickle=False)
        bench.step(
            "ingest",
            (ingest.ingest(c1, "all", i, share[i : i + case.batch]) for i in rows),
        )
    for sample, theirs in zip(bench.samples.values(), tallies, strict=True):
        sample.tally += Tally(**theirs)
    return bench.samples


def measure_whole(
    case: Case, mode: Mode, source: Randomisers, *, insecure: bool = False
) -> dict[str, Sample]:
    """The steps of an iteration, each for all batches: scale, record, reseed, stop test."""
    w, p = case.widths, case.params
    with _clouds(case, mode, source, insecure, WHOLE_STEPS, 1) as (bench, _, secret, tallies):
        c1 = bench.c1
        batches, old = _batches(c1, case), _clusters(c1, case)
        (scaled,) = bench.step("scale", [scale(c1, old.sums, old.sizes, w)])
        whole = bench.step("record", (assign(c1, b, scaled, w) for b in batches))
        _check(case, secret, [[assigned.sums for assigned in whole]])
        bench.step("reseed", [reseed(c1, old, old, w)])
        bench.step("stop test", [setc(c1, old, old, clamp_beta(p), w)])
    for sample, theirs in zip(bench.samples.values(), tallies, strict=True):
        sample.tally += Tally(**theirs)
    return bench.samples


def _batches(c1: Cloud1, case: Case) -> list[list[Ciphertexts]]:
    rows = range(0, len(case.records), case.batch)
    return [_encrypt_columns(c1, case.records[i : i + case.batch]) for i in rows]


def _clusters(c1: Cloud1, case: Case) -> Clusters:
    return Clusters(_encrypt_columns(c1, case.sums), c1.cipher.encrypt(case.sizes.tolist()))


def _encrypt_columns(c1: Cloud1, table: NDArray[np.int64]) -> list[Ciphertexts]:
    return [c1.cipher.encrypt(column) for column in table.T.tolist()]


def _by_cluster(bits: Bits, k: int) -> list[Bits]:
    rows = len(bits[0]) // k
    return [[bit[h * rows : (h + 1) * rows] for bit in bits] for h in range(k)]


def _check(case: Case, secret: SecretKey, found: list[list[Ciphertexts]]) -> None:
    """The sums must be those of plaintext k-means, or the times mean nothing."""
    labels = nearest(case.records, case.sums, case.sizes)
    expected = []
    for h in range(case.params.k):
        chosen = case.records[labels == h]
        expected += [*chosen.sum(axis=0).tolist(), len(chosen)]
    for batches in found:
        opened = [secret.decrypt(batch) for batch in batches]
        total = [int(sum(column)) for column in zip(*opened, strict=True)]
        if total != expected:
            raise PpodcError("the measured protocol gave other sums than plaintext k-means.")
