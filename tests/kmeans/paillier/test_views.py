"""Views of the clouds: shapes do not depend on the data, and C2's plaintexts are uniform."""

from fractions import Fraction

import msgspec
import numpy as np
import pytest

from ppodc.crypto.paillier import Ciphertexts
from ppodc.crypto.paillier_arithmetic import Cipher, RandomiserSource
from ppodc.crypto.random_stream import SecureRandom
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.kmeans import suites
from ppodc.kmeans.paillier.assign import assign
from ppodc.kmeans.paillier.compare import blind, differences, toss
from ppodc.kmeans.paillier.exchange import Cloud1, Cloud2
from ppodc.kmeans.paillier.ingest import DIFFERENCE_BITS, ingest
from ppodc.kmeans.paillier.masking import draw, slot_width, slots
from ppodc.kmeans.paillier.output import labels, output
from ppodc.kmeans.paillier.sbd import sbd
from ppodc.kmeans.paillier.smin_k import Contender, smin, smin_k
from ppodc.kmeans.paillier.smp import smp
from ppodc.kmeans.paillier.ssed_op import scale
from ppodc.kmeans.paillier.update import Clusters, large, reseed, setc
from ppodc.kmeans.parameters import Parameters
from ppodc.kmeans.widths import STATISTICAL, Widths
from ppodc.transport.channel import memory_pair
from tests.kmeans.paillier.conftest import KEY, Inline
from tests.kmeans.paillier.test_jobs import make
from tests.kmeans.paillier.test_primitives import as_bits
from tests.kmeans.suite_jobs import Job, check


def transcript(records: np.ndarray, beta: Fraction) -> list[list[tuple[str, int, int]]]:
    """Kind, bytes of header and of arrays of every message, for each end."""
    pair = memory_pair()
    sent: list[list[tuple[str, int, int]]] = [[], []]
    for end, channel in enumerate(pair):
        send = channel.send

        def watched(kind, body=None, arrays=(), *, _send=send, _end=end):
            header = 0 if body is None else len(msgspec.msgpack.encode(body))
            sent[_end].append((kind, header, sum(a.nbytes for a in arrays)))
            return _send(kind, body, arrays)

        channel.send = watched
    check(make, Job(records, 3, 1000, beta, max_iter=2, min_size=3), pair)
    return sent


def test_message_sizes_do_not_depend_on_the_data():
    g = np.random.default_rng(1)
    scattered = g.integers(0, 1001, (12, 2))
    alike = np.full((12, 2), 7)  # every cluster but one goes empty
    skewed = np.zeros((12, 2), dtype=int)
    skewed[0] = 1000
    # beta so large that all stop after one iteration: the number of iterations is public
    views = [transcript(data, Fraction(10**9)) for data in (scattered, alike, skewed)]
    assert views[0] == views[1] == views[2]


def chi_square(counts: np.ndarray) -> float:
    expected = counts.sum() / len(counts)
    return float(((counts - expected) ** 2 / expected).sum())


def low_and_high_bytes(values: list[int], width: int) -> list[np.ndarray]:
    """Histograms of 16 bins of the lowest and of the highest four bits."""
    low = np.bincount([v & 15 for v in values], minlength=16)
    high = np.bincount([min(v >> (width - 4), 15) for v in values], minlength=16)
    return [low, high]


# A chi-square lies beyond with a chance of 10^-12, by its degrees of freedom.
LIMIT, LIMIT_OF_3 = 90, 59


