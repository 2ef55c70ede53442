"""Starting the transfers of a session, in both directions, from nothing but its name.

In direction 2 the sender is C2, in direction 1 C1. Flights, after both have said hello:

    1  C2 -> C1   questions of 128 base transfers (`base_ot`)
    2  C1 -> C2   answers; trees of rows, direction 2; 368 rows of direction 2 for C1's choices
    3  C2 -> C1   trees of rows and of leaves, direction 1; 240 rows of direction 1 for C2's choices
    4  C1 -> C2   trees of leaves, direction 2

The base transfers give the trees of rows in direction 2 (`trees`, 32 of them). Rows for choices
that a cloud's other secrets call for are the base transfers of all other trees: 128 for C1's secret
of rows and 240 for either cloud's of leaves (`code`, 60 trees). Their keys are H(q) and H(q ^ D),
and nothing masked by H(q ^ D) leaves before the check of its rows has passed. All secrets are drawn
anew for each session and never stored.

The rows' checks (`column_check`) need no round here: a challenge is SHA-256 of the session's name
and all that was sent before, 4 KB.

Who learns what: nothing. A peer that deviates: `base_ot`, `trees` and `column_check` say what it
can do. Rounds: 2. Bytes: 0.65 MB in all. Time: some 70 milliseconds at each cloud.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.mpc.messages import PeerLink
from ppodc.mpc.ot import base_ot, column_check
from ppodc.mpc.ot.aes import Hash, Tweaks
from ppodc.mpc.ot.base_ot import BaseReceiver, Encapsulate
from ppodc.mpc.ot.code import LEAVES, ROWS, Code
from ppodc.mpc.ot.column_check import CHALLENGE_BYTES, DIGEST_BYTES
from ppodc.mpc.ot.extension import MASK_ROWS, Receiver, Sender, rows_of
from ppodc.mpc.ot.trees import TreeMessage, choices_for, grow, punctured
from ppodc.mpc.shares.additive import U64Array
from ppodc.mpc.shares.xor_bits import BLOCK, WORD, pack, padded

Bits = NDArray[np.uint8]
Senders = dict[int, Sender]  # by the number of their code
Receivers = dict[int, Receiver]
_End = TypeVar("_End", Sender, Receiver)
_QUESTION, _ANSWER = "shares.base-question", "shares.base-answer"
_TREES, _ROWS = "shares.trees", "shares.base-rows"


@dataclass(slots=True, repr=False)
class Start:
    """One cloud's way through the flights; `run` gives both directions."""

    sid: bytes
    role: int
    link: PeerLink
    random: SecureRandom
    hash: Hash
    tweaks: Tweaks
    encapsulate: Encapsulate
    _sent: bytes = field(default=b"")  # a digest of all messages so far, both directions

    def run(self) -> tuple[Senders, Receivers]:
        """Senders of the own direction and receivers of the other."""
        self._sent = self.sid
        return self._first() if self.role == 1 else self._second()

    def _second(self) -> tuple[Senders, Receivers]:
        """C2: receiver of the base transfers, hence sender of direction 2."""
        delta, leaf_delta = self._delta(ROWS), self._delta(LEAVES)
        base = BaseReceiver.ask(self.sid, choices_for(delta), self.random)
        self._send(_QUESTION, base.questions)
        shape = base_ot.COUNT, base_ot.ANSWER_BYTES
        answers = self._received(_ANSWER, (np.uint8, shape))[0]
        rows = Sender(ROWS, delta, self._punctured(ROWS, delta, base.open(self.sid, answers)))
        # direction 1: its trees are masked by transfers of direction 2, H(q) and H(q ^ D)
        pairs = self._pairs(rows, ROWS.columns + LEAVES.columns)
        receiver = Receiver(ROWS, self._grown(ROWS, pairs[: ROWS.columns]))
        leaf_receiver = Receiver(LEAVES, self._grown(LEAVES, pairs[ROWS.columns :]))
        # and transfers of direction 1 mask the last trees of direction 2
        keys = self._chosen(receiver, choices_for(leaf_delta))
        leaves = Sender(LEAVES, leaf_delta, self._punctured(LEAVES, leaf_delta, keys))
        return _by_code(rows, leaves), _by_code(receiver, leaf_receiver)

    def _first(self) -> tuple[Senders, Receivers]:
        """C1: sender of the base transfers, hence receiver of direction 2."""
        delta, leaf_delta = self._delta(ROWS), self._delta(LEAVES)
        shape = base_ot.COUNT, base_ot.QUESTION_BYTES
        questions = self._received(_QUESTION, (np.uint8, shape))[0]
        pairs, answers = base_ot.answer(self.sid, questions, self.encapsulate)
        self._send(_ANSWER, answers)
        receiver = Receiver(ROWS, self._grown(ROWS, pairs))
        # direction 1: transfers of direction 2, whose choices this cloud's D calls for, give H(t)
        wanted = np.concatenate([choices_for(delta), choices_for(leaf_delta)])
        keys = self._chosen(receiver, wanted)
        rows = Sender(ROWS, delta, self._punctured(ROWS, delta, keys[: ROWS.columns]))
        own = self._punctured(LEAVES, leaf_delta, keys[ROWS.columns :])
        leaves = Sender(LEAVES, leaf_delta, own)
        last = self._grown(LEAVES, self._pairs(rows, LEAVES.columns))
        return _by_code(rows, leaves), _by_code(receiver, Receiver(LEAVES, last))

    def _delta(self, code: Code) -> Bits:
        data = np.frombuffer(self.random.bytes(code.columns // 8), np.uint8)
        return np.unpackbits(data, bitorder="little")

    # ------------------------------------------------------------------ trees

    def _grown(self, code: Code, pairs: U64Array) -> U64Array:
        """The receiver's leaves; the message for the sender is sent."""
        leaves, message = grow(self._name(code, 3 - self.role), pairs, self.random)
        self._send(_TREES, *message.arrays)
        return leaves

    def _punctured(self, code: Code, delta: Bits, keys: U64Array) -> U64Array:
        """The sender's leaves, from the receiver's message."""
        arrays = self._received(_TREES, *TreeMessage.specs(code.trees))
        return punctured(self._name(code, self.role), delta, keys, TreeMessage(*arrays))

    def _name(self, code: Code, direction: int) -> bytes:
        return b"ppodc trees" + self.sid + bytes([code.number, direction])

    # ------------------------------------------------------------- chosen rows, with their check

    def _chosen(self, receiver: Receiver, choices: Bits) -> U64Array:
        """As receiver of rows: the keys H(t) of transfers with these choices."""
        words, count = _words(len(choices)), len(choices)
        lot = self.random.uint64((1, words))
        bits = np.zeros(padded(count, WORD), np.uint8)
        bits[:count] = choices
        lot[0, MASK_ROWS // WORD : MASK_ROWS // WORD + len(bits) // WORD] = pack(bits)
        message, _, columns = receiver.extend(words, lot)
        self._send(_ROWS, message)
        challenge = self._sent[:CHALLENGE_BYTES]
        self._send(_ROWS, *column_check.answer(self._sent, challenge, lot, columns))
        rows = rows_of(ROWS, columns)[MASK_ROWS : MASK_ROWS + count]
        return self.hash.expand(rows, self.tweaks.reserve(count), 3 - self.role)

    def _pairs(self, sender: Sender, count: int) -> U64Array:
        """As sender of rows: both keys of transfers whose choices the peer made: (count, 2, 2)."""
        words = _words(count)
        (message,) = self._received(_ROWS, (np.uint64, (ROWS.trees, words)))
        challenge, name = self._sent[:CHALLENGE_BYTES], self._sent
        columns = sender.extend(message)
        hashed = column_check.hashes(columns, column_check.coefficients(challenge, words))
        answer = self._received(_ROWS, (np.uint64, (1, 2)), (np.uint8, (DIGEST_BYTES,)))
        column_check.verify(name, ROWS, sender.bits, hashed, *answer)
        rows = rows_of(ROWS, columns)[MASK_ROWS : MASK_ROWS + count]
        first = self.tweaks.reserve(count)
        both = rows, rows ^ sender.delta
        return np.stack([self.hash.expand(part, first, self.role) for part in both], axis=1)

    # ---------------------------------------------------------------- messages, and their digest

    def _send(self, kind: str, *arrays: NDArray[Any]) -> None:
        self.link.send(kind, *arrays)
        self._note(kind, arrays)

    def _received(
        self, kind: str, *specs: tuple[type[np.generic], tuple[int, ...]]
    ) -> tuple[NDArray[Any], ...]:
        arrays = self.link.receive_all(kind, *specs)
        self._note(kind, arrays)
        return arrays

    def _note(self, kind: str, arrays: tuple[NDArray[Any], ...]) -> None:
        """Both clouds note the same: flights take turns."""
        hasher = hashlib.sha256(self._sent + kind.encode())
        for array in arrays:
            hasher.update(np.ascontiguousarray(array).data)
        self._sent = hasher.digest()


def _words(count: int) -> int:
    """Words of a column that holds `count` rows behind those that mask the check."""
    return padded(MASK_ROWS + count, BLOCK) // WORD


def _by_code(*ends: _End) -> dict[int, _End]:
    return {end.code.number: end for end in ends}
