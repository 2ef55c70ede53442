"""An iteration of the paillier suite step by step, measured between two processes.

Real records go through the real protocol, and the sums at the end are checked against plaintext.
Each process is `python -m ppodc.bench.kmeans.paillier_steps FOLDER`. C1 runs the steps one by one
and reports the cost of each. C2 serves them and reports its operations. SBD decomposes the
distances of SSED_OP, and SMIN_k compares their bits. The mode decides where randomisers come from:

- online+offline: made when needed, as r^n like the published system does, or with this system's
  fixed-base tables;
- online: from pools on disk, filled before the clock starts; the clouds take turns;
- pipelined: the same, with several batches in flight.

Seconds are CPU, so that other programs do not count: of both clouds where they take turns, of the
busier one where they overlap. What a link adds to that, waiting, is left out.
"""

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import KEY_BITS, Ciphertexts, PublicKey, SecretKey, Tally
from ppodc.crypto.paillier_arithmetic import Cipher, RandomiserSource
from ppodc.crypto.randomisers import FreshRandomisers, PooledRandomisers, PowerRandomisers
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.paillier import demand, exchange
from ppodc.kmeans.paillier.assign import assign, one_hot_sums
from ppodc.kmeans.paillier.exchange import Cloud1, Cloud2, Step, StepMenu
from ppodc.kmeans.paillier.half import IN_FLIGHT
from ppodc.kmeans.paillier.ingest import ingest
from ppodc.kmeans.paillier.questions import Answers, Requests
from ppodc.kmeans.paillier.sbd import Bits, sbd
from ppodc.kmeans.paillier.smin_k import smin_k
from ppodc.kmeans.paillier.smp import smp
from ppodc.kmeans.paillier.ssed_op import scale, ssed_op
from ppodc.kmeans.paillier.update import Clusters, reseed, setc
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.reference import nearest
from ppodc.kmeans.suites import Mode
from ppodc.kmeans.widths import Widths, check_paillier, clamp_beta
from ppodc.local.pair import make_key, started, write_folders
from ppodc.local.pair_process import LocalCloud, Setting, main, tell
from ppodc.transport.channel import Traffic

T = TypeVar("T")
Randomisers = Literal["fixed-base", "power"]
MODES: tuple[Mode, ...] = get_args(Mode)
MOST_BATCH = 4
# As the published system makes them; online they come from pools, and their origin is all one.
SOURCES: dict[Mode, Randomisers] = dict.fromkeys(MODES, "fixed-base")
SOURCES["online+offline"] = "power"
_ORDER, _SUMS = "order.json", "sums.npy"  # files in the clouds' folders
_WHOLE = 4  # steps of an iteration, and
_PRIMITIVES = 6  # of its parts once more: see `_Lead`
_SPARE = 2000  # randomisers for what the steps start from
_SHARD = "all"


@dataclass(frozen=True, slots=True)
class Case:
    """Input of a measurement: parameters, some of the m records, and clusters."""

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
    """Cost of one step: C1's CPU, tally and traffic; C2's CPU and tally are joined at the end."""

    seconds: float
    tally: Tally
    traffic: Traffic


class Order(msgspec.Struct, frozen=True):
    """Order to both processes: measure each primitive, or the steps as a `whole`."""

    source: Randomisers
    records: int
    whole: bool


