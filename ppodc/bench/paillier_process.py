"""A cloud of the paillier suite under measurement: `python -m ppodc.bench.paillier_process FOLDER`.

C1 runs the steps of an iteration one by one and tells what each took; C2 serves them and tells its
operations. The distances of SSED_OP are what SBD decomposes, its bits are what SMIN_k compares; the
encrypted sums at the end stay in C1's folder for whoever has the key.
"""

import time
from collections.abc import Iterable
from functools import reduce
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.bench.paillier_steps import CASE, ORDER, SUMS, Case, Order, Sample
from ppodc.crypto.paillier import Cipher, Ciphertexts, PublicKey, RandomiserSource, SecretKey
from ppodc.crypto.randomisers import FreshRandomisers, PooledRandomisers, PowerRandomisers
from ppodc.kmeans.paillier import demand, exchange
from ppodc.kmeans.paillier.assign import assign, one_hot_sums
from ppodc.kmeans.paillier.exchange import Cloud1, Step
from ppodc.kmeans.paillier.half import IN_FLIGHT, Half2
from ppodc.kmeans.paillier.ingest import ingest
from ppodc.kmeans.paillier.questions import Requests
from ppodc.kmeans.paillier.sbd import Bits, sbd
from ppodc.kmeans.paillier.smin_k import smin_k
from ppodc.kmeans.paillier.smp import smp
from ppodc.kmeans.paillier.ssed_op import scale, ssed_op
from ppodc.kmeans.paillier.update import Clusters, reseed, setc
from ppodc.kmeans.widths import clamp_beta
from ppodc.local.pair_process import LocalCloud, main, tell

T = TypeVar("T")
_WHOLE = 4  # steps of an iteration, and
_PRIMITIVES = 6  # of its parts once more: see `_Lead`
_SPARE = 2000  # randomisers for what the steps start from
_SHARD = "all"


def work(cloud: LocalCloud) -> None:
    """C1 leads, C2 answers."""
    order = msgspec.json.decode((cloud.folder / ORDER).read_bytes(), type=Order)
    key = cloud.key()
    public = key.public if isinstance(key, SecretKey) else key
    with np.load(cloud.folder / CASE, allow_pickle=False) as kept:
        tables = kept["records"], kept["sums"], kept["sizes"]
    case = Case(cloud.setting.params, public.bits, *tables, order.batch)
    randomisers = _randomisers(cloud, case, order, public)
    if isinstance(key, SecretKey):
        half = Half2(cloud.channel, case.params, key, randomisers)
        half.c2.shares[_SHARD] = cloud.share()
        for _ in range(_WHOLE if order.whole else _WHOLE + _PRIMITIVES):
            before = half.c2.cipher.tally.snapshot()
            half.serve()
            tell(tally=(half.c2.cipher.tally - before).as_dict())
        return
    sums = _Lead(cloud, case, Cloud1(Cipher(public, randomisers))).run(whole=order.whole)
    np.save(cloud.folder / SUMS, sums.to_array())


def _randomisers(
    cloud: LocalCloud, case: Case, order: Order, public: PublicKey
) -> RandomiserSource:
    """As the mode says: made when needed, or now, for an iteration and once more for its parts."""
    key = cloud.key()
    secret = key if isinstance(key, SecretKey) else None
    power = order.source == "power"
    source = PowerRandomisers(public) if power else FreshRandomisers(public, secret)
    if cloud.setting.mode == "online+offline":
        return source
    rows = len(case.records)
    times = 1 if order.whole else 3
    needed = demand.iteration(case.params, public.bits, [rows], case.batch) * times
    needed += demand.ingest(case.params, rows) + demand.Demand(_SPARE, _SPARE)
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
            share = np.load(self._cloud.folder / "share-000.npy", allow_pickle=False)
            self._step("ingest", (ingest(c1, _SHARD, i, share[i : i + case.batch]) for i in rows))
        return Ciphertexts.concat([reduce(c1.cipher.add, total) for total in totals])

    def _products(self, batches: list[list[Ciphertexts]]) -> None:
        """SMP of a bit and each value."""
        c1, w = self._c1, self._case.widths
        values = [Ciphertexts.concat(batch) for batch in batches]
        bits = [c1.cipher.encrypt(np.arange(len(batch)) % 2) for batch in values]
        self._step("SMP", [smp(c1, a, b, w.value) for a, b in zip(bits, values, strict=True)])

    def _step(self, name: str, steps: Iterable[Step[T]]) -> list[T]:
        """The results of one step, whose cost is told."""
        tally, traffic = self._c1.cipher.tally.snapshot(), self._channel.traffic.snapshot()
        started = time.perf_counter()
        results = exchange.run(steps, self._requests, self._in_flight)
        seconds = time.perf_counter() - started
        moved = self._channel.traffic - traffic
        sample = Sample(seconds, self._c1.cipher.tally - tally, moved, moved.messages_sent)
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
