"""A peer or a network that dies, on loopback: noticed within the grace, or survived."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest

from ppodc.errors import ChannelError, PeerError
from ppodc.local.platform import free_ports
from ppodc.transport.zmq_session import Listener, ZmqChannel, connect, listen
from tests.harness.patience import LONG, wait_for
from tests.transport.loopback import ANYWHERE, C1, C2, GRACE, open_pair

SHORT = 1.0  # second of grace, where an end must give up; it starts when the other one is gone
SILENCE = 3.0  # seconds of grace, where nothing but missing heartbeats shows that it is gone
LARGE = 100_000  # bytes, against which heartbeats do not count


def pump_until(channel: ZmqChannel, reached: Callable[[], bool]) -> None:
    """Take in what arrives, without reading it, until something is so."""

    def look() -> bool:
        with channel._link.socket.lock:
            channel._link.pump()
            channel._mailbox.check()
            return reached()

    wait_for(look)


def give_up_soon(channel: ZmqChannel) -> None:
    """From now on a lost connection is given little time; heartbeats are believed as before."""
    channel._link.socket.grace = SHORT


def is_lost(channel: ZmqChannel) -> bool:
    return channel._mailbox.lost_since is not None


CHILD = """
import sys, numpy as np
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.zmq_session import connect
public, secret, server, endpoint = sys.argv[1:]
own = CurveKeys(public.encode(), secret.encode())
channel = connect(endpoint, own, server.encode(), timeout=300, grace=30)
block = np.ones(1 << 20, np.uint8)
while True:
    channel.send("bulk", arrays=[block])
    channel.receive("go")
"""

LISTENING_CHILD = """
import sys
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.zmq_session import listen
public, secret, client = sys.argv[1:]
own = CurveKeys(public.encode(), secret.encode())
listener = listen("tcp://127.0.0.1:0", own, [client.encode()], grace=30)
print(listener.endpoint, flush=True)
channel = listener.accept(300)
{then}
"""


def run_child(code: str, *arguments: bytes | str, **options: object) -> "subprocess.Popen[str]":
    texts = [a.decode() if isinstance(a, bytes) else a for a in arguments]
    return subprocess.Popen([sys.executable, "-c", code, *texts], text=True, **options)


def test_a_killed_client_is_noticed_mid_stream(listener) -> None:
    child = run_child(CHILD, C1.public, C1.secret, C2.public, listener.endpoint)
    try:
        channel = listener.accept(300)
        for _ in range(3):
            channel.receive("bulk")
            channel.send("go")
        channel.receive("bulk")
        give_up_soon(channel)
        child.send_signal(signal.SIGKILL)
        with pytest.raises(ChannelError, match="gone for over 1 s"):
            channel.receive("bulk", timeout=LONG)
    finally:
        child.kill()
        child.wait()


def test_a_killed_client_is_noticed_behind_unread_messages(listener, pool) -> None:
    child = run_child(CHILD, C1.public, C1.secret, C2.public, listener.endpoint)
    try:
        channel = listener.accept(300)
        channel.send("go")
        channel.send("go")
        pump_until(channel, lambda: len(channel._mailbox.frames) == 3)
        give_up_soon(channel)
        child.kill()
        child.wait()
        for _ in range(3):
            channel.receive("bulk")
        with pytest.raises(ChannelError, match="gone for over 1 s"):
            channel.receive("bulk", timeout=LONG)
    finally:
        child.kill()
        child.wait()


def test_a_killed_listener_is_noticed() -> None:
    code = LISTENING_CHILD.format(then="channel.send('ready')\nchannel.receive('never')")
    child = run_child(code, C2.public, C2.secret, C1.public, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        channel = connect(child.stdout.readline().strip(), C1, C2.public, timeout=LONG, grace=GRACE)
        channel.receive("ready")
        give_up_soon(channel)
        child.kill()
        with pytest.raises(ChannelError, match="gone for over 1 s"):
            channel.receive("k", timeout=LONG)
        with pytest.raises(ChannelError, match="cannot be used"):
            channel.send("k")
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


def test_a_restarted_listener_does_not_know_the_session(pool) -> None:
    endpoint = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    first = listen(endpoint, C2, [C1.public])
    one, _ = open_pair(first, pool)
    # As a crash would: without a good-bye.
    first._mailboxes.clear()
    first.close()
    with listen(endpoint, C2, [C1.public]) as second:
        waiting = pool.submit(one.receive, "k")
        while not waiting.done():
            with pytest.raises(ChannelError, match="nobody connected"):
                second.accept(0.05)
        with pytest.raises(ChannelError, match="no such session"):
            waiting.result()


def test_ctrl_c_interrupts_a_waiting_receive() -> None:
    then = """
try:
    channel.send("ready")
    channel.receive("never")
except KeyboardInterrupt:
    channel.fail("interrupted by its operator")
    listener.close()
    print("clean", flush=True)
