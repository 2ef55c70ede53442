"""Messages that are received later, and the order in which they come."""

import numpy as np

from ppodc.mpc.messages import PeerLink
from tests.harness.together import together


def told(link, number):
    return int(link.receive("a number", np.uint8, 1)[0]) == number


def both(work):
    return together(lambda c: work(PeerLink(c)), lambda c: work(PeerLink(c)))


def send(link, number):
    link.send("a number", np.array([number], np.uint8))


def test_what_is_received_later_comes_with_the_next_message_and_takes_no_round():
    def work(link):
        found = []
        for number in (1, 2):
            send(link, number)
            link.receive_later(lambda number=number: found.append(told(link, number)))
        send(link, 3)
        assert found == [True]  # only one at a time waits
        assert told(link, 3)
        assert found == [True, True]
        link.settle()
        return len(found), link.channel.traffic.rounds

    assert both(work) == ((2, 2), (2, 2))


def test_what_is_received_later_waits_while_other_messages_travel_beside():
    def beside(link, found):
        send(link, 2)
        yield
        assert told(link, 2)
        assert not found

    def work(link):
        found = []
        send(link, 1)
        link.receive_later(lambda: found.append(told(link, 1)))
        link.do_beside(beside(link, found))
        link.turn()
        link.finish_beside()
        link.settle()
        return found

    assert both(work) == ([True], [True])
