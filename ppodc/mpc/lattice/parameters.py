"""Parameters of the lattice products (`products`), and a proof that they are off by 1 at most.

Ring-LWE in Z_q[X] / (X^N + 1), N = 16384, ternary secrets, errors centred binomial with |e| <= 21.
Products are modulo 2^w, with l attributes. The records' shares may be any numbers modulo 2^w: their
size does not enter, as noise comes from the matrix only.

A record share x is encrypted once for each of D digits: c0 + c1 s = round(q 2^(dg) x / 2^w) + e.
The other cloud writes the entries of its matrix R in balanced digits of g bits, sums up the digits'
multiples of the ciphertexts and adds a fresh encryption of zero. Then c0 + c1 s is off from
q x.R / 2^w, in units of 1 of q, by at most

    E = P l D 2^(g-1) (21 + 1/2)  +  21 + 2 N 21  +  1

(at most P = 4 columns share a ciphertext; 21 + 1/2: error and rounding of each encryption; e2, and
u e and e1 s, N terms each; 1 for the rounding of q x.R / 2^w).

*The answer is c1 alone*, rounded to w + k1 bits, k1 = log2 N + 1; c0 never leaves the cloud that
multiplies. In units of the result, with told / 2^k1 for the rounded c1 and everything modulo 2^w,

    y = floor(c0 2^w / q + 1/32)         at the cloud that multiplies
    z = floor(told s / 2^k1 + 1/2)       at the holder of the key

told s / 2^k1 is off from c1 s 2^w / q by N (1 + d) / 2^(k1 + 1) = (1 + d) / 4, d < 2^-20 (constants
have 56 more bits than they need). With E 2^w / q <= 3/16 the sum y + z - x.R lies strictly between
1/32 + 1/2 - 3/16 - 1/4 - 2 - d = -61/32 - d and 1/32 + 1/2 + 3/16 + 1/4 + d = 31/32 + d. It is a
whole number: -1 or 0, always. A product has two directions, so that it is off by -2, -1 or 0; C1
adds 1: by at most 1 (`fixed_point` has room for that; k-means++ makes it exact, `spread`).

*Security.* log2 q <= 409: 128 bits against quantum computers for N = 16384 and ternary secrets, by
the tables of the Homomorphic Encryption Standard (411) and of the guidelines of 2024 (409).
"""

from dataclasses import dataclass
from functools import cache
from math import prod

import gmpy2

from ppodc.errors import WidthError

DEGREE = 1 << 14
ERROR = 21  # centred binomial: a sum of 21 bits less a sum of 21 bits
PACK = 4  # columns that may share a ciphertext
EXTRA = DEGREE.bit_length()  # k1 = log2 N + 1
MOST_MODULUS_BITS = 409
_MOST_DIGITS = 8
_WORD_PRIME_BITS = 30  # four times a prime fits in 32 bits


@dataclass(frozen=True, slots=True)
class LatticeParameters:
    """One set of parameters; the names are those above."""

    width: int  # w
    attributes: int  # l
    digits: int  # D
    digit_bits: int  # g
    noise: int  # E
    prime_bits: int
    primes: tuple[int, ...]  # q is their product; each is 1 modulo 2 N

    @property
    def modulus(self) -> int:
        """q."""
        return prod(self.primes)

    @property
    def told_bits(self) -> int:
        """Bits of a coefficient of c1 in an answer."""
        return self.width + EXTRA


@cache
def choose(width: int, attributes: int) -> LatticeParameters:
    """The parameters with fewest digits; WidthError if none are safe."""
    for digits in range(1, _MOST_DIGITS + 1):
        parameters = _with_digits(width, attributes, digits)
        if parameters is not None:
            return parameters
    raise WidthError(
        f"no safe lattice holds products of {width} bits over {attributes} attributes. "
        "Choose the products by transfers for this job."
    )


def _with_digits(width: int, attributes: int, digits: int) -> LatticeParameters | None:
    """Parameters with this many digits, or None if q would have to be too large."""
    digit_bits = -(-width // digits)
    evaluation = PACK * attributes * digits * (1 << (digit_bits - 1)) * (2 * ERROR + 1)
    noise = -(-evaluation // 2) + ERROR + 2 * DEGREE * ERROR + 1
    # E 2^w / q <= 3/16
    least = -(-16 * (noise << width) // 3)
    count = -(-least.bit_length() // _WORD_PRIME_BITS)
    for prime_bits in range(-(-least.bit_length() // count), _WORD_PRIME_BITS + 1):
        primes = _primes(prime_bits, count)
        if prod(primes) >= least:
            if prod(primes).bit_length() > MOST_MODULUS_BITS:
                return None
            return LatticeParameters(
                width, attributes, digits, digit_bits, noise, prime_bits, primes
            )
    return None


def _primes(bits: int, count: int) -> tuple[int, ...]:
    """The largest primes of so many bits that are 1 modulo 2 N; fewer if there are not as many."""
    found: list[int] = []
    for candidate in range((1 << bits) - 2 * DEGREE + 1, 1 << (bits - 1), -2 * DEGREE):
        if len(found) < count and gmpy2.is_prime(candidate, 40):
            found.append(candidate)
    return tuple(found)
