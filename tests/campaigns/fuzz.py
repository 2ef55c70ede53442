"""`python -m tests.campaigns.fuzz`: mutated real traffic to every socket of every role.

A small job runs once inside this process, and all its frames are recorded: those that owners, the
operator and cloud 1 send to the gateways, and those of both halves of the pairs. Then mutations of
them are sent

- to the call servers of both gateways as owner, operator and cloud 1, in this process;
- into channels of pairs, in this process;
- over TCP with CURVE to a gateway and to a pair's listener, and as plain bytes from strangers.

All frames follow from the seed. A crash is an exception that is not a `PpodcError`, or an internal
error in an answer. Meanwhile an honest owner repeatedly opens its result, which must stay exact.
The command fails if anything crashes, hangs, grows, or answers the honest owner wrongly.
"""

import contextlib
import random
import secrets
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer
import zmq

from ppodc.bench.document import Document, Table, make, seconds, table
from ppodc.errors import ChannelError, InternalError, PpodcError
from ppodc.service import deployment
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig, load, owners_of
from ppodc.service.messages import Named, SpecText
from ppodc.service.operations import owner_operations
from ppodc.transport import wire, zmq_session
from ppodc.transport.call_client import REFUSAL, Client, Refusal
from ppodc.transport.call_server import Peer
from ppodc.transport.channel import Channel, memory_pair
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from ppodc.transport.port_guard import Limits
from ppodc.transport.zmq_mailbox import BYE, ERROR, FRAME, HELLO, PROBE, RESUME, WELCOME
from tests.campaigns import faults
from tests.campaigns.fault_points import Fate
from tests.campaigns.fault_schedules import Schedule, draw, with_faults
from tests.campaigns.fault_world import World
from tests.campaigns.frame_mutations import Frame, mutated, renumbered
from tests.campaigns.outcome import JsonFile, Seed, conclude

COUNTS = ("crashes", "internal_errors", "wrong_to_honest", "hangs")
_LOOKS = 20  # times that the honest owner opens its result
_HANG_SECONDS = 60.0  # for one frame, since the machine may be busy
_GROWN_BYTES = 64 << 20  # beyond the noise of an allocator
_CHANNELS, _SOCKETS = 0.25, 0.04  # fractions of all frames
_MOST_OVER_SOCKETS = 40_000
_SECONDS = 120.0
_OWNERS = 3
_PER_CONNECTION = 50
_TRIES = 200
_SHOWN = 20
_TAGS = {HELLO: 4, WELCOME: 1, FRAME: 8, RESUME: 2, PROBE: 1, BYE: 1, ERROR: 1}
_HELLO = bytes(wire.encode_body(zmq_session.Hello(bytes(16), {"suite": "shares"})))


@dataclass(slots=True)
class Tally:
    """Counts of frames, answers and errors so far."""

    frames: Counter[str] = field(default_factory=Counter)  # by destination
    answers: Counter[str] = field(default_factory=Counter)  # by kind or error code
    crashes: int = 0
    internal_errors: int = 0
    wrong_to_honest: int = 0
    hangs: int = 0
    longest_s: float = 0.0
    notes: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def one(self, where: str, frame: Sequence[bytes]) -> Iterator[None]:
        """Count one frame, its time and its crash. A `PpodcError` is a proper refusal."""
        self.frames[where] += 1
        began = time.monotonic()
        try:
            yield
        except PpodcError as error:
            self.answers[error.code] += 1
        except Exception as error:  # noqa: BLE001 - a crash, which this campaign looks for
            self.crashes += 1
            self.note(f"{where}: {type(error).__name__}: {error}", frame)
        took = time.monotonic() - began
        self.longest_s = max(self.longest_s, took)
        self.hangs += took > _HANG_SECONDS

    def note(self, text: str, frame: Sequence[bytes]) -> None:
        """Keep the first few frames, so that they can be replayed."""
        if len(self.notes) < 20:
            shown = b"|".join(part[:400] for part in frame[:4]).hex()
            self.notes.append(f"{text}; frame {shown}")


# --- real traffic ---------------------------------------------------------------------------------


class _Recorder:
    """A service that records its requests."""

    def __init__(self, service: Any, frames: list[tuple[Peer, Frame]]) -> None:
        self._service, self._frames = service, frames

    def answer(self, peer: Peer, request: Sequence[wire.Part]) -> Any:
        self._frames.append((peer, [bytes(part) for part in request]))
        return self._service.answer(peer, request)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._service, name)


