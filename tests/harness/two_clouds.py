"""A whole job in this process: both clouds walk their plans on pairs of halves."""

from functools import partial

from ppodc.kinds import cloud_side, owner_side
from ppodc.pairs.cloud_side import Material
from ppodc.pairs.plan import Plan
from ppodc.pairs.progress import Event
from ppodc.pairs.shards import cut
from ppodc.pairs.walk import OpenHalf, Walk, Walker
from ppodc.records.result_shares import open_shares
from ppodc.transport.channel import memory_pair
from tests.harness.together import together
from tests.harness.uploads import Uploaded


class TwoClouds:
    """Both clouds' walks, step by step or to the end."""

    def __init__(self, given: Uploaded, pairs: int = 1) -> None:
        self.given = given
        self.saved: tuple[list, list] = ([], [])
        self.walks = [
            Walk(given.spec, given.sealed, pairs, save=saved.append) for saved in self.saved
        ]
        self.events: list[Event] = []  # of cloud 1
        self.names: list[str] = []  # of steps after the records were taken in

    @property
    def plans(self) -> list[Plan]:
        return [walk.plan for walk in self.walks]

    def start(self) -> None:
        """Fresh halves that have taken their records in."""
        self.ends = [memory_pair() for _ in range(self.walks[0].pairs)]
        self.halves = [together(self.half(1), self.half(2), ends) for ends in self.ends]
        listeners = self.events.append, lambda _: None
        self.walkers = [
            Walker(
                walk,
                [OpenHalf(e[c], h[c]) for e, h in zip(self.ends, self.halves, strict=True)],
                partial(cut, self.given.shares[c]),
                listeners[c],
            )
            for c, walk in enumerate(self.walks)
        ]
        assert self._advance() == "ingest"

    def half(self, role):
        """How a half of the cloud `role` is made."""
        spec, m = self.given.spec, self.given.sealed.m
        side = cloud_side(spec)
        return lambda channel: side.open_half("shares", role, channel, m, Material())

    def step(self) -> bool:
        """Do the step that is due; False if all is done."""
        name = self._advance()
        self.names += [] if name in (None, "ingest") else [name]
        return name is not None

    def _advance(self) -> str | None:
        first, second = (lambda _, w=walker: w.advance() for walker in self.walkers)
        steps = together(first, second, self.ends[0])
        assert steps[0] == steps[1]
        return None if steps[0] is None else steps[0].name

    def run(self):
        """All steps; what every owner opens, by name."""
        self.start()
        while self.step():
            pass
        return self.opened()

    def opened(self):
        """The result of every owner, by name."""
        spec, sealed = self.given.spec, self.given.sealed
        shares = [plan.result() for plan in self.plans]
        assert tuple(shares[0].row_halves) == spec.kind.row_outputs(spec)
        return {
            owner: owner_side(spec)
            .of(owner)
            .open_result(
                open_shares(*(share.for_owner(owner, sealed.places_of(owner)) for share in shares))
            )
            for owner in sealed.owners
        }
