"""One Ray head and one pair of services for all tests here; each test has its own dataset."""

from collections.abc import Iterator

import pytest

from ppodc.cluster.ray_head import LocalRay
from tests.end_to_end.two_services import TwoServices


@pytest.fixture(scope="package")
def ray_head() -> Iterator[LocalRay]:
    with (
        LocalRay.start({"cloud1": 8, "cloud2": 8}) as head,
        pytest.MonkeyPatch.context() as environment,
    ):
        for name, value in head.environment.items():
            environment.setenv(name, value)
        yield head


@pytest.fixture(scope="package")
def services(ray_head: LocalRay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoServices]:
    environment = dict.fromkeys(("cloud1", "cloud2"), ray_head.environment)
    addresses = dict.fromkeys(("cloud1", "cloud2"), ray_head.address)
    running = TwoServices(tmp_path_factory.mktemp("clouds") / "parties", addresses, environment)
    for party in ("cloud1", "cloud2"):
        running.start(party)
    yield running
    running.stop()
