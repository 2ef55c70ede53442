"""Each cloud with a Ray of its own: other ports, other tokens; only ZeroMQ crosses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ppodc.cluster.ray_head import LocalRay
from ppodc.pairs.progress import Event
from tests.end_to_end.two_services import (
    Once,
    TwoServices,
    kill_worker,
    make_spec,
    make_tables,
    workers,
)


@pytest.fixture
def second_head() -> Iterator[LocalRay]:
    with LocalRay.start({"cloud2": 3}) as head:
        yield head


def test_two_clusters_and_a_lost_worker(ray_head: LocalRay, second_head: LocalRay, tmp_path: Path):
    services = TwoServices(
        tmp_path / "parties",
        {"cloud1": ray_head.address, "cloud2": second_head.address},
        {"cloud1": ray_head.environment, "cloud2": second_head.environment},
    )
    seen: set[tuple[int, ...]] = set()
    kill = Once("assign", 1, lambda: kill_worker(second_head, "ray::Worker2"))

    def watch(event: Event) -> None:
        if event.phase == "start":
            heads = (ray_head, second_head)
            titles = ("ray::Worker1", "ray::Worker2")
            seen.add(tuple(len(workers(head, title)) for head in heads for title in titles))
        kill(event)

    for party in ("cloud1", "cloud2"):
        services.start(party)
    try:
        spec, tables = make_spec("federated", 2, k=3), make_tables(17, (13, 11), 2)
        services.upload(spec, tables)
        services.run("federated", progress=watch)
        services.check(spec, tables)
    finally:
        services.stop()
    assert seen == {(2, 0, 0, 2)}
    assert kill.done
