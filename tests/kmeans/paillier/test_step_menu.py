"""C2's answers by step, how often it gives them, and to whom."""

from fractions import Fraction

import numpy as np
import pytest

from ppodc.crypto.paillier import SecretKey, generate_insecure
from ppodc.crypto.randomisers import FreshRandomisers
from ppodc.errors import ChannelError, InputError, PeerError, PpodcError, WireError
from ppodc.kmeans.paillier import exchange, output
from ppodc.kmeans.paillier.compare import sc
from ppodc.kmeans.paillier.exchange import StepMenu
from ppodc.kmeans.paillier.half import Half1, Half2
from ppodc.kmeans.paillier.sbd import public_bits
from ppodc.kmeans.parameters import Parameters
from ppodc.records.sharing import mask, split
from tests.harness.together import together

KEY = generate_insecure(256)
RECORDS = np.array([[1], [2], [8], [9]])
PARAMS = Parameters(4, 1, 2, 9, Fraction(0))


def first_half(channel, key=KEY.public, params=PARAMS):
    return Half1(channel, params, key, FreshRandomisers(key))


def second_half(channel, secret=KEY, params=PARAMS):
    return Half2(channel, params, secret, FreshRandomisers(secret.public, secret))


def curious(step, question):
    """C1 asks `question` in the middle of a step that C2 is in; the words it gets back."""
    share, seed = split(RECORDS)

    def first(channel):
        half = first_half(channel)
        half.ingest("all", share)
        if step == "labels":
            half.assign("all", half.centres(np.array([[1], [9]])))
        with pytest.raises(PeerError) as caught:
            exchange.run([question(half)], half._requests)
        return str(caught.value)

    def second(channel):
        half = second_half(channel)
        half.ingest("all", mask(seed, 0, *RECORDS.shape))
        if step == "labels":
            half.assign("all", np.zeros((0, 0), np.uint8))
        empty = np.zeros((0, 0), np.uint8)
        arguments = {"assign": ("all", empty), "update": (empty,) * 3, "output": (empty,)}
        with pytest.raises(WireError):
            getattr(half, step)(*arguments.get(step, ("all",)))

    return together(first, second)[0]


def compared(half, width):
    """SC about two numbers that C1 wants to know of."""
    bits = public_bits(half.c1, 1, width, 1)
    return sc(half.c1, bits, bits)


@pytest.mark.parametrize("step", ["assign", "output", "labels"])
def test_no_step_but_update_reveals_a_comparison(step):
    words = curious(step, lambda half: compared(half, half.widths.stop))
    assert f"no more, a question of {step}" in words


def test_update_reveals_only_a_comparison_of_the_width_of_the_stop_test():
    assert "question of update" in curious("update", lambda half: compared(half, 3))


def test_update_reveals_one_comparison():
    def twice(half):
        for _ in range(2):
            yield from compared(half, half.widths.stop)

    assert "reveal for" in curious("update", twice)


@pytest.mark.parametrize("count", [3, 5])
def test_an_output_has_as_many_values_as_the_job(count):
    words = curious("output", lambda half: output.output(half.c1, half.c1.constant(1, count)))
    assert f"output for {count} is not" in words


def test_there_are_as_many_labels_as_records():
    words = curious("labels", lambda half: output.labels(half.c1, half.c1.constant(1, 5)))
    assert "labels for 5 is not" in words


def test_masked_values_go_to_c2_in_the_output_alone():
    words = curious("assign", lambda half: output.output(half.c1, half.c1.constant(1, 4)))
    assert "question of assign" in words


def test_a_step_without_all_that_belongs_to_it_is_no_step():
    menu = StepMenu("update", once={"reveal": 9, "stop": 1}, pieces={"labels": 3})
    menu.take("reveal", 9)
    menu.take("labels", 2)
    with pytest.raises(ChannelError, match="before it had asked"):
        menu.check_finished()
    menu.take("stop", 1)
    menu.take("labels", 1)
    menu.check_finished()
    for op, amount in (("reveal", 9), ("labels", 1), ("labels", 0), ("output", 1)):
        with pytest.raises(WireError, match="update"):
            menu.take(op, amount)


@pytest.mark.parametrize("what", ["key", "job", "threshold"])
def test_halves_of_different_keys_or_jobs_do_not_begin(what):
    other = generate_insecure(256)
    key = other.public if what == "key" else KEY.public
    params = {
        "job": Parameters(4, 1, 2, 8, Fraction(0)),
        "threshold": Parameters(4, 1, 2, 9, Fraction(0), 3),
    }.get(what, PARAMS)
    with pytest.raises(PpodcError, match="different jobs or keys"):
        together(lambda channel: first_half(channel, key, params), second_half)


def test_a_key_whose_factors_nobody_knows_is_refused():
    weak = SecretKey(KEY.p, KEY.q)
    with pytest.raises(InputError, match=r"unknown.*ppodc key"):
        second_half(None, weak)
