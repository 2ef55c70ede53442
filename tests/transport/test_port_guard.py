"""The guard of a gateway under hostile callers: what they hold inside is bounded, others go on."""

import contextlib
import resource
import select
import socket
import struct
import threading

import numpy as np
import pytest
import zmq

from ppodc.errors import ChannelError, RefusedError
from ppodc.transport import port_guard
from ppodc.transport.gateway import Gateway
from ppodc.transport.port_guard import Limits, PortGuard, room_for
from ppodc.transport.wire import Empty
from tests.harness.patience import LONG, wait_for
from tests.transport.test_call_server import (
    BOB,
    OWN,
    PEERS,
    Number,
    Raw,
    Service,
    client,
    double,
)

LIMITS = Limits(
    connections=12,
    key_connections=3,
    key_bytes=1 << 20,
    bytes=2 << 20,
    request_bytes=256 << 10,
)


@pytest.fixture
def most(monkeypatch):
    """The most bytes that were ever inside; who is over a budget is soon dropped."""
    seen = [0]
    charge = PortGuard._charge

    def watched(guard, *arguments):
        charge(guard, *arguments)
        seen[0] = max(seen[0], guard._usage.total())

    monkeypatch.setattr(PortGuard, "_charge", watched)
    monkeypatch.setattr(port_guard, "_PATIENCE_SECONDS", 0.3)
    return seen


@pytest.fixture
def gateway(most):
    with Gateway("tcp://127.0.0.1:0", OWN, PEERS, Service().operations(), limits=LIMITS) as running:
        yield running


@contextlib.contextmanager
def dropped(raw):
    """The gateway cuts this peer's connection."""
    monitor = raw.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    try:
        yield
        assert monitor.poll(int(LONG * 1000))
    finally:
        raw.socket.disable_monitor()
        monitor.close()


def test_a_message_of_many_parts_never_gets_inside(gateway, most):
    with Raw(gateway) as bob, client(gateway) as ann:
        with dropped(bob):
            bob.send([bytes(64 << 10)] * 160)
        assert double(ann, 4) == 8
    assert most[0] <= LIMITS.request_bytes + (512 << 10)


def test_a_message_that_never_ends_is_dropped(gateway, most):
    """Its sender is real; what lies between passes only so much of it, and then nothing."""
    host, port = gateway.endpoint.removeprefix("tcp://").split(":")
    between = socket.create_server(("127.0.0.1", 0))

    def forward(source, target, limit):
        with contextlib.suppress(OSError):
            while limit > 0 and (piece := source.recv(min(limit, 65536))):
                limit -= len(piece)
                target.sendall(piece)

    def meet():
        source, _ = between.accept()
        target = socket.create_connection((host, int(port)))
        threading.Thread(target=forward, args=(target, source, 1 << 30), daemon=True).start()
        forward(source, target, 700 << 10)
        ends.append(target.recv(1) if target.fileno() >= 0 else b"")

    ends: list[bytes] = []
    thread = threading.Thread(target=meet, daemon=True)
    thread.start()
    gateway.endpoint = f"tcp://127.0.0.1:{between.getsockname()[1]}"
    with Raw(gateway) as bob:
        gateway.endpoint = f"tcp://{host}:{port}"
        with dropped(bob):
            bob.send([bytes(64 << 10)] * 32)
        with client(gateway) as ann:
            assert double(ann, 4) == 8
    between.close()
    thread.join(LONG)
    assert most[0] <= LIMITS.request_bytes + (512 << 10)


def test_one_key_on_several_connections_has_one_budget(gateway, most):
    with contextlib.ExitStack() as stack:
        bobs = [stack.enter_context(Raw(gateway)) for _ in range(3)]
        for bob in bobs:
            stack.enter_context(dropped(bob))
            bob.send([bytes(64 << 10)] * 100)
        stack.close()
        with client(gateway) as ann:
            assert double(ann, 4) == 8
    assert most[0] <= LIMITS.key_bytes + (512 << 10)


def test_answers_that_nobody_fetches_are_dropped(gateway, most, caplog):
    big = np.ones(30 << 10, np.uint64)
    with Raw(gateway, unread=1) as bob, client(gateway) as ann:
        for number in range(60):
            with contextlib.suppress(zmq.Again):
                parts = bob.request(number, number, arrays=[big])
                bob.socket.send_multipart(parts, zmq.NOBLOCK)
        wait_for(lambda: f"{BOB.public.decode()}: " in caplog.text)  # it does not notice
        assert "to fetch, and nothing moved" in caplog.text
        assert double(ann, 4) == 8
    assert most[0] <= LIMITS.key_bytes + (4 << 20)


