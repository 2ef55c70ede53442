"""Base transfers: 128 random transfers of 16 bytes from C1 to C2, from fresh ML-KEM-768 keys.

Endemic transfers (Masny and Rindal, CCS 2019) from the key encapsulation of FIPS 203. Its public
key is a vector t of 768 numbers modulo 3329 and a seed rho. For transfer i and choice bit c:

    C2  draws a key (dk, t, rho), a uniform r_(1-c), sets  r_c = t - G(sid, i, c, rho, r_(1-c))
        and sends  rho, r_0, r_1
    C1  takes  t_b = r_b + G(sid, i, b, rho, r_(1-b))  for b = 0 and 1 as public keys, encapsulates
        (k_b, ct_b) to both, sends  ct_0, ct_1  and has  x_b = H(sid, i, b, k_b, ct_b)
    C2  decapsulates ct_c and has x_c

G is SHAKE-128, cut into words of 12 bits of which those below 3329 count; H is SHA-256, cut to 16
bytes. `sid` names the session, so that nothing of another session fits into this one.

Who learns what: C1 nothing about c, since a public key and a uniform vector look alike (module
LWE). C2 exactly x_c: k_(1-c) belongs to a key whose secret nobody knows.

A peer that deviates: C2 cannot know the secrets of both keys. Whichever of r_0, r_1 it fixes
first, the other one's key is a random oracle's output on it; there are no choices but 0 and 1. C1
may send a false ct_b. Then x_c is random at C2 if c = b: a guess of c, which ends the session in
the check of the trees (`extension`) if it was wrong, and says nothing of the next session's choice.

Keys are drawn for the session and forgotten with it. Nothing that a cloud stores opens the
transfers of the past, and no computation on a quantum computer is known that does.

Rounds: 1. C2 sends 299 KB and C1 279 KB. Operations: 128 keys, 256 encapsulations, 128
decapsulations and 512 calls of G, some 40 milliseconds in all at each cloud. An honest transfer
fails with 2^-164; the check of the trees then ends the session.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from numpy.typing import NDArray

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import WireError

Bits = NDArray[np.uint8]
Encapsulate = Callable[[MLKEM768PublicKey], tuple[bytes, bytes]]  # (key, ciphertext)
Frame = NDArray[np.uint8]
U64Array = NDArray[np.uint64]  # as in `additive`, which loads kernels
Vector = NDArray[np.int64]

COUNT = 128
PRIME = 3329
LENGTH = 768  # numbers of a public key
VECTOR_BYTES = LENGTH * 12 // 8
QUESTION_BYTES = 32 + 2 * VECTOR_BYTES  # rho, r_0, r_1
ANSWER_BYTES = 2 * 1088  # ct_0, ct_1
_SEED_BYTES, _RHO_BYTES, _KEY_BYTES = 64, 32, 16
_DRAWN_BYTES = 1536  # 1024 words of 12 bits, of which 832 count on average; 768 are wanted


def fresh(public: MLKEM768PublicKey) -> tuple[bytes, bytes]:
    """Encapsulate by the system's randomness: (key, ciphertext)."""
    return public.encapsulate()


