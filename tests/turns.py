"""The order in which several testers take the files: two chains of end-to-end files come first.

End-to-end tests start many processes and mostly wait for them; tests of rooms compute. So one
tester runs the end-to-end files that share one Ray and one pair of services, another those that
start their own, and the rest run the rooms meanwhile.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling

WHOLE = "tests/end_to_end/"
OWN = ("desk", "namespaces", "ray_death", "ray_submit", "sessions_in_docs")


def chain(file: str) -> str:
    """Files of one chain run one after the other; a file of a room is a chain of its own."""
    if not file.startswith(WHOLE):
        return file
    own = Path(file).stem.removeprefix("test_") in OWN
    return f"{WHOLE}: processes of their own" if own else f"{WHOLE}: shared services"


class Chains(LoadFileScheduling):
    """Gives every tester a chain at a time."""

    def _split_scope(self, nodeid: str) -> str:
        return chain(super()._split_scope(nodeid))


def in_turn(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Whole chains first, so that no tester waits for them in the end."""
    return sorted(items, key=lambda item: not item.nodeid.startswith(WHOLE))
