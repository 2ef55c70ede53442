"""What crosses between the clouds: sizes that tell nothing, bytes that look uniform, no reuse."""

import math
from collections import Counter

import numpy as np
import pytest

from ppodc.kmeans.reference import kmeans
from ppodc.kmeans.shares import demand as demand_module
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.ingest import Shard
from ppodc.kmeans.shares.products import TransferProducts
from ppodc.mpc import additive, compare, digit_ot, multiply, select
from ppodc.mpc.additive import AdditiveShare
from ppodc.mpc.aes import Hash
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from ppodc.mpc.unmask import unmask
from ppodc.records.sharing import mask, split
from ppodc.transport.channel import memory_pair
from tests.kmeans.suite_jobs import Job, run_half
from tests.mpc.pair import Pair, Recorder, key
from tests.two_clouds import together

MASKED = (
    "shares.extension",
    "shares.choices",
    "shares.digits",
    "shares.tables",
    "shares.and",
    "shares.centres",
    "shares.correlated",
)


def record(job: Job) -> tuple[Recorder, Recorder]:
    """Both clouds' messages in a whole job."""
    ends = memory_pair()
    channels = (Recorder(ends[0]), Recorder(ends[1]))
    m, l = job.records.shape
    share, seed = split(job.records)
    parts = (share, mask(seed, 0, m, l))
    together(
        *(
            lambda c, role=role: run_half(
                SharesHalf(role, c, job.params, key(role)), job, parts[role - 1]
            )
            for role in (1, 2)
        ),
        channels,
    )
    return channels


@pytest.fixture(scope="module")
def skewed() -> tuple[Recorder, Recorder]:
    """All records zero: every bit, choice and comparison of the plaintext is the same."""
    return record(Job(np.zeros((640, 12), np.int64), 6, 1000, max_iter=1))


def chi_square(counts: np.ndarray) -> float:
    """Standard deviations by which a chi-square statistic exceeds its mean."""
    expected = counts.sum() / len(counts)
    statistic = ((counts - expected) ** 2 / expected).sum()
    freedom = len(counts) - 1
    return float((statistic - freedom) / np.sqrt(2 * freedom))


def full_words(recorder: Recorder, kind: str) -> np.ndarray:
    """Bytes of messages of a kind, without the last word, which may be padding."""
    parts = []
    for sent, arrays in recorder.sent:
        for array in arrays if sent == kind else ():
            data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            parts.append(data[:-8] if kind == "shares.choices" else data)
    return np.concatenate(parts)


@pytest.mark.parametrize("kind", MASKED)
@pytest.mark.parametrize("role", [1, 2])
def test_what_is_sent_looks_uniform_on_constant_data(skewed, kind, role):
    data = full_words(skewed[role - 1], kind)
    assert len(data) > 256
    bits = np.unpackbits(data)
    assert abs(bits.mean() - 0.5) < 8 * 0.5 / np.sqrt(len(bits))
    # Chances below 2^-30 each: once in far more runs than will ever be made.
    assert chi_square(np.bincount(data >> 4, minlength=16)) < 12
    if len(data) > 256 * 20:
        assert chi_square(np.bincount(data, minlength=256)) < 9


def test_opened_bits_look_uniform_on_constant_data(skewed):
    """What both clouds see when the masked inputs of an AND are opened."""
    first, second = (full_words(recorder, "shares.and") for recorder in skewed)
    opened = first ^ second
    assert len(opened) > 256 * 20
    assert chi_square(np.bincount(opened, minlength=256)) < 9


def assert_balanced(words: np.ndarray, what: str = "") -> None:
    """As many ones as zeros, and all sixteen digits alike; chances below 2^-30."""
    data = np.ascontiguousarray(words).reshape(-1).view(np.uint8)
    bits = np.unpackbits(data)
    assert len(bits) >= 1024, what
    assert abs(bits.mean() - 0.5) < 8 * 0.5 / np.sqrt(len(bits)), what
    digits = np.concatenate([data >> 4, data & 15])
    assert chi_square(np.bincount(digits, minlength=16)) < 12, what


def assert_never_again(words: np.ndarray, what: str = "") -> None:
    """Masks of 64 bits: none is zero, none occurs twice."""
    assert words.dtype == np.uint64
    assert np.all(words != 0), what
    assert len(np.unique(words)) == words.size, what


