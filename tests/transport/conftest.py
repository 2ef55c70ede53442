"""A listener and a pair of channels on loopback."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from ppodc.transport.zmq_session import Listener, ZmqChannel, listen
from tests.harness.patience import LONG
from tests.transport.loopback import ANYWHERE, C1, C2, GRACE, open_pair


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listen(ANYWHERE, C2, [C1.public], timeout=LONG, grace=GRACE) as listener:
        yield listener


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


@pytest.fixture
def pair(listener: Listener, pool: ThreadPoolExecutor) -> Iterator[tuple[ZmqChannel, ZmqChannel]]:
    one, two = open_pair(listener, pool)
    yield one, two
    one.close()
    two.close()
