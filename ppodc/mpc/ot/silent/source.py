"""A session's silent rows and leaves: drawn from batches, made when they are wanted.

The first batch starts from rows of the OT extension, each other one from the first rows of the
batch before. A row is q = t ^ r D; a leaf takes four of them: with v(X) = v_0 + v_1 X + v_2 X^2 +
v_3 X^3 and products in GF(2^128),

    q = q_0 + X q_1 + X^2 q_2 + X^3 q_3,  t likewise,   q = t ^ r(X) D.

So the offset of choice v is v(X) D: a bijective image of D for each v other than 0, linear in v, as
the offsets of coded leaves are (`ot.code`).

Messages of batch b, from either cloud: corrections; the masked sum of the check, when those of the
peer have come; the answer to the peer's. Corrections of batch b + 1 are sent before the rows of
batch b are used, and the answers of the last batches awaited after all rows of the run are made. So
*rows are handed out before their verdict*: callers must not use them before the run has ended
(`mpc.supplies` puts them aside until then).

All state is in memory and ends with the session: a new session starts with a new D and new batches,
so that no row is used twice after a crash. All randomness is drawn from the session's stream.

Who learns what: nothing, if regular LPN is hard (`noise`). A cloud that deviates: see
`point_check`. Rounds: 1.5 for all batches of a run, the link permitting. Bytes of each cloud: 16 t
depth a batch: 0.18 a row, 0.7 a leaf. Once: 31/8 for each row of the first base (0.6 MB). Memory:
64 bytes for each row of a batch (84 MB at most) and a table of 4 MB.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ppodc.mpc.compiled import compiled, i64, in_u8_2, out_u8_2
from ppodc.mpc.ot.code import ROWS
from ppodc.mpc.ot.column_check import DIGEST_BYTES
from ppodc.mpc.ot.silent.batch import CHOICE, Batch, Verdict, with_choice
from ppodc.mpc.ot.silent.noise import NOISE, Noise
from ppodc.mpc.ot.silent.point_check import times
from ppodc.mpc.ot.transfer import LOT_ROWS, Extended, Lot, ObliviousTransfer
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.xor_bits import WORD, padded, unpack

_NONE = np.empty((0, 2), U64)
_CORRECTIONS, _SUM, _ANSWER = "shares.silent", "shares.silent-sum", "shares.silent-answer"


@dataclass(slots=True, repr=False)
class _Left:
    """Rows of a batch that nobody has taken yet."""

    batch: Batch
    start: int


class SilentSource:
    """One cloud's end of both directions; used by one thread."""

    def __init__(self, ot: ObliviousTransfer, noise: Noise = NOISE) -> None:
        self._ot, self._noise, self._delta = ot, noise, with_choice(ot.delta)
        self._base: tuple[U64Array, U64Array] | None = None  # of the next batch
        self._batches = 0  # so far, in step at both clouds
        self._left: _Left | None = None

    def extend(self, lots: Iterable[Lot]) -> Iterator[Extended]:
        """The transfers of each lot in order, with random choices; both clouds ask for the same.

        They may be used when the iterator has ended. CheckError if the peer's trees do not pass:
        the session is over then.
        """
        self._ot.link.finish_beside()  # batches have one order
        return (made for made in self._run(list(lots)) if made is not None)

    def extend_beside(self, lots: Iterable[Lot], parts: int) -> Iterator[Extended | None]:
        """`extend` in the waits of other steps: None after each of about `parts` + 3 parts."""
        todo = list(lots)
        window, done = -(-len(todo) // max(1, parts)), 0
        for made in self._run(todo):
            yield made
            if made is not None:
                done += 1
                if done % window == 0:
                    yield None

    def _run(self, lots: Sequence[Lot]) -> Iterator[Extended | None]:
        """The lots, and None where messages of the peer are to come that may take a while."""
        batches = self._made(sum(map(_rows_of, lots)) - self._at_hand)
        for lot in lots:
            count, parts = _rows_of(lot), list[tuple[U64Array, U64Array]]()
            while count:
                if not self._at_hand:
                    self._left = None  # its memory is for the next
                    while (batch := next(batches)) is None:
                        yield None
                    self._left = _Left(batch, self._noise.base)
                parts.append(self._taken(count))
                count -= len(parts[-1][0])
            q, t = (_together([part[side] for part in parts]) for side in (0, 1))
            yield _extended(lot, q, t, self._delta)
        yield from _waits(batches)  # the last verdicts

    @property
    def _at_hand(self) -> int:
        return 0 if self._left is None else self._noise.n - self._left.start

    def _taken(self, count: int) -> tuple[U64Array, U64Array]:
        """At most so many rows of the batch at hand."""
        left = self._left
        if left is None:
            raise ValueError("no batch is at hand")
        end = min(left.start + count, self._noise.n)
        rows, left.start = left.batch.rows(left.start, end), end
        return rows

    def _made(self, wanted: int) -> Iterator[Batch | None]:
        """Batches for this many rows; verdicts come late, the last when the iterator ends.

        None after messages whose answers are received next.
        """
        count, link = -(-max(0, wanted) // self._noise.gained), self._ot.link
        verdicts: list[Verdict] = []
        if not count:
            return
        following: Batch | None = self._begun()
        yield None
        for b in range(count):
            batch, following = following, None
            if batch is None:
                raise ValueError("a batch that was not begun")
            shape = self._noise.t, self._noise.depth, 2
            told = batch.take(link.receive(_CORRECTIONS, np.uint64, *shape))
            q, t = batch.rows(0, self._noise.base)
            self._base = q.copy(), t.copy()
            if b + 1 < count:
                following = self._begun()
            link.send(_SUM, told)
            verdicts.append(batch.verdict)
            self._answer(verdicts, b - 1)
            self._verify(verdicts, b - 2)
            yield batch
            del batch
        yield None
        self._answer(verdicts, count - 1)
        self._verify(verdicts, count - 2)
        yield None
        self._verify(verdicts, count - 1)

    def _begun(self) -> Batch:
        """The next batch, its corrections sent."""
        base, self._base = self._base, None
        if base is None:
            if self._batches:
                raise ValueError("a base is used once")
            base = self._first_base()
        self._batches += 1
        batch = Batch(self._ot, self._noise, self._batches, *base)
        self._ot.link.send(_CORRECTIONS, batch.corrections)
        return batch

    def _answer(self, verdicts: Sequence[Verdict], b: int) -> None:
        if b >= 0:
            masked = self._ot.link.receive(_SUM, np.uint64, 2)
            self._ot.link.send(_ANSWER, verdicts[b].answer(masked))

    def _verify(self, verdicts: Sequence[Verdict], b: int) -> None:
        if b >= 0:
            verdicts[b].verify(self._ot.link.receive(_ANSWER, np.uint8, DIGEST_BYTES))

    def _first_base(self) -> tuple[U64Array, U64Array]:
        """Rows of the OT extension, with choices in bit 0 of t and none in q."""
        base = self._noise.base
        lots = [Lot(ROWS, min(LOT_ROWS, base - at)) for at in range(0, base, LOT_ROWS)]
        made = list(self._ot.extend(lots))
        q, t = np.concatenate([lot.q for lot in made]), np.concatenate([lot.t for lot in made])
        parts = zip(made, lots, strict=True)
        choices = np.concatenate([unpack(one.choices[0], lot.count) for one, lot in parts])
        q[:, 0] &= ~CHOICE
        t[:, 0] = (t[:, 0] & ~CHOICE) | choices
        return q, t


def _together(parts: Sequence[U64Array]) -> U64Array:
    return parts[0] if len(parts) == 1 else np.concatenate([_NONE, *parts])


def _waits(batches: Iterator[Batch | None]) -> Iterator[None]:
    for batch in batches:
        if batch is not None:
            raise ValueError("more batches than were asked for")
        yield None


def _rows_of(lot: Lot) -> int:
    if lot.choices is not None:
        raise ValueError("silent transfers have random choices")
    return lot.count * lot.code.choice_bits


def _extended(lot: Lot, q: U64Array, t: U64Array, delta: U64Array) -> Extended:
    """A lot from its rows, one or four for each transfer."""
    each = lot.code.choice_bits
    choices = np.zeros((each, padded(lot.count, WORD) // WORD), U64)
    _choices(t, choices)
    offsets = np.array([times(np.array([v, 0], U64), delta) for v in range(1 << each)])
    if each > 1:
        rows = np.empty((2, lot.count, 2), U64)
        _join(q, each, rows[0])
        _join(t, each, rows[1])
        q, t = rows
    return Extended(choices, q, t, offsets)


@compiled(in_u8_2, out_u8_2)
def _choices(rows: U64Array, out: U64Array) -> None:
    """Bit 0 of rows, packed: of row each * i + j to bit i of out[j]."""
    each = out.shape[0]
    for i in range(rows.shape[0] // each):
        for j in range(each):
            out[j, i >> 6] |= (rows[each * i + j, 0] & U64(1)) << U64(i & 63)


@compiled(in_u8_2, i64, out_u8_2)
def _join(rows: U64Array, each: int, out: U64Array) -> None:
    """Of each `each` rows the sum with powers of X in GF(2^128)."""
    for i in range(out.shape[0]):
        low, high = U64(0), U64(0)
        for j in range(each - 1, -1, -1):
            carry = (U64(0) - (high >> U64(63))) & U64(0x87)
            high = (high << U64(1)) | (low >> U64(63))
            low = (low << U64(1)) ^ carry
            low ^= rows[each * i + j, 0]
            high ^= rows[each * i + j, 1]
        out[i, 0], out[i, 1] = low, high
