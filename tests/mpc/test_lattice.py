"""Lattice products: exact at the extremes, noise within its bound, sizes that are safe."""

import hashlib
import random
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import WidthError, WireError
from ppodc.mpc.lattice import cipher, digit_rows, products
from ppodc.mpc.lattice.cipher import LatticeKey, Products, pack_polynomial, unpack_polynomial
from ppodc.mpc.lattice.parameters import DEGREE, LatticeParameters, choose
from ppodc.mpc.lattice.products import LatticePair
from ppodc.mpc.lattice.residues import ring_of
from ppodc.mpc.lattice.sampling import errors, ternary, uniform
from ppodc.mpc.shares.additive import AdditiveShare, integers, limbs_of
from ppodc.mpc.spill import Budget
from tests.mpc.pair import opened, share

SEED = bytes(range(32))
PUBLIC = bytes(33)
KNOWN = {
    "primes": (1073643521, 1073479681),
    "uniform": "9fe8cca5e1ee0d37",
    "small": "3f2905957c2094ea",
    "answer": "bb9cedc455d9fb08",
}


class Both:
    """Key holder and the other cloud in one place, from one seeded stream."""

    def __init__(self, p: LatticeParameters, rows: list[list[int]]) -> None:
        self.p, self.limbs = p, -(-p.width // 64)
        self.key = LatticeKey(p, PUBLIC, SecureRandom(SEED))
        self.other = Products(p, PUBLIC, self.key.public(), SecureRandom(SEED[::-1]))
        self.rows = np.array(rows, object)
        parts = []
        for term in range(p.attributes * p.digits):
            column, digit = divmod(term, p.digits)
            numbers = limbs_of(self.rows[:, column], self.limbs)
            c0 = self.key.encrypt(numbers, digit, 1 + term)
            parts.append(np.stack([c0, self.other.second_half(1 + term)]))
        self.parts = parts

    def table(self, at_a_time: int | None = None) -> Iterator[np.ndarray]:
        """Encrypted terms in groups, with zeros behind the last."""
        size = at_a_time or len(self.parts)
        for first in range(0, len(self.parts), size):
            group = self.parts[first : first + size]
            group += [np.zeros_like(group[0])] * (size - len(group))
            yield np.ascontiguousarray(np.stack(group, axis=2))

    def wrong(self, matrix: list[list[int]], at_a_time: int | None = None) -> int:
        """The number of products with a matrix (l, c) that are off by anything but -1 or 0."""
        columns = len(matrix[0])
        flat = [x for row in matrix for x in row]
        shares = AdditiveShare(limbs_of(flat, self.limbs)).reshape(-1, columns)
        expected = self.rows.dot(np.array(matrix, object)) % (1 << self.p.width)
        count = len(self.rows)
        bad, self.off = 0, set[int]()
        for part, told, own in self.other.answers(partial(self.table, at_a_time), count, shares):
            mine = self.key.open(told, count * len(part), self.limbs)
            found = np.array(integers((mine + own).limbs), object)
            off = (expected[:, part.start : part.stop].T.reshape(-1) - found) % (1 << self.p.width)
            bad += int((off > 1).sum())
            self.off |= {-int(x) for x in off}
        return bad


def extremes(p: LatticeParameters) -> list[int]:
    """Numbers at the ends of their ring and of its digits."""
    top, g = 1 << p.width, p.digit_bits
    worst = sum(1 << (g * d + g - 1) for d in range(p.digits)) % top
    return [0, 1, top - 1, top >> 1, (top >> 1) - 1, worst, worst - 1, (1 << g) - 1]


@pytest.mark.parametrize(("width", "attributes"), [(28, 2), (96, 10), (122, 10), (200, 3)])
def test_products_are_off_by_one_at_most(width, attributes):
    p, g = choose(width, attributes), random.Random(width)
    ends = extremes(p)
    draw = [lambda: g.getrandbits(width), lambda: g.choice(ends), lambda: g.randrange(1024)]
    rows = [[draw[i % 3]() for _ in range(attributes)] for i in range(700)]
    both = Both(p, rows)
    for kind in draw[:2]:
        assert both.wrong([[kind() for _ in range(6)] for _ in range(attributes)]) == 0
        assert both.off == {-1, 0}
    assert both.wrong([[ends[5]] * 5 for _ in range(attributes)]) == 0


def test_a_full_block_and_many_terms():
    """More terms than a word adds up without folding; a block of N rows packs no columns."""
    p, g = choose(40, 33), random.Random(1)
    both = Both(p, [[g.getrandbits(40) for _ in range(33)] for _ in range(5)])
    assert both.wrong([[g.getrandbits(40) for _ in range(2)] for _ in range(33)]) == 0
    assert list(cipher.layout(DEGREE, 3)) == [range(1), range(1, 2), range(2, 3)]
    assert list(cipher.layout(DEGREE // 4, 5)) == [range(4), range(4, 5)]


def test_noise_stays_within_its_bound(monkeypatch):
    """The phase of a ciphertext is off by E at most, and by a good part of it."""
    p = choose(96, 10)
    g = random.Random(8)
    rows = [[g.getrandbits(96) for _ in range(10)] for _ in range(DEGREE // 4)]
    both = Both(p, rows)
    ring = ring_of(p.primes, DEGREE)
    seen = []
    original = cipher._Scaling.scale
    monkeypatch.setattr(
        cipher._Scaling,
        "scale",
        lambda self, v: (seen.append(v.copy()), original(self, v))[1],
    )
    worst = [[extremes(p)[5]] * 4 for _ in range(10)]
    expected = both.rows.dot(np.array(worst, object)) % (1 << 96)
    targets = [(p.modulus * x + (1 << 95)) >> 96 for x in expected.T.reshape(-1)]
    assert both.wrong(worst) == 0
    c0, c1 = seen
    phase = ring.times(ring.transform(c1), both.key._secret)
    ring.add(phase, c0)
    numbers = sum(
        row.astype(object) * (pow(p.modulus // prime, -1, prime) * (p.modulus // prime))
        for row, prime in zip(phase, p.primes, strict=True)
    )
    off = [
        (x - t + p.modulus // 2) % p.modulus - p.modulus // 2
        for x, t in zip(numbers, targets, strict=True)
    ]
    assert p.noise >> 12 < max(abs(x) for x in off) <= p.noise


def test_planted_ciphertexts_and_a_false_key_return_nothing():
    """A key holder that deviates: the answer is the same bit by bit, whatever it sent before.

    Low bits of c0 in the answer would give one bit of R for each planted coefficient.
    """
    p, g = choose(96, 3), random.Random(9)
    rows = [[g.getrandbits(96) for _ in range(3)] for _ in range(300)]
    matrix = AdditiveShare(limbs_of([g.getrandbits(96) for _ in range(6)], 2)).reshape(3, 2)

    def answers(both):
        both.other._random = SecureRandom(SEED)
        made = list(both.other.answers(both.table, 300, matrix))
        return [told for _, told, _ in made], [own.limbs for *_, own in made]

    honest, planted, false = (Both(p, rows) for _ in range(3))
    step = p.modulus >> (p.width + 1)
    for i in range(96):
        for prime, row in zip(p.primes, planted.parts[0][0], strict=True):
            row[i] = (int(row[i]) + step) % prime
    lie = uniform(ring_of(p.primes, DEGREE), bytes(33), 77)
    false.other = Products(p, PUBLIC, lie, SecureRandom())
    (told, own), *others = (answers(both) for both in (honest, planted, false))
    for other_told, other_own in others:
        assert all(map(np.array_equal, told, other_told))
        assert not all(map(np.array_equal, own, other_own))  # it moved the own share alone


def test_parameters_are_safe_and_hold_their_bound():
    for width in range(8, 260, 12):
        p = choose(width, 10)
        assert p.modulus.bit_length() <= 409
        assert 16 * (p.noise << width) <= 3 * p.modulus
        assert len(set(p.primes)) == len(p.primes)
        assert all(prime % (2 * DEGREE) == 1 and prime < 1 << 30 for prime in p.primes)
    with pytest.raises(WidthError, match="transfers"):
        choose(400, 10)


def test_known_answers():
    """The public expansion, the samplers and the transform never change from release to release."""
    p = choose(96, 10)
    ring = ring_of(p.primes, DEGREE)
    a = uniform(ring, bytes(33), 3)
    stream = hashlib.shake_128(b"ppodc lattice v2" + bytes(33) + (3).to_bytes(8, "little"))
    words = np.frombuffer(stream.digest(400), "<u4") & ((1 << p.prime_bits) - 1)
    assert a[0, :20].tolist() == [int(x) for x in words if x < p.primes[0]][:20]
    assert p.primes[:2] == KNOWN["primes"]
    assert hashlib.sha256(a.tobytes()).hexdigest()[:16] == KNOWN["uniform"]
    small = ternary(SecureRandom(SEED), DEGREE)
    noise = errors(SecureRandom(SEED), DEGREE)
    assert hashlib.sha256(small.tobytes() + noise.tobytes()).hexdigest()[:16] == KNOWN["small"]
    product = ring.times(ring.transform(a), ring.fixed(ring.small(small)))
    for place in (0, 1, 77, DEGREE - 1):
        turned = np.concatenate([small[place::-1], -small[:place:-1]])
        for row, out, prime in zip(a, product, p.primes, strict=True):
            assert int((row.astype(object) * turned).sum()) % prime == int(out[place])
    both = Both(choose(28, 2), [[1, 2], [3, 4], [5, 1 << 27]])
    _, told, _ = next(
        both.other.answers(both.table, 3, AdditiveShare(limbs_of([7, 9], 1)).reshape(2, 1))
    )
    assert hashlib.sha256(told.tobytes()).hexdigest()[:16] == KNOWN["answer"]


def test_small_samples_look_as_they_should():
    small, noise = ternary(SecureRandom(), 1 << 16), errors(SecureRandom(), 1 << 16)
    assert set(small.tolist()) == {-1, 0, 1}
    assert max(abs(np.bincount(small + 1) / (1 << 16) - 1 / 3)) < 0.02
    assert abs(noise).max() <= 21
    assert abs(noise.mean()) < 0.1
    assert abs(noise.var() - 10.5) < 0.5


def test_a_ciphertext_out_of_range_is_refused():
    p = choose(28, 2)
    polynomial = np.zeros((len(p.primes), DEGREE), np.uint32)
    assert np.array_equal(unpack_polynomial(p, pack_polynomial(p, polynomial)), polynomial)
    polynomial[1, 7] = p.primes[1]
    with pytest.raises(WireError, match="out of range"):
        unpack_polynomial(p, pack_polynomial(p, polynomial))


@pytest.mark.parametrize("bits", [3, 28, 29, 111])
def test_packing_keeps_numbers(bits):
    widths = digit_rows.widths_for(bits)
    rows = np.stack([SecureRandom().uint64(77) & np.uint64((1 << w) - 1) for w in widths])
    packed = digit_rows.pack(rows, widths)
    assert len(packed) == digit_rows.packed_words(widths, 77)
    assert np.array_equal(digit_rows.unpack(packed, widths, 77), rows)


@pytest.mark.parametrize("width", [1, 4, 28, 29, 31, 32])
@pytest.mark.parametrize("count", [1, 8, 77])
def test_packing_a_single_row_gives_the_same_words(width, count):
    row = (np.arange(1, count + 1, dtype=np.uint64) * np.uint64(2654435761)) % (1 << width)
    packed = digit_rows.pack_one(row.astype(np.uint32), width)
    assert np.array_equal(packed, digit_rows.pack(row.reshape(1, -1), [width]))
    assert np.array_equal(digit_rows.unpack_one(packed, width, count), row)


@pytest.mark.parametrize(("rows", "columns"), [(50, 3), (DEGREE + 50, 1)])
def test_both_clouds_get_shares_of_the_products(pair, monkeypatch, rows, columns):
    """Of several blocks, and of terms that are read one at a time."""
    monkeypatch.setattr(products, "_READ_BYTES", 1)
    p, g = choose(96, columns), random.Random(5)
    values = [g.getrandbits(96) for _ in range(rows * columns)]
    records = share(values, 2, (rows, columns))
    matrix = share([g.getrandbits(96) for _ in range(2 * columns)], 2, (columns, 2))

    def work(session, own, part):
        both = LatticePair(session, p)
        table = both.take_in(session, lambda a, b: own[a:b], rows, Budget(1 << 20))
        blocks = range(-(-rows // DEGREE))
        found = [both.products(session, table, blocks, part) for _ in range(2)]
        session.link.settle()
        table.close()
        return AdditiveShare.concat(found)

    found = opened(pair.run(work, records, matrix))
    factors = np.array(opened(matrix), object).reshape(columns, 2)
    table = np.array(values, object).reshape(rows, columns).dot(factors)
    expected = np.concatenate([table, table]).reshape(-1)
    assert {(x - y + 1) % (1 << 96) for x, y in zip(found, expected, strict=True)} <= {0, 1, 2}


def test_products_are_exact_whatever_is_read_at_a_time():
    p, g = choose(96, 5), random.Random(6)
    both = Both(p, [[g.getrandbits(96) for _ in range(5)] for _ in range(7)])
    matrix = [[g.getrandbits(96) for _ in range(9)] for _ in range(5)]
    assert [both.wrong(matrix, size) for size in (1, 2, 3, 100)] == [0, 0, 0, 0]


def test_products_are_exact_whatever_is_summed_at_a_time(monkeypatch):
    monkeypatch.setattr(cipher, "_SUMS_BYTES", 1)
    p, g = choose(28, 2), random.Random(7)
    both = Both(p, [[g.getrandbits(28), 1] for _ in range(3)])
    assert both.wrong([[g.getrandbits(28) for _ in range(11)] for _ in range(2)]) == 0
