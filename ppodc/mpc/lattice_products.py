"""Products of a shared table with random matrices, on rows that are encrypted once.

With t = t1 + t2 and R = R1 + R2, t.R = t1.R1 + t2.R2 + t1.R2 + t2.R1: the first two are local. For
t1.R2, C2 keeps C1's rows t1 encrypted under C1's key (`lattice_cipher`), multiplies them by its R2
and hands the result back masked; C1 opens its share. The other direction likewise, at once.

Who learns what: nothing; ring-LWE hides rows and matrices, and answers are flooded to 2^-81 for
each number. A cloud keeps the peer's encrypted rows, hence the margin in `lattice_parameters`.
Rounds: 1 for keys, 1 per block of up to 16384 rows to take in, 1 per product of a block. Bytes and
direction: about 36 per row and column to take in and 14 per row and product with a column, at
w = 96; at least a quarter of those of a full block. Memory: 8 bytes per prime, row and column of
the peer's rows, in a file beyond a budget.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ppodc.mpc.additive import U64, AdditiveShare, matrix_product
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
from ppodc.mpc.session import Session
from ppodc.mpc.spill import Budget, Spool

_KEY, _ROWS, _ANSWER = "shares.lattice-key", "shares.lattice-rows", "shares.lattice-answer"

Rows = Callable[[int, int], AdditiveShare]  # this cloud's shares of rows start..end-1


@dataclass(frozen=True, slots=True, repr=False)
class EncryptedTable:
    """The peer's shares of a table, encrypted, and this cloud's own in the clear."""

    blocks: Sequence[tuple[int, int]]
    rows: Rows
    peers: Spool  # a block a row: (2, primes, columns * digits, N) words

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
            _KEY, (np.uint8, (SEED_BYTES,)), (np.uint32, (polynomial_words(p),))
        )
        peer = unpack_polynomial(p, public)
        self._peer = Products(p, other.tobytes(), peer, session.random)
        self._polynomials = 1  # of either seed used so far; 0 is in the public key

    def take_in(
        self, session: Session, rows: Rows, blocks: Sequence[tuple[int, int]], budget: Budget
    ) -> EncryptedTable:
        """Encrypt this cloud's rows for the peer and keep the peer's, in blocks of at most N."""
        p = self._p
        terms = p.attributes * p.digits
        words = 2 * len(p.primes) * terms * DEGREE
        table = EncryptedTable(blocks, rows, Spool(len(blocks), words, np.uint32, budget))
        kept = np.empty((2, len(p.primes), terms, DEGREE), np.uint32)
        for start, end in blocks:
            own = rows(start, end).limbs
            first, self._polynomials = self._polynomials, self._polynomials + terms
            for term in range(terms):
                column, digit = divmod(term, p.digits)
                c0 = self._key.encrypt(own[:, column], digit, first + term)
                session.link.send(_ROWS, pack_polynomial(p, c0))
            for term in range(terms):
                message = session.link.receive(_ROWS, np.uint32, polynomial_words(p))
                kept[0, :, term] = unpack_polynomial(p, message)
                kept[1, :, term] = self._peer.second_half(first + term)
            table.peers.append(kept.reshape(1, -1))
        return table

    def products(
        self, session: Session, table: EncryptedTable, block: tuple[int, int], matrix: AdditiveShare
    ) -> AdditiveShare:
        """Rows of a block times the shared matrix (columns of the table, c): (rows, c).

        Right modulo 2^w.
        """
        number, (start, end), p = table.blocks.index(block), block, self._p
        rows, (columns, limbs) = end - start, matrix.limbs.shape[1:]
        shape = (2, len(p.primes), p.attributes * p.digits, DEGREE)
        peers = table.peers.read(number, number + 1).reshape(shape)
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
                (np.uint32, (told_words(p),)),
                (np.uint32, (low_words(rows, part),)),
            )
            share = self._key.open(told, low, rows * len(part), limbs)
            cross[:, part.start : part.stop] = _by_row(share, part, rows)
        return out + AdditiveShare(cross)


def _by_row(share: AdditiveShare, columns: range, rows: int) -> np.ndarray:
    """(columns * rows) numbers, column by column, as (rows, columns) with limbs behind."""
    return np.moveaxis(share.limbs.reshape(len(columns), rows, -1), 0, 1)
