"""How long Ray may be dead before somebody notices, and what "auto" comes to."""

import pytest
from ray._private import services

from ppodc.cluster import ray_cluster
from ppodc.cluster.driver_process import SILENT_SECONDS
from ppodc.cluster.ray_cluster import RayPlacement
from ppodc.errors import RayUnusableError


def test_all_ways_to_notice_that_ray_is_dead_take_less_than_20_seconds():
    assert SILENT_SECONDS <= 15
    assert ray_cluster._LOOK_SECONDS <= 1
    period, timeout, times = (int(text) for text in ray_cluster._HEALTH_CHECKS.values())
    assert max(period, timeout) * times + period < 20_000, "milliseconds until a raylet is dead"
    (waits,) = ray_cluster._WAITS.values()
    assert int(waits) + ray_cluster._REACH_SECONDS <= 20


def test_auto_becomes_an_address(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "10.1.2.3:6379")
    assert ray_cluster._found(RayPlacement("auto", "cloud2", 1)) == RayPlacement(
        "10.1.2.3:6379", "cloud2", 1
    )
    named = RayPlacement("10.1.2.4:6379", "cloud2", 1)
    assert ray_cluster._found(named) is named


def test_without_any_cluster_auto_is_refused_with_what_to_do(monkeypatch):
    def nothing(_):
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(services, "find_gcs_addresses", set)
    monkeypatch.setattr(services, "canonicalize_bootstrap_address", nothing)
    with pytest.raises(RayUnusableError, match=r"no Ray cluster of cloud2 is known .* RAY_ADDRESS"):
        ray_cluster._found(RayPlacement("auto", "cloud2", 1))


def test_auto_does_not_choose_between_several_clusters(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(services, "find_gcs_addresses", lambda: {"10.0.0.2:1", "10.0.0.1:1"})
    with pytest.raises(RayUnusableError, match=r"10\.0\.0\.1:1, 10\.0\.0\.2:1.*HOST:PORT"):
        ray_cluster._found(RayPlacement("auto", "cloud2", 1))


def test_a_place_says_where_it_is_unless_it_is_our_own():
    assert str(RayPlacement("local", "cloud1", 1)) == "the Ray of cloud1"
    assert str(RayPlacement("auto", "cloud2", 1)) == "the Ray of cloud2 at 'auto'"
