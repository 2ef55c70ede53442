"""SBD: the encrypted bits of encrypted numbers below 2^w, least significant first.

In round i the bits below i are already subtracted, so z is a multiple of 2^i. C1 adds a mask
2^i rho, rho uniform below 2^(w - i + 64), and C2 returns E(bit i of z + 2^i rho); if rho is odd C1
flips it. Several numbers share one ciphertext.

Deviations from Samanthula, Hu and Jiang (ASIA CCS 2013), where the mask has the width of n: z is
not divided by 2 (a full exponentiation per bit), the mask being a multiple of 2^i instead; and as
z + 2^i rho never wraps modulo n, no decomposition fails and none needs the check at the end.

Who learns what: C2 sees z / 2^i + rho, at distance at most 2^-64 from uniform, and zeros below.

Per number and bit: one exponentiation (the shift to the bit's place) and one inversion at C1, one
encryption at C2; per ciphertext of numbers and bit a mask and a decryption. w rounds.
"""

from typing import Annotated

import msgspec

from ppodc.crypto.paillier import Ciphertexts
from ppodc.errors import WireError
from ppodc.kmeans.paillier.exchange import Ask, Cloud1, Cloud2, Step, answers, pick
from ppodc.kmeans.paillier.masking import pack, pack_plain, slot_width, slots, unpack
from ppodc.kmeans.paillier.smp import MOST_VALUES, Natural
from ppodc.kmeans.widths import STATISTICAL
from ppodc.transport.wire import Array, Body

Bits = list[Ciphertexts]  # one batch per bit, most significant first


class Bit(Body, frozen=True):
    """`numbers` masked numbers in slots of this width; the bit at `place` is asked for."""

    numbers: Annotated[int, msgspec.Meta(ge=0, le=MOST_VALUES)]
    slot: Natural
    place: Natural


def sbd(c1: Cloud1, numbers: Ciphertexts, w: int, low: int | None = None) -> Step[Bits]:
    """The w encrypted bits of each number, or its `low` lowest, most significant first."""
    wanted = w if low is None else low
    slot = slot_width(w)
    width = slots(c1.key.bits, slot)
    rest = pack(c1, numbers, slot)
    bits: Bits = []
    for place in range(wanted):
        rho = c1.random.bits(w - place + STATISTICAL, len(numbers))
        masks = pack_plain([x << place for x in rho], slot, width)
        sent = c1.to_open(c1.cipher.add(rest, c1.cipher.encrypt(masks)))
        (reply,) = yield Ask("bit", Bit(len(numbers), slot, place), (sent,))
        bit, negative = _unflip(c1, c1.read(reply, len(numbers)), [x.is_odd() for x in rho])
        bits.append(bit)
        if place < wanted - 1:
            rest = c1.cipher.add(rest, c1.cipher.shift(pack(c1, negative, slot), place))
    return bits[::-1]


def number(c1: Cloud1, bits: Bits) -> Ciphertexts:
    """The numbers that these bits make, by Horner's rule; local."""
    value = bits[0]
    for bit in bits[1:]:
        value = c1.cipher.add(c1.cipher.add(value, value), bit)
    return value


def public_bits(c1: Cloud1, value: int, width: int, rows: int) -> Bits:
    """The bits of a number that everybody knows, for this many rows."""
    return [c1.constant(value >> place & 1, rows) for place in reversed(range(width))]


def _unflip(c1: Cloud1, seen: Ciphertexts, flipped: list[bool]) -> tuple[Ciphertexts, Ciphertexts]:
    """E(b) and E(-b) from E(y), where b is 1 - y if flipped and y if not."""
    inverse = c1.cipher.negate(seen)
    one_minus = pick(flipped, inverse, seen)
    minus = pick(flipped, seen, inverse)
    bit = c1.cipher.add_plain(one_minus, [int(f) for f in flipped])
    negative = c1.cipher.add_plain(minus, [-int(f) for f in flipped])
    return bit, negative


@answers("bit", Bit, arrays=1)
def answer_bit(c2: Cloud2, ask: Bit, arrays: tuple[Array, ...]) -> list[Array]:
    """C2: one bit of every masked number, freshly encrypted."""
    if ask.place >= ask.slot:
        raise WireError("the bit asked for lies outside its slot.")
    masked = unpack(c2, arrays[0], ask.numbers, ask.slot)
    return [c2.encrypt_bits([x.bit_test(ask.place) for x in masked]).to_array()]
