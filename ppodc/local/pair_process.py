"""One cloud of a local pair, as a process of its own: `python -m ppodc.local.pair_process FOLDER`.

Its folder holds all that this cloud may know: its CURVE key and the other's public key, its part
of the Paillier key, its shares, the public facts of the job. It runs the whole job and leaves its
half of the result there. A program that does other work over such a folder (a measurement) hands
that work to `main`.

What the process prints are JSON lines for whoever started it: where it listens, how far it is.
"""

import hashlib
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto import paillier_keys
from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.kmeans.half import Half, Parameters, Products, Round, State, iterate
from ppodc.kmeans.result import CLUSTERS, LABELS
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.kmeans.suites import Mode, Role, Suite, open_half
from ppodc.pairs.plan import Material
from ppodc.records.output_half import OutputHalf, modulus_from_bytes, modulus_to_bytes
from ppodc.records.sharing import mask
from ppodc.transport import curve_keys, zmq_session
from ppodc.transport.channel import Channel

OWN_ERROR, LINK_ERROR = 2, 3  # exit statuses: the second may be a consequence of the other's end
SETTING, RESULT, SEEDS, CENTRES = "setting.json", "result.json", "seeds.json", "centres.npy"
_SHARD = "all"
_MEETING_SECONDS = 60.0
_PATIENCE = 3600.0  # the other may still fill its pools; a dead one is noticed in seconds


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """setting.json: the public facts of the job; the same at both clouds but for `role`.

    The mode says where randomness comes from: online+offline makes it when needed; online and
    pipelined have that of the first iteration made ahead, and pipelined overlaps the clouds' work
    (in the paillier suite).
    """

    role: Role
    suite: Suite
    m: int
    l: int
    k: int
    ub: int
    beta: str
    max_iter: int = 1
    seed: int = 0
    labels: bool = False
    min_size: int = 1
    mode: Mode = "pipelined"
    insecure_key: bool = False
    products: Products = "auto"

    @property
    def params(self) -> Parameters:
        beta = Fraction(self.beta)
        return Parameters(
            self.m, self.l, self.k, self.ub, beta, self.min_size, products=self.products
        )


@dataclass(frozen=True, slots=True)
class LocalCloud:
    """One cloud at work: what its folder holds, and its channel to the other."""

    folder: Path
    setting: Setting
    channel: Channel

    def key(self) -> PublicKey | SecretKey:
        """C2's Paillier key: public at C1, secret at C2."""
        weak = self.setting.insecure_key
        if self.setting.role == 1:
            return paillier_keys.load_public(self.folder / "paillier.pub", allow_insecure=weak)
        return paillier_keys.load_secret(self.folder / "paillier.key", allow_insecure=weak)

    def half(self, pools: Path | None = None) -> Half:
        """This cloud's half of the protocols; the other cloud must open its own."""
        setting = self.setting
        return open_half(
            setting.suite,
            setting.role,
            self.channel,
            setting.params,
            Material(self.key(), pools),
            pipelined=setting.mode == "pipelined",
        )

    def share(self) -> NDArray[np.uint64]:
        """All owners' shares, one behind the other."""
        return np.concatenate(list(self.shares()))

    def shares(self) -> Iterator[NDArray[np.uint64]]:
        """The owners' shares, one after the other: from arrays at C1, from seeds at C2."""
        if self.setting.role == 1:
            for file in sorted(self.folder.glob("share-*.npy")):
                yield np.load(file, allow_pickle=False)
            return
        for upload in json.loads((self.folder / SEEDS).read_text()):
            yield mask(bytes.fromhex(upload["seed"]), 0, upload["rows"], self.setting.l)


Work = Callable[[LocalCloud], None]


