"""The master's line to C2: the control operations as typed calls."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from ppodc.errors import MAX_TEXT, RefusedError, SessionLostError, StoppingError, without_places
from ppodc.pairs import control_messages
from ppodc.pairs.plan import Step
from ppodc.pairs.statements import Committed, Signed
from ppodc.service.config import Cloud1Config
from ppodc.service.ledger_entries import Head
from ppodc.service.sealed_uploads import Upload
from ppodc.transport.call_client import Client
from ppodc.transport.curve_keys import CurveKeys
from ppodc.transport.wire import Array

_SECONDS = 30.0  # how long C2 may take to answer, or to come back after a restart
_START_SECONDS = 300.0  # starting Ray and its workers can take a while
_OVER = (SessionLostError.code, StoppingError.code)  # refusals after which a new session helps

R = TypeVar("R", bound=msgspec.Struct)


class Cloud2Client:
    """An authenticated connection to C2's gateway; used by one thread."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    def connect(cls, config: Cloud1Config) -> "Cloud2Client":
        """To the C2 that the configuration names and pins."""
        keys, public = CurveKeys.load(config.key), config.cloud2.public_key.encode()
        return cls(Client.connect(config.cloud2.endpoint, keys, public, timeout=_SECONDS))

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def uploads(self, dataset: str, spec: str) -> list[Upload]:
        """The uploads that C2 has in full."""
        return [upload for page in self._pages(dataset, spec) for upload in page.uploads]

    def fits(self, dataset: str, spec: str) -> dict[str, bytes]:
        """Of an audited dataset: the digest over both parts of each upload, as C2 knows them."""
        return {
            upload.upload_id: digest
            for page in self._pages(dataset, spec)
            for upload, digest in zip(page.uploads, page.fits, strict=False)
        }

    def _pages(self, dataset: str, spec: str) -> Iterator[control_messages.UploadList]:
        first = 0
        while True:
            body = control_messages.Uploads(dataset, spec, first)
            page = self._call(control_messages.UPLOADS, body, control_messages.UploadList)
            yield page
            first += len(page.uploads)
            if len(page.uploads) < control_messages.PAGE:
                return

    def check_terms(self, dataset: str, spec: str, suite: str, pairs: int) -> None:
        """Refused if C2 would not run the job so, before anything is fixed."""
        body = control_messages.Terms(dataset, spec, suite, pairs)
        self._call(control_messages.TERMS, body, control_messages.Done)

    def seal(
        self, dataset: str, spec: str, upload_ids: list[str], head: Head | None = None
    ) -> control_messages.Sealed:
        """Fix the records at C2; its seal digest and the head of its ledger."""
        body = control_messages.Seal(dataset, spec, head)
        ids = np.frombuffer(bytes.fromhex("".join(upload_ids)), np.uint8).reshape(-1, 16)
        return self._call(control_messages.SEAL, body, control_messages.Sealed, arrays=[ids])

    def open(self, body: control_messages.Open) -> control_messages.Opened:
        """Start the session's workers at C2."""
        return self._call(control_messages.OPEN, body, control_messages.Opened, _START_SECONDS)

    def step(self, ticket: bytes, step: Step, attempt: int, slots: list[int]) -> None:
        """Begin a step at C2."""
        self._call(
            control_messages.STEP,
            control_messages.RunStep(ticket, step, attempt, slots),
            control_messages.Done,
        )

    def poll(
        self,
        ticket: bytes,
        number: int,
        wait: float,
        *,
        commit: bool,
        signed: tuple[Signed, ...] = (),
        head: Head | None = None,
    ) -> control_messages.Progress:
        """Ask for the step, and let C2 take it over if both have it."""
        body = control_messages.Poll(ticket, number, wait, commit, signed, head)
        return self._call(control_messages.POLL, body, control_messages.Progress)

    def replace(
        self, ticket: bytes, slot: int, public: bytes, commitment: Committed | None = None
    ) -> control_messages.PairEnd:
        """A fresh C2 worker for the slot."""
        body = control_messages.Replace(ticket, slot, public, commitment)
        return self._call(control_messages.REPLACE, body, control_messages.PairEnd, _START_SECONDS)

    def settle(
        self,
        dataset: str,
        seal: str | None,
        outcome: control_messages.Outcome,
        message: str = "",
        session_id: str | None = None,
        head: Head | None = None,
    ) -> Head | None:
        """Tell C2 how the job ended; the head of its ledger."""
        words = without_places(message)[:MAX_TEXT]
        body = control_messages.Settle(dataset, seal, outcome, words, session_id, head)
        return self._call(control_messages.SETTLE, body, control_messages.Settled).head

    def _call(
        self,
        op: str,
        body: msgspec.Struct,
        reply: type[R],
        seconds: float | None = None,
        arrays: Sequence[Array] = (),
    ) -> R:
        try:
            answer, _ = self._client.call(op, body, arrays, reply=reply, timeout=seconds)
        except RefusedError as error:
            if error.code in _OVER:
                raise SessionLostError(str(error)) from error
            raise
        return answer
