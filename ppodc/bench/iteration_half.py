"""One half of a pair under measurement: `python -m ppodc.bench.iteration_half FOLDER`.

Its folder holds its keys, its share and `half.json`. It reads commands, one JSON object a line,
does them as a worker would, and answers each with a line: results, times, bytes.
"""

import base64
import json
import resource
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ppodc.crypto import paillier_keys
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.kmeans.half import Half, Parameters, State
from ppodc.transport import zmq_session
from ppodc.transport.channel import Channel
from ppodc.transport.curve_keys import CurveKeys, load_public


class Setting(msgspec.Struct, frozen=True):
    """half.json."""

    role: int
    suite: str
    m: int
    l: int
    k: int
    ub: int
    beta: str
    insecure_key: bool = False

    @property
    def params(self) -> Parameters:
        return Parameters(self.m, self.l, self.k, self.ub, Fraction(self.beta))


def dump(state: State) -> dict[str, Any]:
    """A state as JSON."""
    return {
        "dtype": state.dtype.str,
        "shape": list(state.shape),
        "data": base64.b64encode(np.ascontiguousarray(state).tobytes()).decode(),
    }


def load(value: dict[str, Any]) -> State:
    """The reverse of `dump`."""
    flat = np.frombuffer(base64.b64decode(value["data"]), value["dtype"])
    return flat.reshape(value["shape"]).copy()


class Worker:
    """A half and the commands it obeys."""

    def __init__(self, folder: Path, setting: Setting, channel: Channel) -> None:
        self.channel = channel
        self.share = np.load(folder / "share.npy", allow_pickle=False)
        self.half = _half(folder, setting, channel)
        self.meter = getattr(self.half, "meter", None)

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Do one command; what it returns is told with its time and bytes."""
        before = self.channel.traffic.snapshot()
        wall, cpu = time.perf_counter(), time.process_time()
        result = getattr(self, f"do_{order.pop('do')}")(**order)
        spent = self.channel.traffic.snapshot() - before
        return {
            "result": result,
            "wall": time.perf_counter() - wall,
            "cpu": time.process_time() - cpu,
            "bytes": spent.bytes_sent,
            "rounds": spent.rounds,
        }

    def do_ingest(self) -> None:
        self.half.ingest("part", self.share)

    def do_prepare(self, iterations: int) -> None:
        prepare = getattr(self.half, "prepare", None)
        if prepare is not None:
            prepare(iterations)

    def do_records(self, rows: list[int]) -> dict[str, Any]:
        return dump(self.half.records("part", rows))

    def do_assign(self, clusters: dict[str, Any]) -> dict[str, Any]:
        return dump(self.half.assign("part", load(clusters)))

    def do_add(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        return dump(self.half.add([load(state) for state in states]))

    def do_join(self, states: list[dict[str, Any]]) -> dict[str, Any]:
        return dump(self.half.join([load(state) for state in states]))

    def do_update(
        self, clusters: dict[str, Any], sums: dict[str, Any], candidates: dict[str, Any]
    ) -> list[Any]:
        new, stop = self.half.update(load(clusters), load(sums), load(candidates))
        return [dump(new), stop]

    def do_output(self, clusters: dict[str, Any]) -> list[Any]:
        out = self.half.output(load(clusters))
        return [str(out.modulus), [str(value) for value in out.values]]

    def do_steps(self) -> list[dict[str, Any]]:
        """Costs by step since the last call, and the peak memory."""
        if self.meter is None:
            return []
        told = [
            {
                "step": name,
                "phase": phase,
                "wall_s": cost.wall,
                "cpu_s": cost.cpu,
                "bytes": cost.bytes_sent,
                "rounds": cost.rounds,
            }
            for (phase, name), cost in self.meter.costs.items()
        ]
        self.meter.reset()
        return told

    def do_memory(self) -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _half(folder: Path, setting: Setting, channel: Channel) -> Half:
    weak = setting.insecure_key
    if setting.role == 1:
        public = paillier_keys.load_public(folder / "paillier.pub", allow_insecure=weak)
    else:
        secret = paillier_keys.load_secret(folder / "paillier.key", allow_insecure=weak)
    if setting.suite == "shares":
        from ppodc.kmeans.shares.half import SharesHalf

        key = public if setting.role == 1 else secret
        return SharesHalf(setting.role, channel, setting.params, key)
    from ppodc.kmeans.paillier.half import Half1, Half2

    if setting.role == 1:
        return Half1(channel, setting.params, public, FreshRandomisers(public))
    return Half2(channel, setting.params, secret, FreshRandomisers(secret.public, secret))


def _tell(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main(folder: Path) -> None:
    """Serve commands until the input ends."""
    setting = msgspec.json.decode((folder / "half.json").read_bytes(), type=Setting)
    own, peer = CurveKeys.load(folder / "curve"), load_public(folder / "peer.public")
    channel: Channel
    if setting.role == 2:
        listener = zmq_session.listen("tcp://127.0.0.1:0", own, [peer])
        _tell({"endpoint": listener.endpoint})
        channel = listener.accept(timeout=60)
    else:
        channel = zmq_session.connect(sys.stdin.readline().strip(), own, peer, timeout=60)
    started = time.perf_counter()
    worker = Worker(folder, setting, channel)
    _tell({"ready": time.perf_counter() - started})
    for line in sys.stdin:
        _tell(worker.obey(json.loads(line)))
    worker.half.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
