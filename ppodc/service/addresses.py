"""Addresses in configurations and options, tcp://HOST:PORT: what is wrong is said in words."""

import ipaddress
import re
from collections.abc import Sequence

from ppodc.errors import AccessError, ConfigError

PATTERN = r"^tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+|\*):[0-9]{1,5}$"
_LOOPBACK = r"^(127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|localhost):[0-9]{1,5}$"
_MAX_PORT = 65535
_EVERYWHERE = ("*", "0.0.0.0", "::")  # noqa: S104 - recognised, not bound


_LOCAL = {"localhost": "127.0.0.1"}


def check_address(what: str, address: str) -> None:
    """Refuse what nobody can listen at; `what` says whose or which it is."""
    if not address.startswith("tcp://"):
        raise ConfigError(f"{what}: {address!r} must begin with tcp://, as in tcp://127.0.0.1:7401")
    if re.fullmatch(PATTERN, address) is None:
        raise ConfigError(f"{what}: {address!r} is not tcp://HOST:PORT, as in tcp://127.0.0.1:7401")
    if port_of(address) > _MAX_PORT:
        raise ConfigError(f"{what}: {address!r} names a port above {_MAX_PORT}")


def check_loopback(what: str, address: str) -> None:
    """Refuse HOST:PORT that is not a port of this machine alone; no address at all is fine."""
    if address and re.fullmatch(_LOOPBACK, address) is None:
        raise ConfigError(f"{what}: {address!r} is not 127.0.0.1:PORT or localhost:PORT")
    if address and port_of(address) > _MAX_PORT:
        raise ConfigError(f"{what}: {address!r} names a port above {_MAX_PORT}")


def check_ports(what: str, first: int, last: int) -> None:
    """Reject an empty or out-of-range port range."""
    if not 0 <= first <= last <= _MAX_PORT:
        raise ConfigError(f"{what}: ports go from 0 to {_MAX_PORT}, the first not above the last")


def host_of(address: str) -> str | None:
    """The host of tcp://host:port; None if it is no address, or names no host."""
    match = re.fullmatch(PATTERN, address)
    return None if match is None or match[1] == "*" else match[1].strip("[]")


def one_host(address: str) -> bool:
    """Whether others can call there: it names one host, not all addresses of a machine."""
    return host_of(address) not in (None, *_EVERYWHERE)


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def collide(one: str, other: str) -> bool:
    """Whether two services on one machine cannot listen at both."""
    if port_of(one) != port_of(other) or port_of(one) == 0:
        return False
    hosts = {_LOCAL.get(host, host) for host in (host_of(one) or "*", host_of(other) or "*")}
    return len(hosts) == 1 or not hosts.isdisjoint(_EVERYWHERE)


def check_worker_endpoint(endpoint: str, cloud2: str, allowed: Sequence[str]) -> None:
    """At cloud 1: refuse an endpoint, as cloud 2 named it, that our workers have no business at.

    Cloud 2's workers are on its own host, or on these hosts and networks (`cloud2_workers`).
    """
    host = host_of(endpoint)
    if host is None or not any(_within(host, place) for place in (host_of(cloud2), *allowed)):
        raise AccessError(
            "cloud 2 named a place for its workers that cloud 1 does not allow. If it is theirs, "
            "add its host or network to cloud2_workers."
        )


def _within(host: str, place: str | None) -> bool:
    """Whether the host is this one, or in this network."""
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(place or "", strict=False)
    except ValueError:  # either is a name
        return host == place
