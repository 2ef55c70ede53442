"""Links between the two clouds, and what things cost: presets that every option can override.

Prices are round numbers of the order that public clouds list for general-purpose machines and for
traffic within a building, between zones of a region, and out to the Internet. They are there so
that a prediction has a currency; put your own in.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from ppodc.errors import InputError

USD_PER_CORE_HOUR = 0.05


class LinkName(StrEnum):
    """What lies between the clouds."""

    LAN = "lan"
    REGION = "region"
    WAN = "wan"


@dataclass(frozen=True, slots=True)
class Link:
    """What lies between the two workers of a pair."""

    name: str
    gbit_s: float  # of each pair, in each direction
    one_way_ms: float
    usd_per_gb: float
    total_gbit_s: float | None = None  # of all pairs together, in each direction

    @property
    def bytes_s(self) -> float:
        return self.gbit_s * 1e9 / 8

    def bytes_s_of(self, pairs: int) -> float:
        """What a pair gets in each direction when so many send at once."""
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
    """The link to imitate between two processes; None for loopback as it is."""
    if name is not None:
        return link(name, gbit_s=gbit_s, one_way_ms=one_way_ms)
    if gbit_s is not None or one_way_ms is not None:
        raise InputError("--gbit and --latency-ms change a --link; name one.")
    return None


def link(name: str, **numbers: float | None) -> Link:
    """A preset by name, with any of its numbers replaced that are not None."""
    if name not in LINKS:
        raise InputError(f"there is no link {name!r}; choose one of {', '.join(LINKS)}.")
    changed = {key: value for key, value in numbers.items() if value is not None}
    for key, value in changed.items():
        if value < 0 or (value == 0 and key.endswith("gbit_s")):
            raise InputError(f"{key} of a link cannot be {value:g}.")
    return replace(LINKS[name], name=f"{name}, changed", **changed) if changed else LINKS[name]
