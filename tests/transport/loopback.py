"""Two parties and their sockets on this machine."""

from concurrent.futures import ThreadPoolExecutor

from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.zmq_session import Listener, ZmqChannel, connect

C1, C2, STRANGER = (CurveKeys.generate() for _ in range(3))
ANYWHERE = "tcp://127.0.0.1:0"
GRACE = 1.0  # short, but far over what two busy processors need to answer a heartbeat


def dial(listener: Listener, **options: object) -> ZmqChannel:
    defaults: dict[str, object] = {"receive_timeout": 30, "grace": GRACE}
    return connect(listener.endpoint, C1, C2.public, **(defaults | options))


def open_pair(listener: Listener, pool: ThreadPoolExecutor) -> tuple[ZmqChannel, ZmqChannel]:
    accepted = pool.submit(listener.accept, 20)
    return dial(listener), accepted.result()
