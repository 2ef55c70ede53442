"""OT extension (SoftSpokenOT, Roy, CRYPTO 2022): a few base transfers become as many as one wants.

The sender holds secret bits D, 4 for each of n trees (`trees`), the receiver for each row a choice
r of k bits. Of each tree the receiver knows 16 seeds, the sender all but the one that its 4 bits of
D name. The seeds' streams add up to u_i (all of tree i) and to v_(i,j) (those whose number has bit
j):

    receiver  sends  m_i = u_i ^ code_i(r)                      (`code`)
    sender    has    w_(i,j) = v_(i,j) ^ D_(i,j) code_i(r)      from its own sums and m_i

With the rows of all columns cut to 128 bits, q = t ^ D_r: hashed (`aes`), they are random
transfers. The sender knows the pads of all choices, H(q ^ D_s), the receiver the one of its own,
H(t). Where choices are random, r_j is *defined* as u of info tree j, and these trees send nothing:
31 bits a row, 56 bits a leaf. This is Roy's own form of the subspace VOLE, of which only the
syndrome is sent.

Who learns what: the sender nothing about r (each u is masked by a stream that it does not have),
the receiver nothing about D. A receiver that deviates may send any m_i: `column_check` ends the
session then, but for a guess of bits of D. Rounds: one message from the receiver a lot. Operations
of a row: 512 bits of AES at each side and the 128-bit transpose; of a leaf: 960 bits, the cut, the
transpose.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.mpc.compiled import compiled, i64, in_u1, in_u8_2, out_u8_2
from ppodc.mpc.ot.bit_transpose import INSTRUCTIONS, cut_transpose, transpose
from ppodc.mpc.ot.code import ROW_BITS, Code, byte_maps
from ppodc.mpc.ot.leaf_streams import DEPTH, LEAVES, leaf_streams
from ppodc.mpc.shares.additive import U64, U64Array
from ppodc.mpc.shares.xor_bits import WORD

_MAPS = byte_maps()
MASK_ROWS = 128  # the first of each lot: they mask the answer of its check and are thrown away


class Receiver:
    """The receiver's end of one direction and code."""

    def __init__(self, code: Code, leaves: U64Array) -> None:
        """`leaves` (n, 16, 2) of its trees."""
        self.code = code
        self._streams = leaf_streams(leaves)

    def extend(
        self, words: int, choices: U64Array | None = None
    ) -> tuple[U64Array, U64Array, U64Array]:
        """The next 64 * words rows: message to send, choices (k, words), columns v (4 n, words).

        Without `choices` (k, words) they are random. `words` is a multiple of 8.
        """
        code, totals = self.code, np.empty((self.code.trees, words), U64)
        columns = np.empty((code.columns, words), U64)
        self._streams.sums(columns, totals)
        if choices is not None:
            totals ^= code.words_of(choices)
            return totals, choices, columns
        own = totals[: code.choice_bits].copy()
        totals ^= code.words_of(own)
        return totals[code.choice_bits :], own, columns


class Sender:
    """The sender's end of one direction and code."""

    def __init__(self, code: Code, delta: NDArray[np.uint8], leaves: U64Array) -> None:
        """`leaves` (n, 16, 2) of its trees; those that `delta` (4 n) names mean nothing."""
        self.code, self.bits = code, delta
        # Leaf y stands where the receiver's leaf y ^ D does; the missing one is leaf 0.
        names = delta.reshape(code.trees, DEPTH) @ (1 << np.arange(DEPTH))
        places = names[:, None] ^ np.arange(LEAVES)
        self._streams = leaf_streams(np.take_along_axis(leaves, places[..., None], axis=1))
        self.offsets = self._offsets()

    @property
    def delta(self) -> U64Array:
        """The offset of choice 1: D itself where choices have one bit."""
        first: U64Array = self.offsets[1]
        return first

    def extend(self, message: U64Array) -> U64Array:
        """The columns w (4 n, words) of the next rows, with the receiver's message."""
        code, words = self.code, message.shape[1]
        columns = np.empty((code.columns, words), U64)
        self._streams.sums(columns, np.empty((code.trees, words), U64))
        _correct(columns, message, self.bits, code.trees - len(message))
        return columns

    def _offsets(self) -> U64Array:
        """D_r for all r: (2^k, 2), cut as rows are."""
        columns = np.zeros((self.code.columns, 8), U64)
        for r in range(1 << self.code.choice_bits):
            bits = np.repeat(self.code.word(r), DEPTH) & self.bits
            columns[:, 0] |= bits.astype(U64) << U64(r)
        return rows_of(self.code, columns)[: 1 << self.code.choice_bits].copy()


def rows_of(code: Code, columns: U64Array, *, instructions: bool = INSTRUCTIONS) -> U64Array:
    """Columns (4 n, words) as rows of 128 bits: (64 words, 2)."""
    out = np.empty((WORD * columns.shape[1], 2), U64)
    if instructions and code.columns > ROW_BITS:
        return cut_transpose(columns, _MAPS, out)
    return transpose(code.cut(columns), out, instructions=instructions)


@compiled(out_u8_2, in_u8_2, in_u1, i64)
def _correct(columns: U64Array, message: U64Array, delta: NDArray[np.uint8], skipped: int) -> None:
    """Add D m to the columns of all trees but the first `skipped`, whose m is 0."""
    for column in range(4 * skipped, columns.shape[0]):
        mask = U64(0) - U64(delta[column])
        own = message[column // 4 - skipped]
        for w in range(columns.shape[1]):
            columns[column, w] ^= own[w] & mask
