"""A session: who may meet, what is fresh in each, and its end at the first error."""

import hashlib

import msgspec
import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import ChannelError, InputError, PpodcError
from ppodc.mpc.messages import PeerLink
from ppodc.mpc.ot.transfer import ObliviousTransfer
from ppodc.mpc.session import VERSION, Hello, Session
from ppodc.mpc.shares import select
from ppodc.mpc.shares.additive import AdditiveShare
from tests.harness.together import together
from tests.mpc.pair import JOB, Pair


def test_two_sessions_share_no_secret():
    first, second = Pair(), Pair()
    for role in (0, 1):
        a, b = first.sessions[role], second.sessions[role]
        assert not np.array_equal(a.ot.delta, b.ot.delta)


def test_halves_of_different_jobs_or_roles_refuse():
    with pytest.raises(InputError, match="different jobs"):
        together(
            lambda c: Session.start(1, c, JOB),
            lambda c: Session.start(2, c, "another job"),
        )
    with pytest.raises(ChannelError, match="one as each role"):
        together(lambda c: Session.start(1, c, JOB), lambda c: Session.start(1, c, JOB))


def test_the_name_of_a_session_follows_from_both_hellos(monkeypatch):
    """The cloud that speaks second cannot set what both derive from the name, as an xor would."""
    names, start = [], ObliviousTransfer.start

    def noted(role, link, random, sid, *rest):
        names.append(sid)
        return start(role, link, random, sid, *rest)

    monkeypatch.setattr(ObliviousTransfer, "start", noted)
    seeds = (bytes([1]) * 32, bytes([2]) * 32), (bytes([1]) * 32, bytes([3]) * 32)
    for first, second in seeds:
        together(
            lambda c, seed=first: Session.start(1, c, JOB, random=SecureRandom(seed)),
            lambda c, seed=second: Session.start(2, c, JOB, random=SecureRandom(seed)),
        )
    assert names[0] == names[1] != names[2] == names[3]
    hellos = [
        msgspec.msgpack.encode(Hello(VERSION, role, JOB, SecureRandom(seed).bytes(32)))
        for role, seed in zip((1, 2), seeds[0], strict=True)
    ]
    assert names[0] == hashlib.sha256(b"ppodc start 2" + b"".join(hellos)).digest()


def test_halves_of_different_releases_refuse(monkeypatch):
    exchange = PeerLink.exchange_body

    def from_the_future(self, kind, body, body_type):
        newer = msgspec.structs.replace(body, version=VERSION + 1) if body.role == 2 else body
        return exchange(self, kind, newer, body_type)

    monkeypatch.setattr(PeerLink, "exchange_body", from_the_future)
    with pytest.raises(ChannelError, match="same release at both clouds"):
        together(lambda c: Session.start(1, c, JOB), lambda c: Session.start(2, c, JOB))


def test_an_error_in_a_step_ends_the_session_at_both_clouds():
    rows = AdditiveShare(np.zeros((1, 1, 1), np.uint64))
    reasons = {}

    def first(session):
        raise InputError("there is no such table.")

    def second(session):
        select.select(session, np.zeros(8, np.uint8), rows)

    def half(role, work):
        def run(channel):
            session = Session.start(role, channel, JOB)
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
