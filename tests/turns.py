"""The order in which several testers take the files: two chains of end-to-end files come first.

End-to-end tests start many processes and mostly wait for them; tests of rooms compute. So one
tester runs the end-to-end files that share one Ray and one pair of services, another those that
start their own, and the rest run the rooms meanwhile.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

WHOLE = "tests/end_to_end/"
OWN = ("desk", "namespaces", "ray_death", "ray_submit", "sessions_in_docs")


def chain(file: str) -> str:
    """Files of one chain run one after the other; a file of a room is a chain of its own."""
    if not file.startswith(WHOLE):
        return file
    own = Path(file).stem.removeprefix("test_") in OWN
    return f"{WHOLE}: processes of their own" if own else f"{WHOLE}: shared services"


class Chains(LoadFileScheduling):
    """Gives every tester a chain at a time.

    If a test kills its tester, others do the rest of the chain. xdist alone would run that test
    again and again, or wait for ever: a tester begins no test before it has another or the end.
    """

    def _split_scope(self, nodeid: str) -> str:
        return chain(super()._split_scope(nodeid))

    def remove_node(self, node: WorkerController) -> str | None:
        units = self.assigned_work[node].values()
        fatal = next((test for unit in units for test, done in unit.items() if not done), None)
        if fatal is not None:
            self.assigned_work[node][self._split_scope(fatal)][fatal] = True
        rest = {
            name: unit for name, unit in self.assigned_work[node].items() if not all(unit.values())
        }
        self.assigned_work[node] = rest
        super().remove_node(node)
        return fatal

    def schedule(self) -> None:
        super().schedule()
        for node in self.nodes:
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._reschedule(node)


def in_turn(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Whole chains first, so that no tester waits for them in the end."""
    return sorted(items, key=lambda item: not item.nodeid.startswith(WHOLE))
