"""Both halves of a pair are about to do the same tasks, and neither waits to hear so."""

import pytest

from ppodc.errors import ChannelError
from ppodc.pairs.plan import Step, Task
from ppodc.pairs.tasks import agreed
from tests.harness.together import together

STEP = Step(5, "assign", 3)
TASKS = [Task("records", ("a",), (7,)), Task("assign", ("a", "b"), (1,))]


def half(tasks, got, met=lambda _: None):
    def work(channel):
        with agreed(channel, STEP, 1, tasks, met):
            channel.send("x")
            got.append(channel.receive("x"))
        return channel.traffic.rounds

    return work


def test_all_tasks_of_a_call_share_the_first_wait_with_what_they_do_first():
    met, got = [], []
    note = half(TASKS, got, lambda _: met.append(len(got)))
    assert together(note, half(TASKS, [])) == (1, 1)
    assert met == [0]  # the other half's tasks were compared before anything of theirs was used


def test_tasks_that_receive_nothing_are_compared_at_their_end():
    def local(channel):
        with agreed(channel, STEP, 1, TASKS[:1]):
            pass

    def other(channel):
        with agreed(channel, STEP, 2, TASKS[:1]):
            pass

    together(local, local)
    with pytest.raises(ChannelError, match="out of step"):
        together(local, other)


@pytest.mark.parametrize("other", [TASKS[:1], TASKS[1:], [TASKS[0], Task("assign", ("a",), (1,))]])
def test_halves_out_of_step_use_nothing_of_each_other(other):
    got = []
    with pytest.raises(ChannelError, match="the clouds are out of step"):
        together(half(TASKS, got), half(other, got))
    assert not got
