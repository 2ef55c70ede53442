"""How long tests wait for what must happen: far longer than the slowest machine needs.

The bound only ends a test that has failed already. None is ever asserted as a speed.
"""

import time
from collections.abc import Callable

LONG = 300.0  # seconds


def wait_for(condition: Callable[[], object], pause: float = 0.01) -> None:
    """Return when the condition holds; a longer pause where asking for it takes work."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {LONG:g} s"
        time.sleep(pause)