@dataclass(slots=True, repr=False)
class BaseReceiver:
    """C2's end: choices and secret keys, until the answers have come."""

    choices: Bits
    keys: list[MLKEM768PrivateKey]
    questions: Frame  # (128, QUESTION_BYTES), to be sent

    @classmethod
    def ask(cls, sid: bytes, choices: Bits, random: SecureRandom) -> "BaseReceiver":
        """Draw keys for 128 choice bits."""
        keys, questions = [], np.empty((COUNT, QUESTION_BYTES), np.uint8)
        for i, choice in enumerate(choices.tolist()):
            key = MLKEM768PrivateKey.from_seed_bytes(random.bytes(_SEED_BYTES))
            public = key.public_key().public_bytes_raw()
            t, rho = _numbers(public[:VECTOR_BYTES]), public[VECTOR_BYTES:]
            other = _vector(random.bytes(32))
            own = (t - _oracle(sid, i, choice, rho, other)) % PRIME
            pair = (own, other) if choice == 0 else (other, own)
            question = rho + b"".join(map(_packed, pair))
            questions[i] = np.frombuffer(question, np.uint8)
            keys.append(key)
        return cls(choices, keys, questions)

    def open(self, sid: bytes, answers: Frame) -> U64Array:
        """x_c of every transfer: (128, 2) words."""
        found = b""
        for i, (choice, key) in enumerate(zip(self.choices.tolist(), self.keys, strict=True)):
            half = ANSWER_BYTES // 2
            ciphertext = answers[i, choice * half : (choice + 1) * half].tobytes()
            found += _derived(sid, i, choice, key.decapsulate(ciphertext), ciphertext)
        return _words(found).reshape(COUNT, 2)


def answer(
    sid: bytes, questions: Frame, encapsulate: Encapsulate = fresh
) -> tuple[U64Array, Frame]:
    """C1's end: the pairs (x_0, x_1) as (128, 2, 2) words, and the answers to send.

    The library draws for an encapsulation from the system. `encapsulate` may keep what it gave, so
    that an audit can give it again. WireError if a question holds a number that is not below 3329.
    """
    found, answers = b"", np.empty((COUNT, ANSWER_BYTES), np.uint8)
    for i in range(COUNT):
        question = questions[i].tobytes()
        rho, packed = question[:_RHO_BYTES], question[_RHO_BYTES:]
        r = [_numbers(packed[:VECTOR_BYTES]), _numbers(packed[VECTOR_BYTES:])]
        if max(int(vector.max()) for vector in r) >= PRIME:
            raise WireError("a base transfer's question is out of range. Start a new pair.")
        ciphertexts = b""
        for b in (0, 1):
            t = (r[b] + _oracle(sid, i, b, rho, r[1 - b])) % PRIME
            public = MLKEM768PublicKey.from_public_bytes(_packed(t) + rho)
            key, ciphertext = encapsulate(public)
            found += _derived(sid, i, b, key, ciphertext)
            ciphertexts += ciphertext
        answers[i] = np.frombuffer(ciphertexts, np.uint8)
    return _words(found).reshape(COUNT, 2, 2), answers


def _oracle(sid: bytes, i: int, b: int, rho: bytes, other: Vector) -> Vector:
    """G."""
    return _vector(b"ppodc base G" + sid + bytes([i, b]) + rho + _packed(other))


def _derived(sid: bytes, i: int, b: int, key: bytes, ciphertext: bytes) -> bytes:
    """H."""
    text = b"ppodc base H" + sid + bytes([i, b]) + key + ciphertext
    return hashlib.sha256(text).digest()[:_KEY_BYTES]


def _vector(seed: bytes) -> Vector:
    """768 numbers below 3329, uniform."""
    stream, size = hashlib.shake_128(seed), _DRAWN_BYTES
    while True:
        numbers = _numbers(stream.digest(size))
        kept = numbers[numbers < PRIME]
        if len(kept) >= LENGTH:
            return kept[:LENGTH]
        size *= 2


def _numbers(data: bytes) -> Vector:
    """Numbers of 12 bits, the lowest first: three bytes are two of them."""
    a, b, c = np.frombuffer(data, np.uint8).reshape(-1, 3).astype(np.int64).T
    return np.stack([a | (b & 15) << 8, b >> 4 | c << 4], axis=1).reshape(-1)


def _packed(numbers: Vector) -> bytes:
    """The opposite of `_numbers`."""
    low, high = numbers.reshape(-1, 2).T
    parts = np.stack([low & 255, low >> 8 | (high & 15) << 4, high >> 4], axis=1)
    return parts.astype(np.uint8).tobytes()


def _words(data: bytes) -> U64Array:
    return np.frombuffer(data, "<u8").astype(np.uint64)
