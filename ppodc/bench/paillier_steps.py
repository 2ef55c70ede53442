"""An iteration of the paillier suite step by step, measured between two processes.

`paillier_process` is what they run. Real records go through the real protocol, and the sums at the
end are checked against plaintext. A mode fixes where randomisers come from:

- online+offline: made when needed, as r^n like the published system does, or with this system's
  fixed-base tables;
- online: from pools on disk, filled before the clock starts; the clouds take turns;
- pipelined: the same, with several batches in flight.
"""

import tempfile
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import Ciphertexts, SecretKey, Tally
from ppodc.errors import InputError, PpodcError
from ppodc.kmeans.half import Parameters
from ppodc.kmeans.paillier.half import IN_FLIGHT
from ppodc.kmeans.reference import nearest
from ppodc.kmeans.suites import Mode
from ppodc.kmeans.widths import Widths, check_paillier
from ppodc.local.pair import make_key, started, write_folders
from ppodc.local.pair_process import Setting
from ppodc.transport.channel import Traffic

Randomisers = Literal["fixed-base", "power"]
MODES: tuple[Mode, ...] = get_args(Mode)
MOST_BATCH = 4
CASE, ORDER, SUMS = "case.npz", "order.json", "sums.npy"  # files in the clouds' folders
_PROGRAM = "ppodc.bench.paillier_process"
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


class Order(msgspec.Struct, frozen=True):
    """What the processes measure: each primitive, or the iteration's steps as a `whole`."""

    source: Randomisers
    batch: int
    whole: bool


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


def measure(
    case: Case, mode: Mode, source: Randomisers, *, insecure: bool = False
) -> dict[str, Sample]:
    """Every step of an iteration over the records, primitive by primitive, then as a whole."""
    return _measure(case, mode, Order(source, case.batch, whole=False), insecure)


def measure_whole(
    case: Case, mode: Mode, source: Randomisers, *, insecure: bool = False
) -> dict[str, Sample]:
    """The steps of an iteration, each for all batches: scale, record, reseed, stop test."""
    return _measure(case, mode, Order(source, case.batch, whole=True), insecure)


def _measure(case: Case, mode: Mode, order: Order, insecure: bool) -> dict[str, Sample]:
    """The samples of C1, in order, with the operations of C2 added to its own."""
    p = case.params
    setting = Setting(
        1, "paillier", p.m, p.l, p.k, p.ub, str(p.beta), mode=mode, insecure_key=insecure
    )
    key = make_key(case.key_bits, insecure=insecure)
    samples: dict[str, Sample] = {}
    served: list[Tally] = []
    with tempfile.TemporaryDirectory(prefix="ppodc-bench-") as place:
        folders = write_folders(Path(place), setting, key, [case.records])
        for folder in folders:
            np.savez(folder / CASE, records=case.records, sums=case.sums, sizes=case.sizes)
            (folder / ORDER).write_bytes(msgspec.json.encode(order))
        with started(folders, _PROGRAM) as pair:
            for role, event in pair.events():
                if role == 1:
                    samples[event["step"]] = msgspec.convert(event["sample"], Sample)
                else:
                    served.append(Tally(**event["tally"]))
        _check(case, key, np.load(folders[0] / SUMS, allow_pickle=False))
    for sample, tally in zip(samples.values(), served, strict=True):
        sample.tally += tally
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
