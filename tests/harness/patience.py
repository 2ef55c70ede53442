"""How long tests wait for what must happen: far longer than the slowest machine needs.

The bound only ends a test that has failed already. None is ever asserted as a speed.
"""

import time
from collections.abc import Callable

LONG = 300.0  # seconds


def wait_for(condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds."""
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {LONG:g} s"
        time.sleep(0.01)
