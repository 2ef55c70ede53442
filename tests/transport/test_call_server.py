"""The gateway on loopback: who may call what, repeated requests, malformed frames, stopping."""

import contextlib
import logging
import secrets
import socket
import threading

import msgspec
import numpy as np
import pytest
import zmq

from ppodc.errors import AccessError, ChannelError, InputError, InternalError, RefusedError
from ppodc.local.platform import free_ports
from ppodc.transport import call_client, wire
from ppodc.transport import gateway as gateway_module
from ppodc.transport.call_client import REFUSAL, REPLY, Call, Client
from ppodc.transport.call_server import Operation, Peer
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.gateway import Gateway
from ppodc.transport.wire import Body, Empty
from tests.harness.patience import LONG, wait_for

OWN, ANN, BOB, CLOUD, EVE = (CurveKeys.generate() for _ in range(5))
PEERS = {
    ANN.public: Peer("owner", "ann"),
    BOB.public: Peer("owner", "bob"),
    CLOUD.public: Peer("cloud1", "cloud1"),
}


class Number(Body, frozen=True):
    value: int


class Who(Body, frozen=True):
    text: str


class Service:
    """Counts what it did, so that doing it twice shows."""

    def __init__(self):
        self.calls = []
        self.hold = threading.Event()

    def operations(self):
        everyone = frozenset({"owner", "cloud1"})
        return [
            Operation("double", everyone, Number, self.double),
            Operation("who", everyone, Empty, self.who),
            Operation("control", frozenset({"cloud1"}), Empty, self.who),
            Operation("fail", everyone, Number, self.fail),
            Operation("hold", everyone, Empty, self.wait),
        ]

    def double(self, peer, body, arrays):
        self.calls.append(body.value)
        return Number(2 * body.value), [2 * array for array in arrays]

    def who(self, peer, body, arrays):
        return Who(f"{peer.role} {peer.name}"), ()

    def fail(self, peer, body, arrays):
        if body.value:
            raise InputError("say it otherwise.")
        raise RuntimeError("the seed is 12345")

    def wait(self, peer, body, arrays):
        self.calls.append("hold")
        assert self.hold.wait(LONG)
        return None, ()


@pytest.fixture
def service():
    return Service()


@pytest.fixture
def gateway(service):
    with Gateway("tcp://127.0.0.1:0", OWN, PEERS, service.operations()) as running:
        yield running
        service.hold.set()


def client(gateway, keys=ANN, timeout=LONG, server=OWN):
    return Client.connect(gateway.endpoint, keys, server.public, timeout)


def double(caller, value):
    return caller.call("double", Number(value), reply=Number)[0].value


def test_a_call_and_its_arrays(gateway):
    with client(gateway) as ann:
        big = np.arange(1 << 19, dtype=np.uint64).reshape(-1, 4)
        reply, (answer,) = ann.call("double", Number(4), [big], reply=Number)
        assert reply.value == 8
        assert np.array_equal(answer, 2 * big)


def test_the_key_decides_who_calls(gateway):
    for keys, name in [(ANN, "owner ann"), (BOB, "owner bob"), (CLOUD, "cloud1 cloud1")]:
        with client(gateway, keys) as caller:
            assert caller.call("who", reply=Who)[0].text == name


def test_an_unknown_key_is_refused_and_logged(gateway, caplog):
    with client(gateway, EVE) as eve, pytest.raises(ChannelError, match="does not let this key in"):
        double(eve, 1)
    assert EVE.public.decode() in caplog.text
    with client(gateway) as ann:
        assert double(ann, 1) == 2


def test_another_server_is_noticed(gateway):
    with client(gateway, server=BOB) as ann, pytest.raises(ChannelError, match="expected key"):
        double(ann, 1)


def nobodys_endpoint():
    return f"tcp://127.0.0.1:{free_ports(1)[0]}"


def test_nobody_there():
    ann = Client.connect(nobodys_endpoint(), ANN, OWN.public, 0.5)
    with ann, pytest.raises(ChannelError, match="nobody listens"):
        double(ann, 1)


