"""A Ray driver in a process of its own, as its starter sees it: calls go in, their ends come out.

Ray ends the process of a driver whose cluster is gone, writes to its screen and takes its signals.
So no gateway and no master is a driver: it talks to one over a socket without a name that only the
two have, in plain data (`plain_values`).

A driver shows every second that its Ray lives, and with how many nodes. One that ends, or is silent
for 15 s, is killed with all processes and files of a Ray that it had started, and every call under
way ends as `RAY_DIED`. Who needs workers then starts another.
"""

import json
import logging
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import asdict
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ppodc.cluster import plain_values
from ppodc.cluster.offspring import end_session
from ppodc.cluster.ray_cluster import RayPlacement
from ppodc.cluster.ray_folder import RayFolder
from ppodc.cluster.workers import RAY_DIED, Failure
from ppodc.errors import WireError, printable

CONNECT_SECONDS = 90.0
SILENT_SECONDS = 15.0
_STOP_SECONDS = 20.0
_READY = 0  # the number of a driver's first answer: it is connected, or why not
_PULSE = -1  # of its pulse: how many nodes are alive
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

log = logging.getLogger(__name__)


class DriverProcess:
    """A Ray driver in its own process. Any thread may call."""

    def __init__(
        self, place: RayPlacement, died: Callable[[], None], silent: float = SILENT_SECONDS
    ) -> None:
        """Started; `ready` waits until it is connected. Given up after this many silent seconds.

        `died` is called, in another thread, if it ends unasked, before any call of it does.
        """
        self._place, self._died, self._silent = place, died, silent
        self.nodes = 0  # alive at the last pulse
        self._reason = ""
        self._folder = RayFolder.new()
        self._log = self._folder.path / "driver.log"
        self._line, self._process = _start(place, self._folder, self._log)
        self._numbers = count(_READY + 1)
        self._lock, self._sending = threading.Lock(), threading.Lock()
        self._over, self._stopping = threading.Event(), False
        self._connected: Future[Failure | None] = Future()
        self._calls: dict[int, Future[Any]] = {_READY: self._connected}
        threading.Thread(target=self._read, name="ray driver", daemon=True).start()

    def ready(self) -> Failure | None:
        """Wait until it is connected; why that cannot be. What is not fatal may be tried again."""
        refused = self._connected.result()
        if refused == RAY_DIED:
            # A Ray of our own begins anew; one that is not stays as it is.
            return Failure(f"{self._place} died: {self._reason}.", fatal=self._place.foreign)
        return refused

    @property
    def alive(self) -> bool:
        """Whether a call can still succeed."""
        return not self._over.is_set()

    @property
    def pid(self) -> int:
        """The process that all others of a Ray of its own descend from."""
        return self._process.pid

    def call(self, operation: str, *arguments: Any) -> "Future[Any]":
        """Begin one of the driver's operations; its end is a value or a Failure."""
        call: Future[Any] = Future()
        with self._lock:
            if self._over.is_set():
                call.set_result(RAY_DIED)
                return call
            number = next(self._numbers)
            self._calls[number] = call
        try:
            with self._sending:
                plain_values.send(self._line, (number, operation, arguments))
        except OSError:
            log.debug("the driver is gone")  # the reading thread sees it too, and ends this call
        return call

    def close(self) -> None:
        """Leave the cluster: workers end, and a Ray of our own too. Twice is harmless."""
        self._stopping = True
        self.call("stop")
        if not self._over.wait(_STOP_SECONDS):
            end_session(self._process.pid)
            self._over.wait()

    def _read(self) -> None:
        """In a thread of its own, from the driver's start to its end."""
        patience, silent = CONNECT_SECONDS, False
        try:
            while not (silent := not self._line.poll(patience)):
                number, outcome = plain_values.receive(self._line)
                patience = self._silent
                if number == _PULSE:
                    self.nodes = outcome
                elif number == _READY and outcome is not None:
                    self._stopping = True  # it was refused, and ends by itself
                call = self._calls.pop(number, None)
                if call is not None:
                    call.set_result(outcome)
        except (EOFError, OSError, WireError):
            log.debug("the driver has ended, or has sent an invalid message")
        end_session(self._process.pid)
        self._process.wait()
        self._bury(f"no sign of life for {patience:g} s" if silent else _last_words(self._log))

    def _bury(self, reason: str) -> None:
        self._reason, self.nodes = reason, 0
        if not self._stopping:
            log.warning("%s died: %s", self._place, reason)
            self._died()
        self._folder.remove()
        with self._lock:
            self._over.set()
            left, self._calls = list(self._calls.values()), {}
        for call in left:
            call.set_result(RAY_DIED)
        self._line.close()


def _start(
    place: RayPlacement, folder: RayFolder, log_file: Path
) -> "tuple[Connection[Any, Any], subprocess.Popen[bytes]]":
    ours, theirs = socket.socketpair()
    # -P: no modules from the current folder
    command = [sys.executable, "-P", "-m", "ppodc.cluster.ray_driver", str(theirs.fileno())]
    with theirs, log_file.open("wb") as screen:
        process = subprocess.Popen(
            [*command, str(folder.path), json.dumps(asdict(place))],
            stdin=subprocess.DEVNULL,
            stdout=screen,
            stderr=screen,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,  # Ctrl-C is for us; and by the session we find all its children
        )
    return Connection(ours.detach()), process


def _last_words(log_file: Path) -> str:
    """The last output of the driver or Ray, without Ray's colours."""
    try:
        said = log_file.read_text(errors="replace")[-10_000:].strip().splitlines()
    except OSError:
        said = []
    return printable(_COLOUR.sub("", said[-1])) if said else "its driver was killed without a word"
