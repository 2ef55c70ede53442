"""Client and desk in one process, over a carrier that loses, repeats and delays frames."""

from collections.abc import Iterable, Sequence
from itertools import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ppodc.errors import AccessError, ChannelError, InputError, LimitError, RefusedError, WireError
from ppodc.transport import call_server, peer_log, wire
from ppodc.transport.call_client import REFUSAL, REPLY, Call, Client, Refusal
from ppodc.transport.call_server import CallServer, Operation, Peer, Reply, Request
from ppodc.transport.wire import Body, Empty
from tests.harness.patience import LONG
from tests.transport.memory_carrier import MemoryCarrier

ANN, BOB = Peer("owner", "ann"), Peer("owner", "bob")
SESSION = bytes(range(16))


class Number(Body, frozen=True):
    value: int


class KilledError(BaseException):
    """As if the process had ended here."""


class Account:
    """The sum of all additions, so that adding twice shows."""

    def __init__(self) -> None:
        self.added: list[int] = []
        roles = frozenset({"owner"})
        self.desk = CallServer(
            [
                Operation("add", roles, Number, self.add),
                Operation("audit", frozenset({"cloud1"}), Empty, self.add),
            ]
        )

    def add(self, peer: Peer, body: Number, arrays: object) -> tuple[Number, tuple[()]]:
        if body.value == 0:
            raise InputError("nothing to add.")
        if body.value < 0:
            raise KilledError
        self.added.append(body.value)
        return Number(sum(self.added)), ()


class Recorder(MemoryCarrier):
    """Remembers the requests, so that they can come once more."""

    def __init__(self, desk: CallServer, copies: Iterable[int] = ()) -> None:
        super().__init__(desk, ANN, copies)
        self.sent: list[Sequence[wire.Part]] = []

    def send(self, request: Sequence[wire.Part]) -> None:
        self.sent.append(request)
        super().send(request)


@pytest.fixture
def account() -> Account:
    return Account()


def add(client: Client, value: int) -> int:
    return client.call("add", Number(value), reply=Number)[0].value


@pytest.mark.parametrize(
    ("copies", "sent"),
    [
        ((), 2),
        ((0, 0, 1), 4),
        ((1, 0), 3),
        ((1, 0, 1, 0), 4),
        ((2, 1, 1), 2),
        ((1, 2), 2),
        ((2, 0, 0), 3),
    ],
    ids=[
        "all arrive",
        "requests lost",
        "reply lost",
        "replies lost",
        "request repeated",
        "reply repeated",
        "request repeated and both replies lost",
    ],
)
def test_each_request_is_done_once_whatever_is_lost(account, copies, sent):
    carrier = Recorder(account.desk, copies)
    client = Client(carrier)
    assert [add(client, 5), add(client, 7)] == [5, 12]
    assert account.added == [5, 7]
    assert len(carrier.sent) == sent


@given(st.lists(st.integers(0, 3), max_size=60))
def test_each_request_is_done_once_under_random_faults(copies):
    account = Account()
    client = Client(MemoryCarrier(account.desk, ANN, copies))
    assert [add(client, value) for value in range(1, 9)] == [1, 3, 6, 10, 15, 21, 28, 36]
    assert account.added == list(range(1, 9))


def test_frames_that_come_late_change_nothing(account):
    carrier = Recorder(account.desk)
    client = Client(carrier)
    add(client, 5)
    add(client, 7)
    for request in carrier.sent[:]:
        carrier.send(request)
    assert add(client, 1) == 13
    assert account.added == [5, 7, 1]


def test_a_refusal_is_an_answer_like_any_other(account):
    client = Client(MemoryCarrier(account.desk, ANN, (1, 0)))
    with pytest.raises(RefusedError, match="nothing to add") as caught:
        add(client, 0)
    assert caught.value.code == InputError.code
    with pytest.raises(RefusedError, match="not for the role 'owner'") as caught:
        client.tell("audit")
    assert caught.value.code == AccessError.code
    assert add(client, 5) == 5


def test_a_call_ends_when_its_time_is_over(account):
    client = Client(MemoryCarrier(account.desk, ANN, repeat(0)), timeout=0.01)
    with pytest.raises(ChannelError, match="every frame was lost"):
        add(client, 5)


def test_an_answer_of_another_kind_is_not_taken_for_one(account):
    client = Client(MemoryCarrier(account.desk, ANN, (0,)))
    other = wire.encode(client._session, 1, "other", wire.encode_body(None))
    client._carrier._arrived.append(other)
    with pytest.raises(WireError, match="answered with 'other'"):
        add(client, 5)


def test_a_client_goes_on_at_a_restarted_service(account):
    carrier = MemoryCarrier(account.desk, ANN)
    client = Client(carrier)
    assert [add(client, 5), add(client, 7)] == [5, 12]
    carrier.desk = Account().desk  # it knows neither the session nor its numbers
    assert add(client, 1) == 1


def test_a_death_in_the_middle_is_nobodys_answer(account):
    with pytest.raises(KilledError):
        add(Client(MemoryCarrier(account.desk, ANN)), -1)


# --- the desk alone -----------------------------------------------------------------------------


def request(number: int, value: int, session: bytes = SESSION, digest: bytes = b"") -> Reply:
    raw = wire.encode_body(Number(value))
    call = Call(digest or wire.content_digest("add", raw, ()), raw)
    return wire.encode(session, number, "add", wire.encode_body(call))


