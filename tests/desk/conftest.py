"""One deployment of two clouds and one of a collector, for all tests of a file."""

import pytest

from tests.desk.world import collector, two_clouds


@pytest.fixture(scope="module")
def clouds(tmp_path_factory):
    with two_clouds(tmp_path_factory.mktemp("clouds") / "new") as world:
        yield world


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    with collector(tmp_path_factory.mktemp("collector") / "new") as world:
        yield world
