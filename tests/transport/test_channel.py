"""Order, numbering, errors and counting of a channel, over the in-memory pair."""

import threading
from collections.abc import Callable

import numpy as np
import pytest

from ppodc.errors import ChannelError, PeerError, WireError
from ppodc.transport import channel as channel_module
from ppodc.transport import wire
from ppodc.transport.channel import MemoryChannel, Traffic, memory_pair
from ppodc.transport.wire import Body
from tests.harness.patience import LONG


class Size(Body, frozen=True):
    rows: int


@pytest.fixture
def pair() -> tuple[MemoryChannel, MemoryChannel]:
    return memory_pair(timeout=LONG)


def inject(channel: MemoryChannel, parts: list[wire.Part]) -> None:
    """Put parts on the wire as a faulty peer or network would."""
    channel._put(parts)


def frame(channel: MemoryChannel, seq: int, session: bytes | None = None) -> list[wire.Part]:
    return wire.encode(session or channel.session, seq, "k", wire.encode_body(None))


def read_two(channel: MemoryChannel) -> None:
    channel.receive("k")
    channel.receive("k")


def test_messages_arrive_in_order_with_body_and_arrays(pair) -> None:
    one, two = pair
    data = np.arange(12, dtype=np.uint64).reshape(3, 4)
    one.send("size", Size(3))
    one.send("data", arrays=[data, data[:, :2]])
    two.send("back")
    assert two.receive("size", Size).body.rows == 3
    got = two.receive("data")
    np.testing.assert_array_equal(got.arrays[0], data)
    np.testing.assert_array_equal(got.arrays[1], data[:, :2])
    one.receive("back")


def test_arrays_may_be_changed_after_sending(pair) -> None:
    one, two = pair
    data = np.zeros(4, np.uint8)
    one.send("k", arrays=[data])
    data[:] = 9
    np.testing.assert_array_equal(two.receive("k").arrays[0], np.zeros(4))


def test_received_arrays_are_read_only(pair) -> None:
    one, two = pair
    one.send("k", arrays=[np.zeros(4, np.uint8)])
    with pytest.raises(ValueError, match="read-only"):
        two.receive("k").arrays[0][0] = 1


def test_traffic_and_rounds(pair) -> None:
    one, two = pair
    one.send("a", arrays=[np.zeros(1000, np.uint8)])
    one.send("b")
    two.receive("a")
    before = two.traffic.snapshot()
    two.receive("b")
    two.send("c")
    one.receive("c")
    assert one.traffic.bytes_sent == two.traffic.bytes_received > 1000
    assert one.traffic.bytes_received == two.traffic.bytes_sent > 0
    assert (one.traffic.messages_sent, one.traffic.messages_received) == (2, 1)
    assert (one.traffic.rounds, two.traffic.rounds) == (1, 0)
    assert (two.traffic - before).messages_received == 1
    assert before.messages_sent == 0
    assert Traffic() - Traffic() == Traffic()


def test_rounds_count_switches_not_messages(pair) -> None:
    one, two = pair
    for _ in range(3):
        one.send("a")
        one.send("a")
        two.receive("a")
        two.receive("a")
        two.send("b")
        two.send("b")
        one.receive("b")
        one.receive("b")
    assert one.traffic.rounds == 3
    assert two.traffic.rounds == 2


def test_messages_beside_others_keep_their_own_order_and_are_no_rounds(pair) -> None:
    one, two = pair
    one.send("a")
    with one.beside():
        one.send("x")
    one.send("b")
    with one.beside():
        one.send("y")
    with two.beside():
        two.receive("x")
        two.send("z")
    two.receive("a")
    two.receive("b")
    with two.beside():
        two.receive("y")
    with one.beside():
        one.receive("z")
    assert (one.traffic.rounds, two.traffic.rounds) == (0, 0)
    with two.beside(counted=True):
        two.send("z")
        one.send("c")
        with pytest.raises(ChannelError, match=r"no message within"):
            two.receive("c", timeout=0.05)
    assert two.traffic.rounds == 1


def test_messages_that_nobody_asks_for_are_not_kept_without_end(pair, monkeypatch) -> None:
    monkeypatch.setattr(channel_module, "_MOST_ASIDE", 3)
    one, two = pair
    with one.beside():
        for _ in range(4):
            one.send("x")
    with pytest.raises(ChannelError, match="too many messages"):
        two.receive("a")


def test_another_kind_is_refused_and_the_peer_told(pair) -> None:
    one, two = pair
    one.send("apples")
    with pytest.raises(ChannelError, match=r"'pears'.*'apples'"):
        two.receive("pears")
    with pytest.raises(PeerError, match="'pears'"):
        one.receive("k")


