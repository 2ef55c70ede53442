"""A session: who may meet, what is fresh in each, and its end at the first error."""

import msgspec
import numpy as np
import pytest

from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.mpc import select
from ppodc.mpc.additive import AdditiveShare
from ppodc.mpc.messages import Link
from ppodc.mpc.session import VERSION, Session
from ppodc.transport.channel import memory_pair
from tests.mpc.pair import JOB, Pair, key
from tests.two_clouds import together


def test_two_sessions_share_no_secret():
    first, second = Pair(), Pair()
    for role in (0, 1):
        a, b = first.sessions[role], second.sessions[role]
        assert not np.array_equal(a.ot.sender.delta, b.ot.sender.delta)


def test_halves_of_different_jobs_or_roles_refuse():
    with pytest.raises(InputError, match="different jobs"):
        together(
            lambda c: Session.start(1, c, JOB, key(1)),
            lambda c: Session.start(2, c, "another job", key(2)),
        )
    with pytest.raises(InputError, match="role 1"):
        Session.start(1, memory_pair()[0], JOB, key(2))


def test_halves_of_different_releases_refuse(monkeypatch):
    exchange = Link.exchange_body

    def from_the_future(self, kind, body, body_type):
        newer = msgspec.structs.replace(body, version=VERSION + 1) if body.role == 2 else body
        return exchange(self, kind, newer, body_type)

    monkeypatch.setattr(Link, "exchange_body", from_the_future)
    with pytest.raises(ChannelError, match="same release at both clouds"):
        together(
            lambda c: Session.start(1, c, JOB, key(1)), lambda c: Session.start(2, c, JOB, key(2))
        )


def test_an_error_in_a_step_ends_the_session_at_both_clouds():
    rows = AdditiveShare(np.zeros((1, 1, 1), np.uint64))
    reasons = {}

    def first(session):
        raise InputError("there is no such table.")

    def second(session):
        select.select(session, np.zeros(8, np.uint8), rows)

    def half(role, work):
        def run(channel):
            session = Session.start(role, channel, JOB, key(role))
            with pytest.raises(PpodcError) as caught, session.step("sums"):
                work(session)
            reasons[role] = str(caught.value)
            over = pytest.raises(ChannelError, match="session is over: sums failed")
            with over, session.step("again"):
                pytest.fail("a step began in a session that is over")
            session.close()

        return run

    together(half(1, first), half(2, second))
    assert "no such table" in reasons[1]
    assert "no such table" in reasons[2]


def test_a_closed_session_does_nothing_more():
    pair = Pair()
    for session in pair.sessions:
        session.close()
        with pytest.raises(ChannelError, match="it was closed"), session.step("more"):
            pytest.fail("a step began in a closed session")
