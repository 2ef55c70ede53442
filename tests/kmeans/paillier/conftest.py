"""C1 and C2 in one thread: C2's menu answers C1's questions directly, without a network."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest

from ppodc.crypto.paillier import Ciphertexts, SecretKey, generate_insecure
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.kmeans.paillier import exchange
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, StepMenu

KEY = generate_insecure(384)
QUESTIONS = "share products bit compare positions reveal stop output labels"
ANYTHING = StepMenu("a test", frozenset(QUESTIONS.split()))


@dataclass
class Inline:
    """Both clouds; every question is kept, so that tests can look at what C2 sees."""

    c1: Cloud1
    c2: Cloud2
    asked: list[Ask] = field(default_factory=list)
    decrypted: list[int] = field(default_factory=list)

    def run(self, step: Step[Any]) -> Any:
        try:
            ask = next(step)
            while True:
                self.asked.append(ask)
                body = msgspec.Raw(msgspec.msgpack.encode(ask.body))
                reply = tuple(exchange.answer(self.c2, ANYTHING, ask.op, body, ask.arrays))
                assert len(reply) == ask.replies
                ask = step.send(reply)
        except StopIteration as end:
            return end.value

    def encrypt(self, values: Any) -> Ciphertexts:
        return self.c1.cipher.encrypt(
            [int(x) for x in np.asarray(values, dtype=object).reshape(-1)]
        )

    def decrypt(self, batch: Ciphertexts) -> list[int]:
        """Plaintexts, with the upper half of the residues as negative numbers."""
        n = int(batch.key.n)
        return [int(x) if x <= n // 2 else int(x) - n for x in self.c2.secret.decrypt(batch)]


class Watching(SecretKey):
    """A secret key that remembers what C2 decrypts."""

    __slots__ = ("seen",)

    def decrypt(self, a: Ciphertexts, tally: Any = None) -> list[Any]:
        opened = super().decrypt(a, tally)
        self.seen.extend(int(x) for x in opened)
        return opened


def make_inline(secret: SecretKey = KEY) -> Inline:
    watching = Watching(secret.p, secret.q)
    watching.seen = []
    c1 = Cloud1(Cipher(secret.public, FreshRandomisers(secret.public)))
    c2 = Cloud2(Cipher(secret.public, FreshRandomisers(secret.public, secret)), watching)
    return Inline(c1, c2, decrypted=watching.seen)


@pytest.fixture
def both() -> Inline:
    return make_inline()


@pytest.fixture
def make_both() -> Callable[..., Inline]:
    return make_inline
