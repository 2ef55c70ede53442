"""Traffic between the clouds in whole jobs: sizes that reveal nothing, uniform bytes."""

from collections import Counter

import numpy as np
import pytest

from ppodc.kmeans.reference import kmeans
from ppodc.kmeans.shares import demand as demand_module
from ppodc.kmeans.shares.half import SharesHalf
from ppodc.kmeans.shares.ingest import Shard
from ppodc.kmeans.shares.products import TransferProducts
from ppodc.kmeans.shares.ring_sizes import Rings
from ppodc.mpc.ot.aes import Hash
from ppodc.mpc.shares import additive
from ppodc.mpc.shares.additive import AdditiveShare
from ppodc.mpc.shares.unmask import unmask
from ppodc.mpc.spill import Budget
from ppodc.records.sharing import mask, split
from ppodc.transport.channel import memory_pair
from tests.harness.together import together
from tests.kmeans.suite_jobs import Job, run_half
from tests.mpc.pair import Recorder
from tests.mpc.uniform import assert_balanced, assert_never_again, chi_square

MASKED = (
    "shares.extension",
    "shares.choices",
    "shares.digits",
    "shares.tables",
    "shares.and",
    "shares.centres",
    "shares.correlated",
    "shares.table",
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
            lambda c, role=role: run_half(c, SharesHalf(role, c, job.params), job, parts[role - 1])
            for role in (1, 2)
        ),
        channels,
    )
    return channels


@pytest.fixture(scope="module")
def skewed() -> tuple[Recorder, Recorder]:
    """All records zero: every bit, choice and comparison of the plaintext is the same."""
    return record(Job(np.zeros((640, 12), np.int64), 6, 1000, max_iter=1, min_size=5))


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
    # Chances below 10^-12 each: once in far more runs than will ever be made.
    assert chi_square(np.bincount(data >> 4, minlength=16)) < 16
    if len(data) > 256 * 20:
        assert chi_square(np.bincount(data, minlength=256)) < 9


def test_opened_bits_look_uniform_on_constant_data(skewed):
    """Opened, masked inputs of an AND look uniform to both clouds."""
    first, second = (full_words(recorder, "shares.and") for recorder in skewed)
    opened = first ^ second
    assert len(opened) > 256 * 20
    assert chi_square(np.bincount(opened, minlength=256)) < 9


def directions(sums: list[list[int]], sizes: list[int], centre: int) -> list[int]:
    """-2 (a_h - a_0) of SSED_OP with a_h = 2^C c_h, but for their last bits, by attribute."""
    rows = [
        [-2 * (value << centre) // size for value in row]
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
    bits = Rings.of(job.params).point.centre
    known = [directions(centres.tolist(), [1] * 4, bits)]
    known += [directions(i.next_sums.tolist(), i.next_sizes.tolist(), bits) for i in trace]
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
        pair.run(
            lambda session, own: TransferProducts().take_in(session, own).make(session, 0, 20, 4),
            shard,
        )
        for _ in range(2)
    ]
    for role in (0, 1):
        words = np.concatenate([both[role].matrix.limbs for both in made])
        assert_never_again(words)
        assert_balanced(words)


def test_an_output_is_masked_afresh():
    """Owners may ask twice: no half equals the other answer's, nor what the protocol used."""
    records = np.random.default_rng(5).integers(0, 101, (30, 2))
    job = Job(records, 3, 100)
    own, seed = split(records)
    parts = (own, mask(seed, 0, 30, 2))

    def run(role):
        def work(channel):
            half = SharesHalf(role, channel, job.params)
            half.ingest("all", parts[role - 1])
            state = half.records("all", [1, 2, 3])
            answers = [np.array(half.output(state)[0].values, np.uint64) for _ in range(2)]
            return np.stack([state.reshape(-1), *answers])

        return work

    first, second = together(run(1), run(2))
    expected = np.hstack([records[1:4], np.ones((3, 1), np.int64)]).reshape(-1)
    assert np.array_equal(first + second, np.tile(expected, (3, 1)))
    for halves in (first, second):
        assert_never_again(np.stack([halves[1] - halves[0], halves[2] - halves[0]]))
        assert np.all(halves[1] != halves[2])


def test_both_clouds_send_each_masked_kind(skewed):
    for recorder in skewed:
        assert {kind for kind, _ in recorder.sent} >= set(MASKED)


def test_the_shape_of_the_transcript_does_not_depend_on_the_data():
    g = np.random.default_rng(3)
    jobs = [
        Job(np.zeros((130, 2), np.int64), 4, 250, max_iter=1, min_size=40),
        Job(np.full((130, 2), 250), 4, 250, max_iter=1, seed=9, min_size=40),
        Job(g.integers(0, 251, (130, 2)), 4, 250, max_iter=1, seed=5, min_size=40),
    ]
    shapes = [[recorder.shape() for recorder in record(job)] for job in jobs]
    assert shapes[0] == shapes[1] == shapes[2]


def test_hash_tweaks_never_repeat(monkeypatch):
    """Over a whole job: an instance number serves one transfer, whatever is hashed with it."""
    used: dict[int, Counter[tuple[int, int]]] = {}
    seen: dict[int, set[tuple[int, int, bytes]]] = {}
    expand, two_bits = Hash.expand, Hash.two_bits

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

    def noted_two_bits(self, rows, offsets, first, sender):
        assert len(np.unique(offsets, axis=0)) == len(offsets)
        note(self, sender, first, rows)
        return two_bits(self, rows, offsets, first, sender)

    monkeypatch.setattr(Hash, "expand", noted_expand)
    monkeypatch.setattr(Hash, "two_bits", noted_two_bits)
    records = np.random.default_rng(1).integers(0, 4, (12, 1))
    record(Job(records, 2, 3, max_iter=2))
    assert len(used) == 2  # one hash per cloud
    for counter in used.values():
        assert len(counter) > 1000
        # Two keys of a transfer where this cloud is the sender, one where it is the receiver.
        assert max(counter.values()) <= 2
