"""The master's line to C2: the control operations as typed calls."""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import numpy as np

from ppodc import control
from ppodc.config import Cloud1Config
from ppodc.control import LOST
from ppodc.curve_keys import CurveKeys
from ppodc.errors import PpodcError
from ppodc.rpc import Client
from ppodc.steps import Step
from ppodc.wire import Array

_SECONDS = 30.0  # how long C2 may take to answer, or to come back after a restart
_START_SECONDS = 300.0  # starting Ray and its workers can take a while

R = TypeVar("R", bound=msgspec.Struct)


class SessionLostError(PpodcError):
    """C2 does not know the session any more: it was restarted, or another master took over."""


class Cloud2Link:
    """An authenticated connection to C2's gateway; used by one thread."""

    def __init__(self, config: Cloud1Config) -> None:
        self._client = Client.connect(
            config.cloud2.endpoint,
            CurveKeys.load(config.key),
            config.cloud2.public_key.encode(),
            timeout=_SECONDS,
        )

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def uploads(self, dataset: str, spec: str) -> list[control.Upload]:
        """What C2 has in full."""
        found: list[control.Upload] = []
        while True:
            body = control.Uploads(dataset, spec, len(found))
            page = self._call(control.UPLOADS, body, control.UploadList).uploads
            found += page
            if len(page) < control.PAGE:
                return found

    def seal(self, dataset: str, spec: str, upload_ids: list[str]) -> str:
        """Fix the records at C2; its seal digest."""
        body = control.Seal(dataset, spec)
        ids = np.frombuffer(bytes.fromhex("".join(upload_ids)), np.uint8).reshape(-1, 16)
        return self._call(control.SEAL, body, control.Sealed, arrays=[ids]).digest

    def open(self, body: control.Open) -> control.Opened:
        """Start the session's workers at C2."""
        return self._call(control.OPEN, body, control.Opened, _START_SECONDS)

    def step(self, ticket: bytes, step: Step, attempt: int, slots: list[int]) -> None:
        """Begin a step at C2."""
        self._call(control.STEP, control.RunStep(ticket, step, attempt, slots), control.Done)

    def poll(self, ticket: bytes, number: int, wait: float, *, commit: bool) -> control.Progress:
        """Ask for the step, and let C2 take it over if both have it."""
        body = control.Poll(ticket, number, wait, commit)
        return self._call(control.POLL, body, control.Progress)

    def replace(self, ticket: bytes, slot: int, public: bytes) -> control.PairEnd:
        """A fresh C2 worker for the slot."""
        body = control.Replace(ticket, slot, public)
        return self._call(control.REPLACE, body, control.PairEnd, _START_SECONDS)

    def settle(
        self, dataset: str, seal: str | None, outcome: control.Outcome, message: str = ""
    ) -> None:
        """Tell C2 how the job ended."""
        body = control.Settle(dataset, seal, outcome, message[:1000])
        self._call(control.SETTLE, body, control.Done)

    def _call(
        self,
        op: str,
        body: msgspec.Struct,
        reply: type[R],
        seconds: float = _SECONDS,
        arrays: Sequence[Array] = (),
    ) -> R:
        try:
            answer, _ = self._client.call(op, body, arrays, reply=reply, timeout=seconds)
        except PpodcError as error:
            if LOST in str(error):
                raise SessionLostError(str(error)) from error
            raise
        return answer