def batch_of(records: int) -> int:
    """Records that go through a step together: pipelining needs IN_FLIGHT batches to show."""
    return max(1, min(MOST_BATCH, records // IN_FLIGHT))


def make_case(m: int, l: int, k: int, key_bits: int, records: int) -> Case:
    """Synthetic records around k centres, and the clusters that all m form; ever the same ones."""
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


def measure(
    case: Case, mode: Mode, source: Randomisers, *, whole: bool = False
) -> dict[str, Sample]:
    """Every step of an iteration over the records, primitive by primitive unless as a `whole`.

    The samples are those of C1, in order, with the operations of C2 added to its own.
    """
    p, insecure = case.params, case.key_bits < min(KEY_BITS)
    setting = Setting(
        1, "paillier", p.m, p.l, p.k, p.ub, str(p.beta), mode=mode, insecure_key=insecure
    )
    key = make_key(case.key_bits, insecure=insecure)
    samples: dict[str, Sample] = {}
    served: list[tuple[Tally, float]] = []
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place:
        folders = write_folders(Path(place), setting, key, [case.records])
        order = msgspec.json.encode(Order(source, len(case.records), whole))
        for folder in folders:
            (folder / _ORDER).write_bytes(order)
        with started(folders, "ppodc.bench.kmeans.paillier_steps") as pair:
            for role, event in pair.events():
                if role == 1:
                    samples[event["step"]] = msgspec.convert(event["sample"], Sample)
                else:
                    served.append((Tally(**event["tally"]), event["seconds"]))
        _check(case, key, np.load(folders[0] / _SUMS, allow_pickle=False))
    joined = max if mode == "pipelined" else add
    for sample, (tally, seconds) in zip(samples.values(), served, strict=True):
        sample.tally += tally
        sample.seconds = joined(sample.seconds, seconds)
    return samples


def _check(case: Case, key: SecretKey, found: NDArray[Any]) -> None:
    """The sums must be those of plaintext k-means, or the times mean nothing."""
    labels = nearest(case.records, case.sums, case.sizes)
    expected = []
    for h in range(case.params.k):
        chosen = case.records[labels == h]
        expected += [*chosen.sum(axis=0).tolist(), len(chosen)]
    opened = key.decrypt(Ciphertexts.from_array(key.public, found))
    if len(opened) % len(expected) or opened != expected * (len(opened) // len(expected)):
        raise PpodcError("the measured protocol gave other sums than plaintext k-means.")


# ------------------------------------------------------------- a cloud under measurement


def work(cloud: LocalCloud) -> None:
    """C1 leads, C2 answers."""
    order = msgspec.json.decode((cloud.folder / _ORDER).read_bytes(), type=Order)
    key = cloud.key()
    public = key if isinstance(key, PublicKey) else key.public
    job = cloud.setting
    case = make_case(job.m, job.l, job.k, public.bits, order.records)
    randomisers = _randomisers(cloud, case, order, public)
    if not isinstance(key, PublicKey):
        _serve(cloud, Cloud2(Cipher(public, randomisers), key), order)
        return
    sums = _Lead(cloud, case, Cloud1(Cipher(public, randomisers))).run(whole=order.whole)
    np.save(cloud.folder / _SUMS, sums.to_array())


def _serve(cloud: LocalCloud, c2: Cloud2, order: Order) -> None:
    """C2: answer every question of every step."""
    c2.shares[_SHARD] = cloud.share()
    menu = StepMenu("a measurement", frozenset(exchange.MENU))
    answers = Answers(cloud.channel, lambda *question: exchange.answer(c2, menu, *question))
    for _ in range(_WHOLE if order.whole else _WHOLE + _PRIMITIVES):
        before, began = c2.cipher.tally.snapshot(), time.process_time()
        answers.serve()
        spent = time.process_time() - began
        tell(tally=(c2.cipher.tally - before).as_dict(), seconds=spent)


def _randomisers(
    cloud: LocalCloud, case: Case, order: Order, public: PublicKey
) -> RandomiserSource:
    """Return the randomisers of the mode: made when needed, or a pool for all steps, filled now."""
    key = cloud.key()
    secret = key if isinstance(key, SecretKey) else None
    power = order.source == "power"
    source = PowerRandomisers(public) if power else FreshRandomisers(public, secret)
    if cloud.setting.mode == "online+offline":
        return source
    rows = len(case.records)
    times = 1 if order.whole else 3
    needed = demand.iteration(case.params, public.bits, [rows], case.batch) * times
    needed += demand.ingest(case.params, public.bits, [rows], case.batch)
    needed += demand.Demand(_SPARE, _SPARE)
    pool = PooledRandomisers(cloud.folder / "randomisers", public, source)
    pool.fill(needed.of(cloud.setting.role))
    return pool


class _Lead:
    """C1: every step for all batches, with its cost."""

    def __init__(self, cloud: LocalCloud, case: Case, c1: Cloud1) -> None:
        self._cloud, self._case, self._c1 = cloud, case, c1
        self._channel, self._requests = cloud.channel, Requests(cloud.channel)
        self._in_flight = IN_FLIGHT if cloud.setting.mode == "pipelined" else 1

    def run(self, *, whole: bool) -> Ciphertexts:
        """The steps of an iteration, with its parts by themselves if not `whole`; the sums."""
        c1, case, w = self._c1, self._case, self._case.widths
        rows = range(0, len(case.records), case.batch)
        batches = [self._columns(case.records[i : i + case.batch]) for i in rows]
        old = Clusters(self._columns(case.sums), c1.cipher.encrypt(case.sizes.tolist()))
        (scaled,) = self._step("scale", [scale(c1, old.sums, old.sizes, w)])
        totals = []
        if not whole:
            self._products(batches)
            distances = self._step("SSED_OP", (ssed_op(c1, b, scaled, w) for b in batches))
            numbers = self._step("SBD", (sbd(c1, d, w.distance) for d in distances))
            k = case.params.k
            minima = self._step("SMIN_k", (smin_k(c1, _by_cluster(n, k)) for n in numbers))
            pairs = zip(batches, minima, strict=True)
            totals.append(
                self._step("sums", (one_hot_sums(c1, b, gamma, w) for b, (gamma, _) in pairs))
            )
        assigned = self._step("record", (assign(c1, b, scaled, w) for b in batches))
        totals.append([batch.sums for batch in assigned])
        self._step("reseed", [reseed(c1, old, old, w)])
        self._step("stop test", [setc(c1, old, old, clamp_beta(case.params), w)])
        if not whole:
            share = self._cloud.share()
            parts = ((i, share[i : i + case.batch]) for i in rows)
            ub = case.params.ub
            self._step("ingest", (ingest(c1, _SHARD, i, part, ub) for i, part in parts))
        return Ciphertexts.concat([reduce(c1.cipher.add, total) for total in totals])

    def _products(self, batches: list[list[Ciphertexts]]) -> None:
        """SMP of a bit and each value."""
        c1, w = self._c1, self._case.widths
        values = [Ciphertexts.concat(batch) for batch in batches]
        bits = [c1.cipher.encrypt(np.arange(len(batch)) % 2) for batch in values]
        self._step("SMP", [smp(c1, a, b, w.value) for a, b in zip(bits, values, strict=True)])

    def _step(self, name: str, steps: Iterable[Step[T]]) -> list[T]:
        """Run one step, report its cost and return its results."""
        tally, traffic = self._c1.cipher.tally.snapshot(), self._channel.traffic.snapshot()
        began = time.process_time()
        results = exchange.run(steps, self._requests, self._in_flight)
        seconds = time.process_time() - began
        sample = Sample(seconds, self._c1.cipher.tally - tally, self._channel.traffic - traffic)
        self._requests.finish()
        tell(step=name, sample=msgspec.to_builtins(sample))
        return results

    def _columns(self, table: NDArray[np.int64]) -> list[Ciphertexts]:
        return [self._c1.cipher.encrypt(column) for column in table.T.tolist()]


def _by_cluster(bits: Bits, k: int) -> list[Bits]:
    rows = len(bits[0]) // k
    return [[bit[h * rows : (h + 1) * rows] for bit in bits] for h in range(k)]


if __name__ == "__main__":
    main(work)
