"""Questions of C1's half of a primitive and answers of C2's; the only place that sends anything.

C1's half is a generator: it yields an `Ask` and is resumed with the arrays of the answer. `run`
drives several such generators over one link: with one in flight the two clouds take turns (the
chapter's *online* mode), with more C1 computes while C2 does (*pipelined*).

C2 is stateless between questions: `MENU` maps the name of a question to the function that
answers it, and whatever is not on the menu, or not of the announced size, is refused. A step of a
job has a menu of its own (`StepMenu`): which questions belong to it and, for those whose answers
are more than ciphertexts, for how many values in all.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import gmpy2
import msgspec
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from ppodc.crypto.paillier import Ciphertexts, PublicKey, SecretKey
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.random_stream import SecureRandom
from ppodc.crypto.split_paillier import KeyShare
from ppodc.errors import ChannelError, WireError
from ppodc.kmeans.paillier.questions import Requests
from ppodc.transport.wire import Array, decode_body

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ask:
    """One question of C1 to C2."""

    op: str
    body: msgspec.Struct
    arrays: tuple[Array, ...]
    replies: int = 1  # arrays that the answer must have


Step = Generator[Ask, tuple[Array, ...], T]


@dataclass(slots=True)
class Cloud1:
    """C1's tools: public key, randomisers and masks, never a key that opens anything alone."""

    cipher: Cipher
    random: SecureRandom = field(default_factory=SecureRandom)
    share: KeyShare | None = None  # of a split key

    @property
    def key(self) -> PublicKey:
        return self.cipher.key

    def read(self, array: Array, count: int) -> Ciphertexts:
        """The `count` ciphertexts that C2 answered with."""
        return _read(self.key, array, count)

    def to_open(self, batch: Ciphertexts) -> Array:
        """The message of ciphertexts that C2 is to open, with C1's part if the key is split."""
        if self.share is None:
            return batch.to_array()
        return self.share.to_open(batch, self.cipher.tally)

    def constant(self, value: int, count: int) -> Ciphertexts:
        """E(value) for a value that everybody knows, without a randomiser."""
        return self.cipher.add_plain(Ciphertexts(self.key, [mpz(1)] * count), value)


@dataclass(slots=True)
class Cloud2:
    """C2's tools, and its halves of outputs."""

    cipher: Cipher
    secret: SecretKey | KeyShare
    shares: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    revealed: list[int] = field(default_factory=list)
    stops: list[bool] = field(default_factory=list)
    zero: Ciphertexts = field(init=False)

    def __post_init__(self) -> None:
        # E(0) of full size. Anyone can make it, so whatever is built on it is re-randomised.
        key = self.cipher.key
        self.zero = Ciphertexts(key, [gmpy2.powmod(2, key.n, key.n2)])

    def read(self, array: Array, count: int) -> Ciphertexts:
        """The `count` ciphertexts that C1 asks about."""
        return _read(self.cipher.key, array, count)

    def encrypt_bits(self, bits: Sequence[bool]) -> Ciphertexts:
        """Fresh encryptions of bits, each one multiplication of full-size numbers.

        What a bit is must not show in the time that the answer takes.
        """
        one = self.cipher.add_plain(self.zero, 1).values[0]
        zero = self.zero.values[0]
        plain = Ciphertexts(self.cipher.key, [one if bit else zero for bit in bits])
        return self.cipher.rerandomise(plain)

    def open(self, array: Array, count: int) -> list[mpz]:
        """The plaintexts of the `count` ciphertexts that C1 sent with `to_open`."""
        if isinstance(self.secret, SecretKey):
            return self.secret.decrypt(self.read(array, count), self.cipher.tally)
        if len(array) != count:
            raise WireError(f"expected {count} ciphertexts, got an array of shape {array.shape}.")
        return self.secret.opened(array, self.cipher.tally)


def pick(flags: Sequence[bool], yes: Ciphertexts, no: Ciphertexts) -> Ciphertexts:
    """Element by element the one or the other batch."""
    values = [y if f else n for f, y, n in zip(flags, yes.values, no.values, strict=True)]
    return Ciphertexts(yes.key, values)