def refused(reply: Reply | Request | None, code: str = WireError.code) -> str:
    assert isinstance(reply, list)
    message = wire.decode(reply).message
    assert message.kind == REFUSAL
    refusal = message.decode(Refusal)
    assert refusal.code == code
    return refusal.text


def test_the_stored_reply_is_the_same_to_the_byte(account):
    replies = [account.desk.answer(ANN, request(1, 5)) for _ in range(3)]
    assert replies[0] == replies[1] == replies[2]
    assert account.added == [5]


def test_the_same_number_with_other_content_is_refused(account):
    desk = account.desk
    desk.answer(ANN, request(1, 5))
    assert "other content" in refused(desk.answer(ANN, request(1, 6)))
    running = desk.take(ANN, request(2, 7))
    assert "other content" in refused(desk.take(ANN, request(2, 8)))
    assert wire.decode(desk.perform(running)).message.kind == REPLY
    assert "long ago" in refused(desk.answer(ANN, request(1, 5)))
    assert "damaged" in refused(desk.answer(ANN, [b"rubbish"]))
    assert account.added == [5, 7]


def test_a_false_digest_gives_its_sender_an_old_answer_of_its_own(account):
    first = account.desk.answer(ANN, request(1, 5, digest=bytes(16)))
    assert account.desk.answer(ANN, request(1, 6, digest=bytes(16))) == first
    assert account.added == [5]


def test_peers_with_one_session_do_not_meet(account):
    for peer, value in ((ANN, 5), (BOB, 6)):
        reply = account.desk.answer(peer, request(1, value))
        assert wire.decode(reply).message.kind == REPLY
    assert account.added == [5, 6]


def test_a_running_request_is_not_forgotten_for_others(account):
    desk = account.desk
    running = desk.take(ANN, request(1, 5))
    assert isinstance(running, Request)
    for other in range(40):
        desk.answer(ANN, request(1, 1, session=bytes([other]) * 16))
    assert desk.take(ANN, request(1, 5)) is None
    desk.perform(running)
    assert desk.answer(ANN, request(1, 5)) is not None
    assert account.added.count(5) == 1


def test_a_peer_cannot_pile_up_requests(account):
    desk = account.desk
    taken = [desk.take(ANN, request(1, 1, session=bytes([i]) * 16)) for i in range(32)]
    assert "at once" in refused(desk.take(ANN, request(1, 1)), LimitError.code)
    assert isinstance(desk.take(BOB, request(1, 1)), Request)
    desk.perform(taken[0])
    assert isinstance(desk.take(ANN, request(1, 1)), Request)


def test_replies_are_not_kept_for_ever(account, monkeypatch):
    desk = account.desk
    desk.answer(ANN, request(1, 5))
    assert desk._kept_bytes > 0
    monkeypatch.setattr(call_server, "_KEPT_SECONDS", -1.0)
    desk.tidy()
    assert desk._kept_bytes == 0
    assert not desk._kept
    # Asked for again it is made again: operations are harmless when repeated.
    assert wire.decode(desk.answer(ANN, request(1, 5))).message.kind == REPLY
    assert account.added == [5, 5]


def test_the_kept_replies_of_all_peers_are_bounded(account, monkeypatch):
    size = wire.frame_bytes(account.desk.answer(ANN, request(1, 5)))
    monkeypatch.setattr(call_server, "_KEPT_BYTES", 3 * size)
    for number in range(12):
        account.desk.answer(Peer("owner", f"o{number}"), request(1, 1))
        assert account.desk._kept_bytes <= 3 * size
    monkeypatch.setattr(call_server, "_KEPT_REPLY_BYTES", size - 20)
    account.desk.answer(BOB, request(1, 1))
    assert (BOB, SESSION) not in account.desk._kept


def test_nobody_forges_a_line_of_the_log(account, caplog):
    raw = wire.encode_body(None)
    call = wire.encode_body(Call(wire.content_digest("x", raw, ()), raw))
    name = "x\nWARNING:ppodc.ledger:all is well"
    account.desk.answer(ANN, wire.encode(SESSION, 1, name, call))
    assert caplog.messages
    assert not any("\n" in line for line in caplog.messages)


def test_a_peer_cannot_fill_the_log(account, caplog, monkeypatch):
    monkeypatch.setattr(peer_log, "_SECONDS", LONG)  # the minute of these lines
    for _ in range(500):
        account.desk.answer(ANN, [b"rubbish"])
    account.desk.answer(BOB, [b"rubbish"])
    about = [line for line in caplog.messages if line.startswith("owner ann")]
    assert len(about) == 20
    assert any(line.startswith("owner bob") for line in caplog.messages)


def test_offences_are_told_and_honest_refusals_are_not(account):
    offenders: list[Peer] = []
    desk = CallServer(
        [Operation("add", frozenset({"owner"}), Number, account.add)],
        on_offence=offenders.append,
    )
    desk.answer(ANN, request(1, 0))  # an InputError
    assert offenders == []
    desk.answer(ANN, [b"rubbish"])
    desk.answer(
        BOB,
        wire.encode(
            SESSION, 1, "nothing", wire.encode_body(Call(bytes(16), wire.encode_body(None)))
        ),
    )
    assert offenders == [ANN, BOB]
