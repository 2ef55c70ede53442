"""Base transfers: 128 random transfers of 16 bytes from C1 to C2, from C2's Paillier key.

C2 (receiver, choice bits c) sends E(c). C1 (sender, random x0, x1) returns
E(x0 + c * (x1 - x0)), several answers packed in one ciphertext, freshly re-randomised.

Who learns what: C1 nothing about c (Paillier); C2 exactly x_c, since the plaintext it decrypts
is x_c and the ciphertext is re-randomised with statistically uniform randomness, so that
knowing the secret key does not help. The other direction needs no Paillier: see `session`.

Rounds: 1. At 2048 bits C2 sends 64 KB and C1 8 KB; C2 makes 128 encryptions and 16 decryptions,
C1 240 exponentiations of 128 bits: about half a second each.
"""

import numpy as np
from numpy.typing import NDArray

from ppodc.crypto.paillier import Ciphertexts, PublicKey, SecretKey
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.random_stream import SecureRandom
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.errors import CiphertextError
from ppodc.mpc.additive import U64, Words, limbs_of
from ppodc.mpc.messages import Link

COUNT = 128
SLOT_BITS = 128
_QUESTION, _ANSWER = "shares.base-question", "shares.base-answer"


def _slots(key: PublicKey) -> int:
    """Answers per ciphertext: a power of two, so that they fill all ciphertexts."""
    return 1 << (((key.bits - 1) // SLOT_BITS).bit_length() - 1)


def send(link: Link, key: PublicKey, random: SecureRandom) -> Words:
    """C1's half: the pairs (x0, x1) as (128, 2, 2) words."""
    x0, x1 = random.bits(SLOT_BITS, COUNT), random.bits(SLOT_BITS, COUNT)
    question = link.receive(_QUESTION, np.uint8, COUNT, key.ciphertext_bytes)
    choices = Ciphertexts.from_array(key, question)
    cipher = Cipher(key, FreshRandomisers(key, random=random))
    differences = [b - a for a, b in zip(x0, x1, strict=True)]
    # E(x0 + c (x1 - x0)) = E(c)^(x1 - x0) * E(x0)
    answers = cipher.add_plain(cipher.power(choices, differences), x0)
    # sum_s 2^(128 s) x_c of every `slots`-th transfer in one ciphertext
    slots = _slots(key)
    packed = cipher.pack([answers[slot::slots] for slot in range(slots)], SLOT_BITS)
    link.send(_ANSWER, cipher.rerandomise(packed).to_array())
    return np.stack([limbs_of(x0, 2), limbs_of(x1, 2)], axis=1)


def receive(
    link: Link, secret: SecretKey, choices: NDArray[np.uint8], random: SecureRandom
) -> Words:
    """C2's half: x_c for its 128 choice bits, as (128, 2) words."""
    key = secret.public
    cipher = Cipher(key, FreshRandomisers(key, secret, random=random))
    link.send(_QUESTION, cipher.encrypt(choices.tolist()).to_array())
    slots = _slots(key)
    answer = link.receive(_ANSWER, np.uint8, COUNT // slots, key.ciphertext_bytes)
    chosen = []
    for number in secret.decrypt(Ciphertexts.from_array(key, answer)):
        if number.bit_length() > slots * SLOT_BITS:
            raise CiphertextError("the answer of a base transfer is too long; start a new pair.")
        chosen.append(limbs_of([number >> (SLOT_BITS * slot) for slot in range(slots)], 2))
    return np.concatenate(chosen).astype(U64)
