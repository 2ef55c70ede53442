"""Requests in flight, resending and refusing."""

import threading
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from ppodc.errors import ChannelError, CiphertextError, PeerError
from ppodc.kmeans.paillier.questions import Answer, Answers, Finish, Request, Requests
from ppodc.transport import wire
from ppodc.transport.channel import MemoryChannel, memory_pair
from ppodc.transport.wire import Body


class Factor(Body, frozen=True):
    by: int


class Server:
    """Answers in a thread; counts how often it really computed."""

    def __init__(self, channel: MemoryChannel, window: int = 256) -> None:
        self.calls = 0
        self.error: BaseException | None = None
        self.answers = Answers(channel, self.handle, window)
        self.start()

    def start(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.answers.serve()
        except Exception as error:  # noqa: BLE001 - kept for the test to look at
            self.error = error

    def handle(
        self, op: str, body: msgspec.Raw, arrays: tuple[np.ndarray, ...]
    ) -> Sequence[np.ndarray]:
        self.calls += 1
        if op == "refuse":
            raise CiphertextError("number 3 is no ciphertext.")
        if op == "crash":
            raise ZeroDivisionError("secret detail")
        factor = wire.decode_body(body, Factor, op).by if op == "times" else 1
        # The call count stands for fresh randomness: it shows whether an answer was stored.
        return [array * np.uint64(factor) for array in arrays] + [np.array([self.calls], np.uint64)]

    def join(self) -> BaseException | None:
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.error


@pytest.fixture
def pair() -> tuple[MemoryChannel, MemoryChannel]:
    return memory_pair(timeout=20)


def ask_raw(
    channel: MemoryChannel, number: int, value: int, acknowledged: int = 0, **changes: object
) -> None:
    arrays = [np.array([value], np.uint64)]
    body = wire.encode_body(None)
    digest = wire.content_digest("same", body, arrays)
    fields = {"number": number, "op": "same", "body": body, "acknowledged": acknowledged}
    channel.send("request", Request(**(fields | {"digest": digest} | changes)), arrays)


def test_answers_can_be_collected_in_any_order(pair) -> None:
    server = Server(pair[1])
    requests = Requests(pair[0])
    numbers = [requests.submit("times", Factor(i), [np.array([10], np.uint64)]) for i in range(20)]
    for i in (19, 0, 7):
        assert requests.answer(numbers[i])[0] == 10 * i
    assert requests.ask("same", arrays=[np.array([5], np.uint64)])[0] == 5
    requests.finish()
    assert server.join() is None
    assert server.calls == 21


def test_an_answer_is_collected_once(pair) -> None:
    server = Server(pair[1])
    requests = Requests(pair[0])
    number = requests.submit("same")
    requests.answer(number)
    for unknown in (number, 99):
        with pytest.raises(ChannelError, match="never made or"):
            requests.answer(unknown)
    requests.finish()
    assert server.join() is None


def test_the_window_bounds_what_is_in_flight_and_stored(pair) -> None:
    server = Server(pair[1], window=4)
    requests = Requests(pair[0], window=4)
    numbers = [requests.submit("same", arrays=[np.array([i], np.uint64)]) for i in range(50)]
    assert requests.in_flight <= 4
    assert [int(requests.answer(number)[0][0]) for number in numbers] == list(range(50))
    requests.finish()
    assert server.join() is None


def test_a_resent_request_is_answered_from_the_store(pair) -> None:
    server = Server(pair[1])
    requests = Requests(pair[0])
    number = requests.submit("same", arrays=[np.array([3], np.uint64)])
    requests.resend(number)
    assert requests.answer(number)[0] == 3
    assert requests.ask("same", arrays=[np.array([4], np.uint64)])[0] == 4
    with pytest.raises(ChannelError, match="not waiting"):
        requests.resend(number)
    requests.finish()
    assert server.join() is None
    assert server.calls == 2


def test_the_stored_answer_is_the_same_to_the_byte(pair) -> None:
    server = Server(pair[1])
    for number, value in ((0, 7), (1, 8), (0, 7), (1, 8)):
        ask_raw(pair[0], number, value)
    answers = [pair[0].receive("answer", Answer) for _ in range(4)]
    assert [answer.body.number for answer in answers] == [0, 1, 0, 1]
    assert [[int(a[0]) for a in answer.arrays] for answer in answers] == [[7, 1], [8, 2]] * 2
    pair[0].send("finish", Finish(2))
    assert server.join() is None
    assert server.calls == 2


@pytest.mark.parametrize(
    ("number", "value", "acknowledged", "complaint"),
    [
        (1, 99, 0, "request 1 came again with other content"),
        (0, 7, 1, "request 0 was answered and acknowledged"),
        (3, 7, 0, "request 3 came before request 2"),
    ],
    ids=["other content", "acknowledged", "gap"],
)
def test_refused_requests(pair, number: int, value: int, acknowledged: int, complaint: str) -> None:
    server = Server(pair[1])
    ask_raw(pair[0], 0, 7)
    ask_raw(pair[0], 1, 8)
    pair[0].receive("answer", Answer)
    pair[0].receive("answer", Answer)
    ask_raw(pair[0], number, value, acknowledged)
    with pytest.raises(PeerError, match=complaint):
        pair[0].receive("answer", Answer)
    assert complaint in str(server.join())
    assert server.calls == 2


def test_a_digest_that_does_not_fit_is_refused(pair) -> None:
    server = Server(pair[1])
    ask_raw(pair[0], 0, 7, digest=bytes(16))
    with pytest.raises(PeerError, match="digest"):
        pair[0].receive("answer", Answer)
    assert server.join() is not None
    assert server.calls == 0


def test_too_many_unacknowledged_answers_are_refused(pair) -> None:
    server = Server(pair[1], window=2)
    for number in range(3):
        ask_raw(pair[0], number, 1)
    pair[0].receive("answer", Answer)
    pair[0].receive("answer", Answer)
    with pytest.raises(PeerError, match="not acknowledged"):
        pair[0].receive("answer", Answer)
    assert "not acknowledged" in str(server.join())


def test_an_error_of_the_handler_reaches_the_asker(pair) -> None:
    server = Server(pair[1])
    with pytest.raises(PeerError, match="number 3 is no ciphertext"):
        Requests(pair[0]).ask("refuse")
    assert isinstance(server.join(), CiphertextError)


def test_an_unexpected_error_keeps_its_text_to_itself(pair) -> None:
    server = Server(pair[1])
    with pytest.raises(PeerError, match="internal error at the other cloud") as caught:
        Requests(pair[0]).ask("crash")
    assert "secret" not in str(caught.value)
    assert isinstance(server.join(), ZeroDivisionError)


def test_other_messages_are_refused(pair) -> None:
    server = Server(pair[1])
    pair[0].send("shares")
    with pytest.raises(PeerError, match="expected a request"):
        pair[0].receive("answer")
    assert isinstance(server.join(), ChannelError)


def test_finish_must_agree_on_the_count(pair) -> None:
    server = Server(pair[1])
    pair[0].send("finish", Finish(3))
    assert "3 requests were made and 0 arrived" in str(server.join())


def test_finish_waits_for_the_answers(pair) -> None:
    server = Server(pair[1])
    requests = Requests(pair[0])
    number = requests.submit("same")
    with pytest.raises(ChannelError, match="still wait"):
        requests.finish()
    requests.answer(number)
    requests.finish()
    assert server.join() is None


def test_an_answer_out_of_order_is_refused(pair) -> None:
    requests = Requests(pair[0])
    requests.submit("same")
    pair[1].send("answer", Answer(1))
    with pytest.raises(ChannelError, match="not the next"):
        requests.answer(0)


def test_both_go_on_over_a_new_link_without_computing_twice(pair) -> None:
    server = Server(pair[1])
    requests = Requests(pair[0])
    numbers = [requests.submit("same", arrays=[np.array([i], np.uint64)]) for i in range(3)]
    requests.answer(numbers[0])
    while server.calls < 3:
        assert server.thread.is_alive()
    pair[0].close()
    assert isinstance(server.join(), ChannelError)

    server.error = None
    ours, theirs = memory_pair(timeout=20)
    server.answers.attach(theirs)
    server.start()
    requests.attach(ours)
    assert [int(array[0]) for array in requests.answer(numbers[2])] == [2, 3]
    assert [int(array[0]) for array in requests.answer(numbers[1])] == [1, 2]
    requests.finish()
    assert server.join() is None
    assert server.calls == 3
