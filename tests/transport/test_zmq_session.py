"""Channels over ZeroMQ with CURVE on loopback: opening, bulk, ending, and peers that misbehave."""

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zmq

from ppodc.errors import ChannelError, KeyFileError, PeerError
from ppodc.local.platform import free_ports
from ppodc.transport import wire, zmq_socket
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.zmq_session import (
    Hello,
    Listener,
    ZmqChannel,
    _ConnectingLink,
    connect,
    listen,
)
from tests.harness.patience import LONG, wait_for
from tests.transport.loopback import ANYWHERE, C1, C2, GRACE, STRANGER, dial, open_pair

# --- opening ------------------------------------------------------------------------------------


def test_both_ends_know_the_session_and_the_peer(listener, pool) -> None:
    accepted = pool.submit(listener.accept, LONG, {"suite": "shares", "here": "x"}, bytes(16))
    one = dial(listener, session=bytes(16), hello={"suite": "shares", "there": "y"})
    two = accepted.result()
    assert one.session == two.session == bytes(16)
    assert (one.peer, two.peer) == (C2.public, C1.public)
    assert one.peer_facts == {"suite": "shares", "here": "x"}
    assert two.peer_facts == {"suite": "shares", "there": "y"}
    one.close()


def test_facts_that_differ_are_named_at_both_ends(listener, pool) -> None:
    accepted = pool.submit(listener.accept, LONG, {"suite": "shares", "spec": "same"})
    with pytest.raises(ChannelError, match=r"'suite'.*'shares'.*'paillier'"):
        dial(listener, hello={"suite": "paillier", "spec": "same"})
    with pytest.raises(ChannelError, match=r"'suite'.*'shares'.*'paillier'"):
        accepted.result()
    one, _ = open_pair(listener, pool)
    one.close()


def test_another_session_than_expected_is_refused(listener, pool) -> None:
    accepted = pool.submit(listener.accept, LONG, None, bytes(16))
    with pytest.raises(ChannelError, match="session offered"):
        dial(listener)
    with pytest.raises(ChannelError, match="session offered"):
        accepted.result()


def test_a_key_that_is_not_allowed_is_told_so(listener, pool, caplog) -> None:
    with pytest.raises(ChannelError, match="does not let this key in") as caught:
        connect(listener.endpoint, STRANGER, C2.public, timeout=LONG)
    assert STRANGER.public.decode() in str(caught.value)
    assert STRANGER.secret.decode() not in str(caught.value) + caplog.text
    assert "is not allowed" in caplog.text
    one, _ = open_pair(listener, pool)
    one.close()


def test_nobody_is_let_in_by_an_empty_list() -> None:
    with (
        listen(ANYWHERE, C2, []) as listener,
        pytest.raises(ChannelError, match="does not let this key in"),
    ):
        dial(listener)


def test_lists_of_two_listeners_in_one_process_do_not_mix() -> None:
    with (
        listen(ANYWHERE, C2, [C1.public]) as ours,
        listen(ANYWHERE, C2, [STRANGER.public]) as other,
    ):
        for listener, key in ((ours, STRANGER), (other, C1)):
            with pytest.raises(ChannelError, match="does not let this key in"):
                connect(listener.endpoint, key, C2.public, timeout=LONG)


def test_a_listener_with_another_key_is_found_out(listener) -> None:
    with pytest.raises(ChannelError, match="does not hold the expected key"):
        connect(listener.endpoint, C1, STRANGER.public, timeout=LONG)


def test_a_listener_without_curve_is_found_out() -> None:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as plain:
        plain.linger = 0
        port = plain.bind_to_random_port("tcp://127.0.0.1")
        with pytest.raises(ChannelError, match="does not hold the expected key"):
            connect(f"tcp://127.0.0.1:{port}", C1, C2.public, timeout=LONG)


def test_a_client_without_curve_gets_nothing(listener) -> None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as plain:
        plain.linger = 0
        plain.connect(listener.endpoint)
        plain.send_multipart([b"H", b"\x01", b""])
        with pytest.raises(ChannelError, match="nobody connected"):
            listener.accept(0.5)


def test_nobody_listening() -> None:
    endpoint = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    with pytest.raises(ChannelError, match="nobody listens"):
        connect(endpoint, C1, C2.public, timeout=0.5)


def test_something_else_listening() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        link = _ConnectingLink(f"tcp://127.0.0.1:{mute.getsockname()[1]}", C1, C2.public, GRACE)
        wait_for(pumped(link, lambda: link._connection._connected))
        with pytest.raises(ChannelError, match="did not identify itself"):
            link.greet(Hello(bytes(16), {}), timeout=0.1)
        link.socket.close()


