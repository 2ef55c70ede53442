import pytest

from tests.shares_suite.pair import Pair


@pytest.fixture(scope="session")
def pair() -> Pair:
    return Pair()
