"""The published way to match numbers: Paillier ciphertexts, a third party and a garbled circuit.

A reproduction, to measure beside `linkage.compare.distances`; no job uses it. Alice (C1 of the
session) and Bob (C2) have a Paillier key each. Charlie, who colludes with neither, gets their
records as ciphertexts and knows which pairs are candidates. For a pair (x, y):

1. Charlie adds the same fresh gamma_i to E_A(x_i) and E_B(y_i), re-randomises the ids, swaps them
   and shuffles all pairs of the job: E_A(x'), E_B(id_y) to Alice, E_B(y'), E_A(id_x) to Bob.
2. Alice decrypts x' and sends E_A(sum_i w_i x'_i^2), E_A(-2 w_i x'_i).
3. Bob decrypts y' and returns E_A(Delta + rho), Delta = sum_i w_i (x_i - y_i)^2, rho random.
4. They compare Delta + rho with limit + rho in a garbled circuit (`mpc.garbled_compare`).
5. On a match each hands the other the id that only the other can decrypt, and they tell them.

gamma_i lies in U .. U + 2^tau - 1, tau = kappa + bits(2U); rho has psi = kappa + bits(largest
Delta) bits; kappa = 40. Dummies have the value -U at Alice and 2U at Bob: Delta is then at least
U^2 sum_i w_i, and a limit that high is refused. The blinding is statistical: each number leaks with
probability 2^-40, a job of 6.5 million of them with 2^-17. Shares modulo 2^64 have no such limit.

Who learns what: Charlie which ciphertexts are candidates; Alice and Bob the number of pairs and the
ids of their matches. Per pair 6 d + 5 exponentiations: Charlie 2 d + 2 (as randomisers); Alice
d + 1 decryptions and d + 1 randomisers; Bob d decryptions, d powers, 1 randomiser. 3 d + 4
ciphertexts and a garbled comparison of psi + 1 bits travel, and ids of matches.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray

from ppodc.crypto.paillier import Ciphertexts, PublicKey, SecretKey
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.random_stream import SecureRandom
from ppodc.linkage.rules import SquaredDistance
from ppodc.mpc.session import Session
from ppodc.mpc.shares.garbled_compare import greater

KAPPA = 40
Link = tuple[int, int]  # ids of x and y
_DISTANCES, _BLINDED, _IDS = "three.distances", "three.blinded", "three.ids"
_FOUND = "three.found"


@dataclass(frozen=True, slots=True)
class Matching:
    """The public facts of all three parties: the rule over values 0..bound."""

    rule: SquaredDistance
    bound: int

    def __post_init__(self) -> None:
        self.rule.check_columns(len(self.rule.weights), self.bound)

    @property
    def columns(self) -> int:
        return len(self.rule.weights)

    @property
    def gamma_bits(self) -> int:
        """tau."""
        return KAPPA + (2 * self.bound).bit_length()

    @property
    def rho_bits(self) -> int:
        """psi; two dummies are 3 U apart."""
        return KAPPA + (sum(self.rule.weights) * (3 * self.bound) ** 2).bit_length()


@dataclass(frozen=True, slots=True)
class Encrypted:
    """Records of one owner under its key, as Charlie gets them; values row by row."""

    ids: Ciphertexts
    values: Ciphertexts


@dataclass(frozen=True, slots=True)
class Task:
    """Charlie's message to an owner: its blinded values of every pair, and the other's ids."""

    values: Ciphertexts
    other_ids: Ciphertexts


def encrypt(
    cipher: Cipher, ids: Sequence[int], rows: NDArray[np.int64], dummies: int, dummy: int
) -> Encrypted:
    """An owner's records and this many dummies, whose id is 0: d + 1 randomisers a record."""
    columns = rows.shape[1]
    values = [int(v) for v in rows.reshape(-1)] + [dummy] * (dummies * columns)
    return Encrypted(cipher.encrypt([*ids, *[0] * dummies]), cipher.encrypt(values))


def randomise(
    matching: Matching,
    ciphers: tuple[Cipher, Cipher],
    alice: Encrypted,
    bob: Encrypted,
    pairs: Sequence[tuple[int, int]],
    random: SecureRandom,
) -> tuple[Task, Task]:
    """Charlie: all candidate pairs, blinded and shuffled. 2 d + 2 randomisers a pair."""
    order = [pairs[int(i)] for i in random.permutation(len(pairs))]
    gammas = [
        matching.bound + gamma
        for gamma in random.bits(matching.gamma_bits, len(order) * matching.columns)
    ]
    tasks = []
    for side, (cipher, records) in enumerate(zip(ciphers, (alice, bob), strict=True)):
        rows = [pair[side] for pair in order]
        places = [row * matching.columns + i for row in rows for i in range(matching.columns)]
        masked = cipher.add(records.values.take(places), cipher.encrypt(gammas))
        tasks.append((masked, cipher.rerandomise(records.ids.take(rows))))
    return Task(tasks[0][0], tasks[1][1]), Task(tasks[1][0], tasks[0][1])


