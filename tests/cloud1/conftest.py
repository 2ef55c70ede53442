"""A running collector for each test that asks for one."""

from contextlib import ExitStack

import pytest

from tests.cloud1.one_server import Server


@pytest.fixture
def server(tmp_path):
    with ExitStack() as stack:
        yield Server(tmp_path / "deployment", stack)