def pumped(link: Listener | _ConnectingLink, reached: Callable[[], object]) -> Callable[[], object]:
    """The condition, after taking in what has arrived."""

    def look() -> object:
        with link.socket.lock:
            link.pump()
            return reached()

    return look


def test_nobody_accepting_and_the_stale_hello_is_forgotten(listener, pool) -> None:
    link = _ConnectingLink(listener.endpoint, C1, C2.public, GRACE)
    wait_for(pumped(link, lambda: link._connection.established))
    with pytest.raises(ChannelError, match="busy"):
        link.greet(Hello(bytes(16), {}), timeout=0.1)
    wait_for(pumped(listener, lambda: listener._waiting))
    (stale,) = listener._mailboxes.values()
    link.socket.close()
    wait_for(pumped(listener, lambda: stale.lost_since is not None))
    one, two = open_pair(listener, pool)
    one.send("k")
    two.receive("k")
    one.close()


def test_nobody_connecting(listener) -> None:
    with pytest.raises(ChannelError, match="nobody connected"):
        listener.accept(0.1)


def test_endpoints_that_cannot_be_used(listener) -> None:
    with pytest.raises(ChannelError, match="cannot listen"):
        listen(listener.endpoint, C2, [C1.public])
    for endpoint in ("nonsense", "tcp://no-port"):
        with pytest.raises(ChannelError, match="cannot connect"):
            connect(endpoint, C1, C2.public)
    with pytest.raises(KeyFileError):
        connect(listener.endpoint, C1, b"no key")
    with pytest.raises(KeyFileError):
        listen(ANYWHERE, C2, [b"no key"])


# --- talking ------------------------------------------------------------------------------------


def test_messages_both_ways(pair) -> None:
    one, two = pair
    data = np.arange(1000, dtype=np.uint32).reshape(10, 100)
    one.send("there", arrays=[data, data[:, ::3], np.zeros((0, 7), np.uint8)])
    got = two.receive("there").arrays
    np.testing.assert_array_equal(got[0], data)
    np.testing.assert_array_equal(got[1], data[:, ::3])
    assert got[2].shape == (0, 7)
    two.send("back")
    one.receive("back")
    assert one.traffic.bytes_sent == two.traffic.bytes_received
    assert one.traffic.rounds == 1


def test_arrays_may_be_changed_after_sending(pair) -> None:
    one, two = pair
    data = np.zeros(1 << 21, np.uint64)
    one.send("k", arrays=[data])
    data[:] = 1
    assert not two.receive("k").arrays[0].any()


def test_two_way_bulk_does_not_deadlock(pair, pool) -> None:
    block = np.arange(10 << 17, dtype=np.uint64)  # 10 MiB
    block.flags.writeable = False

    def talk(channel: ZmqChannel) -> list[bool]:
        for _ in range(5):
            channel.send("bulk", arrays=[block])
        return [np.array_equal(channel.receive("bulk").arrays[0], block) for _ in range(5)]

    results = [pool.submit(talk, end) for end in pair]
    assert [result.result() for result in results] == [[True] * 5] * 2


def test_several_peers_at_once_each_in_its_thread() -> None:
    keys = [CurveKeys.generate() for _ in range(3)]

    def serve(channel: ZmqChannel) -> None:
        for _ in range(40):
            (array,) = channel.receive("next").arrays
            channel.send("answer", arrays=[array + np.uint64(1)])

    def ask(listener: Listener, own: CurveKeys, start: int) -> list[int]:
        with connect(listener.endpoint, own, C2.public, timeout=LONG) as channel:
            for i in range(40):
                channel.send("next", arrays=[np.array([start + i], np.uint64)])
            return [int(channel.receive("answer").arrays[0][0]) for _ in range(40)]

    with (
        listen(ANYWHERE, C2, [key.public for key in keys], timeout=LONG) as listener,
        ThreadPoolExecutor(6) as pool,
    ):
        asking = [pool.submit(ask, listener, key, 1000 * i) for i, key in enumerate(keys)]
        serving = [pool.submit(serve, listener.accept(LONG)) for _ in keys]
        for i, future in enumerate(asking):
            assert future.result() == [1000 * i + j + 1 for j in range(40)]
        for done in serving:
            done.result()


# --- ending -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1], ids=["connecting", "listening"])
def test_what_was_sent_before_closing_arrives(monkeypatch, pool, order: int) -> None:
    # Hardly any heartbeat: one that is on its way to an end that closes resets the connection.
    monkeypatch.setattr(zmq_socket, "_LONGEST_HEARTBEAT", LONG)
    monkeypatch.setattr(zmq_socket, "_HEARTBEATS", 1)
    with listen(ANYWHERE, C2, [C1.public], timeout=LONG, grace=GRACE) as listener:
        check_last_messages(*open_pair(listener, pool)[::order])


