"""The port of a gateway: every byte from outside is counted here before ZeroMQ gets it.

ZeroMQ bounds a part of a message, not a message, which may have parts without end; its queues
count messages, not bytes; and it takes connections until descriptors run out. A caller that makes
use of that fills the memory of the listener. So callers connect to this port. The guard forwards
their bytes, which CURVE has sealed, to ZeroMQ's own port on loopback and back. It counts the bytes
of each connection that are inside: unanswered requests, complete or not, and answers that the
caller does not fetch. The guard does not read from a connection over its budget until there is
room. It drops a connection that makes no room in time.

Each connection reaches ZeroMQ from an address of its own in 127.64.0.0/10. ZeroMQ names that
address when it asks whether a key may come in and beside every message. So the guard can assign
bytes to messages and keys without reading them.

ZeroMQ must end its connections itself. One that breaks while ZeroMQ reads no more of it, because
messages wait there, makes the next heartbeat abort the whole process (libzmq 4.3.5). So the guard
says that nothing more comes, and takes what ZeroMQ still sends until ZeroMQ has noticed.

Cost: one more copy over loopback. Memory: ZeroMQ needs up to twice the bytes it holds, if the
parts are tiny.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from itertools import count

from ppodc.errors import ChannelError
from ppodc.transport.peer_log import PeerLog

HANDSHAKE_SECONDS = 5.0
HANDSHAKE_BYTES = 8192  # limit for an unknown peer; ZeroMQ's own handshake takes about 600
_PIECE = 64 * 1024
_LOOK_SECONDS = 0.02
_PATIENCE_SECONDS = 5.0  # over a budget, with nothing moving
_CLOSING_SECONDS = 2.0
_OFFENCE_SECONDS = 10.0
_OUT_SECONDS, _LONGEST_OUT = 10.0, 600.0
_STRANGERS = "strangers"
_SLACK = 4 * _PIECE  # beyond the largest request, for headers and the overhead of CURVE
# ZeroMQ's heartbeats look like messages here and are never reported: this many bytes a second are
# taken for them whenever a message is finished, and not more than this at once.
_BEATS_A_SECOND = 100
_BEATS_BYTES = 1 << 20
_BACKLOG = 512
_DESCRIPTORS = 3  # of one connection: outside, inside and ZeroMQ's own
_OWN_DESCRIPTORS = 512  # of everything else that a service has open
_PROBE = "127.64.0.1"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the callers of one gateway; bytes are those inside, on the way in or out."""

    connections: int = 1024
    key_connections: int = 32
    key_requests: int = 32
    key_bytes: int = 16 << 20
    bytes: int = 64 << 20
    request_bytes: int = 8 << 20
    key_offences: int = 100  # refusals in ten seconds, after which a key stays out for a while


