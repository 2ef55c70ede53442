"""Base transfers and trees: what honest ends get, and what a peer that deviates gets."""

import numpy as np
import pytest

from ppodc.crypto.random_stream import SecureRandom
from ppodc.errors import CheckError, PpodcError, WireError
from ppodc.mpc.ot import base_ot, trees
from ppodc.mpc.ot.base_ot import BaseReceiver
from ppodc.mpc.session import Session
from tests.harness.together import together
from tests.mpc.pair import JOB

SID = bytes(range(32))
EVERY = np.arange(base_ot.COUNT)


def bits(seed: int, count: int = base_ot.COUNT) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, count).astype(np.uint8)


def test_base_transfers_give_the_chosen_of_two_keys():
    choices = bits(3)
    base = BaseReceiver.ask(SID, choices, SecureRandom())
    pairs, answers = base_ot.answer(SID, base.questions)
    chosen = base.open(SID, answers)
    assert np.array_equal(chosen, pairs[EVERY, choices])
    assert not np.any(np.all(chosen == pairs[EVERY, 1 - choices], axis=1))
    # another session's answers are of no use in this one
    assert not np.any(np.all(base.open(bytes(32), answers) == chosen, axis=1))


def test_a_question_looks_the_same_for_both_choices():
    """Each of the two vectors is uniform: the mean of 98,304 numbers below 3329, six deviations."""
    questions = BaseReceiver.ask(SID, bits(4), SecureRandom(bytes(32))).questions
    for place in (0, 1):
        start = 32 + place * base_ot.VECTOR_BYTES
        data = questions[:, start : start + base_ot.VECTOR_BYTES].tobytes()
        numbers = base_ot._numbers(data)
        deviation = base_ot.PRIME / np.sqrt(12 * len(numbers))
        assert abs(numbers.mean() - (base_ot.PRIME - 1) / 2) < 6 * deviation


def test_a_question_out_of_range_is_refused():
    questions = BaseReceiver.ask(SID, bits(5), SecureRandom()).questions
    questions[7, 32:34] = 255  # a number of 4095
    with pytest.raises(WireError, match="out of range"):
        base_ot.answer(SID, questions)


def test_a_false_answer_changes_only_the_key_that_it_carries():
    choices = bits(6)
    base = BaseReceiver.ask(SID, choices, SecureRandom())
    pairs, answers = base_ot.answer(SID, base.questions)
    answers[:, 5] ^= 1  # of ct_0
    right = np.all(base.open(SID, answers) == pairs[EVERY, choices], axis=1)
    assert np.array_equal(right, choices == 1)


def both_ends(seed: int, count: int = 32):
    g = np.random.default_rng(seed)
    delta = bits(seed, 4 * count)
    pairs = g.integers(0, 2**64, (4 * count, 2, 2), np.uint64)
    chosen = pairs[np.arange(4 * count), trees.choices_for(delta)]
    return delta, chosen, *trees.grow(b"name", pairs, SecureRandom(bytes([seed]) * 32))


@pytest.mark.parametrize("blocks", [0, trees.BLOCKS])
def test_the_sender_lacks_exactly_the_leaf_of_its_delta(blocks, monkeypatch):
    monkeypatch.setattr(trees, "BLOCKS", blocks)  # by the library, by the processor
    delta, chosen, full, message = both_ends(7)
    known = trees.punctured(b"name", delta, chosen, message)
    names = delta.reshape(-1, 4) @ (1, 2, 4, 8)
    same = np.all(known == full, axis=2)
    assert np.array_equal(same, names[:, None] != np.arange(16))
    assert len(np.unique(full.reshape(-1, 2), axis=0)) == 512


def test_both_ways_of_growing_give_the_same_trees(monkeypatch):
    first = both_ends(8)
    monkeypatch.setattr(trees, "BLOCKS", 0)
    second = both_ends(8)
    assert np.array_equal(first[2], second[2])
    assert all(map(np.array_equal, first[3].arrays, second[3].arrays))


@pytest.mark.parametrize("level", range(4))
def test_a_false_correction_passes_only_for_the_paths_it_was_made_for(level):
    """A tree's level guesses one bit of its secret: the check passes where the guess is right."""
    for seed in range(20):
        delta, chosen, _, message = both_ends(seed, 1)
        side = seed & 1
        message.corrections[0, level, side, 0] ^= 1
        if trees.choices_for(delta)[level] == side:
            with pytest.raises(CheckError, match="do not fit their check"):
                trees.punctured(b"name", delta, chosen, message)
        else:
            trees.punctured(b"name", delta, chosen, message)


@pytest.mark.parametrize("part", ["totals", "digests"])
def test_a_false_check_of_a_tree_is_caught(part):
    delta, chosen, _, message = both_ends(9)
    arrays = {"totals": message.totals.copy(), "digests": message.digests.copy()}
    arrays[part][3, 1] ^= 1
    false = trees.TreeMessage(message.corrections, arrays["totals"], arrays["digests"])
    with pytest.raises(CheckError):
        trees.punctured(b"name", delta, chosen, false)
    with pytest.raises(CheckError):
        trees.punctured(b"another name", delta, chosen, message)


@pytest.mark.parametrize(("liar", "kind"), [(1, "shares.base-answer"), (1, "shares.trees")])
def test_altered_messages_of_the_start_end_the_session_at_both_clouds(liar, kind):
    """All 128 answers, or all corrections, of one side false: the guess of 128 bits fails."""

    def alter(channel):
        send = channel.send

        def sending(name, body=None, arrays=()):
            if name == kind:
                arrays = [np.array(array) for array in arrays]
                arrays[0].view(np.uint8).reshape(len(arrays[0]), -1)[:, 3] ^= 1
            send(name, body, arrays)

        channel.send = sending
        return Session.start(liar, channel, JOB)

    with pytest.raises(PpodcError, match="do not fit their check"):
        together(alter, lambda c: Session.start(3 - liar, c, JOB))