def test_operations_of_another_role_are_refused_and_logged(gateway, caplog):
    with client(gateway) as ann:
        with pytest.raises(RefusedError, match="not for the role 'owner'") as caught:
            ann.call("control", reply=Who)
        assert caught.value.code == AccessError.code
        with pytest.raises(RefusedError, match="no operation"):
            ann.call("nothing", reply=Empty)
    assert "owner ann: refused 'control'" in caplog.text
    with client(gateway, CLOUD) as cloud:
        assert cloud.call("control", reply=Who)[0].text == "cloud1 cloud1"


def test_errors_come_back_with_code_and_text_and_secrets_do_not(gateway, caplog):
    with client(gateway) as ann:
        with pytest.raises(RefusedError, match="say it otherwise") as caught:
            ann.call("fail", Number(1), reply=Empty)
        assert caught.value.code == InputError.code
        with pytest.raises(RefusedError, match="internal error") as caught:
            ann.call("fail", Number(0), reply=Empty)
        assert "12345" not in str(caught.value)
        assert caught.value.code == InternalError.code
        with pytest.raises(RefusedError, match="does not decode"):
            ann.call("double", Empty(), reply=Number)
        assert double(ann, 3) == 6
    assert "failed" in caplog.text


class Raw:
    """An authenticated peer that sends whatever it likes, and keeps at most `unread` answers."""

    def __init__(self, gateway, keys=BOB, unread=1000):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.rcvhwm = unread
        self.socket.curve_publickey, self.socket.curve_secretkey = keys.public, keys.secret
        self.socket.curve_serverkey = OWN.public
        self.socket.linger = 0
        self.socket.connect(gateway.endpoint)
        self.session = secrets.token_bytes(16)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.context.term()

    def request(self, number, value, session=None, arrays=()):
        raw = wire.encode_body(Number(value))
        body = wire.encode_body(Call(wire.content_digest("double", raw, arrays), raw))
        parts = wire.encode(session or self.session, number, "double", body, arrays)
        return [bytes(part) for part in parts]

    def send(self, parts):
        self.socket.send_multipart(parts)

    def answer(self):
        assert self.socket.poll(int(LONG * 1000)), "no answer"
        return wire.decode(self.socket.recv_multipart())


def test_a_resend_gets_the_stored_answer(gateway, service):
    with Raw(gateway) as raw:
        answers = []
        for _ in range(3):
            raw.send(raw.request(1, 21))
            answers.append(raw.answer())
        assert [answer.message.decode(Number).value for answer in answers] == [42] * 3
        assert service.calls == [21]


def test_a_repeat_while_it_runs_is_done_once(gateway, service):
    with Raw(gateway) as raw:
        body = wire.encode_body(None)
        call = wire.encode_body(Call(wire.content_digest("hold", body, ()), body))
        parts = [bytes(part) for part in wire.encode(raw.session, 1, "hold", call)]
        raw.send(parts)
        raw.send(parts)
        raw.send(raw.request(2, 5))
        assert raw.answer().seq == 2  # both copies of request 1 were taken in before
        service.hold.set()
        assert raw.answer().seq == 1
        assert service.calls.count("hold") == 1
        raw.send(raw.request(3, 6))
        assert raw.answer().seq == 3  # and no second answer to request 1 before it


def test_random_and_mutated_frames_from_an_authenticated_peer(gateway, service, caplog):
    caplog.set_level(logging.CRITICAL)
    g = np.random.default_rng(1)
    with Raw(gateway) as raw, client(gateway) as ann:
        for case in range(80):  # of a hundred the gateway would have enough
            parts = [bytearray(part) for part in raw.request(case, case)]
            kind = case % 5
            if kind == 0:
                parts = [bytearray(g.bytes(int(g.integers(0, 200)))) for _ in range(case % 7 + 1)]
            elif kind == 1:
                parts[0][int(g.integers(len(parts[0])))] ^= int(g.integers(1, 256))
            elif kind == 2:
                parts[0] = parts[0][: int(g.integers(len(parts[0])))]
            elif kind == 3:
                parts.append(bytearray(g.bytes(50)))
            else:
                parts = parts * 80
            raw.send([bytes(part) for part in parts])
            if case % 20 == 0:
                assert double(ann, case) == 2 * case
        assert double(ann, 7) == 14
        last = raw.request(1000, 1000, secrets.token_bytes(16))
        raw.send(last)
        while True:
            if not raw.socket.poll(1000):
                raw.send(last)  # as clients do: an answer that finds no room is dropped
            elif raw.answer().message.kind == REPLY:
                break
    assert 1000 in service.calls


