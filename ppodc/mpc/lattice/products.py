"""Products of a shared table with random matrices, on rows that are encrypted once.

With t = t1 + t2 and R = R1 + R2, t.R = t1.R1 + t2.R2 + t1.R2 + t2.R1: the first two are local. For
t1.R2, C2 keeps C1's rows t1 encrypted under C1's key (`cipher`), multiplies them by its R2 and
hands one half of the result back; C1 opens its share. The other direction likewise, at once. C1
adds 1 to every product, which is then off by at most 1 (`parameters`).

Who learns what: nothing; ring-LWE hides rows and matrices. A cloud keeps the peer's encrypted rows,
hence the margin in `parameters`. A peer that deviates: see `cipher`. Rounds: 1 for keys, 1 per
block of up to 16384 rows to take in, none for products, whose answers come with what follows. Bytes
and direction: about 26 per row and column to take in and 14 per row and product with a column, at
w = 96; at least a quarter of those of a full block. Memory: 8 bytes per prime, row and column of
the peer's rows, in a file beyond a budget, from which 32 MB are read at a time.
"""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass

import numpy as np

from ppodc.mpc.compiled import compiled, i64, in_u8_2, out_u8_3
from ppodc.mpc.lattice.cipher import (
    LatticeKey,
    Products,
    layout,
    pack_polynomial,
    polynomial_words,
    told_words,
    unpack_polynomial,
)
from ppodc.mpc.lattice.parameters import DEGREE, LatticeParameters
from ppodc.mpc.lattice.residues import Residues
from ppodc.mpc.session import Session
from ppodc.mpc.shares.additive import (
    U64,
    AdditiveShare,
    U64Array,
    add_carry,
    add_matrix_product,
)
from ppodc.mpc.spill import Budget, Spool

U32 = np.uint32
_READ_BYTES = 1 << 25  # of the peer's rows at a time
_KEY, _ROWS, _ANSWER = "shares.lattice-key", "shares.lattice-rows", "shares.lattice-answer"

Rows = Callable[[int, int], AdditiveShare]  # this cloud's shares of rows start..end-1


@dataclass(frozen=True, slots=True, repr=False)
class EncryptedTable:
    """The peer's shares of a table, encrypted, and this cloud's own in the clear."""

    count: int  # of rows
    rows: Rows
    groups: int  # of terms in a block
    peers: Spool  # a group of terms of a block a row: (2, primes, terms, N) words

    def block(self, number: int) -> tuple[int, int]:
        """Its rows, start and end."""
        return number * DEGREE, min((number + 1) * DEGREE, self.count)

    def close(self) -> None:
        """Forget the peer's rows."""
        self.peers.close()


