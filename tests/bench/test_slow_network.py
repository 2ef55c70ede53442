"""An imitated link delivers every byte in order, after its latency and no faster than its rate."""

import contextlib
import socket
import threading
import time
from urllib.parse import urlsplit

import pytest

from ppodc.bench.network_presets import Link
from ppodc.bench.slow_network import _Lane, slow
from tests.harness.patience import LONG


@pytest.fixture
def echo():
    """A server that sends back what it gets, until its clients are gone."""

    def serve():
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                while piece := connection.recv(1 << 16):
                    connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join(LONG)


def there_and_back(endpoint: str, data: bytes) -> bytes:
    """The echo."""
    address = urlsplit(endpoint)
    with socket.create_connection((address.hostname, address.port), LONG) as connection:
        sender = threading.Thread(target=lambda: connection.sendall(data))
        sender.start()
        found = bytearray()
        while len(found) < len(data):
            found += connection.recv(1 << 16)
        sender.join()
        return bytes(found)


def test_every_byte_arrives_in_order(echo):
    data = bytes(range(256)) * 40_000
    with slow(echo, Link("quick", 100, 0.1, 0)) as endpoint:
        assert endpoint.startswith("tcp://127.0.0.1:")
        assert there_and_back(endpoint, data) == data
        assert there_and_back(endpoint, b"again") == b"again"


def test_a_piece_waits_for_those_before_it_and_for_the_latency():
    """A million bytes a second, half a second one way; times are worked out, none is measured."""
    lane = _Lane(Link("narrow", 8e-3, 500, 0))
    assert lane.due(10.0, 1_000_000) == 11.5
    assert lane.due(10.0, 2_000_000) == 13.5, "the first takes the link until 11"
    assert lane.due(20.0, 1_000_000) == 21.5, "it has been free since 13"


def test_a_link_that_ends_with_open_connections_ends_in_silence(echo, caplog):
    with slow(echo, Link("far", 1, 60_000, 0)) as endpoint:
        address = urlsplit(endpoint)
        connection = socket.create_connection((address.hostname, address.port), LONG)
        connection.sendall(b"x" * 1000)
        time.sleep(0.05)
    with connection, contextlib.suppress(ConnectionError):
        assert connection.recv(1) == b"", "the other end is told"
    assert not caplog.records
