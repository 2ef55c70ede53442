"""Both clouds' stores, for all tests of the service."""

import pytest

from tests.service.data import make_spec, stores


@pytest.fixture
def two(tmp_path):
    """The stores of both clouds, with the dataset `clinic`."""
    pair = stores(tmp_path)
    for store in pair:
        store.datasets.create(make_spec())
    yield pair
    for store in pair:
        store.close()