class LatticePair:
    """Both directions between two clouds: an own key, and products under the peer's."""

    def __init__(self, session: Session, parameters: LatticeParameters) -> None:
        """Exchange public keys."""
        p = self._p = parameters
        own, other = (session.ot.sid + bytes([role]) for role in (session.role, session.ot.peer))
        self._key = LatticeKey(p, own, session.random)
        session.link.send(_KEY, pack_polynomial(p, self._key.public()))
        words = session.link.receive(_KEY, U32, polynomial_words(p))
        self._peer = Products(p, other, unpack_polynomial(p, words), session.random)
        self._polynomials = 1  # of either seed used so far; 0 is in the public key
        terms, most = p.attributes * p.digits, _READ_BYTES // (8 * len(p.primes) * DEGREE)
        self._group = -(-terms // -(-terms // max(1, most)))  # terms that are read at a time

    def take_in(self, session: Session, rows: Rows, count: int, budget: Budget) -> EncryptedTable:
        """Encrypt this cloud's rows for the peer and keep the peer's, in blocks of N."""
        p = self._p
        blocks, groups = -(-count // DEGREE), -(-p.attributes * p.digits // self._group)
        words = 2 * len(p.primes) * self._group * DEGREE
        table = EncryptedTable(count, rows, groups, Spool(blocks * groups, words, U32, budget))
        for number in range(blocks):
            own = rows(*table.block(number)).limbs
            for group in range(groups):
                table.peers.append(self._exchanged(session, own, group).reshape(1, -1))
        return table

    def _exchanged(self, session: Session, own: U64Array, group: int) -> Residues:
        """The peer's encrypted terms of a group, in return for those of this cloud's rows."""
        p = self._p
        terms = range(p.attributes * p.digits)[group * self._group :][: self._group]
        first, self._polynomials = self._polynomials, self._polynomials + len(terms)
        for number, term in enumerate(terms):
            column, digit = divmod(term, p.digits)
            c0 = self._key.encrypt(own[:, column], digit, first + number)
            session.link.send(_ROWS, pack_polynomial(p, c0))
        kept = np.zeros((2, len(p.primes), self._group, DEGREE), U32)
        for number in range(len(terms)):
            message = session.link.receive(_ROWS, U32, polynomial_words(p))
            kept[0, :, number] = unpack_polynomial(p, message)
            kept[1, :, number] = self._peer.second_half(first + number)
        return kept

    def products(
        self, session: Session, table: EncryptedTable, blocks: range, matrix: AdditiveShare
    ) -> AdditiveShare:
        """Rows of some blocks times the shared matrix (columns of the table, c): (rows, c).

        Right modulo 2^w, but for an error of at most 1, once something else has been received or
        the link has settled: the peer's answers come with it (`PeerLink.receive_later`).
        """
        found, parts = _parts(table, blocks, matrix)
        # as the one who multiplies: all answers are on their way before the peer's are awaited
        for number, part in zip(blocks, parts, strict=True):
            self._multiply(session, table, number, matrix, part)

        def receive() -> None:
            with session.meter.step("products", offline=True):
                for part in parts:
                    self._open(session, part)

        session.link.receive_later(receive)
        return found

    def products_beside(
        self, session: Session, table: EncryptedTable, blocks: range, matrix: AdditiveShare
    ) -> Generator[None, None, AdditiveShare]:
        """`products` in the waits of other steps, with a stop after each block."""
        found, parts = _parts(table, blocks, matrix)
        for at, (number, part) in enumerate(zip(blocks, parts, strict=True)):
            self._multiply(session, table, number, matrix, part)
            if at:
                self._open(session, parts[at - 1])
            yield
        self._open(session, parts[-1])
        return found

    def _multiply(
        self,
        session: Session,
        table: EncryptedTable,
        number: int,
        matrix: AdditiveShare,
        out: U64Array,
    ) -> None:
        """Own products of a block and shares of those with the peer's rows, into zeros."""
        p, (start, end), first = self._p, table.block(number), number * table.groups
        shape = (2, len(p.primes), self._group, DEGREE)

        def peers() -> Iterator[Residues]:
            for group in range(first, first + table.groups):
                yield table.peers.read(group, group + 1).reshape(shape)

        # t1.R1 at C1, t2.R2 at C2
        add_matrix_product(table.rows(start, end).limbs, matrix.limbs, out)
        for part, told, share in self._peer.answers(peers, end - start, matrix):
            session.link.send(_ANSWER, told)
            _add(out, part.start, share.limbs, 0)

    def _open(self, session: Session, out: U64Array) -> None:
        """Add the shares of a block's products that the peer's answers give, as key holder."""
        rows, columns, limbs = out.shape
        for part in layout(rows, columns):
            told = session.link.receive(_ANSWER, U32, told_words(self._p))
            share = self._key.open(told, rows * len(part), limbs)
            _add(out, part.start, share.limbs, int(session.role == 1))


def _parts(
    table: EncryptedTable, blocks: range, matrix: AdditiveShare
) -> tuple[AdditiveShare, list[U64Array]]:
    """Zeros for the products of all rows of some blocks, and the part of each block."""
    bounds = [table.block(number) for number in blocks]
    first, columns, limbs = bounds[0][0], *matrix.limbs.shape[1:]
    found = np.zeros((bounds[-1][1] - first, columns, limbs), U64)
    return AdditiveShare(found), [found[start - first : end - first] for start, end in bounds]


@compiled(out_u8_3, i64, in_u8_2, i64)
def _add(out: U64Array, first: int, share: U64Array, one: int) -> None:
    """Add numbers, column by column, to columns first.. of (rows, c, limbs); `one` to each."""
    rows, limbs = out.shape[0], out.shape[2]
    for place in range(share.shape[0] // rows):
        for i in range(rows):
            carry = U64(one)
            for e in range(limbs):
                total, carry = add_carry(
                    out[i, first + place, e], share[place * rows + i, e], carry
                )
                out[i, first + place, e] = total
