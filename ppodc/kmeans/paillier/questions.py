"""Questions of C1 and answers of C2 over a channel, with many in flight.

Every request carries its number, a digest over its whole content and the number below which C1
has all answers. C2 works strictly in order and keeps each answer until C1 has acknowledged it:
a request sent again gets the stored answer, byte for byte, so a repeated request never makes C2
compute twice with fresh randomness. The same number with other content is refused.

When a link dies, both ends may go on over a new one (`attach`): C1 sends again whatever has no
answer yet. The numbers live as long as the two objects, not as long as the link.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, NoReturn

import msgspec

from ppodc.errors import ChannelError, PpodcError, WireError
from ppodc.transport import wire
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Array, Body

DEFAULT_WINDOW = 256

Handler = Callable[[str, msgspec.Raw, tuple[Array, ...]], Sequence[Array]]
_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Request(Body, frozen=True):
    """Body of a `request`; `digest` covers op, body and arrays, not the rest."""

    number: _Number
    op: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    body: msgspec.Raw
    acknowledged: _Number
    digest: Annotated[bytes, msgspec.Meta(max_length=wire.DIGEST_BYTES)]


class Answer(Body, frozen=True):
    """Body of an `answer`."""

    number: _Number


class Finish(Body, frozen=True):
    """Body of `finish`: C1 has all answers to this many requests and asks no more."""

    requests: _Number


@dataclass(frozen=True, slots=True)
class _Asked:
    op: str
    body: msgspec.Raw
    arrays: tuple[Array, ...]


class Requests:
    """C1's end: submit questions, collect answers in any order. Used by one thread.

    Arrays given to `submit` must stay unchanged until their answer is there, as they may have to
    be sent again.
    """

    def __init__(self, channel: Channel, window: int = DEFAULT_WINDOW) -> None:
        self._channel = channel
        self._window = window
        self._next = 0
        self._waiting: dict[int, _Asked] = {}  # no answer yet, in order
        self._answers: dict[int, tuple[Array, ...]] = {}  # arrived, not yet collected
        self._repeated: list[int] = []  # sent again, so that a second answer may come

    @property
    def in_flight(self) -> int:
        """How many requests have no answer yet."""
        return len(self._waiting)

    def submit(
        self, op: str, body: msgspec.Struct | None = None, arrays: Sequence[Array] = ()
    ) -> int:
        """Ask without waiting for the answer; returns the number to collect it by.

        Waits for the oldest answer only when a whole window of requests is in flight.
        """
        while len(self._waiting) >= self._window:
            self._take_answer(None)
        number, self._next = self._next, self._next + 1
        self._waiting[number] = _Asked(op, wire.encode_body(body), tuple(arrays))
        self._send(number)
        return number

    def answer(self, number: int, timeout: float | None = None) -> tuple[Array, ...]:
        """The answer to this request; each can be collected once."""
        while number in self._waiting:
            self._take_answer(timeout)
        if number not in self._answers:
            raise ChannelError(f"request {number} was never made or its answer was collected.")
        return self._answers.pop(number)

    def ask(
        self,
        op: str,
        body: msgspec.Struct | None = None,
        arrays: Sequence[Array] = (),
        timeout: float | None = None,
    ) -> tuple[Array, ...]:
        """Submit and wait."""
        return self.answer(self.submit(op, body, arrays), timeout)

    def resend(self, number: int) -> None:
        """Ask again, with the same number and content; the peer answers from its store."""
        if number not in self._waiting:
            raise ChannelError(f"request {number} is not waiting for an answer.")
        self._repeated.append(number)
        self._send(number)

    def attach(self, channel: Channel) -> None:
        """Go on over a new link: everything without an answer is asked again."""
        self._channel = channel
        self._repeated.clear()  # answers still due on the old link will never come
        for number in self._waiting:
            self._send(number)

    def finish(self) -> None:
        """Tell the peer that there are no more requests; all answers must have arrived."""
        if self._waiting:
            raise ChannelError(f"{len(self._waiting)} requests still wait for an answer.")
        self._channel.send("finish", Finish(self._next))

    def _send(self, number: int) -> None:
        asked = self._waiting[number]
        digest = wire.content_digest(asked.op, asked.body, asked.arrays)
        acknowledged = next(iter(self._waiting))
        request = Request(number, asked.op, asked.body, acknowledged, digest)
        self._channel.send("request", request, asked.arrays)

    def _take_answer(self, timeout: float | None) -> None:
        received = self._channel.receive("answer", Answer, timeout)
        number = received.body.number
        if number == next(iter(self._waiting), None):
            del self._waiting[number]
            self._answers[number] = received.arrays
        elif number in self._repeated:
            self._repeated.remove(number)
        else:
            reason = f"got an answer to request {number}, which is not the next in order."
            self._channel.fail(reason)
            raise ChannelError(reason)


@dataclass(frozen=True, slots=True)
class _Answered:
    digest: bytes
    arrays: tuple[Array, ...]


class Answers:
    """C2's end: answers one request after the other until the peer has finished."""

    def __init__(self, channel: Channel, handle: Handler, window: int = DEFAULT_WINDOW) -> None:
        self._channel = channel
        self._handle = handle
        self._window = window
        self._next = 0
        self._stored: dict[int, _Answered] = {}

    def attach(self, channel: Channel) -> None:
        """Go on over a new link with the same numbers and stored answers."""
        self._channel = channel

    def serve(self, timeout: float | None = None) -> None:
        """Answer until `finish`. `timeout` bounds the wait for each next request.

        An error while answering is told to the peer (only its text, and only if the error is one
        that is meant to be read), ends the channel and is raised here.
        """
        while True:
            message = self._channel.receive_any(timeout)
            try:
                if message.kind == "finish":
                    self._check_finish(message.decode(Finish))
                    return
                if message.kind != "request":
                    self._refuse(f"expected a request and got {message.kind!r}.")
                self._serve_one(message.decode(Request), message.arrays)
            except PpodcError as error:
                self._channel.fail(str(error))
                raise
            except BaseException:
                self._channel.fail("internal error at the other cloud; its log says more.")
                raise

    def _serve_one(self, request: Request, arrays: tuple[Array, ...]) -> None:
        if wire.content_digest(request.op, request.body, arrays) != request.digest:
            raise WireError(f"the content of request {request.number} does not fit its digest.")
        if request.number > self._next:
            self._refuse(f"request {request.number} came before request {self._next}.")
        self._drop_acknowledged(request.acknowledged)
        if request.number < self._next:
            answered = self._answered_before(request)
        else:
            answered = self._answer_new(request, arrays)
        self._channel.send("answer", Answer(request.number), answered.arrays)

    def _answer_new(self, request: Request, arrays: tuple[Array, ...]) -> _Answered:
        if len(self._stored) >= self._window:
            self._refuse(f"over {self._window} answers are not acknowledged; collect them first.")
        answer = tuple(self._handle(request.op, request.body, arrays))
        answered = self._stored[request.number] = _Answered(request.digest, answer)
        self._next += 1
        return answered

    def _answered_before(self, request: Request) -> _Answered:
        answered = self._stored.get(request.number)
        if answered is None:
            self._refuse(f"request {request.number} was answered and acknowledged long ago.")
        if answered.digest != request.digest:
            self._refuse(f"request {request.number} came again with other content.")
        return answered

    def _drop_acknowledged(self, below: int) -> None:
        while self._stored and (oldest := next(iter(self._stored))) < below:
            del self._stored[oldest]

    def _check_finish(self, finish: Finish) -> None:
        if finish.requests != self._next:
            self._refuse(f"{finish.requests} requests were made and {self._next} arrived.")
        self._stored.clear()

    def _refuse(self, reason: str) -> NoReturn:
        raise ChannelError(reason)
