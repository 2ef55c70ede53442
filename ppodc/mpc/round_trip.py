"""Whether the link between two clouds is slow: C1 measures a few round trips and tells C2.

One quick round trip is enough to call a link fast. A slow one is waited for in every round, so that
it pays to do other work in the waits (`messages.PeerLink.do_beside`), to send more bytes for fewer
rounds (`shares.compare`), and to encrypt few records once (`kmeans.shares.products`).

Who learns what: C2 whether C1 found the link slow. A cloud that lies makes both wait longer or send
more, and changes nothing else. C1's clock is an input of the session: one under audit notes it.
Rounds: 1, up to 4 over a slow link. Bytes: a few.
"""

import time
from collections.abc import Callable

import numpy as np

from ppodc.errors import WireError
from ppodc.mpc.messages import PeerLink

SLOW_US = 8_000  # a round trip in microseconds
_TRIES = 4  # a busy machine may delay some
_PING, _PONG = "shares.ping", "shares.pong"
_ASK, _FAST, _SLOW = range(3)


def is_slow(role: int, link: PeerLink, measured: Callable[[int], int]) -> bool:
    """Whether every round trip took long; `measured` is given C1's microseconds and keeps them."""
    return _ask(link, measured) if role == 1 else _answer(link)


def _ask(link: PeerLink, measured: Callable[[int], int]) -> bool:
    slow = True
    for _ in range(_TRIES):
        began = time.perf_counter()
        link.send(_PING, np.array([_ASK], np.uint8))
        link.receive(_PONG, np.uint8, 0)
        slow = measured(round(1e6 * (time.perf_counter() - began))) >= SLOW_US
        if not slow:
            break
    link.send(_PING, np.array([_SLOW if slow else _FAST], np.uint8))
    return slow


def _answer(link: PeerLink) -> bool:
    for _ in range(_TRIES + 1):
        said = int(link.receive(_PING, np.uint8, 1)[0])
        if said != _ASK:
            return said == _SLOW
        link.send(_PONG, np.empty(0, np.uint8))
    raise WireError("the other cloud measures the link without end.")