def test_a_body_that_does_not_fit_is_refused(pair) -> None:
    one, two = pair
    one.send("k")
    with pytest.raises(ChannelError, match="rows"):
        two.receive("k", Size)


def test_fail_reaches_the_peer_without_control_characters(pair) -> None:
    one, two = pair
    one.send("k")
    one.fail("no space\x1b[31m left")
    two.receive("k")
    with pytest.raises(PeerError, match=r"no space\?\[31m left"):
        two.receive("k")
    with pytest.raises(ChannelError, match="no space"):
        one.send("k")


def test_a_failed_peer_is_explained_even_to_a_sender(pair) -> None:
    one, two = pair
    one.send("unread")
    one.fail("disk full")
    with pytest.raises(PeerError, match="disk full"):
        two.send("k")


def test_closing_lets_the_peer_read_what_was_sent(pair) -> None:
    one, two = pair
    one.send("last")
    one.close()
    one.close()
    two.receive("last")
    with pytest.raises(ChannelError, match="closed"):
        two.receive("k")
    with pytest.raises(ChannelError, match="cannot be used"):
        one.send("k")


def test_closing_wakes_a_waiting_peer(pair) -> None:
    one, two = pair
    errors: list[Exception] = []

    def wait() -> None:
        try:
            two.receive("k", timeout=LONG)
        except ChannelError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    one.close()
    thread.join(LONG)
    assert not thread.is_alive()
    assert "closed" in str(errors[0])


def test_silence_ends_at_the_deadline() -> None:
    one, two = memory_pair(timeout=0.05)
    with pytest.raises(ChannelError, match=r"within 0\.05 s"):
        one.receive("k")
    with pytest.raises(PeerError):
        two.receive("k")


def test_two_way_bulk_from_two_threads(pair) -> None:
    block = np.arange(1 << 20, dtype=np.uint64)

    def talk(channel: MemoryChannel, sums: list[int]) -> None:
        for _ in range(5):
            channel.send("bulk", arrays=[block])
        sums.extend(int(channel.receive("bulk").arrays[0].sum()) for _ in range(5))

    sums: list[int] = []
    threads = [threading.Thread(target=talk, args=(end, sums)) for end in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sums == [int(block.sum())] * 10


@pytest.mark.parametrize(
    ("build", "complaint"),
    [
        (lambda c: [frame(c, 0), frame(c, 0)], "twice or too late"),
        (lambda c: [frame(c, 1), frame(c, 0)], "0 to 0 are missing"),
        (lambda c: [frame(c, 0), frame(c, 4)], "1 to 3 are missing"),
        (lambda c: [frame(c, 0, bytes(16))], "another session"),
        (lambda c: [[b"rubbish"]], "damaged"),
        (lambda c: [[b""]], "damaged"),
        (lambda c: [[]], "without a header"),
        (lambda c: [[*frame(c, 0), b"more"]], "pieces"),
    ],
    ids=["replayed", "re-ordered", "gap", "session", "rubbish", "empty", "nothing", "surplus"],
)
def test_bad_frames_end_the_channel(
    pair, build: Callable[[MemoryChannel], list[list[wire.Part]]], complaint: str
) -> None:
    one, two = pair
    for parts in build(one):
        inject(one, parts)
    with pytest.raises(ChannelError, match=complaint):
        read_two(two)
    with pytest.raises(PeerError, match=complaint):
        one.receive("k")


def test_a_frame_of_the_other_direction_cannot_be_reflected(pair) -> None:
    one, two = pair
    two.send("k")
    two.send("k")
    inject(one, frame(one, 1))
    with pytest.raises(ChannelError, match="missing"):
        two.receive("k")


def test_the_frame_limit_holds_at_both_ends() -> None:
    one, two = memory_pair(timeout=LONG, max_frame_bytes=1000)
    with pytest.raises(WireError, match="limit of 1000"):
        one.send("k", arrays=[np.zeros(1001, np.uint8)])
    one.send("k")
    two.receive("k")
    body = wire.encode_body(None)
    inject(one, wire.encode(one.session, 1, "k", body, [np.zeros(1001, np.uint8)]))
    with pytest.raises(ChannelError, match="limit of 1000"):
        two.receive("k")


def test_the_peer_hears_why_this_end_stops_and_no_place_on_its_machine():
    left, right = memory_pair(timeout=LONG)
    left.fail("/srv/cloud1/pools/3 is damaged; remove it.")
    with pytest.raises(PeerError, match=r"stopped: \(a file\) is damaged; remove it"):
        right.receive_any()
