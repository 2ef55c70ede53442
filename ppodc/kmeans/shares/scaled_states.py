"""Scaled clusters by the state they were computed from, so that no state is scaled twice.

An iteration scales the new clusters for its stop test; the next one needs the same for its
distances. One half's state alone may not tell two states apart (C2 holds zeros for any public
centres), so the halves compare the numbers of what they remember: one round, 8 bytes each way.

Who learns what: whether the other half has just had the same state, which both know anyhow.
"""

from dataclasses import dataclass

import numpy as np

from ppodc.kmeans.shares import scaling
from ppodc.kmeans.shares.demand import Demand
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.kmeans.shares.scaling import Centres, Scaled
from ppodc.mpc.additive import U64, Words
from ppodc.mpc.session import Session

_REMEMBERED = 2  # the old and the new clusters of an update
_NUMBER = "shares.remembered"


@dataclass(slots=True, repr=False)
class _Known:
    """What has been computed from a state; `number` is the same at both clouds."""

    number: int
    state: Words
    scaled: Scaled
    centres: Centres | None = None


class ScaledStates:
    """The scaled clusters of the last states of a session."""

    def __init__(self, session: Session, rings: Rings, demand: Demand) -> None:
        self._session, self._rings, self._demand = session, rings, demand
        self._count = 0
        self._known: list[_Known] = []

    def scaled(self, state: Words) -> Scaled:
        """The clusters in the ring of the stop test, with their scaling factors."""
        with self._session.meter.step("scaling"):
            return self._find(state).scaled

    def centres(self, state: Words) -> Centres:
        """What SSED_OP needs of the clusters."""
        session = self._session
        with session.meter.step("scaling"):
            known = self._find(state)
            if known.centres is None:
                session.supplies.reserve(self._demand.centres())
                known.centres = scaling.centres(session, known.scaled, self._rings)
            return known.centres

    def _find(self, state: Words) -> _Known:
        session = self._session
        known = next((x for x in self._known if np.array_equal(x.state, state)), None)
        number = 0 if known is None else known.number
        (other,) = session.link.exchange(_NUMBER, np.array([number], U64))
        if known is not None and other == number:
            return known
        session.supplies.reserve(self._demand.scaling())
        scaled = scaling.scale(session, state, self._rings)
        self._count += 1
        known = _Known(self._count, state.copy(), scaled)
        self._known = [known, *self._known][:_REMEMBERED]
        return known
