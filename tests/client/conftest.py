"""Both clouds' gateways, for all tests of owners; both clouds as threads, for the estimators'."""

from contextlib import ExitStack

import pytest

from ppodc import ThreadPlatform
from tests.client.two_gateways import Platform, new_deployment, serve
from tests.service.data import make_spec


@pytest.fixture
def platform(tmp_path):
    deployment = new_deployment(tmp_path / "new", ["ann", "bob", "eve"])
    with ExitStack() as stack:
        platform = Platform(deployment, serve(deployment, stack))
        platform.create(make_spec())
        yield platform


@pytest.fixture(scope="session")
def threads() -> ThreadPlatform:
    """A small key makes it quick; nothing here depends on its size."""
    return ThreadPlatform(insecure_key_bits=256)
