"""Parameters of the lattice products (`lattice_products`), and why their results are exact.

Ring-LWE in Z_q[X] / (X^N + 1), N = 16384, ternary secrets, errors centred binomial with |e| <= 21.
Products are modulo 2^w, with l attributes. The records' shares may be any numbers modulo 2^w: their
size does not enter, as noise comes from the matrix only.

A record share x is encrypted once for each of D digits: c0 + c1 s = round(q 2^(dg) x / 2^w) + e.
The other cloud writes the entries of its matrix R in balanced digits of g bits, sums up the
digit's multiples of the ciphertexts, adds a fresh encryption of zero and a flooding term f, uniform
in [-2^F, 2^F), to c0. In units of 1 of q this is off from q x.R / 2^w by f and at most

    E = P l D 2^(g-1) (21 + 1/2)  +  21 + 2 N 21  +  1

(at most P = 4 columns share a ciphertext; 21 + 1/2: error and rounding of each encryption; e2, and
u e and e1 s, N terms each; 1 for the rounding of q x.R / 2^w). F = bits(E) + 80, so f hides the
rest to within E / 2^(F + 1) < 2^-81 for each number told.

c1 is then sent rounded to w + k1 bits and c0 to w + k0 bits: of the sum modulo 2^w, the receiver's
rounding of c1 s counts N terms of at most 2^-(k1 + 1) each, that of c0 2^-(k0 + 1). A result is
exact, always, if in units of the result

    (2^F + E) 2^w / q  +  N (1 + d) / 2^(k1 + 1)  +  (1 + d) / 2^(k0 + 1)  <  1/2

With k1 = log2(N) + 1, k0 = 4 and d < 2^-20 (constants of 56 more bits than they need) the latter
two are below 1/4 + 1/32 + 1/64; so (2^F + E) 2^w / q <= 3/16 is asked for.

*Security.* log2 q <= 411: 128 bits against quantum computers by the table of the Homomorphic
Encryption Standard for N = 16384 and ternary secrets (438 against classical ones).
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
LOW = 4  # k0
FLOOD = 80
MOST_MODULUS_BITS = 411
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
    flood: int  # F
    prime_bits: int
    primes: tuple[int, ...]  # q is their product; each is 1 modulo 2 N

    @property
    def modulus(self) -> int:
        """q."""
        return prod(self.primes)

    @property
    def told_bits(self) -> int:
        """Bits of a coefficient of c1 when it is sent."""
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
    """Parameters with so many digits, or None if q would have to be too large."""
    digit_bits = -(-width // digits)
    evaluation = PACK * attributes * digits * (1 << (digit_bits - 1)) * (2 * ERROR + 1)
    noise = -(-evaluation // 2) + ERROR + 2 * DEGREE * ERROR + 1
    flood = noise.bit_length() + FLOOD
    # (2^F + E) 2^w / q <= 3/16
    least = -(-16 * (((1 << flood) + noise) << width) // 3)
    count = -(-least.bit_length() // _WORD_PRIME_BITS)
    for prime_bits in range(-(-least.bit_length() // count), _WORD_PRIME_BITS + 1):
        primes = _primes(prime_bits, count)
        if prod(primes) >= least:
            if prod(primes).bit_length() > MOST_MODULUS_BITS:
                return None
            return LatticeParameters(
                width, attributes, digits, digit_bits, noise, flood, prime_bits, primes
            )
    return None


def _primes(bits: int, count: int) -> tuple[int, ...]:
    """The largest primes of so many bits that are 1 modulo 2 N; fewer if there are not as many."""
    found: list[int] = []
    for candidate in range((1 << bits) - 2 * DEGREE + 1, 1 << (bits - 1), -2 * DEGREE):
        if len(found) < count and gmpy2.is_prime(candidate, 40):
            found.append(candidate)
    return tuple(found)