"""
    child = run_child(
        LISTENING_CHILD.format(then=then), C2.public, C2.secret, C1.public, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        channel = connect(child.stdout.readline().strip(), C1, C2.public, timeout=LONG, grace=GRACE)
        channel.receive("ready")
        time.sleep(0.3)  # probably into the poll; an earlier signal must be caught as well
        child.send_signal(signal.SIGINT)
        with pytest.raises(PeerError, match="interrupted by its operator"):
            channel.receive("k", timeout=LONG)
        assert child.stdout.readline() == "clean\n"
        assert child.wait(LONG) == 0
    finally:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


class Proxy:
    """A TCP relay whose connections can be cut, and which can swallow what passes."""

    def __init__(self, endpoint: str) -> None:
        host, port = endpoint.removeprefix("tcp://").split(":")
        self._target = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        self.swallow = False
        self.swallowed = 0  # bytes
        self.refuse = False
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if self.refuse:
                near.close()
                continue
            far = socket.create_connection(self._target)
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._relay, args=(source, sink), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                if self.swallow:
                    self.swallowed += len(data)
                else:
                    sink.sendall(data)
        except OSError:
            return

    def cut(self) -> None:
        for end in self._sockets:
            with contextlib.suppress(OSError):  # ended by its own side already
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._sockets.clear()

    def close(self) -> None:
        self._server.close()
        self.cut()


@contextlib.contextmanager
def over_a_proxy(
    listener: Listener, pool: ThreadPoolExecutor
) -> Iterator[tuple[Proxy, ZmqChannel, ZmqChannel]]:
    grace = listener.socket.grace
    proxy = Proxy(listener.endpoint)
    accepted = pool.submit(listener.accept, LONG)
    one = connect(proxy.endpoint, C1, C2.public, timeout=LONG, receive_timeout=LONG, grace=grace)
    two = accepted.result()
    yield proxy, one, two
    one.close()
    two.close()
    proxy.close()


@pytest.fixture
def proxied(listener, pool) -> Iterator[tuple[Proxy, ZmqChannel, ZmqChannel]]:
    with over_a_proxy(listener, pool) as ends:
        yield ends


def drop(proxy: Proxy, *ends: ZmqChannel) -> None:
    """Cut the link and keep it down until both ends know."""
    proxy.refuse = True
    proxy.cut()
    for end in ends:
        pump_until(end, lambda end=end: is_lost(end))


def test_a_short_drop_without_loss_is_survived(proxied, pool) -> None:
    proxy, one, two = proxied
    for _ in range(2):
        one.send("there")
        two.receive("there")
        two.send("back")
        one.receive("back")
        drop(proxy, one, two)
        proxy.refuse = False
        waiting: list[Future[object]] = [pool.submit(end.receive, "k") for end in (one, two)]
        for end in (one, two):
            pump_until(end, lambda end=end: not is_lost(end))
        one.send("k")
        two.send("k")
        for future in waiting:
            future.result()


def test_frames_sent_while_the_link_is_down_arrive_later(proxied, pool) -> None:
    proxy, one, two = proxied
    drop(proxy, one, two)

    def talk(end: ZmqChannel) -> list[int]:
        for i in range(5):
            end.send("k", arrays=[np.array([i], np.uint8)])
        return [int(end.receive("k").arrays[0][0]) for _ in range(5)]

    talking = [pool.submit(talk, end) for end in (one, two)]
    pump_until(one, lambda: one._mailbox.frames_out == 5)
    proxy.refuse = False
    assert [future.result() for future in talking] == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize("order", [1, -1], ids=["connecting", "listening"])
def test_a_lost_last_message_is_noticed_after_the_reconnect(proxied, pool, order: int) -> None:
    proxy, *ends = proxied
    sender, receiver = ends[::order]
    proxy.swallow = True
    sender.send("gone", arrays=[np.zeros(LARGE, np.uint8)])
    wait_for(lambda: proxy.swallowed >= LARGE)
    proxy.cut()
    proxy.swallow = False
    waiting = pool.submit(sender.receive, "k")
    with pytest.raises(ChannelError, match="lost"):
        receiver.receive("gone")
    with pytest.raises(ChannelError, match=r"lost|closed"):
        waiting.result()


def test_a_network_that_swallows_everything_is_noticed(pool) -> None:
    with (
        listen(ANYWHERE, C2, [C1.public], grace=SILENCE) as listener,
        over_a_proxy(listener, pool) as (proxy, one, two),
    ):
        proxy.swallow = True
        waiting = [pool.submit(end.receive, "k", timeout=LONG) for end in (one, two)]
        for future in waiting:
            with pytest.raises(ChannelError, match="gone for over 3 s"):
                future.result()
        proxy.swallow = False


def test_no_descriptor_is_left_behind(pool) -> None:
    def rounds(count: int) -> None:
        for _ in range(count):
            with listen(ANYWHERE, C2, [C1.public]) as listener:
                one, two = open_pair(listener, pool)
                one.send("k")
                two.receive("k")
                one.close()
                two.close()

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    rounds(2)
    before = descriptors()
    rounds(4)
    assert descriptors() <= before
