"""A whole platform inside this process, in which any part can fail at any point.

Both clouds with their stores and call servers, their workers as threads, the owners and the master
run the product's own code. Only the transport is simulated: channels of pairs and calls to gateways
go through memory and can be cut, lost or repeated. Every party passes named points
(`fault_points`). A schedule says which fault strikes at which pass of which point.

A party that dies raises `Killed` at that point and at every later one. Its code can unwind without
any effect, as after a real kill.

Who waits for a silent party gives it up after so many messages, or because the schedule says that
it is silent. No clock decides, so a busy machine changes nothing.
"""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from client.both_clouds import Clouds
from client.operator import Operator
from client.owner import Owner
from cloud2.follower import Follower
from cloud2.service import control_operations
from master.cloud2_client import Cloud2Client
from master.driver import JobResources
from master.job import cancel_job, resume_job
from ppodc.errors import BusyError, ChannelError, DiskFullError, InputError
from ppodc.pairs import control_messages
from ppodc.service.config import Cloud1Config, Cloud2Config, OwnerConfig
from ppodc.service.operations import owner_operations
from ppodc.service.store import Role, Store
from ppodc.service.store.database import Database
from ppodc.transport import wire
from ppodc.transport.call_client import Client
from ppodc.transport.call_server import CallServer, Operation, Peer
from tests.campaigns.fault_points import Fate
from tests.harness.memory_network import End, MemoryNetwork
from tests.harness.patience import LONG
from tests.harness.thread_workers import ThreadWorker, ThreadWorkers, WorkerDiedError

_PATIENCE = 200  # messages without an answer after which a caller gives a gateway up
_DOWN = 3  # messages that a dead gateway misses before it restarts
_AWAY = 400  # messages that a gateway misses if it is away for longer than a caller waits


class Killed(BaseException):
    """The process of this party is dead."""


class _FaultyDatabase(Database):
    """A store's database whose disk can fill up and whose process can die."""

    fate: Fate
    point: str
    dead: threading.Event

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Any]:
        if self.dead.is_set():
            raise Killed
        outermost = not self.nested
        action = None
        with super().transaction() as sql:
            yield sql
            action = self.fate.at(self.point) if outermost else None
            if action == "disk full":
                raise DiskFullError("the disk of the store is full; free some space.")
            if action == "kill before":
                self.die()
        if action == "kill after":
            self.die()

    def die(self) -> None:
        self.dead.set()
        raise Killed


