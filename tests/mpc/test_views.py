"""One cloud's view of the engine's steps: balanced bits, and no mask a second time."""

import numpy as np
import pytest

from ppodc.mpc.lattice.parameters import DEGREE, choose
from ppodc.mpc.lattice.products import LatticePair
from ppodc.mpc.shares import bounded, compare, look_up, multiply, select
from ppodc.mpc.shares.additive import AdditiveShare
from ppodc.mpc.spill import Budget
from ppodc.mpc.supplies import Needs
from tests.mpc.pair import Pair
from tests.mpc.uniform import assert_balanced, assert_never_again, chi_square


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


def zero_select(session):
    rows = AdditiveShare(np.zeros((1, 1, 1), np.uint64))
    return select.select(session, np.zeros(8192, np.uint8), rows)


def zero_multiply(session):
    zero = AdditiveShare(np.zeros((64, 2), np.uint64))
    return multiply.multiply(session, zero, zero)


def zero_compare(session):
    return compare.sign(session, AdditiveShare(np.zeros((1024, 2), np.uint64)), 100)


def zero_quick_compare(session):
    return compare.sign(session, AdditiveShare(np.zeros((1024, 2), np.uint64)), 100, slow=True)


def zero_bounded(session):
    return bounded.bounded(session, np.zeros(8192, np.uint64), 10, 1000, 1, 8)


def zero_extension(session):
    return list(session.ot.chosen([np.zeros(128, np.uint64)]))


def zero_look_up(session):
    def table(_, count):
        return np.zeros((count, 1), np.uint64)

    return look_up.look_up(session, np.zeros(2, np.uint64), 8, table, 1)


def zero_lattice(session):
    """Encrypted zeros times zeros: an answer is half of a fresh encryption of zero."""
    zeros = AdditiveShare(np.zeros((DEGREE, 1, 2), np.uint64))
    pair = LatticePair(session, choose(96, 1))
    table = pair.take_in(session, lambda a, b: zeros[a:b], DEGREE, Budget(1 << 30))
    found = pair.products(session, table, range(1), AdditiveShare(np.zeros((1, 1, 2), np.uint64)))
    session.link.settle()
    return found


SUPPLIES = Needs(leaves=25 * 512 * 2, pairs=900, transfers=3 * 4096)  # for any one of these
ZERO_STEPS = pytest.mark.parametrize(
    ("step", "kinds"),
    [
        (zero_select, ["shares.choices", "shares.correlated"]),
        (zero_multiply, ["shares.choices", "shares.correlated"]),
        (zero_compare, ["shares.digits", "shares.tables"]),
        (zero_quick_compare, ["shares.digits", "shares.tables"]),
        (zero_bounded, ["shares.digits", "shares.tables", "shares.choices", "shares.correlated"]),
        (zero_extension, ["shares.extension"]),
        (zero_look_up, ["shares.table"]),
        (zero_lattice, ["shares.lattice-answer"]),
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
    """For zeros a cloud sends the mask itself (a table: the mask and a constant)."""
    run_twice(pair, step)
    for kind in kinds:
        words = [whole_words(recorder.bytes_of(kind)) for recorder in pair.channels]
        assert_never_again(np.concatenate(words), kind)


@pytest.mark.parametrize(
    ("step", "kind"), [(zero_compare, "shares.and"), (zero_quick_compare, "shares.join")]
)
def test_no_and_mask_is_used_twice(pair, step, kind):
    """Every digit of zeros is neither greater nor equal, so what is opened is the mask."""
    run_twice(pair, step)
    first, second = (whole_words(recorder.bytes_of(kind)) for recorder in pair.channels)
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
            assert chi_square(np.bincount(data >> 4, minlength=16)) < 16, kind
