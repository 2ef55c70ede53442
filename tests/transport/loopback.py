"""Two parties and their sockets on this machine."""

from concurrent.futures import ThreadPoolExecutor

from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.zmq_session import Listener, ZmqChannel, connect
from tests.harness.patience import LONG

C1, C2, STRANGER = (CurveKeys.generate() for _ in range(3))
ANYWHERE = "tcp://127.0.0.1:0"
GRACE = 30.0  # seconds; no machine is silent for so long. Closing both ends at once may take them.


def dial(listener: Listener, **options: object) -> ZmqChannel:
    defaults: dict[str, object] = {"timeout": LONG, "receive_timeout": LONG, "grace": GRACE}
    return connect(listener.endpoint, C1, C2.public, **(defaults | options))


def open_pair(listener: Listener, pool: ThreadPoolExecutor) -> tuple[ZmqChannel, ZmqChannel]:
    accepted = pool.submit(listener.accept, LONG)
    return dial(listener), accepted.result()