def _read(key: PublicKey, array: Array, count: int) -> Ciphertexts:
    if array.ndim != 2 or len(array) != count:
        raise WireError(f"expected {count} ciphertexts, got an array of shape {array.shape}.")
    return Ciphertexts.from_array(key, array)


Answer = Callable[[Cloud2, Any, tuple[Array, ...]], Sequence[Array]]
Amount = Callable[[Any], int]


@dataclass(frozen=True, slots=True)
class Question:
    """A question to C2: the type of its body, its arrays, and the function that answers.

    `amount` says of how many values C2 gives or gets more than ciphertexts; None: of none.
    """

    body: type[msgspec.Struct]
    arrays: int
    answer: Answer
    amount: Amount | None


MENU: dict[str, Question] = {}


def answers(
    op: str, body: type[msgspec.Struct], arrays: int, amount: Amount | None = None
) -> Callable[[Answer], Answer]:
    """Put a function on C2's menu: it answers `op` with this body and number of arrays."""

    def register(function: Answer) -> Answer:
        MENU[op] = Question(body, arrays, function, amount)
        return function

    return register


@dataclass(slots=True)
class StepMenu:
    """The questions that C1 may ask in one step of a job.

    Questions in `free` are answered with ciphertexts alone, as often as C1 asks. One in `once` is
    answered once and for this amount, one in `pieces` for so much in all. Nothing else is.
    """

    step: str
    free: frozenset[str] = frozenset()
    once: dict[str, int] = field(default_factory=dict)
    pieces: dict[str, int] = field(default_factory=dict)

    def take(self, op: str, amount: int) -> None:
        """Refuse a question that the step does not have, or no more."""
        if op in self.free:
            return
        if op in self.once:
            right = self.once.pop(op) == amount
        else:
            left = self.pieces.get(op, 0)
            right = 0 < amount <= left
            self.pieces[op] = left - amount
        if not right:
            raise WireError(f"{op} for {amount} is not, or no more, a question of {self.step}.")

    def check_finished(self) -> None:
        """Refuse an end at which the job still lacks something."""
        if self.once or any(self.pieces.values()):
            raise ChannelError(f"C1 ended {self.step} before it had asked all that belongs to it.")


def answer(
    c2: Cloud2, menu: StepMenu, op: str, body: msgspec.Raw, arrays: tuple[Array, ...]
) -> Sequence[Array]:
    """C2's answer to one question of the step whose menu this is."""
    if op not in MENU:
        raise WireError(f"the paillier suite has no operation {op!r}.")
    question = MENU[op]
    if len(arrays) != question.arrays:
        raise WireError(f"{op} takes {question.arrays} arrays, got {len(arrays)}.")
    asked = decode_body(body, question.body, op)
    menu.take(op, 0 if question.amount is None else question.amount(asked))
    return question.answer(c2, asked, arrays)


def run(
    steps: Iterable[Step[T]],
    requests: Requests,
    in_flight: int = 1,
    finished: Callable[[int], None] | None = None,
) -> list[T]:
    """Drive C1's halves to their ends; results in the order of `steps`.

    Steps are started lazily, so at most `in_flight` of them hold memory at a time. `finished` is
    told the position of each step when it ends.
    """
    results: dict[int, T] = {}
    waiting: deque[tuple[int, Step[T], int, int]] = deque()

    def advance(position: int, step: Step[T], reply: tuple[Array, ...] | None) -> None:
        try:
            ask = next(step) if reply is None else step.send(reply)
        except StopIteration as end:
            results[position] = end.value
            if finished is not None:
                finished(position)
        else:
            number = requests.submit(ask.op, ask.body, ask.arrays)
            waiting.append((position, step, number, ask.replies))

    coming = enumerate(steps)
    while True:
        while len(waiting) < in_flight and (following := next(coming, None)) is not None:
            advance(*following, None)
        if not waiting:
            return [results[position] for position in sorted(results)]
        position, step, number, expected = waiting.popleft()
        reply = requests.answer(number)
        if len(reply) != expected:
            raise WireError(f"C2 answered with {len(reply)} arrays instead of {expected}.")
        advance(position, step, reply)
