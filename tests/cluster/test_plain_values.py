"""Values on the line to a driver of Ray come out as they went in, and nothing else does."""

import threading
from collections import OrderedDict
from fractions import Fraction
from multiprocessing import Pipe

import msgspec
import numpy as np
import pytest

from cloud1.worker import Worker1
from ppodc.cluster.plain_values import receive, send
from ppodc.cluster.workers import DIED, Failure
from ppodc.errors import WireError
from ppodc.linkage.rules import SquaredDistance
from ppodc.pairs.pair_worker import Setup, StepCost
from ppodc.pairs.plan import Step, Task
from ppodc.records.result_shares import OutputShare


def travelled(value):
    ours, theirs = Pipe()
    with ours, theirs:
        sender = threading.Thread(target=send, args=(ours, value))
        sender.start()
        came = receive(theirs)
        sender.join()
        assert not theirs.poll(), "all of it was read"
    return came


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -1, (1 << 63) - 1, -(1 << 63), 1 << 63, -(1 << 2000), 0.1, "ä", b"\0\xff",
        [], (), {}, [1, (2, [3, ()])], {"a": (1,), 2: [None], (3, "b"): {}}, Worker1, DIED,
        (7, "start", (3, Worker1, (Setup("job", b"spec", 5, "shares", 1.5), 1 << 512))),
        StepCost(0.5, 3), Step(1, "assign", 2), SquaredDistance((1, 2), 9),
        Failure("why", fatal=True),
    ],
)  # fmt: skip
def test_values_come_out_as_they_went_in(value):
    came = travelled(value)
    assert came == value
    assert type(came) is type(value)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.uint64).reshape(3, 4),
        np.arange(12, dtype=np.int64).reshape(3, 4)[:, ::2],
        np.empty((0, 3), np.uint8),
        np.array(5, np.int64),
        np.array([True, False]),
        np.zeros(3_000_000, np.uint64),  # more than a socket takes at once
    ],
)
def test_arrays_keep_shape_and_type_and_can_be_changed(array):
    came = travelled([array, "behind"])[0]
    assert (came.dtype, came.shape) == (array.dtype, array.shape)
    assert np.array_equal(came, array)
    assert came.flags.writeable


def test_a_task_and_its_result():
    share = np.arange(6, dtype=np.uint64).reshape(2, 3)
    task = Task("ingest", ("0", "1"), (4, 2), (share, SquaredDistance((1,), 0)))
    came = travelled((Step(1, "ingest", 0), 1, [task]))
    assert (came[0], came[1], came[2][0].shards) == (Step(1, "ingest", 0), 1, ("0", "1"))
    assert np.array_equal(came[2][0].inputs[0], share)
    half = OutputShare.of_words(share)
    assert travelled([half, np.int64(3)]) == [half, 3]


@pytest.mark.parametrize(
    "value", [{1, 2}, Fraction(1, 3), OrderedDict(), object(), np.array([object()]), [print]]
)
def test_what_is_no_plain_value_is_not_sent(value):
    ours, theirs = Pipe()
    with ours, theirs:
        with pytest.raises(WireError, match="driver of Ray"):
            send(ours, value)
        assert not theirs.poll()


@pytest.mark.parametrize(
    ("tree", "arrays", "words"),
    [
        (["c", "os:system"], 0, "no class of this program"),
        (["O", "subprocess:Popen", {"args": "true"}], 0, "no class of this program"),
        (["O", "ppodc.cluster.workers:Failure", {"text": "x"}], 0, "do not fit"),
        (["c", "ppodc.cluster.workers:launch"], 0, "no class"),
        (["a", "|O", [1]], 1, "does not fit"),
        (["a", "<u8", [1]], 0, "does not fit"),
        (["x"], 0, "no value"),
        ([], 0, "no value"),
        (1, 1, "more arrays"),
    ],
)
def test_what_is_no_value_is_refused(tree, arrays, words):
    ours, theirs = Pipe()
    with ours, theirs:
        ours.send_bytes(msgspec.msgpack.encode((tree, arrays)))
        with pytest.raises(WireError, match=words):
            receive(theirs)


@pytest.mark.parametrize("noise", [b"", b"\xc1", b"\x01", msgspec.msgpack.encode([1, 2, 3])])
def test_noise_is_refused(noise):
    ours, theirs = Pipe()
    with ours, theirs:
        ours.send_bytes(noise)
        with pytest.raises(WireError, match="no value"):
            receive(theirs)
