"""Masked, packed values from C1 to C2: several short plaintexts travel in one ciphertext.

C1 adds to each value v, |v| < 2^bits, a mask drawn uniformly below 2^(bits + 65) (plus 2^bits, so
that negative values stay positive) and packs as many as fit into one plaintext. C2 decrypts and
splits them.

Who learns what: C2 sees v + mask, at statistical distance at most 2^-64 from a number that does
not depend on v; the packed ciphertext carries a fresh randomiser, so it shows nothing of how it
was made. C1 learns nothing. No sum wraps modulo n, so nothing here fails with any probability.

Cost per value: one exponentiation (a shift by the slot's width) and one multiplication; per
ciphertext one randomiser, three multiplications and one decryption.
"""

from collections.abc import Sequence

from gmpy2 import mpz

from ppodc.crypto.paillier import Ciphertexts
from ppodc.errors import WireError
from ppodc.kmeans.paillier.exchange import Cloud1, Cloud2
from ppodc.kmeans.widths import STATISTICAL
from ppodc.transport.wire import Array


def slot_width(bits: int) -> int:
    """Bits of a slot that holds a masked value of `bits` bits and a sign."""
    return bits + STATISTICAL + 2


def slots(key_bits: int, slot: int) -> int:
    """The number of slots of this width in one plaintext."""
    return (key_bits - 1) // slot


def draw(c1: Cloud1, bits: int, count: int) -> list[mpz]:
    """Masks for signed values below 2^bits."""
    return [r + (1 << bits) for r in c1.random.bits(bits + STATISTICAL + 1, count)]


def pack(c1: Cloud1, values: Ciphertexts, slot: int) -> Ciphertexts:
    """Every `slots` neighbours in one ciphertext, the first lowest (Horner's rule)."""
    width = slots(c1.key.bits, slot)
    packed = values[width - 1 :: width]
    for position in range(width - 2, -1, -1):
        column = values[position::width]
        joined = c1.cipher.add(c1.cipher.shift(packed, slot), column[: len(packed)])
        packed = Ciphertexts.concat([joined, column[len(packed) :]])
    return packed


def pack_plain(plaintexts: Sequence[int], slot: int, width: int) -> list[int]:
    """Pack plaintexts as `pack` packs ciphertexts."""
    return [
        sum(value << (slot * position) for position, value in enumerate(plaintexts[i : i + width]))
        for i in range(0, len(plaintexts), width)
    ]


def mask(c1: Cloud1, values: Ciphertexts, bits: int) -> tuple[Array, list[mpz]]:
    """The message of C1 for these values, and the masks that it remembers."""
    slot = slot_width(bits)
    masks = draw(c1, bits, len(values))
    fresh = c1.cipher.encrypt(pack_plain(masks, slot, slots(c1.key.bits, slot)))
    return c1.to_open(c1.cipher.add(pack(c1, values, slot), fresh)), masks


def unpack(c2: Cloud2, array: Array, count: int, slot: int) -> list[mpz]:
    """The `count` masked values that C2 finds in the packed ciphertexts."""
    fits = STATISTICAL + 2 < slot < c2.cipher.key.bits
    width = slots(c2.cipher.key.bits, slot) if fits else 0
    if width < 1 or count < 0:
        raise WireError(f"a slot of {slot} bits does not fit the key.")
    plaintexts = c2.open(array, -(-count // width))
    low = (1 << slot) - 1
    found = [(p >> (slot * s)) & low for p in plaintexts for s in range(width)]
    return found[:count]
