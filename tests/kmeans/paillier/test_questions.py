"""Questions in flight, in order, and what is refused."""

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
from tests.harness.patience import LONG


class Factor(Body, frozen=True):
    by: int


class Server:
    """Answers in a thread; counts how often it really computed."""

    def __init__(self, channel: MemoryChannel) -> None:
        self.calls = 0
        self.error: BaseException | None = None
        self.answers = Answers(channel, self.handle)
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
        return [array * np.uint64(factor) for array in arrays]

    def join(self) -> BaseException | None:
        self.thread.join(LONG)
        assert not self.thread.is_alive()
        return self.error


@pytest.fixture
def pair() -> tuple[MemoryChannel, MemoryChannel]:
    return memory_pair(timeout=LONG)


def ask_raw(channel: MemoryChannel, number: int) -> None:
    channel.send("request", Request(number, "same", wire.encode_body(None)))


def ask(channel: MemoryChannel, op: str) -> None:
    requests = Requests(channel)
    requests.answer(requests.submit(op))


def test_many_are_in_flight_and_answered_in_order(pair) -> None:
    server = Server(pair[1])
    requests = Requests(pair[0])
    numbers = [requests.submit("times", Factor(i), [np.array([10], np.uint64)]) for i in range(20)]
    assert [int(requests.answer(number)[0][0]) for number in numbers] == [10 * i for i in range(20)]
    requests.finish()
    assert server.join() is None
    assert server.calls == 20


def test_numbers_go_on_after_a_finish(pair) -> None:
    requests, answers = Requests(pair[0]), Answers(pair[1], lambda op, body, arrays: arrays)
    for number in range(2):
        serving = threading.Thread(target=answers.serve)
        serving.start()
        assert requests.submit("same") == number
        requests.answer(number)
        requests.finish()
        serving.join(LONG)
        assert not serving.is_alive()


def test_an_answer_is_collected_once_and_in_turn(pair) -> None:
    server = Server(pair[1])
    requests = Requests(pair[0])
    first, second = requests.submit("same"), requests.submit("same")
    with pytest.raises(ChannelError, match="request 1 is not the next"):
        requests.answer(second)
    requests.answer(first)
    for wrong in (first, 99):
        with pytest.raises(ChannelError, match="not the next"):
            requests.answer(wrong)
    requests.answer(second)
    with pytest.raises(ChannelError, match="request 2 is not the next"):
        requests.answer(2)
    requests.finish()
    assert server.join() is None


@pytest.mark.parametrize("number", [0, 1, 3], ids=["long ago", "again", "gap"])
def test_a_request_out_of_turn_is_refused_and_not_computed(pair, number: int) -> None:
    server = Server(pair[1])
    for good in range(2):
        ask_raw(pair[0], good)
        pair[0].receive("answer", Answer)
    ask_raw(pair[0], number)
    complaint = f"request {number} came instead of 2"
    with pytest.raises(PeerError, match=complaint):
        pair[0].receive("answer", Answer)
    assert complaint in str(server.join())
    assert server.calls == 2


def test_an_error_of_the_handler_reaches_the_asker(pair) -> None:
    server = Server(pair[1])
    with pytest.raises(PeerError, match="number 3 is no ciphertext"):
        ask(pair[0], "refuse")
    assert isinstance(server.join(), CiphertextError)


def test_an_unexpected_error_keeps_its_text_to_itself(pair) -> None:
    server = Server(pair[1])
    with pytest.raises(PeerError, match="internal error at cloud 2") as caught:
        ask(pair[0], "crash")
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
    with pytest.raises(ChannelError, match="requests 0 and on still wait"):
        requests.finish()
    requests.answer(number)
    requests.finish()
    assert server.join() is None


def test_an_answer_out_of_order_is_refused_at_both_ends(pair) -> None:
    requests = Requests(pair[0])
    requests.submit("same")
    pair[1].send("answer", Answer(1))
    with pytest.raises(ChannelError, match="request 1 instead of 0"):
        requests.answer(0)
    pair[1].receive("request", Request)
    with pytest.raises(PeerError, match="request 1 instead of 0"):
        pair[1].receive_any()
