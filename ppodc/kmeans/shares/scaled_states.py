"""Values computed from recent states, kept so that nothing is computed twice.

An update widens the new clusters and computes their centres; the next iteration needs both, for its
distances and for its own stop test. Of several pairs one looks the centres up, in a table that
grows with m; each cloud hands its shares of them on to its other workers (`take_over`).

One half's state alone may not tell two states apart (C2 holds zeros for any public centres), so the
halves compare the numbers of what they remember: one round, 8 bytes each way. No round for a state
that an update has made, here or at the pair that handed it on: its shares are random at both
clouds, so that both know it again or neither does.

Who learns what: whether the other half has just had the same state, which both know anyhow.
"""

from dataclasses import dataclass

import numpy as np

from ppodc.kmeans.shares import scaling, stop_test
from ppodc.kmeans.shares.demand import Demand
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.scaling import Centres, Wide
from ppodc.kmeans.shares.stop_test import Factors
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import U64, U64Array

_REMEMBERED = 2  # the old and the new clusters of an update
_NUMBER = "shares.remembered"


@dataclass(slots=True, repr=False)
class _Known:
    """Values computed from a state; `number` is the same at both clouds."""

    number: int
    state: U64Array
    wide: Wide | None = None
    centres: Centres | None = None
    factors: Factors | None = None
    random: bool = False  # both clouds' shares of it are


class ScaledStates:
    """The last states of a session, in the forms that its steps need."""

    def __init__(self, session: Session, rings: Rings, demand: Demand) -> None:
        self._session, self._rings, self._demand = session, rings, demand
        self._count = 0
        self._known: list[_Known] = []

    def wide(self, state: U64Array) -> Wide:
        """The clusters in a ring in which all steps can multiply."""
        with self._session.meter.step("scaling"):
            return self._widened(self._find(state))

    def factors(self, state: U64Array) -> Factors:
        """The scaling factors of the stop test for beta > 0."""
        session = self._session
        with session.meter.step("scaling"):
            known = self._find(state)
            if known.factors is None:
                session.supplies.reserve(self._demand.factors(len(state)))
                known.factors = stop_test.factors(session, self._widened(known), self._rings)
            return known.factors

    def centres(self, state: U64Array) -> Centres:
        """The centres of the clusters, as SSED_OP needs them."""
        session = self._session
        with session.meter.step("scaling"):
            known = self._find(state)
            if known.centres is None:
                session.supplies.reserve(self._demand.centres(len(state)))
                known.centres = scaling.centres(session, self._widened(known), self._rings)
            return known.centres

    def made_here(self, state: U64Array) -> Wide:
        """Widen and remember a state that this session's update has just made."""
        with self._session.meter.step("scaling"):
            return self._widened(self._remember(state, random=True))

    def add(self, state: U64Array, wide: Wide, centres: Centres) -> None:
        """Remember a state that this session's update has just made, with what it knows of it."""
        known = self._remember(state, random=True)
        known.wide, known.centres = wide, centres

    def take_over(self, state: U64Array, centres: Centres) -> None:
        """The centres of a state, both made by the update of another pair of this job."""
        if not any(known.random and np.array_equal(known.state, state) for known in self._known):
            self._remember(state, random=True).centres = centres

    def _find(self, state: U64Array) -> _Known:
        known = next((x for x in self._known if np.array_equal(x.state, state)), None)
        if known is not None and known.random:
            return known
        number = 0 if known is None else known.number
        (other,) = self._session.link.exchange(_NUMBER, np.array([number], U64))
        if known is not None and other == number:
            return known
        return self._remember(state)

    def _remember(self, state: U64Array, *, random: bool = False) -> _Known:
        self._count += 1
        known = _Known(self._count, state.copy(), random=random)
        self._known = [known, *self._known][:_REMEMBERED]
        return known

    def _widened(self, known: _Known) -> Wide:
        if known.wide is None:
            self._session.supplies.reserve(self._demand.widening(len(known.state)))
            known.wide = scaling.widened(self._session, known.state, self._rings)
        return known.wide
