"""A desk as a process: a port of loopback, a ticket in a private file, an end after idle time."""

import asyncio
import contextlib
import socket
import time
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path

import uvicorn
from filelock import FileLock, Timeout
from starlette.types import ASGIApp

from client.desk.guard import HOST, IDLE_SECONDS, Access, Guard
from ppodc.errors import BusyError, ChannelError, StoreError
from ppodc.files import disk_errors, private_folder, write_private

_LOOK_SECONDS = 1.0
_PAGE_NAME = "open-desk.html"
_PATIENCE = 60.0  # seconds that a second desk waits for the first one's page
_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>ppodc desk</title>
<meta name="referrer" content="no-referrer"><meta http-equiv="refresh" content="0; url={link}">
</head><body><p><a href="{link}">Open the desk</a></p></body></html>
"""


def listening(port: int = 0) -> socket.socket:
    """A port of loopback, a free one unless one is wanted."""
    own = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        own.bind((HOST, port))
    except OSError as error:
        own.close()
        raise ChannelError(f"Port {port} of {HOST} cannot be used: {error.strerror}.") from error
    return own


@contextlib.contextmanager
def only_desk(folder: Path) -> Iterator[None]:
    """Hold this folder for the block; BusyError if another desk has it."""
    lock = FileLock(private_folder(folder) / "desk.lock", mode=0o600)
    with disk_errors(folder):
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise BusyError("a desk of this configuration runs already.") from None
    try:
        yield
    finally:
        lock.release()


class TicketPage:
    """A page that opens a desk, readable by this user alone; gone when the block ends.

    A browser is started with its path, so that no secret stands in the list of processes. Whoever
    starts a second desk takes the page away, and the first one writes it anew with another ticket:
    so a closed tab is opened again.
    """

    def __init__(self, folder: Path, access: Access) -> None:
        self.path, self._access = private_folder(folder) / _PAGE_NAME, access

    def __enter__(self) -> "TicketPage":
        self._write()
        return self

    def __exit__(self, *_: object) -> None:
        self.path.unlink(missing_ok=True)

    def look(self) -> None:
        """Write the page again if somebody has taken it away; a full disk does not end the desk."""
        if not self.path.exists():
            self._access.new_ticket()
            with contextlib.suppress(StoreError):
                self._write()

    def _write(self) -> None:
        write_private(self.path, _PAGE.format(link=self._access.link).encode())


def asked_again(folder: Path) -> Path | None:
    """The page of the desk that has this folder, with a new ticket; None if it ends just now."""
    page = folder / _PAGE_NAME
    page.unlink(missing_ok=True)
    end = time.monotonic() + _PATIENCE
    while not page.exists():
        with contextlib.suppress(BusyError), only_desk(folder):
            return None
        if time.monotonic() > end:
            raise BusyError(
                "a desk of this configuration runs already, and does not answer. End that process "
                "(ppodc desk) and start the desk again."
            )
        time.sleep(0.05)
    return page


class DeskServer:
    """Serves one application until somebody closes the desk or nobody uses it."""

    def __init__(
        self,
        app: ASGIApp,
        access: Access,
        own: socket.socket,
        busy: Callable[[], bool] = lambda: False,
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """`busy`: whether something is under way that an idle desk must not interrupt.

        `look` is called about once a second.
        """
        config = uvicorn.Config(
            Guard(app, access),
            log_level="warning",
            access_log=False,  # its lines would hold the secret path
            server_header=False,
            proxy_headers=False,
            ws="none",
            timeout_graceful_shutdown=5,
        )
        self._server, self._own = uvicorn.Server(config), own
        self._access, self._busy, self._look = access, busy, look

    def run(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serve to the end; `ready` is called once the port answers."""
        asyncio.run(self._run(ready))

    def close(self) -> None:
        """End soon; from any thread."""
        self._server.should_exit = True

    async def _run(self, ready: Callable[[], None]) -> None:
        serving = asyncio.create_task(self._server.serve(sockets=[self._own]))
        while not self._server.started and not serving.done():
            await asyncio.sleep(0.01)
        ready()
        while not serving.done():
            if self._access.idle() >= IDLE_SECONDS and not self._busy():
                self.close()
            self._look()
            await asyncio.wait([serving], timeout=_LOOK_SECONDS)
        await serving


def show(page: Path) -> bool:
    """Open the page in the user's browser; False if there is none."""
    return webbrowser.open(page.absolute().as_uri())
