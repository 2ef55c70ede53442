"""Reachability, by evaluating the network policies."""

import ipaddress
from typing import Any

import pytest

from tests.cluster_configs.samples import (
    CLOUDS,
    FEDERATED,
    config,
    of_kind,
    pods,
    port,
)

OWNER, FIRST, STRANGER = "192.0.2.7", "198.51.100.9", "8.8.8.8"


def selects(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    assert set(selector) <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def peer_fits(peer: dict[str, Any], who: str | dict[str, str]) -> bool:
    """`who` is an address outside, or the labels of a pod of the same namespace."""
    if isinstance(who, str):
        block = peer.get("ipBlock")
        return block is not None and (
            ipaddress.ip_address(who) in ipaddress.ip_network(block["cidr"])
        )
    return "podSelector" in peer and selects(peer["podSelector"], who)


def port_fits(rule: dict[str, Any], number: int) -> bool:
    ports = rule.get("ports")
    return ports is None or any(
        p["protocol"] == "TCP" and p["port"] <= number <= p.get("endPort", p["port"]) for p in ports
    )


def allowed(
    cloud: str, direction: str, pod: dict[str, str], who: str | dict[str, str], number: int
) -> bool:
    """Whether the policies let TCP of this port through, as Kubernetes decides it."""
    key, side = ("ingress", "from") if direction == "in" else ("egress", "to")
    applying = [
        p["spec"]
        for p in of_kind(cloud, "NetworkPolicy")
        if selects(p["spec"]["podSelector"], pod) and key.capitalize() in p["spec"]["policyTypes"]
    ]
    assert applying, "a pod that no policy selects is open to all"
    return any(
        port_fits(rule, number) and any(peer_fits(peer, who) for peer in rule[side])
        for policy in applying
        for rule in policy.get(key, [])
    )


def labels(cloud: str) -> dict[str, dict[str, str]]:
    return {name: pod["metadata"]["labels"] for name, pod in pods(cloud).items()}


@pytest.mark.parametrize("cloud", CLOUDS)
def test_nobody_outside_reaches_ray(cloud):
    inside = labels(cloud)
    for pod in inside.values():
        for number in (6379, 8265, 10001, 8076, 52365):
            for who in (OWNER, FIRST, STRANGER, {"app": "another pod"}):
                assert not allowed(cloud, "in", pod, who, number)
            for other in inside.values():
                assert allowed(cloud, "in", pod, other, number)
                assert allowed(cloud, "out", pod, other, number)
        assert not allowed(cloud, "out", pod, STRANGER, 443)


def test_only_owners_reach_the_gateway_of_cloud1():
    gateway = port(config(FEDERATED / "cloud1" / "cloud1.toml").listen)
    for name, pod in labels("cloud1").items():
        assert allowed("cloud1", "in", pod, OWNER, gateway) == (name == "gateway")
        assert not allowed("cloud1", "in", pod, FIRST, gateway)
        assert not allowed("cloud1", "in", pod, STRANGER, gateway)


def test_owners_and_cloud1_reach_cloud2_and_its_workers():
    loaded = config(FEDERATED / "cloud2" / "cloud2.toml")
    doors = {OWNER: port(loaded.listen), FIRST: port(loaded.listen_control)}
    first, last = loaded.worker_ports
    for name, pod in labels("cloud2").items():
        for who, door in doors.items():
            assert allowed("cloud2", "in", pod, who, door) == (name == "gateway")
            assert not allowed("cloud2", "in", pod, STRANGER, door)
        assert not allowed("cloud2", "in", pod, OWNER, doors[FIRST])
        assert not allowed("cloud2", "in", pod, FIRST, doors[OWNER])
        for number in (first - 1, first, last, last + 1):
            open_now = name == "workers" and first <= number <= last
            assert allowed("cloud2", "in", pod, FIRST, number) == open_now
            assert not allowed("cloud2", "in", pod, OWNER, number)


def test_cloud1_may_call_cloud2():
    loaded = config(FEDERATED / "cloud2" / "cloud2.toml")
    pod = labels("cloud1")
    assert allowed("cloud1", "out", pod["gateway"], "203.0.113.10", port(loaded.listen_control))
    for number in loaded.worker_ports:
        assert allowed("cloud1", "out", pod["workers"], "203.0.113.200", number)
        assert not allowed("cloud1", "out", pod["gateway"], "203.0.113.200", number)


def test_the_load_balancer_lets_in_who_the_policy_lets_in():
    for cloud in CLOUDS:
        policies = {p["metadata"]["name"]: p["spec"] for p in of_kind(cloud, "NetworkPolicy")}
        admitted = {
            block["ipBlock"]["cidr"]
            for rule in policies["gateway"]["ingress"]
            for block in rule["from"]
        }
        service = of_kind(cloud, "Service")[0]["spec"]
        assert set(service["loadBalancerSourceRanges"]) == admitted
        assert service["externalTrafficPolicy"] == "Local"
