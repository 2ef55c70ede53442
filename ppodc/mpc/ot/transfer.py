"""Oblivious transfer in both directions at once: what all else in this room is made from.

`start` has the flights that begin a session. From then on each cloud is sender in its own direction
and receiver in the other's, and both extend at once, lot by lot, rows and leaves (`code`) alike.
Messages of a lot, from either cloud: its columns' corrections; the challenge to the peer's lot when
that has come; the answer to the peer's challenge (`column_check`). A lot is handed out only after
its own verdict. Each message carries what is due for lots b, b - 16 and b - 32, in windows of 16,
so that a slow link is waited for three times in all as long as 16 lots fill it. In the waits of
other steps (`extend_beside`) windows are smaller, and each is a part of the work.

Who learns what: nothing. Rounds: 2, and 1 for every 16 lots. Bytes of each cloud: 31/8 a row and 7
a leaf of random choices, 4 a row of chosen ones, and 0.6 KB a lot. Memory: 96 lots of at most 2 MB.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.mpc.messages import PeerLink, Spec
from ppodc.mpc.ot import column_check
from ppodc.mpc.ot.aes import Hash, Tweaks
from ppodc.mpc.ot.base_ot import Encapsulate, fresh
from ppodc.mpc.ot.code import ROWS, Code
from ppodc.mpc.ot.column_check import CHALLENGE_BYTES, DIGEST_BYTES
from ppodc.mpc.ot.extension import MASK_ROWS, Receiver, Sender, rows_of
from ppodc.mpc.ot.start import Start
from ppodc.mpc.shares.additive import U64Array
from ppodc.mpc.shares.xor_bits import BLOCK, WORD, padded

# At most: streams of 16 KB, matrices of 2 MB. A block less than a power of two, or the columns of a
# matrix would fall into the same lines of a cache.
LOT_ROWS = (1 << 17) - BLOCK - MASK_ROWS
LOT_LEAVES = (1 << 15) - BLOCK - MASK_ROWS
_EXTEND = "shares.extension"
_AHEAD = 16  # lots on their way: 8 MB of messages
_MASK_WORDS = MASK_ROWS // WORD


@dataclass(frozen=True, slots=True, repr=False)
class Lot:
    """Transfers to be made: `count` with random choices, or as many as `choices` has bits."""

    code: Code
    count: int
    choices: U64Array | None = None  # (words) for rows

    @property
    def words(self) -> int:
        """Words of a column, the rows that mask the check included."""
        return padded(MASK_ROWS + self.count, BLOCK) // WORD

    @property
    def sent(self) -> int:
        """Trees whose correction is sent."""
        return self.code.trees - (self.code.choice_bits if self.choices is None else 0)


@dataclass(frozen=True, slots=True, repr=False)
class Extended:
    """One lot's transfers in each direction: q = t ^ D_r, q the sender's and t the receiver's."""

    choices: U64Array  # r: (k, words), as receiver
    q: U64Array  # (count, 2)
    t: U64Array
    offsets: U64Array  # D_r of all choices as sender: (2^k, 2)


@dataclass(slots=True, repr=False)
class _Held:
    """The part of a lot that is kept until it is checked."""

    number: int  # of this lot in the session
    choices: U64Array
    own: U64Array  # as receiver columns v until they are answered for, then rows t
    message: U64Array | None = None  # the peer's, from which w follows
    challenge: bytes = b""  # to the peer's rows
    asked: bytes = b""  # the peer's to the own rows


@dataclass(slots=True, repr=False)
class _Running:
    """A run of the extension on its way."""

    lots: list[Lot]
    lag: int  # messages between a lot and its challenge, and between that and the answer
    held: dict[int, _Held] = field(default_factory=dict)

    def before(self, step: int) -> tuple[int, int]:
        """The lots that are challenged and answered in the message of a step."""
        return step - self.lag, step - 2 * self.lag