def decide(
    session: Session, matching: Matching, cipher: Cipher, secret: SecretKey, task: Task
) -> list[Link]:
    """Alice's half (role 1) or Bob's (2): the links, in the order of the shuffled pairs.

    `cipher` computes under Alice's key.
    """
    opened = secret.decrypt(task.values, cipher.tally)
    return _exchange_ids(session, secret, task, matches(session, matching, cipher, secret, opened))


def matches(
    session: Session,
    matching: Matching,
    cipher: Cipher,
    secret: SecretKey,
    values: Sequence[int] | Sequence[mpz],
) -> NDArray[np.bool_]:
    """Which pairs match, of this owner's `values` row by row.

    With its own values instead of blinded ones this is the published two-party form: no Charlie,
    and both learn which pair it is. d + 2 exponentiations at Alice, d (short) and 1 at Bob, d + 2
    ciphertexts.
    """
    if session.role == 1:
        numbers = _alice(session, matching, cipher, secret, values)
    else:
        numbers = _bob(session, matching, cipher, values)
    above = greater(session, [int(number) for number in numbers], matching.rho_bits + 1)
    found: NDArray[np.bool_] = above == 0
    return found


def _alice(
    session: Session,
    matching: Matching,
    cipher: Cipher,
    secret: SecretKey,
    x: Sequence[int] | Sequence[mpz],
) -> list[mpz]:
    """Delta + rho of every pair."""
    weights, d = matching.rule.weights, matching.columns
    rows = [x[at : at + d] for at in range(0, len(x), d)]
    norms = [sum(w * v * v for w, v in zip(weights, row, strict=True)) for row in rows]
    crosses = [-2 * w * v for row in rows for w, v in zip(weights, row, strict=True)]
    sent = [cipher.encrypt(norms), cipher.encrypt(crosses)]
    session.link.send(_DISTANCES, *(part.to_array() for part in sent))
    blinded = _received(session, _BLINDED, secret.public, len(rows))
    return secret.decrypt(blinded, cipher.tally)


def _bob(
    session: Session, matching: Matching, cipher: Cipher, y: Sequence[int] | Sequence[mpz]
) -> list[mpz]:
    """limit + rho of every pair."""
    weights, d = matching.rule.weights, matching.columns
    rows = [y[at : at + d] for at in range(0, len(y), d)]
    width = cipher.key.ciphertext_bytes
    norms, crosses = (
        Ciphertexts.from_array(cipher.key, array)
        for array in session.link.receive_two(
            _DISTANCES, (np.uint8, (len(rows), width)), (np.uint8, (len(y), width))
        )
    )
    rho = session.random.bits(matching.rho_bits, len(rows))
    own = [
        sum(w * v * v for w, v in zip(weights, row, strict=True)) + r
        for row, r in zip(rows, rho, strict=True)
    ]
    # E(|x'|^2) prod_i E(-2 w_i x'_i)^(y'_i) E(|y'|^2 + rho)
    total = cipher.add(norms, cipher.encrypt(own))
    products = cipher.power(crosses, y)
    for i in range(d):
        total = cipher.add(total, products.take(range(i, len(y), d)))
    session.link.send(_BLINDED, total.to_array())
    return [matching.rule.limit + r for r in rho]


def _exchange_ids(
    session: Session, secret: SecretKey, task: Task, match: NDArray[np.bool_]
) -> list[Link]:
    """Hand over the other's encrypted ids of the matches, decrypt one's own, tell them."""
    places = np.flatnonzero(match).tolist()
    session.link.send(_IDS, task.other_ids.take(places).to_array())
    mine = secret.decrypt(_received(session, _IDS, secret.public, len(places)))
    own = np.array([int(number) for number in mine], np.uint64)
    other = session.link.exchange(_FOUND, own)
    both = (own, other) if session.role == 1 else (other, own)
    return list(zip(*(side.tolist() for side in both), strict=True))


def _received(session: Session, kind: str, key: PublicKey, count: int) -> Ciphertexts:
    array = session.link.receive(kind, np.uint8, count, key.ciphertext_bytes)
    return Ciphertexts.from_array(key, array)
