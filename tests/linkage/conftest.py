"""One pair of sessions for all protocol tests of the room, and an owner's upload at both clouds."""

import pytest

from tests.mpc.pair import Pair


@pytest.fixture(scope="package")
def pair() -> Pair:
    return Pair()
