"""Products of a shared table with random matrices, on rows that are encrypted once.

With t = t1 + t2 and R = R1 + R2, t.R = t1.R1 + t2.R2 + t1.R2 + t2.R1: the first two are local. For
t1.R2, C2 keeps C1's rows t1 encrypted under C1's key (`lattice_cipher`), multiplies them by its R2
and hands the result back masked; C1 opens its share. The other direction likewise, at once.

Who learns what: nothing; ring-LWE hides rows and matrices, and answers are flooded to 2^-81 for
each number. A cloud keeps the peer's encrypted rows, hence the margin in `lattice_parameters`.
Rounds: 1 for keys, 1 per block of up to 16384 rows to take in, 1 per product of a block. Bytes and
direction: about 36 per row and column to take in and 14 per row and product with a column, at
w = 96; at least a quarter of those of a full block. Memory: 8 bytes per prime, row and column of
the peer's rows, in a file beyond a budget, from which 32 MB are read at a time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ppodc.mpc.additive import U64, AdditiveShare, Words, matrix_product
from ppodc.mpc.lattice_cipher import (
    LatticeKey,
    Products,
    layout,
    low_words,
    pack_polynomial,
    polynomial_words,
    told_words,
    unpack_polynomial,
)
from ppodc.mpc.lattice_parameters import DEGREE, LatticeParameters
from ppodc.mpc.lattice_sampling import SEED_BYTES
from ppodc.mpc.residues import Residues
from ppodc.mpc.session import Session
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
        self._key = LatticeKey(p, session.random)
        seed = np.frombuffer(self._key.seed, np.uint8)
        session.link.send(_KEY, seed, pack_polynomial(p, self._key.public()))
        other, public = session.link.receive_two(
            _KEY, (np.uint8, (SEED_BYTES,)), (U32, (polynomial_words(p),))
        )
        peer = unpack_polynomial(p, public)
        self._peer = Products(p, other.tobytes(), peer, session.random)
        self._polynomials = 1  # of either seed used so far; 0 is in the public key
        terms, most = p.attributes * p.digits, _READ_BYTES // (8 * len(p.primes) * DEGREE)
        self._group = -(-terms // -(-terms // max(1, most)))  # terms that are read at a time

    def take_in(self, session: Session, rows: Rows, count: int, budget: Budget) -> EncryptedTable:
        """Encrypt this cloud's rows, so many, for the peer and keep the peer's, in blocks of N."""
        p = self._p
        blocks, groups = -(-count // DEGREE), -(-p.attributes * p.digits // self._group)
        words = 2 * len(p.primes) * self._group * DEGREE
        table = EncryptedTable(count, rows, groups, Spool(blocks * groups, words, U32, budget))
        for number in range(blocks):
            own = rows(*table.block(number)).limbs
            for group in range(groups):
                table.peers.append(self._exchanged(session, own, group).reshape(1, -1))
        return table

    def _exchanged(self, session: Session, own: Words, group: int) -> Residues:
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
        self, session: Session, table: EncryptedTable, number: int, matrix: AdditiveShare
    ) -> AdditiveShare:
        """Rows of a block times the shared matrix (columns of the table, c): (rows, c).

        Right modulo 2^w.
        """
        p, (start, end), first = self._p, table.block(number), number * table.groups
        shape = (2, len(p.primes), self._group, DEGREE)

        def peers() -> Iterator[Residues]:
            for group in range(first, first + table.groups):
                yield table.peers.read(group, group + 1).reshape(shape)

        rows, (columns, limbs) = end - start, matrix.limbs.shape[1:]
        # t1.R1 at C1, t2.R2 at C2
        out = AdditiveShare(matrix_product(table.rows(start, end).limbs, matrix.limbs))
        cross = np.zeros((rows, columns, limbs), U64)
        # as the one who multiplies: all answers are on their way before the peer's are awaited
        for part, told, low, share in self._peer.answers(peers, rows, matrix):
            session.link.send(_ANSWER, told, low)
            cross[:, part.start : part.stop] = _by_row(share, part, rows)
        out += AdditiveShare(cross)
        # as the key's holder
        for part in layout(rows, columns):
            told, low = session.link.receive_two(
                _ANSWER,
                (U32, (told_words(p),)),
                (U32, (low_words(rows, part),)),
            )
            share = self._key.open(told, low, rows * len(part), limbs)
            cross[:, part.start : part.stop] = _by_row(share, part, rows)
        return out + AdditiveShare(cross)


def _by_row(share: AdditiveShare, columns: range, rows: int) -> np.ndarray:
    """(columns * rows) numbers, column by column, as (rows, columns) with limbs behind."""
    return np.moveaxis(share.limbs.reshape(len(columns), rows, -1), 0, 1)