def test_too_many_connections_of_one_key_are_told(gateway):
    with contextlib.ExitStack() as stack:
        callers = [stack.enter_context(client(gateway)) for _ in range(3)]
        assert [double(caller, 1) for caller in callers] == [2] * 3
        with client(gateway) as fourth, pytest.raises(ChannelError, match="for now"):
            double(fourth, 1)
        with client(gateway, BOB) as bob:
            assert double(bob, 2) == 4
        callers[0].close()
        with client(gateway) as fourth:
            assert double(fourth, 3) == 6


def test_silent_connections_make_way(gateway):
    host, port = gateway.endpoint.removeprefix("tcp://").split(":")
    with contextlib.ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(socket.create_connection((host, int(port))))
        with client(gateway) as ann:
            assert double(ann, 4) == 8
        present = [v for v in gateway._guard._connections.values() if not v.gone]
        assert len(present) <= LIMITS.connections


def test_a_stranger_who_talks_on_is_cut(gateway):
    host, port = gateway.endpoint.removeprefix("tcp://").split(":")
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15) + bytes(32)
    with socket.create_connection((host, int(port))) as stranger:
        stranger.settimeout(LONG)
        with contextlib.suppress(ConnectionError):
            stranger.sendall(greeting + bytes(1 << 20))
            while stranger.recv(65536):
                pass


def test_a_key_that_only_offends_stays_out_for_a_while(gateway, monkeypatch):
    monkeypatch.setattr(port_guard, "_OFFENCE_SECONDS", LONG)
    monkeypatch.setattr(port_guard, "_OUT_SECONDS", LONG)

    def offend(caller):
        for _ in range(200):
            with contextlib.suppress(RefusedError):
                caller.call("nothing", reply=Empty)

    with client(gateway, BOB) as bob, client(gateway) as ann:
        with pytest.raises(ChannelError, match="for now"):
            offend(bob)
        assert double(ann, 4) == 8
    gateway._guard._violations[BOB.public].out_until = 0.0  # its time is over
    with client(gateway, BOB) as bob:
        assert double(bob, 4) == 8


def test_only_who_came_through_the_door_is_let_in(gateway):
    """Another user of the machine may find ZeroMQ's own port; its keys do not help there."""
    gateway.endpoint = gateway._socket.endpoint
    with client(gateway) as ann, pytest.raises(ChannelError, match="for now"):
        ann.call("double", Number(1), reply=Number)


def test_heartbeats_do_not_use_up_the_budget(gateway):
    guard = gateway._guard
    with client(gateway) as ann:
        assert double(ann, 1) == 2
        (visitor,) = guard._connections.values()
        with guard._lock:
            guard._charge(visitor, 8000, 0)  # of a quiet minute and a half
            visitor.finished -= 90
        assert double(ann, 2) == 4
        assert double(ann, 3) == 6  # the message before is finished by now
        assert visitor.held < 2000


@pytest.mark.parametrize("cut", [False, True], ids=["the caller goes", "the guard drops it"])
def test_zeromq_ends_every_connection_itself(monkeypatch, cut):
    """A plain server in place of ZeroMQ reads no more; it has to see an open connection."""
    monkeypatch.setattr(port_guard, "_CLOSING_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as behind:
        behind.settimeout(LONG)
        guard = PortGuard("tcp://127.0.0.1:0", LIMITS)
        guard.open(behind.getsockname()[1])
        outside = ("127.0.0.1", int(guard.endpoint.rpartition(":")[2]))
        caller, other = (socket.create_connection(outside) for _ in range(2))
        ends = {end.getpeername()[0]: end for end in (behind.accept()[0], behind.accept()[0])}
        (address, inside), (_, beside) = sorted(ends.items())  # in the order of their coming
        inside.settimeout(LONG)
        assert guard.admit(address, BOB.public)
        caller.sendall(bytes(5000))
        wait_for(lambda: guard.inside()[1] == 5000)
        if cut:
            with guard._lock:
                guard._drop_key(BOB.public, "is dropped")
        else:
            caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            caller.close()  # with a reset
        assert len(inside.recv(4000, socket.MSG_WAITALL)) == 4000  # and 1000 wait
        for _ in range(20):  # heartbeats, and between them the guard is at work
            inside.sendall(b"beat")
            other.sendall(b"x")
            assert beside.recv(1) == b"x"
        look = select.poll()
        look.register(inside, 0)  # what is broken is reported unasked
        assert look.poll(0) == []
        assert guard.inside()[0] == 2
        inside.close()
        wait_for(lambda: guard.inside()[0] == 1)
        for end in (caller, other, beside):
            end.close()
        guard.close()


@pytest.mark.parametrize(
    ("descriptors", "wanted", "room"),
    [
        (256, 300, 42),  # silent strangers would have locked owners out
        (1 << 20, 1024, 1024),
        (resource.RLIM_INFINITY, 1024, 1024),
        (4, 1024, 1),
        (3584, 1024, 1024),
        (3583, 1024, 1023),
    ],
)
def test_there_are_no_more_connections_than_descriptors_for_them(
    monkeypatch, descriptors, wanted, room
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, descriptors))
    assert room_for(wanted) == room