def room_for(connections: int) -> int:
    """The number of connections that this process has descriptors for; at least one.

    Beyond them silent strangers would keep everybody out: no connection could be taken, and none
    of theirs would be ended to make room.
    """
    import resource  # clouds have it; owners, who read configurations on Windows too, may not

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)  # to which a service raises the soft limit
    if most == resource.RLIM_INFINITY:
        return connections
    kept = min(_OWN_DESCRIPTORS, most // 2)
    room = max(1, (most - kept) // _DESCRIPTORS)
    if room < connections:
        log.warning("only %d descriptors: at most %d connections, not %d", most, room, connections)
    return min(room, connections)


@dataclass(eq=False, slots=True)
class _Connection:
    """One connection; `key` is None until ZeroMQ has seen proof of it."""

    address: str  # under which ZeroMQ knows it
    origin: str  # host it came from
    outside: socket.socket
    inside: socket.socket
    key: bytes | None = None
    held: int = 0  # bytes from outside that are not answered yet
    owed: int = 0  # bytes of answers that have not left yet
    moved: float = field(default_factory=time.monotonic)  # when that became less

    finished: float = field(default_factory=time.monotonic)  # when its latest message was
    gone: bool = False

    def cut(self) -> None:
        """End it; the tasks that forward see the end of what comes from outside."""
        self.gone = True
        self.close_outside()

    def close_outside(self) -> None:
        """Let the caller go, and tell ZeroMQ that nothing more comes."""
        for end, how in ((self.outside, socket.SHUT_RDWR), (self.inside, socket.SHUT_WR)):
            with contextlib.suppress(OSError):
                end.shutdown(how)


@dataclass(slots=True)
class _Violations:
    """Recent violations by the holder of a key, and the time until which it stays out."""

    began: float = 0.0
    offences: int = 0
    exclusions: int = 0
    out_until: float = 0.0


class PortGuard:
    """The guard of a port. Any thread may call everything but `close`."""

    def __init__(self, endpoint: str, limits: Limits) -> None:
        self._limits = limits
        self._port = 0  # ZeroMQ's
        self._listener = _listening(endpoint)
        host, port = self._listener.getsockname()[:2]
        self.endpoint = f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
        self._connections: dict[str, _Connection] = {}
        self._usage: Counter[bytes | None] = Counter()  # bytes inside by key
        self._violations: dict[bytes, _Violations] = {}
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._notes = PeerLog(log)
        self._loop = asyncio.new_event_loop()
        self._accepting: asyncio.Task[None] | None = None
        self._meetings: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="guard", daemon=True)

    def open(self, port: int) -> None:
        """Let callers in, to ZeroMQ at this port of loopback."""
        self._port = port
        self._thread.start()
        self._loop.call_soon_threadsafe(self._begin)

    def close(self) -> None:
        """Close the port. Bytes that ZeroMQ has sent still get a moment to leave."""
        if self._thread.ident is None:
            self._listener.close()
        elif not self._loop.is_closed():
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    # --- calls by the gateway ------------------------------------------------------------------

    def admit(self, address: str, key: bytes) -> bool:
        """Whether the connection that has just proven this key may stay."""
        with self._lock:
            connection, violations = self._connections.get(address), self._violations.get(key)
            if connection is None or connection.key is not None:  # not through this port
                return False
            if violations is not None and violations.out_until > time.monotonic():
                return False
            same = sum(other.key == key for other in self._connections.values())
            if same >= self._limits.key_connections:
                self._notes.warning(key.decode(), "has too many connections; one was refused")
                return False
            self._charge(connection, -connection.held, 0)
            connection.key = key
        return True

    def answering(self, address: str, size: int) -> None:
        """An answer of this many bytes is handed to ZeroMQ."""
        with self._lock:
            if (connection := self._connections.get(address)) is not None:
                self._charge(connection, 0, size)

    def finished(self, address: str, size: int) -> None:
        """A message that took this many bytes is dealt with."""
        with self._lock:
            if (connection := self._connections.get(address)) is not None:
                now = time.monotonic()
                beats = min(_BEATS_BYTES, int(_BEATS_A_SECOND * (now - connection.finished)))
                connection.finished = now
                self._charge(connection, -size - beats, 0)

    def offence(self, key: bytes) -> None:
        """Something of this key was refused; very many in a row keep it out for a while."""
        now = time.monotonic()
        with self._lock:
            violations = self._violations.setdefault(key, _Violations())
            if now - violations.began > _OFFENCE_SECONDS:
                violations.began, violations.offences = now, 0
            violations.offences += 1
            if violations.offences <= self._limits.key_offences:
                return
            seconds = min(_LONGEST_OUT, _OUT_SECONDS * 2**violations.exclusions)
            violations.offences, violations.exclusions = 0, min(10, violations.exclusions + 1)
            violations.out_until = now + seconds
            self._drop_key(key, f"was refused too often and stays out for {seconds:g} s")

    def inside(self) -> tuple[int, int]:
        """(connections, bytes that are on their way in or out)."""
        with self._lock:
            return len(self._connections), self._usage.total()

    # --- forwarding ----------------------------------------------------------------------------

    def _begin(self) -> None:
        self._accepting = self._loop.create_task(self._accept())

    async def _accept(self) -> None:
        while True:
            try:
                outside, origin = await self._loop.sock_accept(self._listener)
            except OSError as error:  # no descriptor is left
                self._notes.warning(_STRANGERS, "cannot be let in: %s", error.strerror)
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            meeting = self._loop.create_task(self._meet(outside, str(origin[0])))
            self._meetings.add(meeting)
            meeting.add_done_callback(self._meetings.discard)

    async def _meet(self, outside: socket.socket, origin: str) -> None:
        with outside, socket.socket() as inside, contextlib.suppress(OSError):
            for end in (outside, inside):
                end.setblocking(False)
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._make_room()
                connection = _Connection(self._free_address(), origin, outside, inside)
                self._connections[connection.address] = connection
            try:
                inside.bind((connection.address, 0))
                await self._loop.sock_connect(inside, ("127.0.0.1", self._port))
                await self._forward(connection)
            finally:
                with self._lock:
                    self._charge(connection, -connection.held, -connection.owed)
                    del self._connections[connection.address]

    async def _forward(self, connection: _Connection) -> None:
        """Copy both ways until one ends. The other then gets a moment for bytes in transit."""
        inward = asyncio.create_task(self._inward(connection))
        outward = asyncio.create_task(self._outward(connection))
        ways = (inward, outward)
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            end = connection.inside if inward.done() else connection.outside
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_WR)
            await asyncio.wait(ways, timeout=_CLOSING_SECONDS)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        connection.close_outside()
        while await self._loop.sock_recv(connection.inside, _PIECE):
            pass  # until ZeroMQ has ended it

    async def _inward(self, connection: _Connection) -> None:
        while piece := await self._loop.sock_recv(connection.outside, await self._room(connection)):
            with self._lock:
                self._charge(connection, len(piece), 0)
            await self._loop.sock_sendall(connection.inside, piece)

    async def _outward(self, connection: _Connection) -> None:
        while piece := await self._loop.sock_recv(connection.inside, _PIECE):
            await self._loop.sock_sendall(connection.outside, piece)
            with self._lock:
                self._charge(connection, 0, -len(piece))

    async def _room(self, connection: _Connection) -> int:
        """Wait until the budgets allow reading; return the number of bytes to read."""
        waiting_since = time.monotonic()
        while True:
            with self._lock:
                unknown = connection.key is None
                if connection.gone or (unknown and connection.held >= HANDSHAKE_BYTES):
                    raise ConnectionAbortedError
                if unknown:
                    return HANDSHAKE_BYTES - connection.held
                crowd = self._over_budget(connection)
                if not crowd:
                    return _PIECE
                quiet_since = max(waiting_since, *(other.moved for other in crowd))
                present = [other for other in crowd if not other.gone]
                if present and time.monotonic() - quiet_since > _PATIENCE_SECONDS:
                    self._drop(max(present, key=lambda other: other.held + other.owed))
            await asyncio.sleep(_LOOK_SECONDS)

    def _over_budget(self, connection: _Connection) -> list[_Connection]:
        """Return the connections that leave no room for this one; none if there is room."""
        limits = self._limits
        if connection.held + _PIECE > limits.request_bytes + _SLACK:
            return [connection]
        full = None
        if self._usage[connection.key] + _PIECE > limits.key_bytes:
            full = connection.key
        elif self._usage.total() + _PIECE > limits.bytes:
            full = self._usage.most_common(1)[0][0]
        else:
            return []
        return [other for other in self._connections.values() if other.key == full] or [connection]

    # --- open connections; lock is held --------------------------------------------------------

    def _charge(self, connection: _Connection, held: int, owed: int) -> None:
        before = connection.held + connection.owed
        connection.held = max(0, connection.held + held)
        connection.owed = max(0, connection.owed + owed)
        self._usage[connection.key] += connection.held + connection.owed - before
        if not self._usage[connection.key]:
            del self._usage[connection.key]
        if min(held, owed) < 0:
            connection.moved = time.monotonic()

    def _free_address(self) -> str:
        while True:
            number = next(self._numbers) % (1 << 22)
            address = f"127.{64 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
            if address not in self._connections:
                return address

    def _make_room(self) -> None:
        """At the limit, end the oldest unknown connection of the host that opened most of them."""
        present = [connection for connection in self._connections.values() if not connection.gone]
        if len(present) < self._limits.connections:
            return
        strangers = [connection for connection in present if connection.key is None]
        if not strangers:
            raise ConnectionRefusedError
        crowd = Counter(connection.origin for connection in strangers).most_common(1)[0][0]
        next(connection for connection in strangers if connection.origin == crowd).cut()

    def _drop(self, connection: _Connection) -> None:
        who = _STRANGERS if connection.key is None else connection.key.decode()
        reason = "%d bytes inside and %d to fetch, and nothing moved for %g s: dropped"
        self._notes.warning(who, reason, connection.held, connection.owed, _PATIENCE_SECONDS)
        connection.cut()

    def _drop_key(self, key: bytes, reason: str) -> None:
        self._notes.warning(key.decode(), reason)
        for connection in self._connections.values():
            if connection.key == key:
                connection.cut()

    async def _end(self) -> None:
        self._listener.close()
        if self._accepting is not None:
            self._accepting.cancel()
        if self._meetings:
            _, late = await asyncio.wait(self._meetings, timeout=_CLOSING_SECONDS)
            for meeting in late:
                meeting.cancel()
            await asyncio.gather(*late, return_exceptions=True)


def _listening(endpoint: str) -> socket.socket:
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    host = "" if host == "*" else host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket() as probe:
            probe.bind((_PROBE, 0))
    except OSError as error:
        raise ChannelError(
            f"a gateway needs the loopback addresses 127.64.0.0/10, as Linux has them: {_PROBE} "
            f"cannot be used here ({error.strerror})."
        ) from error
    try:
        listener = socket.create_server((host, int(port)), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ChannelError(f"cannot listen at {endpoint}: {error.strerror}.") from error
    listener.setblocking(False)
    return listener