@dataclass(slots=True, repr=False)
class ObliviousTransfer:
    """One cloud's end of both directions; used by one thread."""

    role: int
    link: PeerLink
    random: SecureRandom
    sid: bytes
    hash: Hash
    senders: dict[int, Sender]  # by the number of their code
    receivers: dict[int, Receiver]
    tweaks: Tweaks
    _lots: int = field(default=0)  # so far, in step at both clouds

    @classmethod
    def start(
        cls,
        role: int,
        link: PeerLink,
        random: SecureRandom,
        sid: bytes,
        encapsulate: Encapsulate = fresh,
    ) -> "ObliviousTransfer":
        """New transfers in both directions, for the session of this name."""
        hasher, tweaks = Hash(sid), Tweaks()
        senders, receivers = Start(sid, role, link, random, hasher, tweaks, encapsulate).run()
        return cls(role, link, random, sid, hasher, senders, receivers, tweaks)

    @property
    def peer(self) -> int:
        """The other cloud's role."""
        return 3 - self.role

    @property
    def delta(self) -> U64Array:
        """The sender's secret of rows, D."""
        return self.senders[ROWS.number].delta

    def chosen(self, choices: Iterable[U64Array]) -> Iterator[Extended]:
        """Rows for packed choice bits, lot by lot of at most LOT_ROWS bits."""
        return self.extend(Lot(ROWS, WORD * len(bits), bits) for bits in choices)

    def extend(self, lots: Iterable[Lot]) -> Iterator[Extended]:
        """The transfers of each lot in order; both clouds ask for the same lots.

        CheckError if the peer's rows of a lot do not pass: the session is over then. Lots that are
        made beside other steps are ended first, since streams have one order.
        """
        self.link.finish_beside()
        return self._extended(_Running(list(lots), _AHEAD))

    def _extended(self, run: _Running) -> Iterator[Extended]:
        for first in range(0, len(run.lots) + 3 * run.lag, run.lag):
            steps = range(first, first + run.lag)
            for step in steps:
                yield from self._receive(step - run.lag, run)
            for step in steps:
                self._send(step, run)

    def extend_beside(self, lots: Iterable[Lot], parts: int) -> Iterator[Extended | None]:
        """`extend` in the waits of other steps: None after each of about `parts` + 5 parts.

        A part sends before it receives, and uses what came in the part before: the peer's messages,
        which were made beside something else, have come by then.
        """
        todo = list(lots)
        window = min(_AHEAD, max(1, -(-len(todo) // max(1, parts))))
        run = _Running(todo, 2 * window)
        for first in range(0, len(todo) + 5 * window, window):
            steps = range(first, first + window)
            for step in steps:
                self._send(step, run)
            for step in steps:
                yield from self._receive(step - window, run)
            yield None

    def _send(self, step: int, run: _Running) -> None:
        """The message of a step: corrections, a challenge, an answer, as far as they are due."""
        lots, held = run.lots, run.held
        arrays: list[NDArray[np.generic]] = []
        if step < len(lots):
            message, held[step] = self._corrections(lots[step])
            arrays.append(message)
        challenged, answered = run.before(step)
        if 0 <= challenged < len(lots):
            arrays.append(np.frombuffer(held[challenged].challenge, np.uint8))
        if 0 <= answered < len(lots):
            arrays += self._answer(lots[answered], held[answered])
        if arrays:
            self.link.send(_EXTEND, *arrays)

    def _receive(self, step: int, run: _Running) -> Iterator[Extended]:
        """The peer's message of a step; a lot whose answer it brings is checked and done."""
        lots, held = run.lots, run.held
        challenged, answered = run.before(step)
        specs: list[Spec] = []
        if 0 <= step < len(lots):
            specs.append((np.uint64, (lots[step].sent, lots[step].words)))
        if 0 <= challenged < len(lots):
            specs.append((np.uint8, (CHALLENGE_BYTES,)))
        if 0 <= answered < len(lots):
            specs.append((np.uint64, (lots[answered].code.choice_bits, 2)))
            specs.append((np.uint8, (DIGEST_BYTES,)))
        if not specs:
            return
        arrays = list(self.link.receive_all(_EXTEND, *specs))
        if 0 <= step < len(lots):
            # its columns are made when they are checked: until then the message takes less memory
            held[step].message = arrays.pop(0)
            held[step].challenge = self.random.bytes(CHALLENGE_BYTES)
        if 0 <= challenged < len(lots):
            held[challenged].asked = arrays.pop(0).tobytes()
        if 0 <= answered < len(lots):
            yield self._checked(lots[answered], held.pop(answered), *arrays)

    def _corrections(self, lot: Lot) -> tuple[U64Array, _Held]:
        """The message of a lot as receiver."""
        chosen = None
        if lot.choices is not None:
            chosen = self.random.uint64((1, lot.words))  # masks, and rows behind the last
            chosen[0, _MASK_WORDS : _MASK_WORDS + len(lot.choices)] = lot.choices
        receiver = self.receivers[lot.code.number]
        message, choices, columns = receiver.extend(lot.words, chosen)
        self._lots += 1
        return message, _Held(self._lots, choices, columns)

    def _answer(self, lot: Lot, held: _Held) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
        """As receiver: the answer to the challenge, and rows instead of columns from now on."""
        name = self._name(lot, held, self.role)
        answer = column_check.answer(name, held.asked, held.choices, held.own)
        held.own = rows_of(lot.code, held.own)
        return answer

    def _checked(
        self, lot: Lot, held: _Held, masked: U64Array, digest: NDArray[np.uint8]
    ) -> Extended:
        """The transfers of a lot, if the peer's answer is right."""
        if held.message is None:
            raise ValueError("an answer before its lot")
        sender, name = self.senders[lot.code.number], self._name(lot, held, self.peer)
        other = sender.extend(held.message)
        hashed = column_check.hashes(other, column_check.coefficients(held.challenge, lot.words))
        column_check.verify(name, lot.code, sender.bits, hashed, masked, digest)
        kept = slice(MASK_ROWS, MASK_ROWS + lot.count)
        return Extended(
            np.ascontiguousarray(held.choices[:, _MASK_WORDS:]),
            rows_of(lot.code, other)[kept],
            held.own[kept],
            sender.offsets,
        )

    def _name(self, lot: Lot, held: _Held, receiver: int) -> bytes:
        """Of a lot's rows with this receiver, for the digest of its check."""
        what = bytes([lot.code.number, receiver]) + held.number.to_bytes(8, "little")
        return b"ppodc lot" + self.sid + what