class RecordedWorld(World):
    """A platform that records the frames to each gateway and those of the pairs."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.calls: tuple[list[tuple[Peer, Frame]], ...] = ([], [])
        self.pair_frames: list[Frame] = []
        self.services = (self.gateway1, self.gateway2)
        self.gateway1: Any = _Recorder(self.gateway1, self.calls[0])
        self.gateway2: Any = _Recorder(self.gateway2, self.calls[1])

    def _faulty(self, channel: Channel, cloud: int) -> Any:
        put = channel._put

        def kept(parts: Sequence[wire.Part]) -> None:
            if len(self.pair_frames) < 4000:
                self.pair_frames.append([bytes(part) for part in parts])
            put(parts)

        channel._put = kept  # type: ignore[method-assign]
        return super()._faulty(channel, cloud)


class Fuzzer:
    """One run: recorded traffic, a seeded generator and a tally."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.tally = Tally()
        made = deployment.create(folder / "keys", _OWNERS, insecure_key_bits=256)
        self._made = made
        self.config1 = load(made.party("cloud1").config, Cloud1Config)
        config2 = load(made.party("cloud2").config, Cloud2Config)
        self._schedule = _job(seed)
        self._campaign = faults.Campaign(folder / "campaign")
        fate, name = Fate(()), self._schedule.spec.name
        self.world = RecordedWorld(self.config1, config2, folder / "world", fate, name)
        verdict = faults.Verdict(seed)
        self._campaign.play(self.world, self._schedule, verdict)
        if verdict.bad:
            raise PpodcError("The job whose traffic is recorded did not end exact.")
        self._number = 0
        self._expected = self._opened()

    def fresh(self, frame: Frame) -> Frame:
        """Turn most frames into new requests, which are processed. The others are replays."""
        self._number += 1
        if self.chance.random() < 0.15:
            return frame
        session = self.chance.choice((bytes(16), b"s" * 16, self.chance.randbytes(16)))
        return renumbered(frame, session, self._number)

    # --- in this process ------------------------------------------------------------------------

    def servers(self, count: int) -> None:
        """Send requests of every role to both call servers."""
        hostile: dict[tuple[int, Peer], list[Frame]] = {}
        for cloud in (0, 1):
            for peer, frame in self.world.calls[cloud]:
                if peer.name != "owner1":
                    hostile.setdefault((cloud, peer), []).append(frame)
        for number in range(count):
            cloud, peer = self.chance.choice(list(hostile))
            sent = mutated(self.chance, self.fresh(self.chance.choice(hostile[cloud, peer])))
            with self.tally.one(f"gateway {cloud + 1} as {peer.role}", sent):
                self._look_at(self.world.services[cloud].answer(peer, sent), sent)
            if number % max(1, count // _LOOKS) == 0:
                self.look()

    def _look_at(self, reply: Sequence[wire.Part] | None, sent: Frame) -> None:
        if reply is None:
            return
        message = wire.decode(reply).message
        if message.kind != REFUSAL:
            self.tally.answers[message.kind] += 1
            return
        refusal = message.decode(Refusal)
        self.tally.answers[refusal.code] += 1
        if refusal.code == InternalError.code:
            self.tally.internal_errors += 1
            self.tally.note("internal error", sent)

    def channels(self, count: int) -> None:
        """Send frames of pairs, each into a new channel that waits for it."""
        for _ in range(count):
            left, right = memory_pair(timeout=0.0)
            original = self.chance.choice(self.world.pair_frames)
            frame = renumbered(original, right.session, self.chance.choice((0, 0, 0, 1)))
            sent = mutated(self.chance, frame)
            with self.tally.one("pair channel", sent):
                left._put(sent)
                right.receive_any()
                self.tally.answers["taken by a channel"] += 1

    def look(self) -> None:
        """Let the honest owner open its result, which must not change."""
        try:
            opened = self._opened()
        except PpodcError as error:
            opened = f"error: {error}"
        if opened != self._expected:
            self.tally.wrong_to_honest += 1
            self.tally.note(f"The honest owner got {opened}"[:300], ())

    def _opened(self) -> str:
        result = self._campaign.result(self.world, self._schedule, "owner1", threading.Event())
        return str([result.figures(), result.own_rows()])

    # --- over TCP -------------------------------------------------------------------------------

    def sockets(self, count: int) -> None:
        """Send to a gateway and to a listener of pairs, with keys and without."""
        with self.world.store("cloud1") as store:
            gateway = Gateway(
                "tcp://127.0.0.1:0",
                CurveKeys.load(self.config1.key),
                owners_of(self.config1),
                owner_operations(store),
                limits=Limits(key_offences=1 << 60, key_connections=64),
            )
            with gateway:
                self._to_gateway(gateway, count // 2)
                self._from_strangers(gateway.endpoint, count // 20)
        self._to_listener(count - count // 2 - count // 20)

    def _to_gateway(self, gateway: Gateway, count: int) -> None:
        public = CurveKeys.load(self.config1.key).public
        config = load(self._made.party("owner1").config, OwnerConfig)
        frames = [frame for peer, frame in self.world.calls[0] if peer.name != "owner1"]
        with contextlib.ExitStack() as stack:
            hostile = [
                stack.enter_context(_raw(gateway.endpoint, self._keys(name), public))
                for name in ("owner2", "operator")
            ]
            honest = Client.connect(gateway.endpoint, CurveKeys.load(config.key), public, _SECONDS)
            stack.callback(honest.close)
            expected = None
            for number in range(count):
                dealer, sent = self.chance.choice(hostile), self.chance.choice(frames)
                sent = mutated(self.chance, self.fresh(sent))
                with self.tally.one("gateway over TCP", sent):
                    dealer.send_multipart(sent)
                    _drain(dealer)
                if number % 200 == 0:
                    reply = honest.call("spec", Named(self._schedule.spec.name), reply=SpecText)
                    self.tally.wrong_to_honest += expected not in (None, str(reply))
                    expected = str(reply)

    def _from_strangers(self, endpoint: str, count: int) -> None:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15) + bytes(32)
        hello = b"\x04\xc8\x05HELLO\x01\x00" + bytes(72) + bytes(120)
        for _ in range(count):
            sent = mutated(self.chance, [greeting, hello, self.chance.randbytes(90)])
            with (
                self.tally.one("strangers over TCP", sent),
                contextlib.suppress(OSError),  # the gateway may disconnect it
                socket.create_connection((host, int(port))) as stranger,
            ):
                stranger.sendall(b"".join(sent)[:20_000])

    def _to_listener(self, count: int) -> None:
        """Send messages of the session protocol from a peer that holds the right key."""
        ours, theirs = CurveKeys.generate(), CurveKeys.generate()
        with zmq_session.listen("tcp://127.0.0.1:0", ours, [theirs.public]) as listener:
            for first in range(0, count, _PER_CONNECTION):
                with _raw(listener.endpoint, theirs, ours.public) as dealer:
                    for _ in range(min(_PER_CONNECTION, count - first)):
                        sent = self._session_message()
                        with self.tally.one("listener of a pair over TCP", sent):
                            dealer.send_multipart(sent)
                            _take_in(listener)
                if first % (20 * _PER_CONNECTION) == 0:
                    self.tally.wrong_to_honest += not _honest_pair(listener, theirs, ours)

    def _session_message(self) -> Frame:
        tag = self.chance.choices(list(_TAGS), list(_TAGS.values()))[0]
        body = [bytes([zmq_session.PROTOCOL]), _HELLO]
        if tag != HELLO:
            body = self.chance.choice(self.world.pair_frames)[:20]
        if self.chance.random() < 0.7:
            body = mutated(self.chance, body)
        return mutated(self.chance, [tag, *body]) if self.chance.random() < 0.2 else [tag, *body]

    def _keys(self, name: str) -> CurveKeys:
        return CurveKeys.load(load(self._made.party(name).config, OwnerConfig).key)


@contextlib.contextmanager
def _raw(endpoint: str, keys: CurveKeys, server: bytes) -> Iterator["zmq.Socket[bytes]"]:
    """A peer with a valid key and without any protocol."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.curve_publickey, dealer.curve_secretkey = keys.public, keys.secret
        dealer.curve_serverkey = server
        dealer.linger = 0
        dealer.connect(endpoint)
        yield dealer


def _drain(dealer: "zmq.Socket[bytes]") -> None:
    with contextlib.suppress(zmq.Again):
        while True:
            dealer.recv_multipart(zmq.NOBLOCK)


def _take_in(listener: zmq_session.Listener) -> None:
    # No peer is waiting, or its hello is invalid.
    with contextlib.suppress(ChannelError), listener.accept(timeout=0.0) as channel:
        channel.receive_any(timeout=0.0)


def _honest_pair(listener: zmq_session.Listener, theirs: CurveKeys, ours: CurveKeys) -> bool:
    """Whether an honest session still opens and carries a message."""
    session = secrets.token_bytes(wire.SESSION_BYTES)
    with ThreadPoolExecutor(1) as pool:
        calling = pool.submit(
            zmq_session.connect, listener.endpoint, theirs, ours.public, session, timeout=_SECONDS
        )
        for _ in range(_TRIES):
            with (
                contextlib.suppress(ChannelError),  # earlier hellos
                listener.accept(_SECONDS, session=session) as channel,
                calling.result() as end,
            ):
                end.send("x")
                return channel.receive_any(_SECONDS).kind == "x"
    return False


def _job(seed: int) -> Schedule:
    """A small job with labels and at least two owners."""
    for number in count(seed * 1000):
        schedule = draw(number)
        job = schedule.spec.job
        if (
            len(schedule.tables) > 1
            and schedule.suite == "shares"
            and getattr(job, "labels", False)
        ):
            return with_faults(schedule, ())
    raise AssertionError  # unreachable: `count` is infinite


def run(frames: int, seed: int) -> Document:
    """Send mutated frames. The document counts destinations, answers and errors."""
    began = time.monotonic()
    over_sockets = min(int(frames * _SOCKETS), _MOST_OVER_SOCKETS)
    into_channels = int(frames * _CHANNELS)
    with tempfile.TemporaryDirectory(prefix="ppodc-fuzz-") as folder, faults.quiet_logs():
        fuzzer, own = Fuzzer(Path(folder), seed), psutil.Process()
        try:
            fuzzer.sockets(over_sockets)
            to_servers = frames - over_sockets - into_channels
            fuzzer.servers(to_servers // 4)
            fuzzer.channels(into_channels // 4)
            before = own.memory_info().rss
            fuzzer.servers(to_servers - to_servers // 4)
            fuzzer.channels(into_channels - into_channels // 4)
            grown = own.memory_info().rss - before
            fuzzer.look()
        finally:
            fuzzer.world.close()
    tally = fuzzer.tally
    return make(
        "fuzz",
        _tables,
        notes=[
            f"again: python -m tests.campaigns.fuzz --frames {frames} --seed {seed}",
            *tally.notes,
        ],
        frames=sum(tally.frames.values()),
        seed=seed,
        seconds=time.monotonic() - began,
        to=dict(tally.frames),
        answers=dict(tally.answers),
        longest_s=tally.longest_s,
        grown_bytes=grown,
        **{name: getattr(tally, name) for name in COUNTS},
    )


def _tables(document: Document) -> list[Table]:
    verdict = [[name.replace("_", " "), f"{document[name]:,}"] for name in ("frames", *COUNTS)]
    verdict += [
        ["longest answer", seconds(document["longest_s"])],
        ["memory grown, last three quarters", f"{document['grown_bytes'] / 1e6:.1f} MB"],
        ["duration", seconds(document["seconds"])],
    ]
    return [
        table("Fuzzing", ("", "count"), verdict),
        table("Sent to", ("", "frames"), _counted(document["to"])),
        table("Outcomes", ("answer or refusal", "frames"), _counted(document["answers"])),
    ]


def _counted(counts: dict[str, int]) -> list[list[str]]:
    most = sorted(counts.items(), key=lambda item: -item[1])
    return [[name, f"{number:,}"] for name, number in most[:_SHOWN]]


def main(
    frames: Annotated[int, typer.Option(min=100, help="Frames to send.")] = 1_000_000,
    seed: Seed = 1,
    json_file: JsonFile = None,
) -> None:
    """Send mutated real traffic to every socket of every role."""
    document = run(frames, seed)
    grown = document["grown_bytes"] > _GROWN_BYTES
    conclude(document, json_file, wrong=grown or any(document[name] for name in COUNTS))


if __name__ == "__main__":
    typer.run(main)
