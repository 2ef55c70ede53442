"""One cloud's half of a job on a single pair, as a process of its own (`ppodc pair-half`).

Its folder holds all that this cloud may know: its CURVE key and the other's public key, its part
of the Paillier key, its shares, the public spec. It writes its half of the result there. What it
prints are JSON lines for whoever started it: where it listens, how far it is, how it ended.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from ppodc.crypto import paillier_keys
from ppodc.crypto.paillier import PublicKey, RandomiserSource, SecretKey
from ppodc.crypto.randomisers import FreshRandomisers, PooledRandomisers, PowerRandomisers
from ppodc.errors import InputError
from ppodc.kmeans.half import Half, Parameters, iterate
from ppodc.kmeans.paillier import demand
from ppodc.kmeans.paillier.half import BATCH, Half1, Half2
from ppodc.kmeans.row_choice import initial_rows, reseed_rows
from ppodc.records.output_half import OutputHalf
from ppodc.records.sharing import mask
from ppodc.transport import curve_keys, zmq_session
from ppodc.transport.channel import Channel

Mode = Literal["online+offline", "online", "pipelined"]
Randomisers = Literal["fixed-base", "power"]
PATIENCE = 3600.0  # the other half may still fill its pool; a dead one is noticed in seconds


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """half.json: the public facts of the job; the same at both clouds but for `role`."""

    role: Literal[1, 2]
    m: int
    l: int
    k: int
    ub: int
    beta: str
    max_iter: int
    seed: int
    labels: bool
    mode: Mode = "pipelined"
    randomisers: Randomisers = "fixed-base"
    pool: int = 0  # randomisers to make before the start (modes online and pipelined)
    batch: int = BATCH
    insecure_key: bool = False
    serve_steps: int = 0  # C2 in a benchmark: answer so many steps, tell their costs, and end

    @property
    def params(self) -> Parameters:
        return Parameters(self.m, self.l, self.k, self.ub, Fraction(self.beta))


class Revealed(msgspec.Struct, frozen=True):
    """result.json: this cloud's half of what the owners may know."""

    n_iter: int
    converged: bool
    modulus: str
    values: list[str]
    label_modulus: str
    labels: list[str]


def tell(**event: Any) -> None:
    """One event to the process that started this one."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(folder: Path) -> None:
    """Run the half whose folder this is; C2 listens, C1 reads C2's endpoint from its input."""
    setting = load_setting(folder)
    if setting.role == 1:
        key = paillier_keys.load_public(
            folder / "paillier.pub", allow_insecure=setting.insecure_key
        )
        source = open_source(folder, setting, key, None)
        with open_channel(folder, setting, sys.stdin.readline().strip()) as channel:
            pipelined = setting.mode == "pipelined"
            half = Half1(
                channel, setting.params, key, source, pipelined=pipelined, batch=setting.batch
            )
            run(half, setting, folder)
        return
    secret = paillier_keys.load_secret(folder / "paillier.key", allow_insecure=setting.insecure_key)
    source = open_source(folder, setting, secret.public, secret)
    with open_channel(folder, setting) as channel:
        answering = Half2(channel, setting.params, secret, source)
        if setting.serve_steps:
            answering.c2.shares["all"] = load_share(folder, setting)
            serve(answering, setting.serve_steps)
        else:
            run(answering, setting, folder)


def load_setting(folder: Path) -> Setting:
    try:
        return msgspec.json.decode((folder / "half.json").read_bytes(), type=Setting)
    except (OSError, msgspec.DecodeError) as error:
        raise InputError(f"{folder / 'half.json'} cannot be used: {error}") from None


