"""Random polynomials of the lattice products: uniform from a public seed, and small secret ones.

Uniform residues come from SHAKE-128 of a seed that both clouds know (the session's name and the key
holder's role) and a number, so that nothing of them travels; errors and secrets from the session's
random stream. Everything here is local.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.mpc.compiled import compiled, in_u4, in_u8, out_i8, out_u4_2, u64
from ppodc.mpc.lattice.parameters import ERROR
from ppodc.mpc.lattice.residues import PolynomialRing, Residues, Small
from ppodc.mpc.shares.additive import U64, U64Array

_NAME = b"ppodc lattice v2"
_ERROR_MASK = U64((1 << ERROR) - 1)


def uniform(ring: PolynomialRing, seed: bytes, number: int) -> Residues:
    """Polynomial `number` of a seed.

    Words of 4 bytes (little endian) of SHAKE-128(name | seed | number), cut to the bits of a
    prime; those below the prime are its coefficients, prime by prime.
    """
    out = np.empty((len(ring.primes), ring.degree), np.uint32)
    primes, mask = np.array(ring.primes, U64), U64((1 << max(ring.primes).bit_length()) - 1)
    stream = hashlib.shake_128(_NAME + seed + number.to_bytes(8, "little"))
    room = len(ring.primes) * (ring.degree + ring.degree // 32 + 256)
    missing = np.ones(1, np.int64)
    while True:
        _take_below(np.frombuffer(stream.digest(4 * room), "<u4"), mask, primes, out, missing)
        if not missing[0]:
            return out
        room *= 2


@compiled(in_u4, u64, in_u8, out_u4_2, out_i8)
def _take_below(
    words: NDArray[np.uint32], mask: np.uint64, primes: U64Array, out: Residues, missing: Small
) -> None:
    """The coefficients, in the order of the words; how many primes there were too few for."""
    at = 0
    for j in range(out.shape[0]):
        taken = 0
        while taken < out.shape[1] and at < words.size:
            value = U64(words[at]) & mask
            out[j, taken] = value
            taken += int(value < primes[j])
            at += 1
        missing[0] = out.shape[0] - j
        if taken < out.shape[1]:
            return
    missing[0] = 0


def ternary(random: SecureRandom, count: int) -> Small:
    """Numbers -1, 0, 1, each a third of the time: bytes below 255, modulo 3."""
    drawn: list[NDArray[np.int64]] = []
    missing = count
    while missing > 0:
        data = np.frombuffer(random.bytes(missing + missing // 64 + 64), np.uint8)
        drawn.append(data[data < 255][:missing].astype(np.int64) % 3 - 1)
        missing -= len(drawn[-1])
    return np.concatenate(drawn)


def errors(random: SecureRandom, count: int) -> Small:
    """Centred binomial numbers: 21 bits less 21 bits."""
    out = np.empty(count, np.int64)
    _binomial(random.uint64(count), out)
    return out


@compiled(in_u8, out_i8)
def _binomial(words: U64Array, out: Small) -> None:
    for i in range(out.size):
        difference = np.int64(0)
        for part in range(2):
            v = (words[i] >> U64(ERROR * part)) & _ERROR_MASK
            v = v - ((v >> U64(1)) & U64(0x5555555555555555))
            v = (v & U64(0x3333333333333333)) + ((v >> U64(2)) & U64(0x3333333333333333))
            v = (v + (v >> U64(4))) & U64(0x0F0F0F0F0F0F0F0F)
            v = (v * U64(0x0101010101010101)) >> U64(56)
            difference += np.int64(v) if part == 0 else -np.int64(v)
        out[i] = difference
