"""An upload that goes on in a thread of its own while its page is looked at, paused or closed."""

import threading
from collections.abc import Callable

from client.desk.drafts import Draft
from client.desk.faults import Fault, fault_of
from client.owner import Owner
from client.sending import Receipt, Sent
from ppodc.errors import PpodcError


class _Paused(Exception):  # noqa: N818
    """The owner wants to stop for now."""


class Upload:
    """One table on its way to the clouds."""

    def __init__(self, connect: Callable[[], Owner], dataset: str, draft: Draft) -> None:
        self._connect, self._dataset, self._draft = connect, dataset, draft
        self.sent: dict[int, Sent] = {}
        self.receipt: Receipt | None = None
        self.fault: Fault | None = None
        self.paused = False
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"upload {dataset}", daemon=True)

    def start(self) -> None:
        """Begin, or go on with what an earlier attempt has left."""
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it goes on."""
        return self._thread.is_alive()

    def pause(self) -> None:
        """Stop after the rows that are on their way; the same table goes on later."""
        self._pause.set()
        self._thread.join()

    def _watch(self, sent: Sent) -> None:
        self.sent[sent.cloud] = sent
        if self._pause.is_set():
            raise _Paused

    def _run(self) -> None:
        choices = self._draft.choices()
        try:
            with self._connect() as owner:
                receipt = owner.upload(
                    self._dataset,
                    self._draft.strict,
                    id_column=choices.people,
                    replace=choices.replace,
                    progress=False,
                    on_sent=self._watch,
                )
            self._draft.forget()
            self.receipt = receipt
        except _Paused:
            self.paused = True
        except PpodcError as error:
            self.fault = fault_of(error)
