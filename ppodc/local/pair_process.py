"""One cloud of a local pair, as a process of its own: `python -m ppodc.local.pair_process FOLDER`.

Its folder holds all that this cloud may know: its CURVE key and the other's public key, its part
of the Paillier key, its shares, the public facts of the job. It runs the whole job and leaves its
share of the result there. A program that does other work over such a folder (a measurement) hands
that work to `main`.

The process prints JSON lines for its starter: where it listens, and its progress.
"""

import hashlib
import json
import secrets
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto import paillier_keys
from ppodc.crypto.paillier import PublicKey, SecretKey
from ppodc.crypto.split_paillier import KeyShare
from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.kmeans.half import Half
from ppodc.kmeans.parameters import Parameters, Products, Supplies
from ppodc.kmeans.suites import Mode, Role, Suite, open_half
from ppodc.mpc.session_secrets import SEED_BYTES
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.progress import Event
from ppodc.pairs.recording import Recorder, Recording
from ppodc.pairs.shards import cut
from ppodc.pairs.walk import OpenHalf, Walk, Walker
from ppodc.records.result_shares import (
    OutputShare,
    ResultShare,
    modulus_from_bytes,
    modulus_to_bytes,
)
from ppodc.records.sharing import mask
from ppodc.service.sealed_uploads import Sealed
from ppodc.spec import Spec
from ppodc.transport import curve_keys, zmq_session
from ppodc.transport.channel import Channel

OWN_ERROR, LINK_ERROR = 2, 3  # exit statuses: the second may be a consequence of the other's end
SETTING, SPEC, RESULT, SEEDS = "setting.json", "spec.json", "result.json", "seeds.json"
_MEETING_SECONDS = 60.0
_PATIENCE = 3600.0  # the other may still fill its pools; a dead one is noticed in seconds


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """setting.json: public facts from which a half is opened; equal at both clouds but for `role`.

    The mode says where randomness comes from. online+offline makes it when needed; online and
    pipelined make that of the first iteration ahead. pipelined also overlaps the clouds' work, in
    the paillier suite.
    """

    role: Role
    suite: Suite
    m: int
    l: int
    k: int
    ub: int
    beta: str
    min_size: int = 1
    mode: Mode = "pipelined"
    insecure_key: bool = False
    products: Products = "auto"
    audit: bool = False  # each half keeps a record, as for an auditor
    supplies: Supplies = "extension"
    split_key: bool = False  # each cloud has a share of the Paillier key

    @property
    def params(self) -> Parameters:
        beta = Fraction(self.beta)
        return Parameters(
            self.m, self.l, self.k, self.ub, beta, self.min_size, products=self.products,
            supplies=self.supplies,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LocalCloud:
    """One cloud at work: what its folder holds, and its channel to the other."""

    folder: Path
    setting: Setting
    channel: Channel
    recorder: Recorder | None = None

    def key(self) -> PublicKey | SecretKey | KeyShare:
        """The key of the paillier suite: public at C1 and secret at C2, or a share at each."""
        weak, share = self.setting.insecure_key, self.folder / "paillier.share"
        if self.setting.split_key:
            return paillier_keys.load_share(share, self.setting.role, allow_insecure=weak)
        if self.setting.role == 1:
            return paillier_keys.load_public(self.folder / "paillier.pub", allow_insecure=weak)
        return paillier_keys.load_secret(self.folder / "paillier.key", allow_insecure=weak)

    def half(self, pools: Path | None = None) -> Half:
        """This cloud's half of the protocols; the other cloud must open its own."""
        setting = self.setting
        drawn = None if self.recorder is None else self.recorder.attach(self.channel)
        return open_half(
            setting.suite,
            setting.role,
            self.channel,
            setting.params,
            Material(self.key() if setting.suite == "paillier" else None, pools, drawn),
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
            yield LocalCloud(folder, setting, channel, _recorder(folder, setting))
        return
    with zmq_session.listen("tcp://127.0.0.1:0", own, [peer], timeout=_PATIENCE) as listener:
        tell(event="listening", endpoint=listener.endpoint)
        with closing(listener.accept(_MEETING_SECONDS, hello)) as channel:
            yield LocalCloud(folder, setting, channel, _recorder(folder, setting))


def _recorder(folder: Path, setting: Setting) -> Recorder | None:
    if not setting.audit:
        return None
    return Recorder(Recording(secrets.token_bytes(SEED_BYTES), str(folder / "audit.record")))


def _load_setting(folder: Path) -> Setting:
    try:
        return msgspec.json.decode((folder / SETTING).read_bytes(), type=Setting)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(
            f"{folder / SETTING} cannot be used ({error}); `ppodc run-pair` makes such folders."
        ) from None


def _hello(folder: Path, setting: Setting) -> dict[str, str]:
    """Facts that both clouds must have alike."""
    job = msgspec.structs.replace(setting, role=1)
    spec = folder / SPEC
    digest = hashlib.sha256(spec.read_bytes()).hexdigest() if spec.exists() else "none"
    return {"suite": setting.suite, "job": repr(job), "spec": digest}


def run_job(cloud: LocalCloud) -> None:
    """The job of the folder's spec; leaves this cloud's share of the result in the folder."""
    spec, setting = Spec.from_bytes((cloud.folder / SPEC).read_bytes()), cloud.setting
    pools = None if setting.mode == "online+offline" else cloud.folder / "pools"
    rows, sealed = partial(cut, cloud.share()), Sealed(setting.m, spec.digest, ())
    with closing(cloud.half(pools)) as half:
        at = [OpenHalf(cloud.channel, half)]
        if pools is not None:
            Walker(Walk(spec, sealed, prepare=1), at, rows, _tell_progress).advance()
        save_result(cloud.folder, Walker(Walk(spec, sealed), at, rows, _tell_progress).run())


def _tell_progress(event: Event) -> None:
    tell(event="progress", **asdict(event))


def save_result(folder: Path, share: ResultShare) -> None:
    """Keep a cloud's share of a result: `result.json`, and a file for each output."""
    names = {"halves": list(share.halves), "row_halves": list(share.row_halves)}
    (folder / RESULT).write_text(json.dumps({"facts": share.facts, **names}))
    for name, half in {**share.halves, **share.row_halves}.items():
        save_half(folder / name, half)


def load_result(folder: Path) -> ResultShare:
    """The share of a result that `save_result` kept."""
    kept = json.loads((folder / RESULT).read_text())
    halves, rows = (
        {name: load_half(folder / name) for name in kept[of]} for of in ("halves", "row_halves")
    )
    return ResultShare(kept["facts"], halves, rows)


def save_half(stem: Path, half: OutputShare) -> None:
    """Keep half of an output as STEM.npz."""
    modulus = np.frombuffer(modulus_to_bytes(half.modulus), np.uint8)
    np.savez(stem.with_suffix(".npz"), modulus=modulus, data=half.data)


def load_half(stem: Path) -> OutputShare:
    """The half of an output that `save_half` kept."""
    with np.load(stem.with_suffix(".npz"), allow_pickle=False) as kept:
        return OutputShare(modulus_from_bytes(kept["modulus"].tobytes()), kept["data"])


if __name__ == "__main__":
    main(run_job)