def test_headers_that_decode_to_nonsense(gateway):
    with Raw(gateway) as raw, client(gateway) as ann:
        for body in (None, 5, "x", [1, 2], {"digest": b"x"}, {"digest": bytes(16), "body": []}):
            packed = msgspec.Raw(msgspec.msgpack.encode(body))
            for kind in ("double", "x" * 64, "\x00"):
                parts = wire.encode(raw.session, 1, kind, packed)
                raw.send([bytes(part) for part in parts])
                assert raw.answer().message.kind == REFUSAL
        assert double(ann, 7) == 14


def test_garbage_from_anyone_over_tcp(gateway):
    host, port = gateway.endpoint.removeprefix("tcp://").split(":")
    g = np.random.default_rng(2)
    greeting = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(15) + bytes(32)
    open_ones = []
    for case in range(60):
        plain = socket.create_connection((host, int(port)))
        start = [b"", b"GET / HTTP/1.1\r\n\r\n", greeting][case % 3]
        with contextlib.suppress(OSError):  # it may be thrown out in the middle
            plain.sendall(start + g.bytes(int(g.integers(0, 5000))))
        if case % 4:
            plain.close()
        else:
            open_ones.append(plain)
    with client(gateway) as ann:
        assert double(ann, 7) == 14
    for plain in open_ones:
        plain.close()


def test_the_other_cloud_is_served_while_owners_keep_all_threads_busy(gateway, service):
    held = [client(gateway, keys) for keys in (ANN, BOB) for _ in range(6)]
    threads = [threading.Thread(target=one.tell, args=("hold",)) for one in held]
    for thread in threads:
        thread.start()
    wait_for(lambda: service.calls.count("hold") >= 4)
    peers = {CLOUD.public: PEERS[CLOUD.public]}
    with (
        Gateway("tcp://127.0.0.1:0", OWN, peers, service.operations()) as control,
        client(control, CLOUD) as cloud,
    ):
        assert double(cloud, 5) == 10
    service.hold.set()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    for one in held:
        one.close()


def test_a_client_outlives_a_restart_of_the_gateway_and_says_once_that_it_waits(
    service, monkeypatch, caplog
):
    monkeypatch.setattr(call_client, "_PATIENCE_SECONDS", -1.0)
    endpoint = nobodys_endpoint()
    first = Gateway(endpoint, OWN, PEERS, service.operations())
    first.start()
    with client(first) as ann:
        assert double(ann, 1) == 2
        first.stop()
        caplog.clear()  # the first call may have waited as well
        answers = []
        thread = threading.Thread(target=lambda: answers.append(double(ann, 2)))
        thread.start()
        wait_for(lambda: f"waiting for {endpoint}" in caplog.text)
        with Gateway(endpoint, OWN, PEERS, service.operations()):
            thread.join(LONG)
        assert answers == [4]
    assert caplog.text.count(f"waiting for {endpoint}") == 1


def test_stop_answers_what_runs_and_can_be_repeated(service, monkeypatch):
    monkeypatch.setattr(gateway_module, "_STOP_SECONDS", LONG)
    gateway = Gateway(nobodys_endpoint(), OWN, PEERS, service.operations())
    gateway.start()
    done = []
    with client(gateway) as ann:
        thread = threading.Thread(target=lambda: done.append(ann.call("hold", reply=Empty)))
        thread.start()
        wait_for(lambda: "hold" in service.calls)
        finishing = threading.Thread(
            target=lambda: gateway._stopping.wait(LONG) and service.hold.set()
        )
        finishing.start()
        gateway.stop()
        gateway.stop()
        thread.join(LONG)
        finishing.join(LONG)
        assert done
    again = Gateway(gateway.endpoint, OWN, PEERS, service.operations())  # the port is free
    again.stop()


def test_a_port_in_use_is_told(gateway):
    with pytest.raises(ChannelError, match="cannot listen"):
        Gateway(gateway.endpoint, OWN, PEERS, [])


def test_many_clients_at_once(gateway):
    errors = []

    def one(number):
        try:
            with client(gateway, (ANN, BOB)[number % 2]) as caller:
                for value in range(10):
                    assert double(caller, value) == 2 * value
        except Exception as error:  # noqa: BLE001 - shown below
            errors.append(error)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG)
        assert not thread.is_alive()
    assert not errors
