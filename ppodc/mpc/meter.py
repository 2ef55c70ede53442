"""Time and bytes of a half by step, offline and online apart.

Offline is what depends on no centre: transfers, triples and masked products, whether made ahead
by `prepare` or when a pool runs dry. A step counts only itself, not the steps inside it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ppodc.transport.channel import Traffic


@dataclass(slots=True)
class Cost:
    """The cost of one step so far; CPU is of the whole process, transport threads included."""

    wall: float = 0.0
    cpu: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0
    rounds: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(
            self.wall + other.wall,
            self.cpu + other.cpu,
            self.bytes_sent + other.bytes_sent,
            self.bytes_received + other.bytes_received,
            self.rounds + other.rounds,
        )


@dataclass(slots=True)
class Meter:
    """Costs by (phase, step), read from the channel's traffic and the clocks."""

    traffic: Traffic
    costs: dict[tuple[str, str], Cost] = field(default_factory=dict)
    _open: list[tuple[str, str]] = field(default_factory=list)
    _mark: Cost = field(default_factory=Cost)

    @contextmanager
    def step(self, name: str, *, offline: bool = False) -> Iterator[None]:
        """Count what happens inside under this name; inside an offline step all is offline."""
        inherited = bool(self._open) and self._open[-1][0] == "offline"
        self._settle()
        self._open.append(("offline" if offline or inherited else "online", name))
        try:
            yield
        finally:
            self._settle()
            self._open.pop()

    def phase(self, name: str) -> Cost:
        """The sum over the steps of a phase."""
        return sum((cost for (phase, _), cost in self.costs.items() if phase == name), Cost())

    def reset(self) -> None:
        """Forget all costs so far."""
        self.costs.clear()
        self._settle()

    def _settle(self) -> None:
        """Charge everything since the last mark to the innermost open step."""
        now = Cost(
            time.perf_counter(),
            time.process_time(),
            self.traffic.bytes_sent,
            self.traffic.bytes_received,
            self.traffic.rounds,
        )
        if self._open:
            last = self._mark
            spent = Cost(
                now.wall - last.wall,
                now.cpu - last.cpu,
                now.bytes_sent - last.bytes_sent,
                now.bytes_received - last.bytes_received,
                now.rounds - last.rounds,
            )
            self.costs[self._open[-1]] = self.costs.get(self._open[-1], Cost()) + spent
        self._mark = now