def check_last_messages(closing: ZmqChannel, staying: ZmqChannel) -> None:
    block = np.ones(10 << 20, np.uint8)
    for _ in range(3):
        closing.send("bulk", arrays=[block])
    closing.close()
    for _ in range(3):
        assert staying.receive("bulk").arrays[0].all()
    with pytest.raises(ChannelError, match="has closed the channel"):
        staying.receive("bulk")


@pytest.mark.parametrize("order", [1, -1], ids=["connecting", "listening"])
def test_an_error_is_told(pair, order: int) -> None:
    failing, staying = pair[::order]
    failing.fail("disk full")
    with pytest.raises(PeerError, match="disk full"):
        staying.receive("k")


def test_closing_the_listener_ends_its_sessions(listener, pool) -> None:
    one, two = open_pair(listener, pool)
    listener.close()
    with pytest.raises(ChannelError, match="has closed the channel"):
        one.receive("k")
    with pytest.raises(ChannelError, match="closed at this end"):
        two.receive("k")


def test_silence_of_a_living_peer_ends_at_the_deadline(pair) -> None:
    one, two = pair
    with pytest.raises(ChannelError, match=r"no message within 0\.1 s"):
        one.receive("k", timeout=0.1)
    with pytest.raises(PeerError, match="no message"):
        two.receive("k")


# --- misbehaviour of an authenticated peer ------------------------------------------------------


@pytest.mark.parametrize("order", [1, -1], ids=["connecting", "listening"])
@pytest.mark.parametrize("fault", ["rubbish", "replayed", "gap", "session", "truncated"])
def test_bad_frames_are_refused_and_the_listener_lives_on(
    pair, listener, pool, caplog, order: int, fault: str
) -> None:
    bad, good = pair[::order]
    body = wire.encode_body(None)

    def frame(seq: int, session: bytes = bad.session) -> list[wire.Part]:
        return wire.encode(session, seq, "k", body, [np.zeros(9, np.uint16)])

    bad._put(frame(0))
    good.receive("k")
    parts, complaint = {
        "rubbish": ([b"rubbish"], "damaged"),
        "replayed": (frame(0), "twice or too late"),
        "gap": (frame(2), "1 to 1 are missing"),
        "session": (frame(1, bytes(16)), "another session"),
        "truncated": (frame(1)[:-1], "pieces"),
    }[fault]
    bad._put(parts)
    with pytest.raises(ChannelError, match=complaint):
        good.receive("k")
    with pytest.raises(PeerError, match=complaint):
        bad.receive("k")
    assert complaint in caplog.text
    one, two = open_pair(listener, pool)
    two.send("fine")
    one.receive("fine")
    one.close()


def raw_client(listener: Listener, messages: list[list[bytes]]) -> list[bytes]:
    """An allowed peer that does not follow the protocol; returns the last answer it got."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.rcvtimeo = int(LONG * 1000)
        dealer.curve_publickey, dealer.curve_secretkey = C1.public, C1.secret
        dealer.curve_serverkey = C2.public
        dealer.connect(listener.endpoint)
        for message in messages:
            dealer.send_multipart(message)
        return dealer.recv_multipart()


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ([b"H", b"\x02", b"\x80"], b"version 1"),
        ([b"H"], b"version 1"),
        ([b"H", b"\x01", b"\xc1"], b"hello"),
        ([b"H", b"\x01", b"\x80"], b"hello"),
        ([b"F", b"frame"], b"no such session"),
        ([b""], b"no such session"),
        ([b"?" * 100, b"", b""], b"no such session"),
    ],
    ids=["version", "short", "no msgpack", "no fields", "no hello", "empty", "tag"],
)
def test_a_strange_opening_is_answered_and_survived(
    listener, pool, message: list[bytes], complaint: bytes
) -> None:
    accepted = pool.submit(listener.accept, LONG)
    tag, text = raw_client(listener, [message])
    assert tag == b"E"
    assert complaint in text
    one = dial(listener)
    accepted.result()
    one.close()


def test_an_oversized_message_never_arrives(pair, pool) -> None:
    one, two = pair
    one._put([bytes(wire.PIECE_BYTES + (1 << 20))])
    waiting = pool.submit(one.receive, "k")
    with pytest.raises(ChannelError, match="lost"):
        two.receive("k")
    with pytest.raises(ChannelError, match=r"lost|closed"):
        waiting.result()