@pytest.mark.parametrize("value", [0, 1, 1000])
def test_masked_operands_at_c2_are_uniform(both, value):
    bits = 10
    batch = both.encrypt([value] * 30)
    for _ in range(20):
        both.run(smp(both.c1, batch, batch, bits))
    slot = bits + STATISTICAL + 2
    found = [
        (packed >> (slot * i)) & ((1 << slot) - 1)
        for packed in both.decrypted
        for i in range((both.c1.key.bits - 1) // slot)
    ]
    for counts in low_and_high_bytes([f for f in found if f], slot - 1):
        assert chi_square(counts) < LIMIT


def test_masks_are_wide_and_never_repeat(both):
    masks = draw(both.c1, 8, 500)
    assert len(set(masks)) == 500
    assert max(masks) < 1 << (8 + STATISTICAL + 2)
    assert max(m.bit_length() for m in masks) >= 8 + STATISTICAL


@pytest.mark.parametrize("value", [0, 5, 31])
def test_the_bit_that_c2_finds_in_sbd_is_a_fair_coin(both, value):
    both.run(sbd(both.c1, both.encrypt([value] * 64), 5))
    slot = 5 + STATISTICAL + 2
    per = (both.c1.key.bits - 1) // slot
    packs = -(-64 // per)
    for place in range(5):
        opened = both.decrypted[place * packs : (place + 1) * packs]
        found = [(p >> (slot * i)) & ((1 << slot) - 1) for p in opened for i in range(per)][:64]
        assert all(f & ((1 << place) - 1) == 0 for f in found)
        ones = sum(f >> place & 1 for f in found)
        assert 4 < ones < 60  # 64 fair coins leave this range once in 10^13
        assert max(found).bit_length() >= slot - 5, "the mask is too short to hide high bits"


@pytest.mark.parametrize("word", [0, 1 << 61, (1 << 64) - 1])
def test_no_upload_outgrows_a_mask_at_c2(both, word):
    """Whatever an owner uploads, C2 finds slots of 65 + 64 bits that look uniform, none beyond."""
    rows = 60
    both.c2.shares["all"] = np.zeros((rows, 1), np.uint64)
    both.run(ingest(both.c1, "all", 0, np.full((rows, 1), word, np.uint64), 7))
    slot = slot_width(DIFFERENCE_BITS)
    per = slots(both.c1.key.bits, slot)
    packs = -(-rows // per)
    assert len(both.decrypted) == 3 * packs
    for place in range(3):
        opened = both.decrypted[place * packs : (place + 1) * packs]
        assert max(opened).bit_length() <= per * slot
        found = [(p >> (slot * i)) & ((1 << slot) - 1) for p in opened for i in range(per)][:rows]
        top = np.bincount([f >> (slot - 6) & 15 for f in found], minlength=16)
        low = np.bincount([f >> place & 15 for f in found], minlength=16)
        assert chi_square(top) < LIMIT
        assert chi_square(low) < LIMIT


@pytest.mark.parametrize(("a", "b"), [(0, 31), (31, 0), (9, 9)])
def test_the_outcome_of_a_comparison_is_a_fair_coin_at_c2(both, a, b):
    rows = 64
    coins = toss(both.c1, rows)
    u, v = as_bits(both, [a] * rows, 5), as_bits(both, [b] * rows, 5)
    sent = blind(both.c1, differences(both.c1, u, v, coins), coins)
    opened = both.c2.open(sent, rows * 6)
    zeros = [sum(x == 0 for x in opened[r * 6 : (r + 1) * 6]) for r in range(rows)]
    assert set(zeros) <= {0, 1}
    assert 4 < sum(zeros) < 60
    nonzero = [int(x) for x in opened if x]
    assert len(set(nonzero)) == len(nonzero)
    low, _ = low_and_high_bytes(nonzero, both.c1.key.bits)
    assert chi_square(low) < LIMIT


def test_the_place_of_the_first_difference_is_uniform_at_c2(both):
    rows, width = 240, 4
    coins = toss(both.c1, rows)
    u, v = as_bits(both, [4] * rows, 3), as_bits(both, [0] * rows, 3)  # differ at the first bit
    opened = both.c2.open(blind(both.c1, differences(both.c1, u, v, coins), coins), rows * width)
    places = [i % width for i, x in enumerate(opened) if x == 0]
    assert len(places) > 60
    assert chi_square(np.bincount(places, minlength=width)) < LIMIT_OF_3


def test_what_smin_moves_is_hidden_from_c2(both):
    rows = 60
    u = Contender(as_bits(both, [0] * rows, 2), both.encrypt([0] * rows))
    v = Contender(as_bits(both, [3] * rows, 2), both.encrypt([1] * rows))
    both.run(smin(both.c1, u, v))
    moved = both.c2.open(both.asked[-1].arrays[1], rows * 3)
    assert len(set(moved)) == len(moved)
    assert sum(x.bit_length() >= STATISTICAL - 4 for x in moved) > 0.9 * len(moved)
    assert chi_square(np.bincount([int(x % 16) for x in moved], minlength=16)) < LIMIT


def test_the_place_of_the_minimum_is_uniform_at_c2(both):
    k, rows = 4, 120
    numbers = [as_bits(both, [int(h != 2)] * rows, 1) for h in range(k)]
    both.run(smin_k(both.c1, numbers))
    vectors = both.decrypted[-rows * k :]
    places = np.bincount(
        [next(i for i in range(k) if vectors[r * k + i] == 0) for r in range(rows)], minlength=k
    )
    assert chi_square(places) < LIMIT_OF_3


def test_c2s_halves_of_outputs_and_labels_are_random(both):
    values = both.encrypt([3] * 200)
    mine = both.run(output(both.c1, values))
    theirs = list(both.c2.revealed)
    n = int(both.c1.key.n)
    assert [(a + b) % n for a, b in zip(mine, theirs, strict=True)] == [3] * 200
    assert chi_square(np.bincount([t % 16 for t in theirs], minlength=16)) < LIMIT
    assert len(set(theirs)) == len(set(mine)) == 200
    for half in (mine, theirs):
        assert max(half).bit_length() >= n.bit_length() - 8
    both.c2.revealed.clear()
    both.run(labels(both.c1, values))
    assert chi_square(np.bincount([t % 16 for t in both.c2.revealed], minlength=16)) < LIMIT


def everything(randomisers: RandomiserSource) -> list[bytes]:
    """Every ciphertext that C1 sends in one of each step, with all other randomness fixed."""
    seeded = SecureRandom(bytes(32))
    theirs = FreshRandomisers(KEY.public, KEY, random=SecureRandom(b"2" * 32))
    c1 = Cloud1(Cipher(KEY.public, randomisers), seeded)
    both = Inline(c1, Cloud2(Cipher(KEY.public, theirs), KEY))
    inputs = Cipher(KEY.public, theirs)
    w = Widths.of(Parameters(6, 2, 3, 10, Fraction(0)))

    def columns(table: np.ndarray) -> list[Ciphertexts]:
        return [inputs.encrypt(column) for column in table.T.tolist()]

    g = np.random.default_rng(4)
    both.c2.shares["all"] = g.integers(0, 1 << 64, (2, 2), np.uint64)
    taken = both.run(ingest(c1, "all", 0, g.integers(0, 1 << 64, (2, 2), np.uint64), 10))
    old = Clusters(columns(g.integers(0, 20, (3, 2))), inputs.encrypt([2, 2, 2]))
    scaled = both.run(scale(c1, old.sums, old.sizes, w))
    assigned = both.run(assign(c1, taken, scaled, w))
    new = both.run(reseed(c1, Clusters.from_flat(assigned.sums, 2), old, w))
    both.run(setc(c1, old, new, Fraction(1), w))
    members = Ciphertexts.concat([c1.cipher.sum(column) for column in assigned.hot] * 2)
    told = both.run(large(c1, Clusters.from_flat(assigned.sums, 2), 2, w, members, 2))
    both.run(output(c1, Ciphertexts.concat([each.flat() for each in told])))
    both.run(labels(c1, assigned.index))
    width = KEY.public.ciphertext_bytes
    return [
        bytes(row)
        for ask in both.asked
        for array in ask.arrays
        if array.ndim == 2 and array.shape[1] == width
        for row in array
    ]


def test_every_ciphertext_that_c1_sends_is_re_randomised():
    """C2 can read a ciphertext's randomness: with another randomiser each must be another number.

    Two runs draw the same masks, coins and permutations and get the same answers; only C1's
    randomisers differ. Whatever C1 sends without one would be equal in both.
    """
    first, second = (
        everything(FreshRandomisers(KEY.public, random=SecureRandom(seed * 32)))
        for seed in (b"a", b"b")
    )
    assert len(first) == len(second) > 200
    assert all(a != b for a, b in zip(first, second, strict=True))


def test_jobs_do_not_use_short_exponents():
    """C2 knows p and q: exponents shorter than n would let it tell randomisers apart."""
    for source in (FreshRandomisers(KEY.public), suites._randomisers(KEY.public, None, None)):
        assert source._exponent_bits >= KEY.public.bits + 64
