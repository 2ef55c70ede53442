"""Presets of links between the two clouds and of prices. Options can override every number.

Prices are round numbers of the order that public clouds list for general-purpose machines and for
traffic within a building, between zones of a region, and to the Internet. Replace them by your own.
"""

from dataclasses import dataclass, replace
from typing import Literal

from ppodc.errors import InputError

USD_PER_CORE_HOUR = 0.05

LinkName = Literal["lan", "region", "wan"]


@dataclass(frozen=True, slots=True)
class Link:
    """The connection between the two workers of a pair."""

    name: str
    gbit_s: float  # of each pair, in each direction
    one_way_ms: float
    usd_per_gb: float
    total_gbit_s: float | None = None  # of all pairs together, in each direction

    @property
    def bytes_s(self) -> float:
        return self.gbit_s * 1e9 / 8

    def bytes_s_of(self, pairs: int) -> float:
        """Bandwidth of a pair in each direction while this number of pairs sends."""
        if self.total_gbit_s is None:
            return self.bytes_s
        return min(self.gbit_s, self.total_gbit_s / pairs) * 1e9 / 8

    def describe(self) -> str:
        whole = f", {self.total_gbit_s:g} Gbit/s in all" if self.total_gbit_s else ""
        return (
            f"{self.name}: {self.gbit_s:g} Gbit/s a pair{whole}, {self.one_way_ms:g} ms one way, "
            f"{self.usd_per_gb:g} USD/GB"
        )


LINKS = {
    "lan": Link("lan", 10, 0.05, 0.0),
    "region": Link("region", 5, 0.5, 0.01),
    "wan": Link("wan", 1, 20, 0.09),
}


def imitated(name: str | None, gbit_s: float | None, one_way_ms: float | None) -> Link | None:
    """The link to imitate between two processes, or None for plain loopback."""
    if name is not None:
        return link(name, gbit_s=gbit_s, one_way_ms=one_way_ms)
    if gbit_s is not None or one_way_ms is not None:
        raise InputError("--gbit and --latency-ms change a link. Name it with --link.")
    return None


def link(name: str, **numbers: float | None) -> Link:
    """A preset, with those of its numbers replaced that are not None."""
    if name not in LINKS:
        raise InputError(f"there is no link {name!r}; choose one of {', '.join(LINKS)}.")
    changed = {key: value for key, value in numbers.items() if value is not None}
    for key, value in changed.items():
        if value < 0 or (value == 0 and key.endswith("gbit_s")):
            raise InputError(f"{key} of a link cannot be {value:g}.")
    return replace(LINKS[name], name=f"{name}, changed", **changed) if changed else LINKS[name]