def tell(**event: Any) -> None:
    """One event to the process that started this one."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(work: Work) -> None:
    """Do the work as the cloud whose folder the command names; an error ends it in one line."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        with _meet(Path(sys.argv[1])) as cloud:
            work(cloud)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except (PpodcError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(LINK_ERROR if isinstance(error, ChannelError) else OWN_ERROR)


@contextmanager
def _meet(folder: Path) -> Iterator[LocalCloud]:
    """With the authenticated channel: C2 listens, C1 reads C2's endpoint from its input."""
    setting = _load_setting(folder)
    own = curve_keys.CurveKeys.load(folder / "curve")
    peer = curve_keys.load_public(folder / "peer.public")
    hello = _hello(folder, setting)
    channel: Channel
    if setting.role == 1:
        endpoint = sys.stdin.readline().strip()
        channel = zmq_session.connect(
            endpoint, own, peer, hello=hello, timeout=_MEETING_SECONDS, receive_timeout=_PATIENCE
        )
        with closing(channel):
            yield LocalCloud(folder, setting, channel)
        return
    with zmq_session.listen("tcp://127.0.0.1:0", own, [peer], timeout=_PATIENCE) as listener:
        tell(event="listening", endpoint=listener.endpoint)
        with closing(listener.accept(_MEETING_SECONDS, hello)) as channel:
            yield LocalCloud(folder, setting, channel)


def _load_setting(folder: Path) -> Setting:
    try:
        return msgspec.json.decode((folder / SETTING).read_bytes(), type=Setting)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(
            f"{folder / SETTING} cannot be used ({error}); `ppodc run-pair` makes such folders."
        ) from None


def _hello(folder: Path, setting: Setting) -> dict[str, str]:
    """What both clouds must say alike."""
    job = msgspec.structs.replace(setting, role=1)
    centres = folder / CENTRES
    start = hashlib.sha256(centres.read_bytes()).hexdigest() if centres.exists() else "random"
    return {"suite": setting.suite, "job": repr(job), "start": start}


class _Teller:
    """Tells how far a phase of the job is, in records; called with each further part of `work`."""

    def __init__(self, phase: str, rows: int, iteration: int = 0, work: int | None = None) -> None:
        self._facts = {"phase": phase, "iteration": iteration, "rows": rows}
        self._rows, self._work = rows, max(1, rows if work is None else work)
        self._done = 0
        self(0)

    def __call__(self, more: int) -> None:
        self._done += more
        tell(event="progress", done=self._rows * self._done // self._work, **self._facts)


def run_job(cloud: LocalCloud) -> None:
    """The whole job; ends with this cloud's half of the result in its folder."""
    setting = cloud.setting
    pools = None if setting.mode == "online+offline" else cloud.folder / "pools"
    with closing(cloud.half(pools)) as half:
        if pools is not None:
            half.prepare(1, _Teller("prepare", setting.m, work=half.to_prepare(1)))
        taking_in = _Teller("ingest", setting.m)
        half.ingest(_SHARD, cloud.share())
        taking_in(setting.m)
        last = _last_round(half, setting, _start(half, cloud))
        save_half(cloud.folder / CLUSTERS, half.output(last.sums))
        if setting.labels:
            save_half(cloud.folder / LABELS, half.labels(_SHARD))
    facts = {"n_iter": last.iteration, "converged": last.stop}
    (cloud.folder / RESULT).write_text(json.dumps(facts))


def _start(half: Half, cloud: LocalCloud) -> State:
    centres, setting = cloud.folder / CENTRES, cloud.setting
    if centres.exists():
        return half.centres(np.load(centres, allow_pickle=False))
    return half.records(_SHARD, initial_rows(setting.seed, setting.m, setting.k))


def _last_round(half: Half, setting: Setting, start: State) -> Round[State]:
    """What the last iteration leaves."""
    m, k, seed = setting.m, setting.k, setting.seed
    done = 0

    def assign(clusters: State) -> State:
        return half.assign(_SHARD, clusters, _Teller("assign", m, done + 1))

    def candidates(iteration: int) -> State:
        return half.records(_SHARD, reseed_rows(seed, iteration, m, k))

    for last in iterate(start, assign, half.update, candidates, setting.max_iter):
        done = last.iteration
    return last


def save_half(stem: Path, half: OutputHalf) -> None:
    """Keep half of an output as STEM.npz."""
    modulus = np.frombuffer(modulus_to_bytes(half.modulus), np.uint8)
    np.savez(stem.with_suffix(".npz"), modulus=modulus, data=half.data)


def load_half(stem: Path) -> OutputHalf:
    """What `save_half` kept."""
    with np.load(stem.with_suffix(".npz"), allow_pickle=False) as kept:
        return OutputHalf(modulus_from_bytes(kept["modulus"].tobytes()), kept["data"])


if __name__ == "__main__":
    main(run_job)
