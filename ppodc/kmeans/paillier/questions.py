"""Questions of C1 and answers of C2 over a channel, with several in flight.

Questions are numbered; C2 answers them strictly in order, each once. The channel neither loses nor
repeats a message unnoticed, so there is nothing to ask again: a number that is not the next one is
refused, and C2 never computes twice with fresh randomness for one question. When the link dies the
pair is thrown away with all its randomness, and its part of the step runs again on a fresh pair.
"""

from collections.abc import Callable, Sequence
from typing import Annotated

import msgspec

from ppodc.errors import ChannelError, PpodcError
from ppodc.transport import wire
from ppodc.transport.channel import Channel
from ppodc.transport.wire import Array, Body, Message

Handler = Callable[[str, msgspec.Raw, tuple[Array, ...]], Sequence[Array]]
_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Request(Body, frozen=True):
    """Body of a `request`: its number, what is asked, and with which body of its own."""

    number: _Number
    op: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    body: msgspec.Raw


class Answer(Body, frozen=True):
    """Body of an `answer`."""

    number: _Number


class Finish(Body, frozen=True):
    """Body of `finish`: C1 has all answers to this many requests and asks no more."""

    requests: _Number


class Requests:
    """C1's end: submit questions, collect their answers in the same order. Used by one thread."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._submitted = 0
        self._answered = 0

    def submit(
        self, op: str, body: msgspec.Struct | None = None, arrays: Sequence[Array] = ()
    ) -> int:
        """Ask without waiting for the answer; returns the number to collect it by."""
        number = self._submitted
        self._channel.send("request", Request(number, op, wire.encode_body(body)), arrays)
        self._submitted += 1
        return number

    def answer(self, number: int) -> tuple[Array, ...]:
        """The answer to this request, which must be the oldest that waits for one."""
        if not number == self._answered < self._submitted:
            raise ChannelError(f"request {number} is not the next to be answered.")
        received = self._channel.receive("answer", Answer)
        if received.body.number != number:
            reason = f"got an answer to request {received.body.number} instead of {number}."
            self._channel.fail(reason)
            raise ChannelError(reason)
        self._answered += 1
        return received.arrays

    def finish(self) -> None:
        """Tell the peer that there are no more requests; all answers must have arrived."""
        if self._answered != self._submitted:
            raise ChannelError(f"requests {self._answered} and on still wait for an answer.")
        self._channel.send("finish", Finish(self._submitted))


class Answers:
    """C2's end: answers one request after the other until the peer has finished."""

    def __init__(self, channel: Channel, handle: Handler) -> None:
        self._channel = channel
        self._handle = handle
        self._answered = 0

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
                self._answer(message)
            except PpodcError as error:
                self._channel.fail(str(error))
                raise
            except BaseException:
                self._channel.fail("internal error at cloud 2; its log says more.")
                raise

    def _answer(self, message: Message) -> None:
        if message.kind != "request":
            raise ChannelError(f"expected a request and got {message.kind!r}.")
        request = message.decode(Request)
        if request.number != self._answered:
            raise ChannelError(f"request {request.number} came instead of {self._answered}.")
        arrays = self._handle(request.op, request.body, message.arrays)
        self._channel.send("answer", Answer(request.number), arrays)
        self._answered += 1

    def _check_finish(self, finish: Finish) -> None:
        if finish.requests != self._answered:
            raise ChannelError(
                f"{finish.requests} requests were made and {self._answered} arrived."
            )
