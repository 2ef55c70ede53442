import pytest

from tests.mpc.pair import Pair


@pytest.fixture(scope="session")
def pair() -> Pair:
    return Pair()
