"""The master handles C2's refusals by their code, whatever their text."""

import pytest

from master.cloud2_client import Cloud2Client
from ppodc.errors import InputError, PpodcError, RefusedError, SessionLostError, StoppingError
from ppodc.pairs import control_messages
from ppodc.transport.call_client import Client
from ppodc.transport.call_server import CallServer, Operation, Peer
from tests.transport.memory_carrier import MemoryCarrier


def cloud2_that_raises(error: PpodcError) -> Cloud2Client:
    def refuse(*_: object) -> None:
        raise error

    operation = Operation(
        control_messages.SETTLE, frozenset({"cloud1"}), control_messages.Settle, refuse
    )
    carrier = MemoryCarrier(CallServer([operation]), Peer("cloud1", "cloud1"))
    return Cloud2Client(Client(carrier))


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (SessionLostError("any words"), SessionLostError),
        (StoppingError("any words"), SessionLostError),
        (InputError("this session is over at cloud 2"), RefusedError),
    ],
)
def test_only_the_code_says_that_a_session_is_lost(error: PpodcError, seen: type[PpodcError]):
    with pytest.raises(PpodcError, match=str(error)) as caught:
        cloud2_that_raises(error).settle("d", None, "failed")
    assert type(caught.value) is seen