class _FaultyChannel:
    """One end of a pair's channel, which can stall or break."""

    def __init__(self, channel: End, point: str, fate: Fate) -> None:
        self._channel, self._point, self._fate = channel, point, fate

    def send(self, *arguments: Any, **options: Any) -> None:
        self._pass()
        self._channel.send(*arguments, **options)

    def receive(self, *arguments: Any, **options: Any) -> Any:
        self._pass()
        return self._channel.receive(*arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def _pass(self) -> None:
        action = self._fate.at(self._point)
        if action == "stall":
            self._channel.fall_silent()
        elif action is not None:
            self._channel.close()
            if action == "die":
                raise WorkerDiedError
            raise ChannelError("the link is gone.")


class _MortalWorkers(ThreadWorkers):
    """Workers that can die when called: one of them, or all at once if their Ray dies.

    The first call of a step begins its phase, whether a request or the step before brings it about.
    """

    def __init__(self, adapt: Callable[[Any], None], fate: Fate, point: str) -> None:
        super().__init__(adapt)
        self._fate, self._point = fate, point
        self._living: list[ThreadWorker] = []
        self._step: object = None  # the latest that began

    def start(self, make: type, *arguments: Any) -> ThreadWorker:
        self._step, worker = None, super().start(make, *arguments)
        self._living.append(worker)
        return worker

    def call(self, worker: ThreadWorker, method: str, *arguments: Any) -> "Future[Any]":
        if method == "run" and arguments[0] != self._step:
            self._step, self._fate.phase = arguments[0], arguments[0].name
        action = self._fate.at(self._point)
        if action is not None:
            for victim in [worker] if action == "die" else list(self._living):
                self.end(victim)
        if worker in self._living:
            return super().call(worker, method, *arguments)
        call: Future[Any] = Future()
        call.set_exception(WorkerDiedError())
        return call

    def end(self, worker: ThreadWorker) -> None:
        if worker in self._living:
            self._living.remove(worker)
            super().end(worker)


@dataclass(slots=True)
class Service:
    """A cloud's gateway: a store and a call server, created again after a death."""

    open: Callable[[threading.Event], tuple[Store, Sequence[Operation], Callable[[], None]]]
    dead: threading.Event = field(default_factory=threading.Event)
    missed: int = _DOWN  # messages since its death; the first message ever starts it
    _server: CallServer | None = None
    _store: Store | None = None
    _stop: Callable[[], None] | None = None

    def answer(self, peer: Peer, request: Sequence[wire.Part]) -> Sequence[wire.Part] | None:
        """The reply, or None if the process is dead or dies while it answers."""
        try:
            if self._server is None:
                self.missed += 1
                if self.missed < _DOWN:
                    return None
                self._server = self._start()
            return self._server.answer(peer, request)
        except Killed:
            self.kill()
            return None

    def _start(self) -> CallServer:
        self.dead = threading.Event()
        self._store, operations, self._stop = self.open(self.dead)
        return CallServer(operations)

    def kill(self, down: int = _DOWN) -> None:
        """Kill the process, its workers and everything it holds in memory."""
        self.dead.set()
        if self._stop is not None:
            self._stop()
        if self._store is not None:
            self._store.close()
        self._server = self._store = self._stop = None
        self.missed = _DOWN - down


class Carrier:
    """A caller's connection to a service. It can lose and repeat messages."""

    def __init__(
        self,
        service: Service,
        peer: Peer,
        who: str,
        fate: Fate,
        dead: threading.Event,
        meanwhile: Mapping[str, Callable[[], None]] | None = None,
    ) -> None:
        self._service, self._peer, self._fate = service, peer, fate
        self._who, self._dead = who, dead  # "control" or "owner"; whether the caller is dead
        self._meanwhile = meanwhile or {}  # actions of other parties while a message travels
        self._arrived: deque[Sequence[wire.Part]] = deque()
        self._unanswered = 0  # messages

    def send(self, request: Sequence[wire.Part]) -> None:
        parts = [bytes(part) for part in request]
        self._fate.phase = _phase(parts, self._fate.phase)
        action = self._strike("request")
        if action == "lose":
            return
        for _ in range(2 if action == "repeat" else 1):
            reply = self._service.answer(self._peer, parts)
            if reply is None:
                continue
            after = self._strike("reply")
            if after != "lose":
                self._arrived.extend([reply] * (2 if after == "repeat" else 1))

    def _strike(self, direction: str) -> str | None:
        if self._dead.is_set():
            raise Killed
        action = self._fate.at(f"{self._who} {direction}")
        if action in ("kill master", "kill owner"):
            self._dead.set()
            raise Killed
        if action in ("kill cloud2", "kill gateway", "cloud2 away"):
            self._service.kill(_AWAY if action == "cloud2 away" else _DOWN)
            return "lose"
        if action is not None and action in self._meanwhile:
            self._meanwhile[action]()
        return action

    def receive(self, _seconds: float) -> Sequence[wire.Part] | None:
        if self._arrived:
            self._unanswered = 0
            return self._arrived.popleft()
        self._unanswered += 1
        if self._unanswered == _PATIENCE:
            self._unanswered = 0
            raise ChannelError("the gateway does not answer.")
        return None

    def why_silent(self, seconds: float) -> str:
        return f"no answer for {seconds:g} s."

    def close(self) -> None:
        self._arrived.clear()


def _phase(request: Sequence[wire.Part], before: str) -> str:
    """The phase that a request begins: its operation. Steps name their own when they begin."""
    kind = wire.decode(request).message.kind
    stays = kind in (control_messages.POLL, control_messages.STEP)
    return before if stays else kind.removeprefix("control.")


class World:
    """Two clouds, a master and owners, struck by the faults of one `Fate`."""

    def __init__(
        self,
        config1: Cloud1Config,
        config2: Cloud2Config,
        folder: Path,
        fate: Fate,
        dataset: str,
    ) -> None:
        replace = msgspec.structs.replace
        self._dataset = dataset
        self._fate, self._folder = fate, folder
        self.config1 = replace(config1, store=folder / "store1", pools=folder / "pools1")
        self.config2 = replace(config2, store=folder / "store2", pools=folder / "pools2")
        self._network = MemoryNetwork(self._faulty)
        self.gateway1, self.gateway2 = Service(self._open1), Service(self._open2)

    def close(self) -> None:
        """End everything that still runs."""
        self.gateway1.kill()
        self.gateway2.kill()

    def store(self, role: Role, dead: threading.Event | None = None) -> Store:
        """A cloud's store. Faults can strike it only if `dead` is given."""
        path = (self.config1 if role == "cloud1" else self.config2).store
        if dead is None:
            return Store.open(path, role)
        kind = type("Faulty", (_FaultyDatabase,), {})
        kind.fate, kind.point, kind.dead = self._fate, f"{role} write", dead  # type: ignore[attr-defined]
        return Store.open(path, role, kind)

    def resources(self, dead: threading.Event) -> JobResources:
        """Workers, store and connection to cloud 2 of one master process."""

        @contextlib.contextmanager
        def workers(_pairs: int) -> Iterator[ThreadWorkers]:
            yield _MortalWorkers(self._adapt, self._fate, "worker1 call")

        def cloud2() -> Cloud2Client:
            peer = Peer("cloud1", "cloud1")
            others = {"cancel": self._cancel, "second master": self._second_master}
            carrier = Carrier(self.gateway2, peer, "control", self._fate, dead, others)
            return Cloud2Client(Client(carrier, LONG))

        return JobResources(workers, cloud2, lambda: self.store("cloud1", dead), LONG)

    def owner(self, name: str, config: OwnerConfig, dead: threading.Event) -> Owner:
        """One process of an owner."""
        clouds = self._clouds(Peer("owner", name, self.config1.owners[name]), "owner", dead)
        folder = self._folder / name
        own = msgspec.structs.replace(config, uploads=folder, privacy=folder / "privacy")
        return Owner(clouds, own)

    def operator(self) -> Operator:
        """An operator that no fault strikes."""
        return Operator(self._clouds(Peer("operator", "operator"), "operator"))

    def _clouds(self, peer: Peer, who: str, dead: threading.Event | None = None) -> Clouds:
        gone = dead or threading.Event()
        clients = [
            Client(Carrier(service, peer, who, self._fate, gone), LONG)
            for service in (self.gateway1, self.gateway2)
        ]
        return Clouds(*clients)

    def _open1(self, dead: threading.Event) -> tuple[Store, Sequence[Operation], Any]:
        store = self.store("cloud1", dead)
        return store, owner_operations(store), lambda: None

    def _open2(self, dead: threading.Event) -> tuple[Store, Sequence[Operation], Any]:
        store = self.store("cloud2", dead)
        workers = _MortalWorkers(self._adapt, self._fate, "worker2 call")
        follower = Follower(store, self.config2, workers, LONG)
        operations = [*owner_operations(store), *control_operations(follower)]
        return store, operations, follower.stop

    def _cancel(self) -> None:
        """Run `ppodc cancel` while a master holds the job."""
        with contextlib.suppress(InputError):  # the job has ended already
            cancel_job(self.config1, self._dataset, self._store_only())

    def _second_master(self) -> None:
        """Run `ppodc resume` while a master holds the job."""
        with contextlib.suppress(BusyError):
            resume_job(self.config1, self._dataset, means=self._store_only())
            raise RuntimeError("Two masters held the same job.")

    def _store_only(self) -> Any:
        return JobResources(None, None, lambda: self.store("cloud1"))

    def _adapt(self, worker: Any) -> None:
        worker.network = self._network

    def _faulty(self, channel: End, cloud: int) -> Any:
        return _FaultyChannel(channel, f"worker{cloud} message", self._fate)
