"""Both halves of a pair inside one process, and a channel that remembers what it sent."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ppodc.crypto.random_stream import SecureRandom
from ppodc.mpc.session import Session
from ppodc.mpc.shares import additive
from ppodc.mpc.shares.additive import AdditiveShare
from ppodc.transport.channel import Channel, memory_pair
from tests.harness.together import together

JOB = "sums of 100 rows"


class Recorder:
    """A channel that keeps kind and arrays of every message it sends."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.sent: list[tuple[str, list[np.ndarray]]] = []

    def send(self, kind: str, body: Any = None, arrays: Sequence[np.ndarray] = ()) -> None:
        self.sent.append((kind, [np.array(array) for array in arrays]))
        self._channel.send(kind, body, arrays)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)

    def bytes_of(self, kind: str) -> np.ndarray:
        """All bytes sent in messages of a kind."""
        arrays = [array for sent, arrays in self.sent if sent == kind for array in arrays]
        return np.concatenate([np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in arrays])

    def shape(self) -> list[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]]]:
        """The view of an observer of sizes."""
        return [(kind, tuple((a.dtype.str, a.shape) for a in arrays)) for kind, arrays in self.sent]


class Pair:
    """Two sessions; `run` lets both do the same step and returns both results."""

    def __init__(self, *, silent: bool = False) -> None:
        ends = memory_pair()
        self.channels = (Recorder(ends[0]), Recorder(ends[1]))
        self.sessions = together(
            lambda c: Session.start(1, c, JOB, silent=silent),
            lambda c: Session.start(2, c, JOB, silent=silent),
            self.channels,
        )

    def run(self, step: Callable[..., Any], *arguments: tuple[Any, Any]) -> tuple[Any, Any]:
        """step(session, own argument, ...) at both clouds."""
        first, second = ([pair[role] for pair in (self.sessions, *arguments)] for role in (0, 1))
        return together(lambda _: step(*first), lambda _: step(*second), self.channels)


def share(
    values: Sequence[int], limbs: int, shape: tuple[int, ...] | None = None
) -> tuple[AdditiveShare, AdditiveShare]:
    """Random additive shares of numbers."""
    shape = (len(values),) if shape is None else shape
    first = AdditiveShare(SecureRandom().uint64((len(values), limbs)))
    second = AdditiveShare(additive.limbs_of(values, limbs)) - first
    return first.reshape(*shape), second.reshape(*shape)


def opened(pair: tuple[AdditiveShare, AdditiveShare]) -> list[int]:
    """The numbers that two shares hide, 0..2^(64 L) - 1."""
    return additive.integers((pair[0] + pair[1]).limbs)
