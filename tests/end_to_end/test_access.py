"""Requests of C1 to C2, and those that are refused and logged."""

from collections.abc import Iterator

import msgspec
import pytest

from ppodc.errors import ChannelError, PpodcError, RefusedError, SessionLostError
from ppodc.pairs import control_messages
from ppodc.pairs.plan import Step
from ppodc.service.job_state import JobState
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys
from tests.end_to_end.two_services import TwoServices, make_spec, make_tables
from tests.harness.patience import LONG

NAME = "guarded"


def client(
    services: TwoServices, party: str, key: CurveKeys | None = None, endpoint: str = ""
) -> Client:
    """A caller at cloud 2's control port, or at another of its endpoints."""
    remote = services.config1.cloud2
    own = key or CurveKeys.load(services.parties.party(party).folder / "keys" / party)
    return Client.connect(endpoint or remote.endpoint, own, remote.public_key.encode(), LONG)


@pytest.fixture(scope="module")
def link(services: TwoServices) -> Iterator[Client]:
    """C1's line to C2, for a dataset that is sealed at both."""
    services.upload(make_spec(NAME, 2, k=2), make_tables(9, (8,), 2))
    with services.store("cloud1") as first, services.store("cloud2") as second:
        ids = [upload.upload_id for upload in first.uploads.of(NAME)]
        assert first.seals.seal(NAME, ids) == second.seals.seal(NAME, ids)
    with client(services, "cloud1") as connected:
        yield connected


def opening(services: TwoServices, **changes: object) -> control_messages.Open:
    with services.store("cloud2") as store:
        body = control_messages.Open(
            dataset=NAME,
            spec=store.datasets.get(NAME).digest,
            seal=store.seals.sealed(NAME).digest,
            suite="shares",
            pairs=1,
            shards_per_pair=1,
            prepare=0,
            checkpoints=[],
            publics=[CurveKeys.generate().public],
        )
    return msgspec.structs.replace(body, **changes)


def refused(services: TwoServices, link: Client, op: str, body: msgspec.Struct, why: str) -> str:
    """The code of the refusal."""
    with pytest.raises(RefusedError, match=why) as caught:
        link.call(op, body, reply=control_messages.Done)
    assert op in services.log("cloud2").read_text()
    return caught.value.code


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"spec": "0" * 64}, "another spec"),
        ({"seal": "0" * 64}, "not sealed dataset"),
        ({"dataset": "nothing"}, "no dataset"),
        ({"pairs": 500}, "at most 64 workers"),
        ({"publics": []}, "as many channel keys"),
    ],
)
def test_a_session_for_another_job_is_refused(services: TwoServices, link: Client, changes, why):
    refused(services, link, control_messages.OPEN, opening(services, **changes), why)


def test_a_session_allows_the_next_step_only(services: TwoServices, link: Client):
    opened, _ = link.call(
        control_messages.OPEN, opening(services), reply=control_messages.Opened, timeout=LONG
    )
    ticket = opened.ticket
    assert opened.resume_from is None
    for step in (
        Step(1, "output", 0),  # a result before anything ran
        Step(1, "labels", 1),
        Step(1, "update", 1),  # a stop bit without sums
        Step(2, "ingest", 0),
        Step(1, "ingest", 3),
    ):
        body = control_messages.RunStep(ticket, step, 1, [0])
        refused(services, link, control_messages.STEP, body, "is not the next step")
    ingest = Step(1, "ingest", 0)
    for attempt, slots in ((1, [1]), (9, [0])):
        body = control_messages.RunStep(ticket, ingest, attempt, slots)
        refused(services, link, control_messages.STEP, body, "cannot run on slots")
    replace = control_messages.Replace(ticket, 5, CurveKeys.generate().public)
    refused(services, link, control_messages.REPLACE, replace, "no slot 5")
    done = control_messages.Settle(NAME, None, "done", "")
    refused(services, link, control_messages.SETTLE, done, "no result at cloud 2")
    stranger = control_messages.RunStep(bytes(16), ingest, 1, [0])
    code = refused(services, link, control_messages.STEP, stranger, "this session is over")
    assert code == SessionLostError.code
    link.call(
        control_messages.SETTLE,
        control_messages.Settle(NAME, None, "failed", "a test"),
        reply=control_messages.Settled,
    )
    refused(
        services,
        link,
        control_messages.STEP,
        control_messages.RunStep(ticket, ingest, 1, [0]),
        "this session is over",
    )
    with services.store("cloud2") as store:
        assert store.jobs.get(NAME).state == JobState.FAILED
        assert not store.results.has(NAME)


def test_control_is_for_cloud1_alone(services: TwoServices):
    body = control_messages.Settle(NAME, None, "cancelled", "")
    for party in ("owner1", "operator"):
        with (
            client(services, party) as caller,
            pytest.raises(ChannelError, match="does not let this key in"),
        ):
            caller.call(control_messages.SETTLE, body, reply=control_messages.Settled)
        with client(services, party, endpoint=services.config2.listen) as caller:
            refused(services, caller, control_messages.SETTLE, body, "no operation")


def test_an_unknown_key_is_not_let_in(services: TwoServices):
    with (
        client(services, "cloud1", CurveKeys.generate()) as caller,
        pytest.raises(PpodcError, match="does not let this key in"),
    ):
        caller.call(
            control_messages.UPLOADS,
            control_messages.Uploads(NAME, "0" * 64, 0),
            reply=control_messages.UploadList,
        )