def directions(sums: list[list[int]], sizes: list[int]) -> list[int]:
    """V_h - V_0 of SSED_OP with V_h = -2 alpha alpha_h lambda_h, attribute by attribute."""
    alpha = math.prod(sizes)
    rows = [
        [-2 * alpha * (alpha // size) * value for value in row]
        for row, size in zip(sums, sizes, strict=True)
    ]
    return [row[s] - rows[0][s] for s in range(len(rows[0])) for row in rows[1:]]


def test_opened_centres_are_masked_afresh_in_every_chunk_and_iteration(monkeypatch):
    """With public centres all V are known: what was opened gives away R, which serves once."""
    monkeypatch.setattr(demand_module, "CHUNK_ROWS", 40)
    g = np.random.default_rng(4)
    records, centres = g.integers(0, 1001, (150, 3)), g.integers(0, 1001, (4, 3))
    job = Job(records, 4, 1000, max_iter=3, centres=centres)
    trace = kmeans(records, 4, beta=job.beta, max_iter=3, seed=job.seed, centres=centres).iterations
    sent = [
        [arrays[0] for kind, arrays in recorder.sent if kind == "shares.centres"]
        for recorder in record(job)
    ]
    known = [directions(centres.tolist(), [1] * 4)]
    known += [directions(np.asarray(i.sums).tolist(), np.asarray(i.sizes).tolist()) for i in trace]
    assert len(trace) >= 2
    assert len(sent[0]) == len(sent[1]) == 4 * len(trace)
    seen, masks = [], []
    for call, (own, other) in enumerate(zip(*sent, strict=True)):
        opened = AdditiveShare(own) + AdditiveShare(other)
        values = additive.limbs_of(known[call // 4], own.shape[-1]).reshape(own.shape)
        seen.append(opened.limbs)
        masks.append((AdditiveShare(values) - opened).limbs)
    for words in (np.concatenate(seen), np.concatenate(masks)):
        assert_never_again(words)
        assert_balanced(words)


def test_random_matrices_are_drawn_anew_by_both_clouds(pair):
    shard = pair.run(
        lambda session, part: Shard(unmask(session, part, 4, Budget(1 << 20), limbs=2), 8),
        (np.zeros((20, 3), np.uint64), np.zeros((20, 3), np.uint64)),
    )
    made = [
        pair.run(lambda session, own: TransferProducts().make(session, own, 0, 20, 4), shard)
        for _ in range(2)
    ]
    for role in (0, 1):
        words = np.concatenate([both[role].matrix.limbs for both in made])
        assert_never_again(words)
        assert_balanced(words)


@pytest.mark.parametrize(("word", "greater"), [(0, 0), (2**64 - 1, 1)])
def test_what_a_cloud_has_of_compared_digits_tells_nothing(pair, word, greater):
    """Constant digits: the sender's masks alone, and what the receiver gets alone, are balanced."""
    values = np.full((512, 2), word, np.uint64)
    (sent1, got1), (sent2, got2) = pair.run(
        lambda session: compare._digits(session, values, values, 100)
    )
    for sent, got in ((sent1, got2), (sent2, got1)):
        for share in (sent, got):
            assert_never_again(share)
            for plane in share:  # greater, equal
                assert_balanced(plane)
        joined = sent ^ got
        assert np.all(joined[0] == np.uint64(greater * (2**64 - 1)))
        assert np.all(joined[1] == 0)


def test_an_output_is_masked_afresh():
    """Owners may ask twice: no half equals the other answer's, nor what the protocol used."""
    records = np.random.default_rng(5).integers(0, 101, (30, 2))
    job = Job(records, 3, 100)
    own, seed = split(records)
    parts = (own, mask(seed, 0, 30, 2))

    def run(role):
        def work(channel):
            half = SharesHalf(role, channel, job.params, key(role))
            half.ingest("all", parts[role - 1])
            state = half.records("all", [1, 2, 3])
            answers = [np.array(half.output(state).values, np.uint64) for _ in range(2)]
            return np.stack([state.reshape(-1), *answers])

        return work

    first, second = together(run(1), run(2))
    expected = np.hstack([records[1:4], np.ones((3, 1), np.int64)]).reshape(-1)
    assert np.array_equal(first + second, np.tile(expected, (3, 1)))
    for halves in (first, second):
        assert_never_again(np.stack([halves[1] - halves[0], halves[2] - halves[0]]))
        assert np.all(halves[1] != halves[2])


def zero_select(session):
    rows = AdditiveShare(np.zeros((1, 1, 1), np.uint64))
    return select.select(session, np.zeros(8192, np.uint8), rows)


def zero_multiply(session):
    zero = AdditiveShare(np.zeros((64, 2), np.uint64))
    return multiply.multiply(session, zero, zero)


def zero_compare(session):
    return compare.sign(session, AdditiveShare(np.zeros((1024, 2), np.uint64)), 100)


def zero_extension(session):
    return session.ot.extend(np.zeros(128, np.uint64))


SUPPLIES = Needs(leaves=25 * 512, pairs=500, transfers=8192)  # for any one of these
ZERO_STEPS = pytest.mark.parametrize(
    ("step", "kinds"),
    [
        (zero_select, ["shares.choices", "shares.correlated"]),
        (zero_multiply, ["shares.choices", "shares.correlated"]),
        (zero_compare, ["shares.digits", "shares.tables"]),
        (zero_extension, ["shares.extension"]),
    ],
)


def whole_words(data: np.ndarray) -> np.ndarray:
    return data[: len(data) // 8 * 8].view(np.uint64)


def run_twice(pair, step):
    """The messages of two runs, with supplies that were made in one go."""
    pair.run(lambda session: session.supplies.reserve(SUPPLIES * 2))
    for recorder in pair.channels:
        recorder.sent.clear()
    for _ in range(2):
        pair.run(step)


@ZERO_STEPS
def test_no_mask_is_used_twice(pair, step, kinds):
    """What a cloud sends of zeros is the mask itself (a table: the mask and a constant)."""
    run_twice(pair, step)
    for kind in kinds:
        words = [whole_words(recorder.bytes_of(kind)) for recorder in pair.channels]
        assert_never_again(np.concatenate(words), kind)


def test_no_and_mask_is_used_twice(pair):
    """Every digit of zeros is neither greater nor equal, so what is opened is the mask."""
    run_twice(pair, zero_compare)
    first, second = (whole_words(recorder.bytes_of("shares.and")) for recorder in pair.channels)
    assert len(first) > 1000
    assert_never_again(first ^ second)
    assert_balanced(first ^ second)


@ZERO_STEPS
def test_a_cloud_whose_own_share_is_all_zeros_does_not_show_it(step, kinds):
    """Choice bits and digits that are all zero at this cloud: only the masks are seen."""
    pair = Pair()
    pair.run(lambda session: session.supplies.reserve(SUPPLIES))
    for recorder in pair.channels:
        recorder.sent.clear()
    pair.run(step)
    for recorder in pair.channels:
        for kind in kinds:
            data = recorder.bytes_of(kind)
            assert len(data) >= 1024
            bits = np.unpackbits(data)
            assert abs(bits.mean() - 0.5) < 8 * 0.5 / np.sqrt(len(bits)), kind
            assert chi_square(np.bincount(data >> 4, minlength=16)) < 12, kind


def test_both_clouds_send_each_masked_kind(skewed):
    for recorder in skewed:
        assert {kind for kind, _ in recorder.sent} >= set(MASKED)


def test_the_shape_of_the_transcript_does_not_depend_on_the_data():
    g = np.random.default_rng(3)
    jobs = [
        Job(np.zeros((130, 2), np.int64), 4, 255, max_iter=1),
        Job(np.full((130, 2), 255), 4, 255, max_iter=1, seed=9),
        Job(g.integers(0, 256, (130, 2)), 4, 255, max_iter=1, seed=5),
    ]
    shapes = [[recorder.shape() for recorder in record(job)] for job in jobs]
    assert shapes[0] == shapes[1] == shapes[2]


def test_hash_tweaks_never_repeat(monkeypatch):
    """Over a whole job: an instance number serves one transfer, whatever is hashed with it."""
    used: dict[int, Counter[tuple[int, int]]] = {}
    seen: dict[int, set[tuple[int, int, bytes]]] = {}
    expand, tables = Hash.expand, digit_ot._tables

    def note(hasher, sender, first, keys):
        counter, pairs = used.setdefault(id(hasher), Counter()), seen.setdefault(id(hasher), set())
        for i, row in enumerate(np.ascontiguousarray(keys)):
            counter[sender, first + i] += 1
            entry = (sender, first + i, row.tobytes())
            assert entry not in pairs, "a key was hashed twice under one tweak"
            pairs.add(entry)

    def noted_expand(self, keys, first, sender, blocks=1, out=None):
        note(self, sender, first, keys)
        return expand(self, keys, first, sender, blocks, out)

    def noted_tables(ot, combined, first):
        note(ot.hash, ot.role, first, combined)
        return tables(ot, combined, first)

    monkeypatch.setattr(Hash, "expand", noted_expand)
    monkeypatch.setattr(digit_ot, "_tables", noted_tables)
    records = np.random.default_rng(1).integers(0, 4, (12, 1))
    record(Job(records, 2, 3, max_iter=2))
    assert len(used) == 2  # one hash per cloud
    for counter in used.values():
        assert len(counter) > 1000
        # Two keys of a transfer where this cloud is the sender, one where it is the receiver.
        assert max(counter.values()) <= 2