@contextmanager
def open_channel(folder: Path, setting: Setting, endpoint: str = "") -> Iterator[Channel]:
    """The authenticated channel to the other cloud; C1 connects to `endpoint`, C2 listens."""
    own = curve_keys.CurveKeys.load(folder / "curve")
    peer = curve_keys.load_public(folder / "peer.public")
    job = msgspec.structs.replace(setting, role=1, pool=0, serve_steps=0)
    centres = folder / "centres.npy"
    start = hashlib.sha256(centres.read_bytes()).hexdigest() if centres.exists() else "random"
    hello = {"suite": "paillier", "job": repr(job), "start": start}
    if setting.role == 1:
        channel = zmq_session.connect(endpoint, own, peer, hello=hello, receive_timeout=PATIENCE)
        try:
            yield channel
        finally:
            channel.close()
        return
    with zmq_session.listen("tcp://127.0.0.1:0", own, [peer], timeout=PATIENCE) as listener:
        tell(event="listening", endpoint=listener.endpoint)
        channel = listener.accept(PATIENCE, hello)
        try:
            yield channel
        finally:
            channel.close()


def open_source(
    folder: Path, setting: Setting, public: PublicKey, secret: SecretKey | None
) -> RandomiserSource:
    """Where this half's randomisers come from, as the mode says; fills the pool if there is one."""
    fresh: RandomiserSource
    if setting.randomisers == "power":
        fresh = PowerRandomisers(public)
    else:
        fresh = FreshRandomisers(public, secret)
    if setting.mode == "online+offline":
        return fresh
    count = setting.pool or _demand(setting, public.bits)
    pooled = PooledRandomisers(folder / "randomisers", public, fresh)
    pooled.fill(count, lambda _: tell(event="prepared", done=pooled.available, total=count))
    return pooled


def _demand(setting: Setting, key_bits: int) -> int:
    """Enough for taking in the records and one iteration; later ones are made when needed."""
    p = setting.params
    needed = demand.ingest(p, p.m) + demand.iteration(p, key_bits, p.m, setting.batch)
    return needed.c1 if setting.role == 1 else needed.c2


def load_share(folder: Path, setting: Setting) -> NDArray[np.uint64]:
    """All owners' shares, one behind the other: arrays at C1, seeds at C2."""
    if setting.role == 1:
        files = sorted(folder.glob("share-*.npy"))
        parts = [np.load(file, allow_pickle=False) for file in files]
    else:
        uploads = json.loads((folder / "seeds.json").read_text())
        parts = [mask(bytes.fromhex(u["seed"]), 0, u["rows"], setting.l) for u in uploads]
    return np.concatenate(parts)


def serve(half: Half2, steps: int) -> None:
    """C2's side of a benchmark: the costs of each step of C1."""
    tally = half.c2.cipher.tally
    for _ in range(steps):
        before = tally.snapshot()
        half.serve()
        tell(event="served", tally=(tally - before).as_dict())


def run(half: Half, setting: Setting, folder: Path) -> None:
    """The whole job; ends with result.json."""
    m, k, seed = setting.m, setting.k, setting.seed
    half.ingest("all", load_share(folder, setting))
    tell(event="ingested", rows=m)
    centres = folder / "centres.npy"
    if centres.exists():
        start = half.centres(np.load(centres, allow_pickle=False))
    else:
        start = half.records("all", initial_rows(seed, m, k))
    last = None
    for last in iterate(
        half,
        "all",
        start,
        lambda i: half.records("all", reseed_rows(seed, i, m, k)),
        setting.max_iter,
        lambda rows: tell(event="assigned", rows=rows),
    ):
        tell(event="iteration", number=last.iteration, stop=last.stop)
    if last is None:
        raise InputError("max_iter must be at least 1.")
    sums = half.output(last.clusters)
    labels = half.labels("all") if setting.labels else OutputHalf.of(2, [])
    revealed = Revealed(
        last.iteration,
        last.stop,
        str(sums.modulus),
        [str(x) for x in sums.values],
        str(labels.modulus),
        [str(x) for x in labels.values],
    )
    (folder / "result.json").write_bytes(msgspec.json.encode(revealed))
    tell(event="done", n_iter=last.iteration, converged=last.stop)
