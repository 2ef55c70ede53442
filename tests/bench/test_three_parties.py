"""The published three-party matching: exact, dummies match nothing, operations as published."""

import numpy as np
import pytest

from ppodc.bench.linkage.three_parties import KAPPA, Matching, decide, encrypt, randomise
from ppodc.crypto.paillier import Tally, generate_insecure
from ppodc.crypto.paillier_arithmetic import Cipher
from ppodc.crypto.random_stream import SecureRandom
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.errors import InputError
from ppodc.linkage.rules import SquaredDistance
from tests.mpc.pair import Pair


@pytest.fixture(scope="module")
def pair() -> Pair:
    return Pair()


ALICE, BOB = generate_insecure(256), generate_insecure(256)
U = 20


def cipher_of(secret):
    return Cipher(secret.public, FreshRandomisers(secret.public, secret))


def linked(pair, matching, xs, ys, dummies):
    """Links of all pairs; the tallies of Charlie, Alice and Bob; how many pairs, with dummies."""
    records = [
        encrypt(cipher_of(secret), range(1, len(rows) + 1), rows, dummies, dummy)
        for secret, rows, dummy in ((ALICE, xs, -U), (BOB, ys, 2 * U))
    ]
    pairs = [(i, j) for i in range(len(xs) + dummies) for j in range(len(ys) + dummies)]
    charlies = cipher_of(ALICE), cipher_of(BOB)
    for charlie in charlies:
        charlie.tally = Tally()
    tasks = randomise(matching, charlies, *records, pairs, SecureRandom())
    owners = cipher_of(ALICE), cipher_of(ALICE)

    def step(session, cipher, secret, task):
        return decide(session, matching, cipher, secret, task)

    found = pair.run(step, owners, (ALICE, BOB), tasks)
    charlie = charlies[0].tally + charlies[1].tally
    return found, (charlie, owners[0].tally, owners[1].tally), len(pairs)


@pytest.mark.parametrize("limit", [0, 9, 3 * U * U - 1])
def test_links_equal_the_oracle_and_operations_those_published(pair, limit):
    random = np.random.default_rng(limit)
    xs, ys = random.integers(0, U + 1, (5, 3)), random.integers(0, U + 1, (4, 3))
    ys[0], ys[1] = xs[2], xs[4] + [0, 0, -1]
    ys, d = np.clip(ys, 0, U), 3
    rule = SquaredDistance((1, 1, 1), limit)
    (first, second), (charlie, alice, bob), pairs = linked(pair, Matching(rule, U), xs, ys, 1)
    match = rule.match_matrix(xs, ys)
    assert sorted(first) == sorted(second)
    assert sorted(first) == [(i + 1, j + 1) for i, j in np.argwhere(match)]
    assert first
    assert charlie.randomisers == (2 * d + 2) * pairs
    assert (alice.decryptions, alice.randomisers) == ((d + 1) * pairs, (d + 1) * pairs)
    assert (bob.decryptions, bob.exponentiations, bob.randomisers) == (d * pairs, d * pairs, pairs)
    total = charlie + alice + bob
    operations = total.randomisers + total.decryptions + total.exponentiations
    assert operations == (6 * d + 5) * pairs


def test_weights_count_and_nothing_may_match(pair):
    rule = SquaredDistance((0, 3, 1), 2)
    xs, ys = np.array([[9, 5, 5]]), np.array([[1, 5, 6], [9, 6, 5]])
    (first, _), _, _ = linked(pair, Matching(rule, U), xs, ys, 0)
    assert first == [(1, 1)]
    (first, _), _, _ = linked(pair, Matching(rule, U), xs, ys[1:], 2)
    assert first == []


def test_widths_are_those_published():
    matching = Matching(SquaredDistance((1,) * 5, 0), 160)
    assert matching.rho_bits - KAPPA == 21  # ceil(log2(5 * 480^2))
    assert matching.rho_bits + 1 == 62
    with pytest.raises(InputError, match="every pair"):
        Matching(SquaredDistance((1,), 100), 10)
