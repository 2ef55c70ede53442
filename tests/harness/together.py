"""Runs both halves of a pair in two threads of this process, for any suite."""

import threading
from collections.abc import Callable
from typing import Any

from ppodc.transport.channel import Channel, memory_pair


def together(
    first: Callable[[Channel], Any],
    second: Callable[[Channel], Any],
    pair: tuple[Channel, Channel] | None = None,
) -> tuple[Any, Any]:
    """The results of both halves; the first error of either is raised here."""
    channels = pair or memory_pair()
    results: list[Any] = [None, None]
    errors: list[BaseException] = []

    def run(role: int, half: Callable[[Channel], Any]) -> None:
        try:
            results[role] = half(channels[role])
        except BaseException as error:  # noqa: BLE001 - handed to the test
            errors.append(error)
            channels[role].close()

    threads = [threading.Thread(target=run, args=(i, h)) for i, h in enumerate((first, second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads), "a half hangs"
    return results[0], results[1]
