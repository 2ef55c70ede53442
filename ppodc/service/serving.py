"""How a service of either cloud lives: in the foreground until it is told to stop."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

_NUMBERS = (signal.SIGTERM, signal.SIGINT)


def until_signal(ready: Callable[[], None]) -> None:
    """Block the main thread until SIGTERM or Ctrl-C; then the caller shuts down in order.

    `ready` is called once signals are handled, so that whoever it tells may stop us at once. A
    second signal does not cut the shutdown short.
    """
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    def handle() -> None:
        for number in _NUMBERS:
            signal.signal(number, stop)

    handle()
    ready()
    while not stopped.wait(1.0):
        handle()  # Ray, which starts later and in another thread, puts a handler of its own here
